"""SIGINT and SIGTERM: asked once a process ends in order and soon, asked twice at once.

Python looks at signals between two steps of its own, and a compilation or an update may take
minutes in between. So a thread hears of them too, through a pipe that the C level writes to.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from emphatic.errors import UserError

PATIENCE = 6.0
"""Seconds a run has to write its checkpoint: who asks often kills after ten."""

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_ENOUGH = b"\0"
_TOLD = b"\xff"
"""No signal has that number."""


class Stop:
    """Whether this process, or another one of the run, was asked to stop."""

    def __init__(self, writer: int):
        self.asked = False
        self._writer = writer

    def told(self) -> None:
        """Another process was asked: then this one was too, and its patience begins."""
        self.asked = True
        os.write(self._writer, _TOLD)


def patience() -> float:
    """Seconds that $EMPHATIC_PATIENCE gives a run to write its checkpoint, else `PATIENCE`."""
    given = os.environ.get("EMPHATIC_PATIENCE") or str(PATIENCE)
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise UserError("EMPHATIC_PATIENCE", f"must be a number of seconds above 0, not {given!r}")
    return seconds


@contextlib.contextmanager
def stop_signal(patience: float | None = None) -> Iterator[Stop]:
    """The first signal sets the flag, the second ends the process at once.

    With `patience`, one that has not left this context so many seconds after the first ends
    too. Either way the exit code is 128 + the signal's number, and whatever was not saved is
    computed again when the run goes on.
    """
    with _pipe() as (reader, writer):
        stop = Stop(writer)

        def ask(number, frame):
            del number, frame
            stop.asked = True

        with _listening(writer, ask, threading.Thread(target=_watch, args=(reader, patience))):
            yield stop


@contextlib.contextmanager
def leaving(farewell: str) -> Iterator[None]:
    """The first signal ends the process at once with exit code 0, also inside a compiled program.

    For what keeps nothing until it has all of it; `farewell` says so.
    """

    def leave(reader: int) -> None:
        while (byte := os.read(reader, 1)) != _ENOUGH:
            if byte[0] in _NUMBERS:
                print(farewell, flush=True)
                os._exit(0)

    with _pipe() as (reader, writer):
        thread = threading.Thread(target=leave, args=(reader,))
        with _listening(writer, lambda number, frame: None, thread):
            yield


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


@contextlib.contextmanager
def _listening(
    writer: int, handler: Callable[..., None], thread: threading.Thread
) -> Iterator[None]:
    """While this lasts, `handler` is called on a signal and the thread reads of it in the pipe."""
    before = {number: signal.signal(number, handler) for number in _NUMBERS}
    heard = signal.set_wakeup_fd(writer)
    thread.daemon = True
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(heard)
        for number, earlier in before.items():
            signal.signal(number, earlier)
        os.write(writer, _ENOUGH)
        thread.join()


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """SIGINT ends the process as SIGTERM does: at once, also inside a compiled program.

    For what writes its result in one piece at the end.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(reader: int, patience: float | None) -> None:
    """Wait for the first signal, then for the second, or for patience to end."""
    asked: list[int] = []
    deadline: float | None = None
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            _give_up(asked[0] if asked else signal.SIGTERM, f"{patience:g}")
        byte = os.read(reader, 1)
        if byte == _ENOUGH:
            return
        if byte[0] in _NUMBERS:
            asked.append(byte[0])
        if len(asked) == 2:
            sys.stderr.flush()
            os._exit(128 + asked[1])
        if deadline is None and patience is not None and (asked or byte == _TOLD):
            deadline = time.monotonic() + patience


def _give_up(number: int, seconds: str) -> NoReturn:
    print(
        f"stopped without a checkpoint, which would have taken over {seconds} s "
        "(EMPHATIC_PATIENCE); --resume computes again what came after the last one",
        flush=True,
    )
    os._exit(128 + number)
