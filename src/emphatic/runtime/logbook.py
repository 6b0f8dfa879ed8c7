"""What a training loop writes down: a line of metrics a call, episodes, timing, checkpoints."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from emphatic.agent import faults
from emphatic.errors import Stopped
from emphatic.runtime import reports, runs
from emphatic.runtime.checkpoints import Checkpoint
from emphatic.runtime.reports import Report
from emphatic.runtime.runs import Run
from emphatic.runtime.settings import TrainConfig

Progress = Callable[[dict[str, Any], float], None]
"""`progress(line, seconds)` is told each line of metrics; see `commands.train`."""


class TrainingHalted(Stopped):
    """Too many updates in a row held a number that was not finite."""


class Logbook:
    """Writes what each call of the runtime reported, one call late."""

    def __init__(
        self,
        run: Run | None,
        config: TrainConfig,
        progress: Progress,
        say: Callable[[str], None] = print,
    ):
        """`run` is None in a process that does not write."""
        self.pending: tuple[int, Report] | None = None
        self.saved = 0
        self.skipped_in_row = 0
        self._cause = ""
        self._run, self._config, self._progress, self._say = run, config, progress, say
        self._per_update = config.learner.steps_per_update
        self._start, self._cpu = time.perf_counter(), time.process_time()

    def resumed(self, checkpoint: Checkpoint) -> None:
        """Go on with what the checkpoint knows."""
        self.saved = checkpoint.step
        self.skipped_in_row = int(checkpoint.extra.get("skipped_in_row") or 0)

    def checkpoint(self, done: int, snapshot: PyTree) -> None:
        """Write down what is pending, then the checkpoint that goes with it.

        None while updates are being left out, but for the last of a run: what led there may
        be in the environments, and the checkpoints from before it must not be pruned.
        """
        self.write_pending()
        if self.skipped_in_row and done < self._config.num_updates:
            return
        extra = {"steps": done * self._per_update, "skipped_in_row": self.skipped_in_row}
        if self._run is not None:
            with runs.disk(self._run.path):
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
            with runs.disk(self._run.path):
                self._write(self._run, done, report)
        self._watch_faults(done, np.asarray(report.fault))

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

    def _watch_faults(self, done: int, codes: np.ndarray) -> None:
        """Say what was left out; halt when it was the last `halt_after` updates."""
        first = done - len(codes) + 1
        found = [(first + i, faults.decode(code)) for i, code in enumerate(codes)]
        wrong = [f"update {update}: {fault}" for update, fault in found if fault]
        if wrong and self._run is not None:
            more = f" ({len(wrong)} in this call)" if len(wrong) > 1 else ""
            self._say(f"left out {wrong[0]}{more}")
        for update, fault in found:
            if fault and not self.skipped_in_row:
                self._cause = f"update {update}: {fault}"
            self.skipped_in_row = self.skipped_in_row + 1 if fault else 0
            if self.skipped_in_row >= self._config.halt_after:
                raise TrainingHalted(
                    f"{self.skipped_in_row} updates in a row were left out, beginning with "
                    f"{self._cause}; parameters and checkpoints are those before them"
                )
