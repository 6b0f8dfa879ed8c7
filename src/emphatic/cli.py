"""The `emphatic` command: finds the verb, parses its options, reports mistakes in one line."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator

import emphatic
from emphatic.commands import parsing
from emphatic.errors import Stopped, UserError

VERBS = {
    "algorithms": "print the table of algorithms",
    "train": "train an agent, or go on with a run",
    "evaluate": "play whole episodes with a trained agent",
    "watch": "show a trained agent playing, as an animation",
    "report": "make a page of runs or a study: tables, curves, statistics",
    "study": "run environments x agents x seeds, on this machine or on a Ray cluster",
    "diagnose": "run the paper's diagnostic experiments: curves, step sizes, figures, claims",
    "theory": "say what each algorithm does on an MDP: stability, fixed points, emphasis",
}
"""Verb and what it does; the code is `command` (or `main`) in `emphatic/commands/<verb>.py`."""


def main(argv: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 a check failed or a run stopped, 2 the user's mistake."""
    argv = sys.argv[1:] if argv is None else argv
    with _reader_may_leave():
        if not argv or argv[0] in ("-h", "--help"):
            print(usage())
        elif argv[0] == "--version":
            print(f"emphatic {emphatic.__version__}")
        else:
            _carry_out(argv[0], argv[1:])


def _carry_out(verb: str, rest: list[str]) -> None:
    """The verb, and in one line what was wrong."""
    try:
        if verb not in VERBS:
            raise UserError(verb, f"is no verb of emphatic; choose from {', '.join(VERBS)}")
        module = importlib.import_module(f"emphatic.commands.{verb}")
        if hasattr(module, "main"):
            module.main(rest)
        else:
            parsing.bound(module.command, verb, rest)()
    except UserError as error:
        print(f"emphatic: {error}", file=sys.stderr)
        sys.exit(2)
    except Stopped as error:
        print(f"emphatic: {error}", file=sys.stderr)
        sys.exit(1)


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """`emphatic … | head` ends without a word when head has seen enough, as any program's would."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # What is still to be printed must go somewhere: Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def usage() -> str:
    """What `emphatic --help` prints."""
    lines = [f"  {verb:<12} {what}" for verb, what in VERBS.items()]
    return "\n".join(
        [
            "usage: emphatic VERB [options]      (emphatic VERB --help lists them)",
            "",
            "Emphatic algorithms for deep reinforcement learning.",
            "",
            *lines,
        ]
    )
