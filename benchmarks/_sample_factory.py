"""sample-factory on Breakout, run by the Python of its own environment; see sebulba.py.

Its workers are new processes that import this file, and with it the games' registration.
"""

import sys

import ale_py  # noqa: F401  # pyright: ignore

if __name__ == "__main__":
    from sf_examples.atari.train_atari import main  # pyright: ignore

    sys.exit(main())
