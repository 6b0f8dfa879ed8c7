"""The summary of a run folder: its files read once, its curves thinned."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from emphatic import documents
from emphatic.errors import UserError
from emphatic.report import summaries
from emphatic.report.summaries import (
    PER_HEAD,
    Health,
    LearningCurve,
    Points,
    Returns,
    RunSummary,
)
from emphatic.runtime import runs

RETURN_POINTS = 200
"""Points of a learning curve, at most."""
HEALTH_POINTS = 50
"""Points of each curve of a head's health, at most: there are many of them."""
LAST = 0.1
"""The part of a run whose episodes make its final training return."""


def summary(folder: Path, name: str) -> RunSummary:
    """The summary of the run at `folder`; a `UserError` if something there cannot be read."""
    document = runs.read_config(folder)
    config = document["config"]
    lines = _metrics(folder)
    try:
        done = lines[-1]["steps"]
        seconds, cpu_seconds = _seconds(folder)
        found = RunSummary(
            name=name,
            environment=config["env"],
            agent=config["learner"]["agent"],
            seed=document["seed"],
            steps_planned=config["steps"],
            steps=done,
            curve=_curve(lines),
            health=_health(lines),
            training=_training(folder, lines, done),
            evaluation=_evaluation(folder),
            config=config,
            settings=document["environment"],
            versions=document.get("versions", {}),
            command=without_places(document.get("command", [])),
            created=document.get("created", ""),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            animations=_animations(folder),
        )
    except KeyError as error:
        raise UserError("run", f"{folder} lacks what a run has: {error}") from error
    except (TypeError, ValueError, ArithmeticError, OSError) as error:
        problem = f"{folder} holds what no run has ({_line(error)})"
        raise UserError("run", problem) from error
    return _checked(found, folder)


def _checked(found: RunSummary, folder: Path) -> RunSummary:
    """A summary that can be read again: all of the types that it says."""
    try:
        if summaries.decode(summaries.encode(found)) is None:
            raise UserError("summary", "cannot be read again")
    except UserError as error:
        what = error.field.removeprefix("summary.")
        raise UserError("run", f"{folder} holds what no run has: {what} {error.problem}") from error
    except (ValueError, RecursionError) as error:
        problem = f"{folder} holds what no run has ({_line(error)})"
        raise UserError("run", problem) from error
    return found


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _metrics(folder: Path) -> list[dict[str, Any]]:
    lines = runs.read_metrics(folder)
    if not lines:
        raise UserError("run", f"{folder} has no metrics yet")
    return lines


def _groups(lines: Sequence[dict[str, Any]], points: int) -> list[Sequence[dict[str, Any]]]:
    """Lines in at most `points` stretches of (nearly) the same length."""
    ends = np.linspace(0, len(lines), min(points, len(lines)) + 1).astype(int)
    return [lines[a:b] for a, b in itertools.pairwise(ends)]


def _curve(lines: Sequence[dict[str, Any]]) -> LearningCurve:
    """Every episode weighs the same."""
    groups = _groups(lines, RETURN_POINTS)
    return LearningCurve(
        steps=tuple(group[-1]["steps"] for group in groups),
        mean_return=tuple(_mean_return(group) for group in groups),
    )


def _mean_return(lines: Sequence[dict[str, Any]]) -> float | None:
    with_episodes = [line for line in lines if line["episodes"]]
    episodes = sum(line["episodes"] for line in with_episodes)
    total = sum(line["return"] * line["episodes"] for line in with_episodes)
    return _short(total / episodes) if episodes else None


def _health(lines: Sequence[dict[str, Any]]) -> Health:
    groups = _groups(lines, HEALTH_POINTS)
    return Health(
        steps=tuple(group[-1]["steps"] for group in groups),
        gradient_norm=tuple(
            _short(np.mean([line["gradient_norm"] for line in group])) for group in groups
        ),
        **{name: _by_head(groups, name) for name in PER_HEAD},
    )


def _by_head(groups: Sequence[Sequence[dict[str, Any]]], name: str) -> tuple[Points, ...]:
    """The mean of each stretch, or its maximum where the name says so."""
    reduce = np.max if name.endswith("_max") else np.mean
    with np.errstate(invalid="ignore"):
        points = [reduce(np.array([line[name] for line in g], float), axis=0) for g in groups]
    return tuple(tuple(_short(x) for x in head) for head in np.stack(points, axis=1))


def _training(folder: Path, lines: Sequence[dict[str, Any]], done: int) -> Returns | None:
    """Episodes that ended in the last tenth; without episodes.jsonl no spread is known."""
    start = done - int(LAST * done)
    if (folder / "episodes.jsonl").exists() and (records := runs.read_episodes(folder)):
        ended = [
            x
            for record in records
            for step, x in zip(record["steps"], record["returns"], strict=True)
            if start < step <= done
        ]
        return _returns(start, np.array(ended, float))
    late = [line for line in lines if line["steps"] > start]
    mean = _mean_return(late)
    if mean is None:
        return None
    episodes = sum(line["episodes"] for line in late)
    return Returns(
        steps=start,
        episodes=episodes,
        mean=mean,
        median=None,
        standard_deviation=None,
        standard_error=None,
    )


def _returns(steps: int, returns: np.ndarray) -> Returns | None:
    if not len(returns):
        return None
    spread = float(returns.std(ddof=1)) if len(returns) > 1 else None
    return Returns(
        steps=steps,
        episodes=len(returns),
        mean=float(returns.mean()),
        median=float(np.median(returns)),
        standard_deviation=spread,
        standard_error=None if spread is None else spread / len(returns) ** 0.5,
    )


def _evaluation(folder: Path) -> Returns | None:
    file = folder / "evaluation.json"
    if not file.exists():
        return None
    try:
        found = documents.decoded(file.read_bytes())
        return Returns(**{field.name: found[field.name] for field in dataclasses.fields(Returns)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("run", f"{file} cannot be read ({error!r})") from error


def _seconds(folder: Path) -> tuple[float | None, float | None]:
    """Wall and CPU time; the clock starts anew where a run was resumed."""
    if not (folder / "timing.jsonl").exists():
        return None, None
    lines = runs.read_lines(folder / "timing.jsonl")
    if not lines:
        return None, None
    wall, cpu = (np.array([line[k] for line in lines], float) for k in ("seconds", "cpu_seconds"))
    last = np.append(np.diff(wall) < 0, True)
    return round(float(wall[last].sum()), 3), round(float(cpu[last].sum()), 3)


def _animations(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(f.name for f in folder.iterdir() if f.suffix in (".gif", ".mp4")))


WHERE = ("--out", "--summaries")
"""Options that say where to write, which changes nothing of what is written."""


def without_places(command: Sequence[str]) -> tuple[str, ...]:
    """A command line without where it was told to write."""
    kept, skip = [], False
    for word in command:
        if not skip and word.partition("=")[0] not in WHERE:
            kept.append(word)
        skip = word in WHERE
    return tuple(kept)


def _short(value: Any) -> float | None:
    """Five digits: a curve shows fewer."""
    return None if math.isnan(value) else float(f"{float(value):.5g}")
