"""The seeds of one environment and agent of a study, trained as one program.

For accelerators, which one seed leaves idle (`runtime.together`). Each run lies where it
would otherwise, is claimed, recorded and evaluated like one that was trained alone.
"""

import contextlib
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from emphatic.errors import UserError
from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import together
from emphatic.study import ledger, spec, work
from emphatic.study.spec import RunSpec, Study


def perform(
    folder: Path, names: Sequence[str], *, progress: Any = lambda line, seconds: None
) -> Literal["done", "stopped"]:
    """Train and evaluate these runs, which differ in their seeds alone; see `work.perform`."""
    study = spec.read(folder)
    runs = [study.run(name) for name in names]
    if len({(run.environment, run.agent) for run in runs}) > 1:
        raise UserError("run", "runs trained as one program differ in nothing but their seeds")
    with contextlib.ExitStack() as claims:
        for name in names:
            claims.enter_context(ledger.claim(folder, name, 0.0))
        if all(_finished(folder, study, run) for run in runs):
            return "done"
        for name in names:
            ledger.begin(folder, name)
        try:
            outcome = _perform(folder, study, runs, progress)
        except Exception as error:
            for name in names:
                ledger.record(folder, name, "failed", error=work.sentence(error))
            raise
        for name in names:
            ledger.record(folder, name, outcome)
        return outcome


def _finished(folder: Path, study: Study, run: RunSpec) -> bool:
    config = work.configured(folder, study, run)
    return ledger.finished(folder, run.name, config, study.episodes)


def _perform(
    folder: Path, study: Study, runs: list[RunSpec], progress: Any
) -> Literal["done", "stopped"]:
    paths = {run.seed: ledger.run_folder(folder, run.name) for run in runs}
    config = work.configured(folder, study, runs[0])
    if (paths[runs[0].seed] / "config.json").exists():
        for run in runs:
            work.refuse_other(paths[run.seed], work.configured(folder, study, run))
        outcomes = together.resume(list(paths.values()), progress=progress)
    else:
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        command = ["emphatic", "study", "work", folder.name, *(run.name for run in runs)]
        outcomes = together.train(
            paths, config, command=command, created=created, progress=progress
        )
    if not all(outcome.finished for outcome in outcomes):
        return "stopped"
    evaluation.evaluate_together(list(paths.values()), study.episodes, seeds=list(paths))
    return "done"
