"""The `emphatic` command, which says when it comes to a moment and stays in it for a while.

    python driver.py MOMENT ARGUMENTS...

At the moment it prints "NOW" once. A moment inside C code cannot be left by a signal that only
Python would notice: a mutex that is locked twice stands for a compilation of any length.
"""

import ctypes
import sys
import time

from emphatic import cli
from emphatic.evaluation import episodes
from emphatic.runtime import anakin, files

FOREVER = 600.0


def announced():
    """Say so, the first time."""
    if not getattr(announced, "done", False):
        announced.done = True
        print("NOW", flush=True)


def stuck():
    """Inside C, without the interpreter's lock, and deaf to signals."""
    mutex = ctypes.create_string_buffer(64)
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)


def compiling():
    def run(self, state, num_updates):
        announced()
        stuck()

    anakin.Anakin.run = run


def updating():
    """A call of the runtime that takes a quarter of a second longer than it does."""
    real = anakin.Anakin.run

    def run(self, state, num_updates):
        announced()
        time.sleep(0.25)
        return real(self, state, num_updates)

    anakin.Anakin.run = run


def saving():
    """A slow disk."""
    real = files.sync

    def sync(file):
        if "checkpoints" in str(file.name):
            announced()
        time.sleep(0.1)
        real(file)

    files.sync = sync


def hanging_save():
    """A disk that hangs, once it is a checkpoint's turn."""
    real = files.sync

    def sync(file):
        if "checkpoints" in str(file.name):
            announced()
            stuck()
        real(file)

    files.sync = sync


def evaluating():
    def play(*given, **options):
        announced()
        stuck()

    episodes.play = play


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    cli.main(sys.argv[2:])
