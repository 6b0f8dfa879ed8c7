"""Runs that a study plans and a report does not have: not yet run, or failed, with their error."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from emphatic.report.summaries import RunSummary
from emphatic.study import ledger
from emphatic.study.spec import Study


def missing(folder: Path, study: Study, runs: Sequence[RunSummary]) -> Iterator[str]:
    """A sentence for all that are missing, and one for each that failed."""
    there = {(run.environment, run.agent, run.seed) for run in runs}
    absent = [run.name for run in study.runs if tuple(run) not in there]
    if absent and there:
        count = f"{len(absent)} of {len(study.runs)} runs"
        yield f"{folder.resolve().name}: {count} of the study are missing: {', '.join(absent)}."
    for run in study.runs:
        attempts = ledger.attempts(folder, run.name)
        if attempts and attempts[-1]["event"] == "failed":
            tries = sum(line["event"] == "started" for line in attempts)
            error = attempts[-1].get("error", "no error was written down")
            yield f"{run.name} failed, tried {_times(tries)}: {error}."


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
