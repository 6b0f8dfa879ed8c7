"""What of each run is compared: one return a run, and its score where there is a scale for it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from emphatic.errors import UserError
from emphatic.evaluation import scores
from emphatic.evaluation.scores import Reference
from emphatic.report.collect import Collection
from emphatic.report.summaries import Returns, RunSummary

Measure = Literal["evaluation", "training"]
"""Mean return of the evaluation phase, or of the episodes at the end of training."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Returns by agent, environment and seed."""

    measure: Measure
    agents: tuple[str, ...]
    environments: tuple[str, ...]
    found: Mapping[tuple[str, str], Mapping[int, float]]
    """Agent and environment to seed to mean return."""
    reference: Reference | None
    """None: returns stay as they are, and those of two environments are never added up."""
    notes: tuple[str, ...]
    """What was left out, one sentence each."""

    def returns(self, agent: str, environment: str) -> Float[np.ndarray, " runs"]:
        """In order of seeds."""
        by_seed = self.found.get((agent, environment), {})
        return np.array([by_seed[seed] for seed in sorted(by_seed)], float)

    def scores(self, agent: str, environment: str) -> Float[np.ndarray, " runs"]:
        """The same on the reference's scale, or as they are."""
        returns = self.returns(agent, environment)
        if self.reference is None:
            return returns
        return self.reference.normalised(environment, returns)

    def seeds(self, agent: str, environment: str) -> set[int]:
        return set(self.found.get((agent, environment), {}))

    def games(self, agents: Sequence[str] | None = None) -> tuple[str, ...]:
        """Environments that all of the agents have runs of, so that they can be compared there."""
        agents = self.agents if agents is None else agents
        return tuple(e for e in self.environments if all((a, e) in self.found for a in agents))

    @property
    def summed(self) -> tuple[str, ...]:
        """Games on one scale: those of `games` that can be added up."""
        games = self.games()
        if self.reference is None:
            return games if len(games) == 1 else ()
        return tuple(game for game in games if self.reference.knows(game))

    @property
    def number_of_runs(self) -> dict[str, int]:
        """By agent, how many runs each of `summed` has at least."""
        return {
            agent: min((len(self.seeds(agent, game)) for game in self.summed), default=0)
            for agent in self.agents
        }

    def matrix(self, agent: str) -> Float[np.ndarray, "runs games"]:
        """Scores on `summed`; where a game has more runs, its lowest seeds."""
        runs = self.number_of_runs[agent]
        return np.stack([self.scores(agent, game)[:runs] for game in self.summed], axis=1)


def measure(
    collection: Collection, *, score: Measure | None = None, reference: str | None = None
) -> Measured:
    """The runs of a collection, measured alike; without `score`, by what all of them have."""
    chosen, note = _choice(collection.runs, score)
    notes = [note] if note else []
    found: dict[tuple[str, str], dict[int, float]] = {}
    without = []
    for run in collection.runs:
        if (returns := _returns(run, chosen)) is None:
            without.append(run.name)
        else:
            by_seed = found.setdefault((collection.labels[run.name], run.environment), {})
            by_seed[run.seed] = returns.mean
    if without:
        why = "no evaluation" if chosen == "evaluation" else "no episode in their last tenth"
        notes.append(f"Left out of all scores, because they have {why}: {', '.join(without)}.")
    if not found and score is not None:
        raise UserError("score", f"no run has one of {chosen}: call emphatic evaluate, or train on")
    raw = Measured(
        measure=chosen,
        agents=tuple(sorted({agent for agent, _ in found})),
        environments=tuple(sorted({environment for _, environment in found})),
        found=found,
        reference=None,
        notes=(),
    )
    measured = dataclasses.replace(raw, reference=_reference(raw, reference))
    return dataclasses.replace(measured, notes=(*notes, *_left_out(measured)))


def restricted(measured: Measured, agents: Sequence[str]) -> Measured:
    """To some of the agents, in the order given."""
    for agent in agents:
        if agent not in measured.agents:
            raise UserError(
                "agent", f"no run is of {agent!r}; there is {', '.join(measured.agents)}"
            )
    found = {key: by_seed for key, by_seed in measured.found.items() if key[0] in agents}
    environments = tuple(e for e in measured.environments if any((a, e) in found for a in agents))
    return dataclasses.replace(
        measured, agents=tuple(agents), environments=environments, found=found
    )


def _choice(runs: Sequence[RunSummary], score: Measure | None) -> tuple[Measure, str]:
    """How to measure, and a sentence where that was not obvious."""
    if score is not None:
        return score, ""
    evaluated = sum(run.evaluation is not None for run in runs)
    if evaluated in (0, len(runs)):
        return ("evaluation" if evaluated else "training"), ""
    return "training", (
        f"Only {evaluated} of {len(runs)} runs were evaluated, so all are compared by the episodes "
        "at the end of training (--score evaluation compares those that were)."
    )


def _returns(run: RunSummary, score: Measure) -> Returns | None:
    return run.evaluation if score == "evaluation" else run.training


def _reference(raw: Measured, asked: str | None) -> Reference | None:
    """The one asked for; else human scores where an environment has them."""
    if asked == "raw":
        return None
    if asked is None or asked == "human":
        known = [e for e in raw.environments if scores.human().knows(e)]
        if asked and raw.environments and not known:
            raise UserError("reference", "none of the environments has human scores")
        return scores.human() if known else None
    if asked in raw.agents:
        own = {e: raw.returns(asked, e).mean() for e in raw.environments if (asked, e) in raw.found}
        return scores.relative_to(asked, {e: float(mean) for e, mean in own.items()})
    if not Path(asked).is_file():
        agents = ", ".join(raw.agents)
        raise UserError(
            "reference", f"must be human, raw, one of {agents} or a file, not {asked!r}"
        )
    return scores.from_file(Path(asked))


def _left_out(measured: Measured) -> list[str]:
    """What the numbers over all games are not made of."""
    notes = []
    if partial := sorted(set(measured.environments) - set(measured.games())):
        notes.append(
            f"Not all agents have runs of {', '.join(partial)}: left out of what is said of all "
            "games."
        )
    reference = measured.reference
    if reference and (unknown := [e for e in measured.games() if not reference.knows(e)]):
        notes.append(
            f"Scores are {reference.name}, which {', '.join(unknown)} cannot be: shown as returns, "
            "and left out of what is said of all games."
        )
    for agent, runs in measured.number_of_runs.items():
        more = [game for game in measured.summed if len(measured.seeds(agent, game)) > runs]
        if more:
            notes.append(
                f"{agent} has {runs} runs of every game and more of {', '.join(more)}: what is "
                "said of all games takes the lowest seeds, as many of each game."
            )
    if reference is None and len(measured.environments) > 1:
        notes.append(
            "Returns of different environments have no common scale, so nothing is averaged over "
            "them; --reference AGENT, or a file of lows and highs, gives them one."
        )
    return notes
