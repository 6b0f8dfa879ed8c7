"""What K updates were like, and the lines of metrics.jsonl and episodes.jsonl it makes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array


class Report(NamedTuple):
    """What K updates were like."""

    metrics: Mapping[str, Array | np.ndarray]
    """Means over the K updates; maxima of what ends in `_max`."""
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
