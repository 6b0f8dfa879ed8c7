"""TensorBoard's event file, written at once and in this thread.

tensorboardX's own writer hands events to a thread; where the disk is full that thread ends, and
whoever adds the eleventh event waits for ever.
"""

import contextlib
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Board:
    """A new event file in a folder."""

    def __init__(self, folder: Path, step: int):
        """Readers forget what earlier files say of `step` and after."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import SessionLog  # pyright: ignore[reportAttributeAccessIssue]

        folder.mkdir(parents=True, exist_ok=True)
        self._events = EventsWriter(str(folder / "events"), f".{os.getpid()}")
        self._write(step, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Those numbers that are finite."""
        from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        pairs = [Summary.Value(tag=name, simple_value=value) for name, value in finite.items()]
        self._write(step, summary=Summary(value=pairs))

    def close(self) -> None:
        """What cannot be written any more is lost; it is a mirror."""
        with contextlib.suppress(OSError):
            self._events.close()

    def _write(self, step: int, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]

        self._events.write_event(Event(wall_time=time.time(), step=step, **content))
        self._events.flush()
