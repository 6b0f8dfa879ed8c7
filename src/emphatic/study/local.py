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
from typing import NamedTuple

from emphatic.study import ledger
from emphatic.study.runner import Ended, Outcome
from emphatic.study.spec import Study

BUSY, STOPPED = 75, 130
"""How `emphatic study work` exits when another process has the run, and after a signal."""

_OUTCOMES: dict[int, Outcome] = {0: "done", BUSY: "busy", STOPPED: "stopped"}

PAUSE = 0.05
"""Seconds between looks at the processes."""


class _Child(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]


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
        processes = processes or max(1, len(mine) // each)
        self._shares = shares(mine, processes, each)
        self._places: list[_Child | None] = [None] * processes

    def free(self) -> int:
        return self._places.count(None)

    def start(self, name: str) -> None:
        place = self._places.index(None)
        process = _process(self._folder, name)
        if hasattr(os, "sched_setaffinity"):
            # Before its interpreter has made a thread: those that come inherit it.
            os.sched_setaffinity(process.pid, self._shares[place])
        self._places[place] = _Child(name, process)

    def ended(self) -> list[Ended]:
        found = self._reap()
        if not found:
            time.sleep(PAUSE)
        return found

    def stop(self) -> list[Ended]:
        found = []
        for child in filter(None, self._places):
            child.process.send_signal(signal.SIGTERM)
        while self.free() < len(self._places):
            found += self.ended()
        return [e._replace(outcome="stopped") if e.outcome == "failed" else e for e in found]

    def _reap(self) -> list[Ended]:
        found = []
        for place, child in enumerate(self._places):
            if child is not None and child.process.poll() is not None:
                self._places[place] = None
                found.append(self._outcome(child))
        return found

    def _outcome(self, child: _Child) -> Ended:
        code = child.process.returncode
        if child.process.stdin:
            child.process.stdin.close()
        if code in _OUTCOMES:
            return Ended(child.name, _OUTCOMES[code])
        last = (ledger.attempts(self._folder, child.name) or [{}])[-1]
        if last.get("event") == "done":
            return Ended(child.name, "done")
        if last.get("event") == "failed":
            return Ended(child.name, "failed", last["error"])
        error = _how(code, ledger.log_file(self._folder, child.name))
        if last.get("event") == "started":
            ledger.record(self._folder, child.name, "failed", error=error)
        return Ended(child.name, "failed", error)


def _process(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """`emphatic study work`, in a session of its own: a Ctrl-C reaches it through us, once."""
    file = ledger.log_file(folder, name)
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as log:
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
