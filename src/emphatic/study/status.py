"""How far a study is, read from its folder: a table, live or once."""

import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from emphatic import documents
from emphatic.study import ledger, spec
from emphatic.study.ledger import State
from emphatic.study.spec import RunSpec, Study

STATES: tuple[State, ...] = ("done", "running", "stopped", "waiting", "failed")
TAIL = 2**16
"""Bytes at the end of a log that are read."""
PAUSE = 2.0
"""Seconds between looks."""
PATIENCE = 5
"""Looks without a running run after which a live table ends."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStatus:
    """Where one run stands."""

    run: RunSpec
    state: State
    steps: int
    score: float | None
    """Mean of its evaluation; before that, the return of its last logged episodes."""
    rate: float | None
    """Steps per second, lately."""
    tries: int
    error: str


class Reader:
    """Reads a study's folder again and again; what is done is read once."""

    def __init__(self, folder: Path, study: Study):
        self._folder, self._study = folder, study
        self._done: dict[str, RunStatus] = {}
        self._updates = {
            (run.environment, run.agent): spec.config(study, run)
            for run in study.runs
            if run.seed == 0
        }

    def __call__(self) -> tuple[RunStatus, ...]:
        """Every run's status now."""
        return tuple(self._done.get(run.name) or self._read(run) for run in self._study.runs)

    def _read(self, run: RunSpec) -> RunStatus:
        config = self._updates[run.environment, run.agent]
        done = ledger.finished(self._folder, run.name, config, self._study.episodes)
        state = ledger.state(self._folder, run.name, done=done)
        before = ledger.attempts(self._folder, run.name)
        steps, score, rate = (0, None, None)
        if state != "waiting":
            steps, score, rate = _progress(ledger.run_folder(self._folder, run.name))
        if done:
            score = (ledger.evaluation(self._folder, run.name) or {}).get("mean")
        status = RunStatus(
            run=run,
            state=state,
            steps=steps,
            score=score,
            rate=rate,
            tries=sum(line["event"] == "started" for line in before),
            error=before[-1].get("error", "") if state == "failed" else "",
        )
        if done:
            self._done[run.name] = status
        return status


def _progress(run: Path) -> tuple[int, float | None, float | None]:
    """Steps, the last return and the speed, from the ends of a run's logs."""
    metrics, timing = _tail(run / "metrics.jsonl"), _tail(run / "timing.jsonl")
    steps = metrics[-1]["steps"] if metrics else 0
    returns = [line["return"] for line in metrics if line["return"] is not None]
    return steps, returns[-1] if returns else None, _rate(metrics, timing)


def _rate(metrics: Sequence[dict[str, Any]], timing: Sequence[dict[str, Any]]) -> float | None:
    """Steps per second over the last lines of one process: its seconds start from 0."""
    pairs = [(t["seconds"], t["update"]) for t in timing[-20:]]
    start = next((i for i in range(len(pairs) - 1, 0, -1) if pairs[i][0] < pairs[i - 1][0]), 0)
    (then, first), (now, last) = (pairs[start], pairs[-1]) if pairs else ((0.0, 0), (0.0, 0))
    if not metrics or now <= then or not metrics[-1]["update"]:
        return None
    per_update = metrics[-1]["steps"] / metrics[-1]["update"]
    return (last - first) * per_update / (now - then)


def _tail(file: Path) -> list[dict[str, Any]]:
    """The last whole lines of a log."""
    try:
        with file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - TAIL))
            lines = log.read().split(b"\n")[1 if size > TAIL else 0 : -1]
        return [documents.decoded(line) for line in lines]
    except (OSError, ValueError):
        return []


def remaining(study: Study, statuses: Iterable[RunStatus]) -> float | None:
    """Seconds until all is done, if as many go on running as fast; None if none runs."""
    statuses = list(statuses)
    rates = [s.rate for s in statuses if s.state == "running" and s.rate]
    if not rates:
        return None
    left = sum(study.steps - min(s.steps, study.steps) for s in statuses if s.state != "done")
    return left / sum(rates)


def counts(statuses: Iterable[RunStatus]) -> dict[State, int]:
    """How many are in each state."""
    states = [status.state for status in statuses]
    return {state: states.count(state) for state in STATES}


def headline(name: str, study: Study, statuses: Sequence[RunStatus]) -> str:
    """Everything in a line."""
    number = counts(statuses)
    words = ", ".join(f"{number[state]} {state}" for state in STATES if number[state])
    share = sum(min(s.steps, study.steps) for s in statuses) / (study.steps * len(statuses))
    left = remaining(study, statuses)
    eta = f", {duration(left)} left" if left is not None else ""
    return f"{name}: {len(statuses)} runs: {words}; {share:.0%} of the steps{eta}"


def shown(name: str, study: Study, statuses: Sequence[RunStatus], rows: int | None = None) -> Group:
    """The whole table; `rows` is how many lines there are to show it on."""
    parts: list[RenderableType] = [Text(headline(name, study, statuses), style="bold")]
    failed = [s for s in statuses if s.state == "failed"]
    running = [s for s in statuses if s.state == "running"]
    parts.append(_environments(study, statuses))
    if running:
        parts.append(_running(study, running[: None if rows is None else max(1, rows // 3)]))
    for status in failed[: None if rows is None else max(1, rows // 6)]:
        parts.append(Text(f"failed: {status.run.name} (tries: {status.tries}): {status.error}"))
    return Group(*parts)


def _environments(study: Study, statuses: Sequence[RunStatus]) -> Table:
    """A line per environment: how many runs are where, and the best agent so far."""
    table = _table("environment")
    states: list[State] = [state for state, number in counts(statuses).items() if number]
    for state in states:
        table.add_column(state, justify="right", no_wrap=True)
    table.add_column("best so far, by evaluation", overflow="fold")
    for environment in study.environments:
        here = [s for s in statuses if s.run.environment == environment]
        number = counts(here)
        table.add_row(environment, *(str(number[s] or "·") for s in states), best(here))
    return table


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, overflow="fold")
    return table


def best(statuses: Iterable[RunStatus]) -> str:
    """The agent with the highest mean over its evaluated seeds, with what that rests on."""
    scores: dict[str, list[float]] = {}
    for status in statuses:
        if status.state == "done" and status.score is not None:
            scores.setdefault(status.run.agent, []).append(status.score)
    if not scores:
        return "-"
    agent = max(scores, key=lambda a: float(np.mean(scores[a])))
    mean, seeds = float(np.mean(scores[agent])), len(scores[agent])
    error = np.std(scores[agent], ddof=1) / math.sqrt(seeds) if seeds > 1 else None
    spread = "" if error is None else f" ± {error:.3g}"
    return f"{agent} {mean:.4g}{spread} ({seeds} seed{'s' if seeds > 1 else ''})"


def _running(study: Study, statuses: Sequence[RunStatus]) -> Table:
    """A line per run under way."""
    table = _table("running")
    for column in ("done", "return", "steps/s", "left"):
        table.add_column(column, justify="right", no_wrap=True)
    for s in statuses:
        left = (study.steps - s.steps) / s.rate if s.rate else None
        table.add_row(
            s.run.name,
            f"{min(1.0, s.steps / study.steps):.0%}",
            "-" if s.score is None else f"{s.score:.4g}",
            f"{s.rate:,.0f}" if s.rate else "-",
            "-" if left is None else duration(max(0.0, left)),
        )
    return table


def duration(seconds: float) -> str:
    """In the two largest units."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def watch(folder: Path, study: Study, console: Console, *, once: bool) -> None:
    """The table, again and again until nothing runs or the user leaves; or once."""
    reader = Reader(folder, study)
    if once or not console.is_terminal:
        console.print(shown(folder.name, study, reader()))
        return
    still = 0
    with Live(console=console, auto_refresh=False) as live:
        while still < PATIENCE:
            statuses = reader()
            live.update(shown(folder.name, study, statuses, console.height), refresh=True)
            still = 0 if counts(statuses)["running"] else still + 1
            time.sleep(PAUSE)
