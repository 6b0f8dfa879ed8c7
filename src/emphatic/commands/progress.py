"""How a run shows that it goes on: a bar on a terminal, else a line now and then."""

import datetime
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from emphatic.runtime import distributed
from emphatic.runtime.settings import TrainConfig

Outcome = TypeVar("Outcome")


def plain_console() -> Console:
    """Prints what it is given: names and paths may hold what rich would read as markup."""
    return Console(highlight=False, markup=False, emoji=False)


def shown(config: TrainConfig, run: Callable[..., Outcome]) -> Outcome:
    """What `run(progress=..., say=...)` gives, its progress shown meanwhile."""
    console = plain_console()
    console.print(
        f"{config.learner.agent} on {config.env}: {config.steps:,} steps, seed {config.seed}"
    )
    if not distributed.writes():
        return run(progress=lambda line, seconds: None, say=console.print)
    if not console.is_terminal:
        return run(progress=Lines(config, console), say=console.print)
    columns = (
        TextColumn("{task.fields[steps]}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%  return {task.fields[result]}  {task.fields[speed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        return run(progress=Bar(config, bar), say=console.print)


class Rate:
    """Steps per second, over the last ten seconds or since the line before."""

    def __init__(self):
        self._marks: list[tuple[float, int]] = []

    def __call__(self, steps: int) -> float | None:
        now = time.perf_counter()
        recent = [mark for mark in self._marks if now - mark[0] < 10]
        # Lines may be further apart than that: two are needed.
        self._marks = [*(recent or self._marks[-1:]), (now, steps)]
        (then, before), (_, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else None


class Bar:
    """Progress as a bar."""

    def __init__(self, config: TrainConfig, bar: Progress):
        self._bar, self._rate = bar, Rate()
        self._task = bar.add_task(
            "", total=config.steps, steps="compiling", result="-", speed="", start=True
        )

    def __call__(self, line: dict[str, Any], seconds: float) -> None:
        rate = self._rate(line["steps"])
        self._bar.update(
            self._task,
            completed=line["steps"],
            steps=f"{line['steps']:,} steps",
            result=_return(line),
            speed=f"{rate:,.0f} steps/s" if rate else "",
        )


class Lines:
    """Progress as lines, at least ten seconds apart."""

    def __init__(self, config: TrainConfig, console: Console):
        self._steps, self._console, self._rate = config.steps, console, Rate()
        self._last = -10.0

    def __call__(self, line: dict[str, Any], seconds: float) -> None:
        steps = line["steps"]
        rate = self._rate(steps)
        if seconds - self._last < 10 and steps < self._steps:
            return
        self._last = seconds
        speed = f", {rate:,.0f} steps/s, {_left(self._steps - steps, rate)} left" if rate else ""
        self._console.print(f"{steps:>11,} steps, return {_return(line)}{speed}", soft_wrap=True)


def _left(steps: int, rate: float) -> str:
    """How long so many steps take, in hours, minutes and seconds."""
    return str(datetime.timedelta(seconds=round(max(0, steps) / rate)))


def _return(line: dict[str, Any]) -> str:
    return "-" if line["return"] is None else f"{line['return']:.2f}"
