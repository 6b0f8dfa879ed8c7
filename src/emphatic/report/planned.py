"""Runs that a study plans and a report does not have: not yet run, or failed, with their error."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from emphatic.report.summaries import RunSummary
from emphatic.study import ledger
from emphatic.study.spec import RunSpec, Study


def missing(folder: Path, study: Study, runs: Sequence[RunSummary]) -> Iterator[str]:
    """A sentence for all that are missing, and one for each that failed and is not done since."""
    there = {RunSpec(run.environment, run.agent, run.seed): run for run in runs}
    absent = [run.name for run in study.runs if run not in there]
    if absent and there:
        count = f"{len(absent)} of {len(study.runs)} runs"
        yield f"{folder.resolve().name}: {count} of the study are missing: {', '.join(absent)}."
    for run in study.runs:
        attempts = ledger.attempts(folder, run.name)
        failed = bool(attempts) and attempts[-1]["event"] == "failed"
        if failed and not _done(there.get(run), study):
            tries = sum(line["event"] == "started" for line in attempts)
            error = attempts[-1].get("error", "no error was written down")
            yield f"{run.name} failed, tried {_times(tries)}: {error}."


def _done(run: RunSummary | None, study: Study) -> bool:
    """Whether it was trained to its end and evaluated, whatever an attempt came to later."""
    if run is None or run.evaluation is None or not run.finished:
        return False
    return run.evaluation.episodes >= study.episodes


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
