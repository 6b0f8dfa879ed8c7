"""What a claim is, and the measures that tests of claims are made of.

Thresholds are constants of this module, set from what the paper's words mean before any
result was seen, and used by all claims alike. A finding holds only if it does in every
seed, that is in every repetition of the whole experiment.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from emphatic.diagnostics import learners
from emphatic.diagnostics.summaries import QUANTILES, Rule, Summary

CONVERGED = 0.01
"""Final error over initial error: a hundredth is the axis on any linear plot."""

REACHED = 0.1
"""A run has learned when its error has come down to a tenth: speed is the step of that."""

VISIBLE = 0.1
"""An error late in learning is a spike if it is a tenth of the initial one: seen on a linear
axis that shows the start."""

SLOWER = 2.0
"""One learner is slower than another if it takes twice the steps: visible on a log axis."""

EMPHATIC = ("netd", "wetd", "clip-netd", "clip-wetd", "nevtrace", "wevtrace")
BASELINES = ("td", "vtrace")

Evidence = Mapping[str, Summary]
"""Summaries by problem."""


class Reading(NamedTuple):
    """The same claim under another reading of what the paper leaves open."""

    name: str
    holds: bool
    measured: str


class Finding(NamedTuple):
    """What a test measured."""

    holds: bool
    measured: str
    readings: tuple[Reading, ...] = ()
    false_as_printed: bool = False
    """It is a statement of mathematics, and there is a counterexample."""

    @property
    def verdict(self) -> str:
        """One of four."""
        if self.false_as_printed:
            return "false as printed"
        if self.holds:
            return "reproduced"
        if any(reading.holds for reading in self.readings):
            return "only under a stated reading"
        return "not reproduced"


class Claim(NamedTuple):
    """A sentence of the paper and how it is put to the test."""

    key: str
    place: str
    """Section, caption or equation, by the label in the paper's source where it has one."""
    says: str
    test: str
    """The operational test in words."""
    check: Callable[[Evidence], Finding]


def rule_index(rule: Rule) -> int:
    """Place of a selection rule on a summary's first axis."""
    return ("mean", "median").index(rule)


def initial(s: Summary) -> float:
    """Error before learning, mean over runs."""
    return float(s.curve[0, 0, 0, 0])


def final(s: Summary, name: str, n: int, rule: Rule = "mean") -> np.ndarray:
    """Median over runs of the last error over the initial one, by seed."""
    return np.median(s.final[rule_index(rule), :, :, s.lane(name, n)], 1) / initial(s)


def converged(s: Summary, name: str, n: int, rule: Rule = "mean") -> bool:
    """At the selected step size the median run ends at a hundredth of its first error."""
    return bool((final(s, name, n, rule) <= CONVERGED).all())


def never_learns(s: Summary, name: str, n: int, horizon: int = -1) -> bool:
    """At every step size the median run is on average worse than before learning."""
    i = s.lane(name, n)
    return bool((s.median[horizon, :, :, i] >= initial(s)).all())


def learns_at(s: Summary, name: str, n: int) -> str:
    """The step sizes at which the median run is better than before learning, in every seed."""
    good = (s.median[-1, :, :, s.lane(name, n)] < initial(s)).all(0)
    return span(s.alphas[good])


def span(alphas: np.ndarray) -> str:
    """Step sizes in words."""
    if not len(alphas):
        return "no α"
    ends = [f"2^{np.log2(a):g}" for a in (alphas.min(), alphas.max())]
    return f"α = {ends[0]}" if len(alphas) == 1 else f"{len(alphas)} α from {ends[0]} to {ends[1]}"


def reach(s: Summary, name: str, n: int, rule: Rule = "mean") -> float:
    """Step at which the median run's error is down to a tenth; inf if it never is."""
    median = s.curve[rule_index(rule), 1 + QUANTILES.index(0.5), :, s.lane(name, n)]
    below = np.flatnonzero(median[1:] <= REACHED * initial(s))
    return float(s.edges[below[0]]) if len(below) else np.inf


def spikes(s: Summary, name: str, n: int, rule: Rule = "mean") -> float:
    """Share of runs, over all seeds, with a visible error in the second half."""
    late = s.late[rule_index(rule), :, :, s.lane(name, n)]
    return float((late >= VISIBLE * initial(s)).mean())


def spread(s: Summary, name: str, n: int, rule: Rule = "mean") -> np.ndarray:
    """Standard deviation over runs of the mean RMSE over steps, by seed; inf if one diverged."""
    total = s.total[rule_index(rule), :, :, s.lane(name, n)].astype(float)
    finite = np.isfinite(total).all(1)
    return np.where(finite, np.where(np.isfinite(total), total, 0).std(1), np.inf)


def quartile_range(s: Summary, name: str, n: int, rule: Rule = "mean") -> np.ndarray:
    """Interquartile range of the same, by seed: blind to rare large errors."""
    total = s.total[rule_index(rule), :, :, s.lane(name, n)]
    low, high = (np.quantile(total, q, axis=1, method="nearest") for q in (0.25, 0.75))
    return np.where(np.isfinite(high), high, np.inf) - np.where(np.isfinite(low), low, 0)


def best(s: Summary, name: str, n: int, rule: Rule = "mean", horizon: int = -1) -> np.ndarray:
    """Least error over step sizes, by seed."""
    score = s.mean if rule == "mean" else s.median
    return score[horizon, :, :, s.lane(name, n)].min(1)


def best_alpha(s: Summary, name: str, n: int, rule: Rule = "mean", horizon: int = -1) -> np.ndarray:
    """The step size of least error, by seed."""
    score = s.mean if rule == "mean" else s.median
    return s.alphas[score[horizon, :, :, s.lane(name, n)].argmin(1)]


def label(name: str) -> str:
    """As figures call it."""
    return learners.LABELS[name]


def each(measure: Callable[[str], float | str], names: tuple[str, ...]) -> str:
    """A measure of several algorithms in one line."""
    return ", ".join(f"{label(name)} {number(measure(name))}" for name in names)


def number(x: float | str | np.ndarray) -> str:
    """Three digits; several seeds as a range."""
    if isinstance(x, str):
        return x
    x = np.atleast_1d(x)
    ends = dict.fromkeys(f"{end:.3g}" for end in (x.min(), x.max()))
    return " to ".join(ends)
