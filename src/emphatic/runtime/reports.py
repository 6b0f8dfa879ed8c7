"""What K updates were like, and the lines of metrics.jsonl and episodes.jsonl it makes."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from emphatic.errors import UserError
from emphatic.runtime import runs


class Report(NamedTuple):
    """What K updates were like."""

    metrics: Mapping[str, Array | np.ndarray]
    """Means over the K updates, per head over their real steps; maxima of what ends in `_max`."""
    fault: Array | np.ndarray
    """Why an update was left out, `[K, 4]`: see `agent.faults`; zeros where it was not."""
    ended: Array | np.ndarray
    """Whether an episode ended there, `[K, T, B]`."""
    episode_return: Array | np.ndarray
    episode_length: Array | np.ndarray

    @property
    def skipped(self) -> Array | np.ndarray:
        """Which updates were left out, `[K]`."""
        return self.fault[..., 0] > 0

    def first(self, updates: int, axis: int = 0) -> "Report":
        """Without the room behind so many updates; on the host, so it waits for them."""
        _, *each = jax.device_get(self)
        return Report(self.metrics, *(np.take(x, range(updates), axis) for x in each))


def weighed(metrics: Mapping[str, Array]) -> dict[str, Array]:
    """Metrics of an update as they are summed: per head times the share of real steps."""

    def of(name: str, x: Array) -> Array:
        per_head = x.ndim and not name.endswith("_max")
        return (metrics["learned"] * x if per_head else x).astype(jnp.float32)

    return {name: of(name, x) for name, x in metrics.items()}


def means(sums: Mapping[str, Any], updates: Any) -> dict[str, Any]:
    """What `weighed` was summed to, as means: per head over real steps, else over updates.

    Where no step was real, as in the first updates of the fixed scheme with T < n, what is
    per head is not a number. Maxima, which end in `_max`, stay as they are.
    """

    def of(name: str, x: Any) -> Any:
        if name.endswith("_max"):
            return x
        return x / (sums["learned"] if x.ndim else updates)

    with np.errstate(invalid="ignore"):
        return {name: of(name, x) for name, x in sums.items()}


def summary(done: int, report: Report, steps_per_update: int) -> dict[str, Any]:
    """A line of metrics.jsonl: means over the updates it sums up, a list entry per head."""
    ended = report.ended
    returns = np.asarray(report.episode_return)[ended]
    lengths = np.asarray(report.episode_length)[ended]
    line: dict[str, Any] = {
        "update": done,
        "steps": done * steps_per_update,
        "episodes": int(ended.sum()),
        "return": _mean(returns),
        "return_max": float(returns.max()) if len(returns) else None,
        "length": _mean(lengths),
    }
    for name, value in sorted(report.metrics.items()):
        line[name] = [_short(x) for x in value] if value.ndim else _short(value)
    return line


def episodes(done: int, report: Report, steps_per_update: int) -> dict[str, Any]:
    """A line of episodes.jsonl: the episodes that ended in these updates, in order of time."""
    updates, steps, streams = report.ended.shape
    when, stream = np.nonzero(report.ended.reshape(-1, streams))
    first = (done - updates) * steps_per_update
    chosen = (when // steps, when % steps, stream)
    return {
        "update": done,
        "steps": (first + (when + 1) * streams).tolist(),
        "returns": [_short(x) for x in report.episode_return[chosen]],
        "lengths": report.episode_length[chosen].tolist(),
        "streams": stream.tolist(),
    }


def _mean(values: np.ndarray) -> float | None:
    return _short(values.mean(dtype=np.float64)) if len(values) else None


def _short(value: Any) -> float:
    """Seven digits: what a float32 holds."""
    return float(f"{float(value):.7g}")


def scalars(line: dict[str, Any]) -> dict[str, float | int]:
    """A line of metrics as TensorBoard has it, heads apart."""
    flat: dict[str, float | int] = {}
    for name, value in line.items():
        if isinstance(value, list):
            flat |= {f"{name}/head_{head}": x for head, x in enumerate(value)}
        elif value is not None:
            flat[name] = value
    return flat


def mean_emphasis(paths: Iterable[Path]) -> float:
    """Of the auxiliary heads, over the whole of these runs: what a control weighs with."""
    found: list[float] = []
    for path in paths:
        try:
            heads = [x for line in runs.read_metrics(path) for x in line["emphasis"][1:]]
            told = [float(x) for x in heads if not math.isnan(x)]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UserError("constant", f"the metrics of {path} tell no emphasis") from None
        if not told:
            raise UserError("constant", f"{path} has no auxiliary heads, or no metrics yet")
        found += told
    return round(sum(found) / len(found), 4)
