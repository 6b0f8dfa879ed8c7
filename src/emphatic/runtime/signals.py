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
from collections.abc import Iterator

PATIENCE = 6.0
"""Seconds a run has to write its checkpoint: who asks often kills after ten."""

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_ENOUGH = b"\0"


class Stop:
    """Whether a signal asked to stop."""

    asked = False


@contextlib.contextmanager
def stop_signal(patience: float | None = None) -> Iterator[Stop]:
    """The first signal sets the flag, the second ends the process at once.

    With `patience`, one that has not left this context so many seconds after the first ends
    too, with exit code 0: whatever was not saved is computed again when the run goes on.
    """
    stop = Stop()

    def ask(number, frame):
        del number, frame
        stop.asked = True

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = {number: signal.signal(number, ask) for number in _NUMBERS}
    heard = signal.set_wakeup_fd(writer)
    watch = threading.Thread(target=_watch, args=(reader, patience), daemon=True)
    watch.start()
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(heard)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(writer, _ENOUGH)
        watch.join()
        os.close(reader)
        os.close(writer)


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
    if _next(reader, None) is None:
        return
    try:
        number = _next(reader, patience)
    except TimeoutError:
        print(
            "stopped without a checkpoint, which would have taken too long; "
            "--resume computes again what came after the last one",
            flush=True,
        )
        os._exit(0)
    if number is not None:
        sys.stderr.flush()
        os._exit(128 + number)


def _next(reader: int, timeout: float | None) -> int | None:
    """The next of our signals; None when nobody listens any more."""
    while True:
        if not select.select([reader], [], [], timeout)[0]:
            raise TimeoutError
        byte = os.read(reader, 1)
        if byte == _ENOUGH:
            return None
        if byte[0] in _NUMBERS:
            return byte[0]
