"""Runs on this machine: a process each, and a core each.

Small runs are fastest so: XLA's threads cost more than they bring, and `vmap` over seeds is slower
on a CPU. Each process is pinned to its share of the cores, where the system can do that, and
told to use no more than that. It reads its standard input only to notice that the runner has
gone: then it writes its checkpoint and leaves.
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

BUSY, STOPPED = 75, 130
"""How `emphatic study work` exits when another process has the run, and after a signal."""

_OUTCOMES: dict[int, Outcome] = {0: "done", BUSY: "busy", STOPPED: "stopped"}

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
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


def shares(cores: list[int], processes: int) -> list[list[int]]:
    """The cores of each of so many processes: dealt out, or shared where they are too few."""
    if processes >= len(cores):
        return [[cores[place % len(cores)]] for place in range(processes)]
    bounds = [len(cores) * place // processes for place in range(processes + 1)]
    return [cores[a:b] for a, b in itertools.pairwise(bounds)]


class LocalPool:
    """So many processes on this machine."""

    def __init__(self, folder: Path, processes: int, tries: int):
        self.tries = tries
        self._folder = folder
        self._shares = shares(cores(), processes)
        self._places: list[_Child | None] = [None] * processes

    def free(self) -> int:
        return self._places.count(None)

    def start(self, name: str) -> None:
        place = self._places.index(None)
        mine = self._shares[place]
        process = _process(self._folder, name, environment(len(mine)))
        if hasattr(os, "sched_setaffinity"):
            # Before its interpreter has made a thread: those that come inherit it.
            os.sched_setaffinity(process.pid, mine)
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


def environment(number_of_cores: int) -> dict[str, str]:
    """Of a process: ours, and with one core no threads but one in XLA's matrix products."""
    flags = os.environ.get("XLA_FLAGS", "")
    if number_of_cores == 1 and "xla_cpu_multi_thread_eigen" not in flags:
        flags = f"{flags} {ONE_THREAD}".strip()
    return {**os.environ, "XLA_FLAGS": flags, "PYTHONUNBUFFERED": "1"}


def _process(folder: Path, name: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """`emphatic study work`, in a session of its own: a Ctrl-C reaches it through us, once."""
    file = ledger.log_file(folder, name)
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as log:
        return subprocess.Popen(
            _command(folder, name),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
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
