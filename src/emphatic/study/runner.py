"""Which run is next: until each run of a study is done, or has failed too often.

    waiting ─► its needs are done, a place is free, nobody else runs it ─► pool
       ▲                                                                    │
       └── failed, tries left · another runner has it ◄─────────────────────┤
    done, failed for good, or kept back by what failed  ◄───────────────────┘

Runners on one study share it: whoever holds the claim of a run (`ledger`) runs it, and a runner
with nothing of its own left waits for the others' runs, and takes over those of one that died.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from emphatic.runtime import training
from emphatic.study import ledger, work
from emphatic.study.spec import RunSpec, Study

LOOK_AGAIN = 2.0
"""Seconds between looks at the runs that others have."""


Outcome = Literal["done", "stopped", "failed", "busy"]


class Ended(NamedTuple):
    """How a run ended in a pool."""

    name: str
    outcome: Outcome
    error: str = ""


@runtime_checkable
class Pool(Protocol):
    """Where runs are performed."""

    tries: int
    """Times to hand it a run that fails."""

    def free(self) -> int:
        """Places for more runs now."""
        ...

    def start(self, name: str, /) -> None:
        """Perform a run."""
        ...

    def ended(self) -> list[Ended]:
        """Runs that ended since last asked; waits a moment for one."""
        ...

    def stop(self) -> list[Ended]:
        """Ask every run to write its checkpoint and leave, and wait for that."""
        ...


Say = Callable[[str, str], None]
"""`say(event, sentence)`: started, done, failed, again, kept or elsewhere."""


class Summary(NamedTuple):
    """What came of it."""

    done: int
    failed: dict[str, str]
    """Run to its error; runs kept back by a failed one are among them."""
    stopped: bool


class Runner:
    """A study on its way through a pool."""

    def __init__(self, folder: Path, study: Study, pool: Pool, say: Say):
        self._folder, self._study, self._pool, self._say = folder, study, pool, say
        self._waiting = {run.name: run for run in study.runs}
        self._running: set[str] = set()
        self._elsewhere: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._done: set[str] = set()
        self.failed: dict[str, str] = {}

    def run(self, tick: Callable[[], None] = lambda: None) -> Summary:
        """All of it, or until SIGINT or SIGTERM."""
        for name in list(self._waiting):
            self._finished(name)
        with training.stop_signal() as stop:
            while (self._waiting or self._running) and not stop.asked:
                self._start()
                for ended in self._pool.ended():
                    self._note(ended)
                tick()
        for ended in self._pool.stop() if stop.asked else ():
            self._note(ended)
        return Summary(len(self._done), self.failed, stop.asked)

    def _start(self) -> None:
        """Hand over what is ready, while there is room."""
        for name, run in list(self._waiting.items()):
            if not self._pool.free():
                return
            if self._kept_back(run) or not self._ready(run) or self._is_elsewhere(name):
                continue
            del self._waiting[name]
            self._running.add(name)
            self._pool.start(name)
            self._say("started", name)

    def _ready(self, run: RunSpec) -> bool:
        return all(need.name in self._done for need in self._study.needs(run))

    def _kept_back(self, run: RunSpec) -> bool:
        """Whether a run can never start; then it is among the failed."""
        failed = [need.name for need in self._study.needs(run) if need.name in self.failed]
        if failed:
            del self._waiting[run.name]
            self.failed[run.name] = f"needs {failed[0]}, which failed"
            self._say("kept", f"{run.name}: {self.failed[run.name]}")
        return bool(failed)

    def _is_elsewhere(self, name: str) -> bool:
        """Whether another runner has it, or has finished it by now."""
        now = time.monotonic()
        if now - self._elsewhere.get(name, -LOOK_AGAIN) < LOOK_AGAIN:
            return True
        if self._finished(name):
            return True
        if not ledger.claimed(self._folder, name):
            self._elsewhere.pop(name, None)
            return False
        if name not in self._elsewhere:
            self._say("elsewhere", name)
        self._elsewhere[name] = now
        return True

    def _finished(self, name: str) -> bool:
        """Whether nothing is left to do for a waiting run."""
        run = self._waiting[name]
        if ledger.evaluation(self._folder, name) is None:
            return False
        config = work.configured(self._folder, self._study, run)
        if not ledger.finished(self._folder, name, config, self._study.episodes):
            return False
        del self._waiting[name]
        self._done.add(name)
        return True

    def _note(self, ended: Ended) -> None:
        """Where a run goes that left the pool."""
        name = ended.name
        self._running.discard(name)
        if ended.outcome == "done":
            self._done.add(name)
            self._say("done", name)
        elif ended.outcome == "failed":
            self._failed(name, ended.error)
        else:
            self._waiting[name] = self._study.run(name)
            self._elsewhere[name] = time.monotonic()

    def _failed(self, name: str, error: str) -> None:
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        if tries < self._pool.tries:
            self._waiting[name] = self._study.run(name)
            self._say("again", f"{name}, try {tries} of {self._pool.tries}: {error}")
        else:
            self.failed[name] = error
            self._say("failed", f"{name}: {error}")


def refuse_changed(folder: Path, study: Study) -> None:
    """Every run that is there is as study.json has it; else which field of which is not."""
    for run in study.runs:
        path = ledger.run_folder(folder, run.name)
        if (path / "config.json").exists():
            work.refuse_other(path, work.configured(folder, study, run))
