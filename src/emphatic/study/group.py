"""The seeds of one environment and agent of a study, trained as one program.

For accelerators, which one seed leaves idle (`runtime.together`). Each run lies where it
would otherwise, is claimed, recorded and evaluated like one that was trained alone. What is
finished is left as it is; what was begun goes on as it was begun, alone or with the same others.
"""

import contextlib
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from emphatic.errors import Stopped, UserError
from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import together, training
from emphatic.runtime.runs import read_config
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
        for group in _groups(folder, study, runs):
            if _recorded(folder, study, group, progress) == "stopped":
                return "stopped"
    return "done"


def _groups(folder: Path, study: Study, runs: list[RunSpec]) -> list[list[RunSpec]]:
    """Runs that are one program: those begun together, and all that were not begun yet.

    Groups of which every run is finished are left out.
    """
    programs = _programs(folder, runs)
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(programs.get(run.name, ""), []).append(run)
    return [g for g in groups.values() if not all(_finished(folder, study, run) for run in g)]


def _programs(folder: Path, runs: list[RunSpec]) -> dict[str, str]:
    """Run to what tells the program it was begun in from others; those not begun are in none.

    A program's command names all of its runs, also those a kill kept it from making.
    """
    found = {}
    for run in runs:
        path = ledger.run_folder(folder, run.name)
        if (path / "config.json").exists():
            begun = read_config(path)
            alone = begun.get("together", 1) == 1
            command = [run.name] if alone else begun.get("command", [])
            program = f"{begun.get('created')} {command}"
            found |= {name: found.get(name, program) for name in command} | {run.name: program}
    return found


def _recorded(
    folder: Path, study: Study, group: list[RunSpec], progress: Any
) -> Literal["done", "stopped"]:
    """What is missing of a group, written down as an attempt of each of those runs."""
    names = [run.name for run in group if not _finished(folder, study, run)]
    for name in names:
        ledger.begin(folder, name)
    try:
        outcome = _perform(folder, study, group, progress)
    except Exception as error:
        with contextlib.suppress(Stopped):
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
    folder: Path, study: Study, group: list[RunSpec], progress: Any
) -> Literal["done", "stopped"]:
    if len(group) == 1:
        config = work.configured(folder, study, group[0])
        return work.performed(folder, study, group[0], config, progress)
    paths = {run.seed: ledger.run_folder(folder, run.name) for run in group}
    outcomes = _trained(folder, study, group, paths, progress)
    if not all(outcome.finished for outcome in outcomes):
        return "stopped"
    left = {run.seed: paths[run.seed] for run in group if not _finished(folder, study, run)}
    evaluation.evaluate_together(list(left.values()), study.episodes, seeds=list(left))
    return "done"


def _trained(
    folder: Path, study: Study, group: list[RunSpec], paths: dict[int, Path], progress: Any
) -> list[training.Outcome]:
    """All of a group, from where it stands."""
    if not any((path / "config.json").exists() for path in paths.values()):
        config = work.configured(folder, study, group[0])
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        command = ["emphatic", "study", "work", folder.name, *(run.name for run in group)]
        return together.train(paths, config, command=command, created=created, progress=progress)
    together.complete(paths)
    for run in group:
        work.refuse_other(paths[run.seed], work.configured(folder, study, run))
    return together.resume(list(paths.values()), progress=progress)
