"""One run of a study: trained to its end, wherever it stood, then evaluated.

What a runner's processes and Ray's tasks do; `emphatic study work NAME RUN` does it by hand.
"""

import contextlib
import datetime
import os
from pathlib import Path
from typing import Any, Literal

from emphatic.errors import Stopped, UserError
from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import configs, reports, training
from emphatic.runtime.settings import TrainConfig
from emphatic.study import ledger, spec
from emphatic.study.spec import CONTROLS, RunSpec, Study

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def use_threads(study: Study) -> None:
    """XLA computes with the study's number of threads, whatever cores there are here.

    Its results depend on that number in their last digits, so a run would otherwise depend on
    where it ran. To be said before JAX computes anything; NPROC is XLA's name for it.
    """
    os.environ["NPROC"] = str(study.resources.threads)
    flags = os.environ.get("XLA_FLAGS", "")
    if study.resources.threads == 1 and "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()


def perform(
    folder: Path, name: str, *, patience: float = 0.0, progress: Any = lambda line, seconds: None
) -> Literal["done", "stopped"]:
    """Train and evaluate the run of that name; `stopped` if a signal ended its training.

    A finished run is left as it is. A run that another process holds is waited for up to
    `patience` seconds, then `Busy`. What fails is written down before it is raised.
    """
    study = spec.read(folder)
    run = study.run(name)
    with ledger.claim(folder, name, patience):
        config = configured(folder, study, run)
        if ledger.finished(folder, name, config, study.episodes):
            return "done"
        ledger.begin(folder, name)
        try:
            outcome = performed(folder, study, run, config, progress)
        except Exception as error:
            with contextlib.suppress(Stopped):  # A disk that is full takes no word of it either.
                ledger.record(folder, name, "failed", error=sentence(error))
            raise
        ledger.record(folder, name, outcome)
        return outcome


def performed(
    folder: Path, study: Study, run: RunSpec, config: TrainConfig, progress: Any
) -> Literal["done", "stopped"]:
    """`perform` for a run that is claimed, without a word to the ledger."""
    path = ledger.run_folder(folder, run.name)
    if (path / "config.json").exists():
        refuse_other(path, config)
        outcome = training.resume(path, progress=progress)
    else:
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        command = ["emphatic", "study", "work", folder.name, run.name]
        outcome = training.train(path, config, command=command, created=created, progress=progress)
    if not outcome.finished:
        return "stopped"
    evaluation.evaluate(path, study.episodes, seed=run.seed)
    return "done"


def configured(folder: Path, study: Study, run: RunSpec) -> TrainConfig:
    """The configuration of a run; a control's constant comes from the runs it needs."""
    if run.agent not in CONTROLS:
        return spec.config(study, run)
    return spec.config(study, run, constant=_constant(folder, study, run))


def _constant(folder: Path, study: Study, run: RunSpec) -> float:
    """The mean emphasis of the other agent on that environment, over all of its seeds.

    What the first control used stays, though seeds are added later: controls that differ
    only in their seed are one experiment.
    """
    for seed in range(study.agents[run.agent]):
        path = ledger.run_folder(folder, run._replace(seed=seed).name)
        if (path / "config.json").exists():
            return training.stored_config(path).learner.constant
    needed = study.needs(run)
    for other in needed:
        config = spec.config(study, other)
        if not ledger.finished(folder, other.name, config, study.episodes):
            raise UserError("run", f"{run.name} takes its constant from {other.name}: run it first")
    return reports.mean_emphasis(ledger.run_folder(folder, other.name) for other in needed)


def refuse_other(path: Path, config: TrainConfig) -> None:
    """A run that is there and was configured otherwise is no run of this study."""
    stored = _flat(configs.to_json(training.stored_config(path)))
    wanted = _flat(configs.to_json(config))
    for field, value in wanted.items():
        if stored.get(field) != value:
            there = f"{stored.get(field)!r} in {path}, which was made before, not {value!r}"
            raise UserError(field, f"is {there}; put study.json back or start another study")


def sentence(error: BaseException) -> str:
    """An error in a line."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        inner = isinstance(value, dict) and name != "env_settings"
        flat |= _flat(value, f"{prefix}{name}.") if inner else {prefix + name: value}
    return flat
