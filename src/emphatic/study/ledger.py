"""Who is running what, and how each attempt at a run began and ended.

A run is claimed (`flock`) by the process that trains and evaluates it, from its start to its end
however that comes. Of each attempt a line says that it started and another how it ended:

    {"attempt":1,"event":"started","time":"…","host":"…","pid":4711}
    {"attempt":1,"event":"failed","time":"…","error":"OSError: No space left on device"}

`event` is started, done, stopped (by a signal, its checkpoint written), failed, or lost (it ended
without a word). All of it lies beside the run folders, which hold only what does not depend on
who ran them and how often.
"""

import contextlib
import datetime
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from emphatic import documents
from emphatic.errors import Stopped
from emphatic.runtime import files
from emphatic.runtime.settings import TrainConfig

State = Literal["done", "running", "stopped", "waiting", "failed"]


class Busy(Stopped):
    """Another process is running it."""


def run_folder(study: Path, name: str) -> Path:
    """Of a run."""
    return study / "runs" / name


def log_file(study: Path, name: str) -> Path:
    """What the processes of a run say."""
    return study / "logs" / f"{name}.txt"


def attempts(study: Path, name: str) -> list[dict[str, Any]]:
    """Everything written down of a run's attempts; a line that is torn hides no other."""
    try:
        lines = _attempts_file(study, name).read_bytes().split(b"\n")
    except OSError:
        return []
    return [entry for line in lines if (entry := _entry(line)) is not None]


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = documents.decoded(line)
    except ValueError:
        return None
    known = isinstance(entry, dict) and isinstance(entry.get("event"), str)
    return entry if known and type(entry.get("attempt")) is int else None


def record(study: Path, name: str, event: str, **facts: Any) -> None:
    """Write down how an attempt began or ended."""
    before = attempts(study, name)
    number = before[-1]["attempt"] if before else 0
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    line = {"attempt": number + (event == "started"), "event": event, "time": now, **facts}
    data = json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"
    with disk(study), _appended(_attempts_file(study, name)) as file:
        file.seek(-min(1, file.tell()), os.SEEK_END)
        torn = file.read(1) not in (b"", b"\n")
        files.write(file, b"\n" * torn + data.encode(errors="replace"))


def begin(study: Path, name: str, pid: int | None = None) -> None:
    """An attempt starts here and now; one that ended without a word is lost."""
    if (before := attempts(study, name)) and before[-1]["event"] == "started":
        record(study, name, "lost", error="its process or its machine was gone")
    record(study, name, "started", host=socket.gethostname(), pid=pid or os.getpid())


@contextlib.contextmanager
def disk(study: Path) -> Iterator[None]:
    """A disk that is full or cannot be written to, as a sentence."""
    try:
        yield
    except OSError as error:
        raise Stopped(
            f"cannot write {study}: {error.strerror or error}; with that mended, "
            f"emphatic study run {study} goes on"
        ) from error


@contextlib.contextmanager
def claim(study: Path, name: str, patience: float = 0.0) -> Iterator[None]:
    """The run is ours while this lasts; `Busy` if it is another's for all of `patience` seconds.

    Whoever looks whether it is claimed holds it for an instant too, hence a second's patience.
    """
    file = _claim_file(study, name)
    with disk(study):
        file.parent.mkdir(exist_ok=True)
        opened = file.open("a")
    deadline = time.monotonic() + 1.0 + patience
    with opened as lock:
        while not _locked(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise Busy(f"another process is running {name}")
            time.sleep(0.05)
        yield


def claimed(study: Path, name: str) -> bool:
    """Whether some process is running it."""
    try:
        with _claim_file(study, name).open() as lock:
            return not _locked(lock, fcntl.LOCK_SH)
    except OSError:
        return False


def finished(study: Path, name: str, config: TrainConfig, episodes: int) -> bool:
    """Whether it was trained to its end and then evaluated on so many episodes at least."""
    found = evaluation(study, name)
    return (
        found is not None
        and found.get("update") == config.num_updates
        and found.get("episodes", 0) >= episodes
    )


def evaluation(study: Path, name: str) -> dict[str, Any] | None:
    """What evaluation.json says, if it is there."""
    try:
        found = documents.decoded((run_folder(study, name) / "evaluation.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def state(study: Path, name: str, *, done: bool) -> State:
    """Where a run stands that is finished, or not."""
    if done:
        return "done"
    if claimed(study, name):
        return "running"
    before = attempts(study, name)
    if not before:
        return "waiting"
    return "failed" if before[-1]["event"] == "failed" else "stopped"


def _locked(lock: IO[str], kind: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _appended(path: Path) -> IO[bytes]:
    path.parent.mkdir(exist_ok=True)
    return path.open("a+b", buffering=0)


def _attempts_file(study: Path, name: str) -> Path:
    return study / "attempts" / f"{name}.jsonl"


def _claim_file(study: Path, name: str) -> Path:
    return study / "attempts" / f"{name}.lock"
