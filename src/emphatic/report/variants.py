"""Which runs are of the same experiment, and what in a set of runs does not fit together."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emphatic.report.summaries import RunSummary

NO_EXPERIMENT = frozenset(
    {"seed", "steps", "log_every", "checkpoint_every", "keep", "devices", "record_episodes"}
    | {"halt_after", "actors.threads", "actors.devices", "actors.timeout", "actors.restarts"}
)
"""Fields that do not make another experiment of a run (docs/statistics.md)."""


def digest(config: Mapping[str, Any]) -> str:
    """The same for two runs of the same experiment, whatever their seeds and lengths."""
    fields = {k: v for k, v in flattened(config).items() if k not in NO_EXPERIMENT}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Fields by their dotted name."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def differing(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields whose values are not all the same."""
    names = sorted({name for fields in flat for name in fields})
    absent = object()
    return [n for n in names if any(f.get(n, absent) != flat[0].get(n, absent) for f in flat[1:])]


def labels(runs: Sequence[RunSummary]) -> dict[str, str]:
    """The agent's name, and the fields in which it differs from itself within an environment."""
    found = {}
    for agent in {run.agent for run in runs}:
        of_agent = [run for run in runs if run.agent == agent]
        fields = sorted(_fields_within(of_agent))
        for run in of_agent:
            flat = flattened(run.config)
            chosen = ", ".join(f"{f.split('.')[-1]}={_word(flat.get(f))}" for f in fields)
            found[run.name] = f"{agent} ({chosen})" if chosen else agent
    return found


def _fields_within(runs: Sequence[RunSummary]) -> set[str]:
    """Fields that differ between runs of the same environment: it is these that were compared."""
    fields: set[str] = set()
    for environment in {run.environment for run in runs}:
        flat = [flattened(run.config) for run in runs if run.environment == environment]
        fields |= set(differing(flat)) - NO_EXPERIMENT
    return fields


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def mixtures(runs: Sequence[RunSummary]) -> Iterator[str]:
    """What runs of one report should have in common and do not."""
    for package in sorted({package for run in runs for package in run.versions}):
        found = {run.versions.get(package, "none") for run in runs}
        if len(found) > 1:
            yield f"The runs are of different versions of {package}: {', '.join(sorted(found))}."
    for environment in sorted({run.environment for run in runs}):
        here = [run for run in runs if run.environment == environment]
        lengths = sorted({run.steps_planned for run in here})
        if len(lengths) > 1:
            words = ", ".join(f"{n:,}" for n in lengths)
            yield f"The runs on {environment} are of different lengths: {words} steps."
        if fields := differing([run.settings for run in here]):
            yield f"The runs on {environment} had different settings of it: {', '.join(fields)}."
    unfinished = [run for run in runs if not run.finished]
    if unfinished:
        names = ", ".join(
            f"{r.name} ({r.steps:,} of {r.steps_planned:,} steps)" for r in unfinished
        )
        yield f"Not finished, and counted as far as they got: {names}."
    episodes = sorted({run.evaluation.episodes for run in runs if run.evaluation})
    if len(episodes) > 1:
        counts = ", ".join(map(str, episodes))
        yield f"The evaluations are of different numbers of episodes: {counts}."
    stale = [run.name for run in runs if run.evaluation and run.evaluation.steps < run.steps]
    if stale:
        yield f"Evaluated before the end of training: {', '.join(stale)}."
