"""Runs on this machine: a process each, and as many cores each as the study says, which is one.

Small runs are fastest so: XLA's threads cost more than they bring, and `vmap` over seeds is slower
on a CPU. Each process is pinned to its cores, where the system can do that. It reads its standard
input only to notice that the runner has gone: then it writes its checkpoint and leaves.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from emphatic.study import ledger
from emphatic.study.runner import Ended, Outcome
from emphatic.study.spec import Study

BUSY = 75
"""How `emphatic study work` exits when another process has the run."""
STOPPED = 130
"""How it exits after a signal."""

_SAID: dict[str, Outcome] = {"done": "done", "stopped": "stopped", "failed": "failed"}

PAUSE = 0.05
"""Seconds between looks at the processes."""


class _Child(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]
    before: int
    """Lines in the ledger before it began: what they say is of earlier attempts."""


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shares(cores: list[int], processes: int, each: int) -> list[list[int]]:
    """The cores of each of so many processes, dealt out in turn, then again from the first."""
    ring = itertools.cycle(cores)
    each = min(each, len(cores))
    return [sorted(itertools.islice(ring, each)) for _ in range(processes)]


class LocalPool:
    """So many processes on this machine; None: as many as there are cores for."""

    def __init__(self, folder: Path, study: Study, processes: int | None = None):
        self.tries = study.retries + 1
        self._folder = folder
        mine, each = cores(), study.resources.threads
        processes = min(processes or max(1, len(mine) // each), len(study.runs))
        self._shares = shares(mine, processes, each)
        self._places: list[_Child | None] = [None] * processes
        self._stopping = False

    def free(self) -> int:
        return self._places.count(None)

    def start(self, name: str) -> None:
        place = self._places.index(None)
        before = len(ledger.attempts(self._folder, name))
        process = _process(self._folder, name)
        if hasattr(os, "sched_setaffinity"):
            # Before its interpreter has made a thread: those that come inherit it.
            os.sched_setaffinity(process.pid, self._shares[place])
        self._places[place] = _Child(name, process, before)

    def ended(self) -> list[Ended]:
        found = self._reap()
        if not found:
            time.sleep(PAUSE)
        return found

    def stop(self) -> list[Ended]:
        found, self._stopping = [], True
        for child in filter(None, self._places):
            child.process.send_signal(signal.SIGTERM)
        while self.free() < len(self._places):
            found += self.ended()
        return found

    def _reap(self) -> list[Ended]:
        found = []
        for place, child in enumerate(self._places):
            if child is not None and child.process.poll() is not None:
                self._places[place] = None
                found.append(self._outcome(child))
        return found

    def _outcome(self, child: _Child) -> Ended:
        """By what it said of this attempt itself; by its exit code where it could not."""
        code = child.process.returncode
        if child.process.stdin:
            child.process.stdin.close()
        if code == BUSY:
            return Ended(child.name, "busy")
        own = self._own(child)
        said = own[-1]["event"] if own else ""
        if not own and code == 0:
            return Ended(child.name, "done")  # It was before: nothing was begun.
        if said in _SAID:
            return Ended(child.name, _SAID[said], str(own[-1].get("error", "")))
        if code in (0, STOPPED) or self._stopping:
            if said == "started":
                ledger.record(self._folder, child.name, "stopped")
            return Ended(child.name, "stopped")
        error = _how(code, ledger.log_file(self._folder, child.name))
        if said in ("", "started") and not ledger.claimed(self._folder, child.name):
            if not own:
                ledger.begin(self._folder, child.name, pid=child.process.pid)
            ledger.record(self._folder, child.name, "failed", error=error)
        return Ended(child.name, "failed", error)

    def _own(self, child: _Child) -> list[dict[str, Any]]:
        """The ledger's lines of this attempt: the one its process began."""
        new = ledger.attempts(self._folder, child.name)[child.before :]
        began = [line["attempt"] for line in new if line.get("pid") == child.process.pid]
        return [line for line in new if began and line["attempt"] == began[-1]]


def _process(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """`emphatic study work`, in a session of its own: a Ctrl-C reaches it through us, once."""
    file = ledger.log_file(folder, name)
    with ledger.disk(folder):
        file.parent.mkdir(exist_ok=True)
        opened = file.open("ab")
    with opened as log:
        return subprocess.Popen(
            _command(folder, name),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )


def _command(folder: Path, name: str) -> list[str]:
    return [sys.executable, "-m", "emphatic", "study", "work", str(folder), name, "--attached"]


def _how(code: int, log: Path) -> str:
    """What is known of a process that said nothing to the ledger."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", as when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"exit code {code}: {lines[-1] if lines else 'nothing was said'}"[:300]
