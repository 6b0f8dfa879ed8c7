"""What a training loop writes down: a line of metrics a call, episodes, timing, checkpoints."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from emphatic.errors import Stopped
from emphatic.runtime import reports
from emphatic.runtime.checkpoints import Checkpoint
from emphatic.runtime.reports import Report
from emphatic.runtime.runs import Run
from emphatic.runtime.settings import TrainConfig

Progress = Callable[[dict[str, Any], float], None]
"""`progress(line, seconds)` is told each line of metrics; see `commands.train`."""


class TrainingHalted(Stopped):
    """Too many updates in a row had a gradient that was not finite."""


class Logbook:
    """Writes what each call of the runtime reported, one call late."""

    def __init__(self, run: Run | None, config: TrainConfig, progress: Progress):
        """`run` is None in a process that does not write."""
        self.pending: tuple[int, Report] | None = None
        self.saved = 0
        self.skipped_in_row = 0
        self._run, self._config, self._progress = run, config, progress
        self._per_update = config.learner.steps_per_update
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def resumed(self, checkpoint: Checkpoint) -> None:
        """Go on with what the checkpoint knows."""
        self.saved = checkpoint.step
        self.skipped_in_row = checkpoint.extra["skipped_in_row"]

    def checkpoint(self, done: int, snapshot: PyTree) -> None:
        """Write down what is pending, then the checkpoint that goes with it."""
        self.write_pending()
        extra = {"steps": done * self._per_update, "skipped_in_row": self.skipped_in_row}
        if self._run is not None:
            self._run.save(done, snapshot, extra, keep=self._config.keep)
        self.saved = done

    def write_pending(self) -> None:
        """Metrics, episodes and timing of the last call, if there was one."""
        if self.pending is None:
            return
        done, report = self.pending
        self.pending = None
        report = jax.device_get(report)
        if self._run is not None:
            self._write(self._run, done, report)
        self._watch_gradients(done, report.skipped)

    def _write(self, run: Run, done: int, report: Report) -> None:
        line = reports.summary(done, report, self._per_update)
        run.metrics.append(line)
        if self._config.record_episodes and report.ended.any():
            run.episodes.append(reports.episodes(done, report, self._per_update))
        seconds = round(time.perf_counter() - self._start, 3)
        cpu = round(time.process_time() - self._cpu, 3)
        run.timing.append({"update": done, "seconds": seconds, "cpu_seconds": cpu})
        run.plot(line["steps"], reports.scalars(line))
        self._progress(line, seconds)

    def _watch_gradients(self, done: int, skipped: np.ndarray) -> None:
        """Halt when the last `halt_after` updates were all left out."""
        for skip in skipped:
            self.skipped_in_row = self.skipped_in_row + 1 if skip else 0
            if self.skipped_in_row >= self._config.halt_after:
                raise TrainingHalted(
                    f"the gradient of {self.skipped_in_row} updates in a row, up to update {done} "
                    "at the latest, was not finite; parameters are those before them"
                )
