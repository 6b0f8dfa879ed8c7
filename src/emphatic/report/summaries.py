"""What a report needs of one run, small enough to be committed.

A summary holds the configuration whole and the curves thinned; `encode` and `decode` are each
other's inverse, so tables made of run folders and of their summaries are the same to the byte.
"""

import dataclasses
from typing import Any

from emphatic import documents
from emphatic.errors import UserError
from emphatic.runtime import configs, runs

FORMAT = 1
LARGEST = 2**53
"""Whole numbers below it are themselves as floats."""
LARGEST_RETURN = 1e60
"""Its square can be summed."""
PER_HEAD = ("emphasis", "emphasis_max", "clipped_rho", "kl", "entropy", "value_bias")
"""Health of a head, by its name in metrics.jsonl."""

Points = tuple[float | None, ...]
"""A number a point; None where there is none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """Mean training return of the episodes that ended up to each of `steps`, since the last."""

    steps: tuple[int, ...]
    mean_return: Points


@dataclasses.dataclass(frozen=True, kw_only=True)
class Health:
    """How the heads fared, `[head][point]`; head 0 is the main head."""

    steps: tuple[int, ...]
    emphasis: tuple[Points, ...]
    """Mean F."""
    emphasis_max: tuple[Points, ...]
    clipped_rho: tuple[Points, ...]
    """Mean min(1, ρ)."""
    kl: tuple[Points, ...]
    """From the behaviour to the head's policy."""
    entropy: tuple[Points, ...]
    """Of the head's policy, in nats."""
    value_bias: tuple[Points, ...]
    """Mean of target minus value."""
    gradient_norm: Points
    """Of all heads together, before it is clipped."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Returns:
    """Returns of whole episodes: of the evaluation, or of the end of training."""

    steps: int
    """Steps the agent had learned from; at the end of training: where the counting starts."""
    episodes: int
    mean: float
    median: float | None
    standard_deviation: float | None
    """None of a single episode, and where only means were written down."""
    standard_error: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run: what was asked for, how far it got, what came of it."""

    name: str
    """Its folder, as seen from what was collected."""
    environment: str
    agent: str
    seed: int
    steps_planned: int
    steps: int
    """Done."""
    curve: LearningCurve
    health: Health
    training: Returns | None
    """Episodes that ended in the last tenth of the steps done; None if there are none."""
    evaluation: Returns | None
    """What `emphatic evaluate` found, if it was called."""
    config: dict[str, Any]
    settings: dict[str, Any]
    """Of the environment, resolved."""
    versions: dict[str, str]
    command: tuple[str, ...]
    """Without its --out: where a run lies is no part of it."""
    created: str
    seconds: float | None
    """Wall time of the steps that are logged."""
    cpu_seconds: float | None
    animations: tuple[str, ...]
    """Files in the run's folder that show the agent playing."""

    @property
    def finished(self) -> bool:
        """Whether all steps asked for are done."""
        return self.steps >= self.steps_planned


def encode(summary: RunSummary) -> bytes:
    """One line of JSON; the same summary is always the same bytes."""
    return runs.encode({"run_summary": FORMAT, **configs.to_json(summary)})


def decode(data: bytes) -> RunSummary | None:
    """The summary in a file of JSON; None if it holds something else."""
    try:
        document = documents.decoded(data)
    except ValueError as error:
        raise UserError("json", f"cannot be read ({error})") from error
    if not isinstance(document, dict) or "run_summary" not in document:
        return None
    if document.pop("run_summary") != FORMAT:
        raise UserError("summary", "is not of this version")
    curves = {
        name: _curves(kind, document.get(name), f"summary.{name}")
        for name, kind in (("curve", LearningCurve), ("health", Health))
    }
    # The thousands of numbers of the curves are checked above, all at once: the rest one by one.
    empty = {name: configs.to_json(_NOTHING[name]) for name in curves}
    summary = configs.from_json(RunSummary, document | empty, "summary")
    _require_sense(summary)
    return dataclasses.replace(summary, **curves)


def _require_sense(summary: RunSummary) -> None:
    """Numbers that no run can have, and that nothing can be computed of."""
    counts = {"steps_planned": summary.steps_planned - 1, "steps": summary.steps}
    for name in ("training", "evaluation"):
        returns = getattr(summary, name)
        if returns is not None:
            counts |= {f"{name}.steps": returns.steps, f"{name}.episodes": returns.episodes - 1}
            if not abs(returns.mean) < LARGEST_RETURN:
                raise UserError(f"summary.{name}.mean", "is a number that no run has")
    for field, count in counts.items():
        if not 0 <= count < LARGEST:
            raise UserError(f"summary.{field}", "is a number that no run has")


def _curves(kind: type, data: Any, field: str) -> Any:
    """Curves over common steps, of JSON data."""
    names = [f.name for f in dataclasses.fields(kind)]
    if not isinstance(data, dict) or sorted(data) != sorted(names):
        raise UserError(field, f"must have the fields {', '.join(names)}")
    values = {name: _points(data[name], f"{field}.{name}", name in PER_HEAD) for name in names}
    lengths = {
        len(x) for name in names for x in (values[name] if name in PER_HEAD else [values[name]])
    }
    if len(lengths) > 1:
        raise UserError(field, "has curves of different lengths")
    if None in values["steps"]:
        raise UserError(f"{field}.steps", "must be numbers, not None")
    if not values["steps"] or not all(0 <= step < LARGEST for step in values["steps"]):
        raise UserError(f"{field}.steps", "are none, or numbers that no run has")
    return kind(**values)


def _points(data: Any, field: str, by_head: bool) -> tuple[Any, ...]:
    """Numbers, or None where there is none; a tuple of them for each head."""
    if not isinstance(data, list):
        raise UserError(field, f"must be a list, not {data!r}")
    if by_head:
        return tuple(_points(head, field, False) for head in data)
    for value in data:
        if value is not None and type(value) not in (int, float) and value not in ("inf", "-inf"):
            raise UserError(field, f"must be numbers, not {value!r}")
        if type(value) is int and abs(value) >= LARGEST:
            raise UserError(field, "has a number that no run has")
    return tuple(float(x) if isinstance(x, str) else x for x in data)


_NOTHING = {
    "curve": LearningCurve(steps=(), mean_return=()),
    "health": Health(steps=(), gradient_norm=(), **dict.fromkeys(PER_HEAD, ())),
}
