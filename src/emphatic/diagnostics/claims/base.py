"""What a claim is, and the measures that tests of claims are made of.

Thresholds are constants of this module, set from what the paper's words mean and the same for
all claims. Not every test came before every result: `Claim.note` says where one was restated
after its result was seen, and which claims were added when the sweeps were known.
A finding holds only if it does in every seed, that is in every repetition of the whole
experiment.
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
"""A late error is a spike if it is a tenth of the initial one, seen on a linear axis that shows
the start. What is kept of a run, and drawn, is its mean error over each bin of the curve:
that has to reach it, so a spike is as long as it is high (`late_bins`)."""

FEWER_STEPS = {"a tenth of the steps": 0, "half of the steps": 1}
"""Other readings of how long the paper ran, which it does not say, by place in `horizons`."""

FIRST_SEED = ", in the first seed's runs, α as above"
"""What is said where a reading needs single runs."""

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


ADDED = "added when the other results were known; thresholds as everywhere"
"""Note of a claim whose test was written late."""


class Claim(NamedTuple):
    """A sentence of the paper and how it is put to the test."""

    key: str
    place: str
    """Section, caption or equation, by the label in the paper's source where it has one."""
    says: str
    """The paper's own words, ... where some are left out, ours in [brackets]; or see `quoted`."""
    test: str
    """The operational test in words."""
    check: Callable[[Evidence], Finding]
    quoted: bool = True
    """False: `says` is in our words."""
    note: str = ""
    """What a reader must know of how the test came about."""


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


def never_learns(s: Summary, name: str, n: int, horizon: int = -1, rule: Rule = "median") -> bool:
    """At every step size the median run, or the mean, is on average worse than at the start."""
    score = s.mean if rule == "mean" else s.median
    return bool((score[horizon, :, :, s.lane(name, n)] >= initial(s)).all())


def learns_at(s: Summary, name: str, n: int, horizon: int = -1, rule: Rule = "median") -> str:
    """The step sizes at which that is better than before learning, in every seed."""
    score = s.mean if rule == "mean" else s.median
    good = (score[horizon, :, :, s.lane(name, n)] < initial(s)).all(0)
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
    """Share of runs, over all seeds, with a visible mean error of a bin in the second half."""
    late = s.late[rule_index(rule), :, :, s.lane(name, n)]
    return float((late >= VISIBLE * initial(s)).mean())


def late_bins(s: Summary) -> str:
    """How long the bins of the second half are: what a spike is the mean over."""
    lengths = np.diff(s.edges)[s.edges[:-1] >= s.horizons[1]]
    return f"means over bins of {lengths.min():,} to {lengths.max():,} steps"


def spikes_within(s: Summary, name: str, n: int, horizon: int) -> float:
    """The same share in the second half of fewer steps, of the first seed's runs.

    Runs are kept at the step size that the mean over all steps selects, so it is that one here.
    """
    end, begins = s.horizons[horizon], np.concatenate([[0], s.edges[:-1]])
    late = (begins >= end / 2) & (s.edges <= end)
    errors = 10.0 ** s.runs[:, 1:, s.shown.index(s.lane(name, n))].astype(float)
    return float((errors[:, late] >= VISIBLE * initial(s)).any(1).mean())


def fewer_steps(test: Callable[[int], tuple[bool, str]], how: str = "") -> tuple[Reading, ...]:
    """A test that takes a horizon, under both readings of fewer steps."""
    return tuple(Reading(name + how, *test(h)) for name, h in FEWER_STEPS.items())


def mixed(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same baselines in the mixed scheme; emphatic algorithms have one scheme only."""
    return tuple(f"{x}-mixed" if x in ("td", "clipped-td", "vtrace") else x for x in names)


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


def tail(s: Summary, name: str, n: int, horizon: int) -> np.ndarray:
    """Mean less median over runs at the α of least mean, by seed.

    Of fewer than all steps no single runs are kept; this is what is known of their scatter.
    """
    mean, median = (x[horizon, :, :, s.lane(name, n)] for x in (s.mean, s.median))
    place = mean.argmin(1)[:, None]
    mean, median = (np.take_along_axis(x, place, 1)[:, 0] for x in (mean, median))
    finite = np.isfinite(mean)
    return np.where(finite, np.where(finite, mean, 0) - np.where(finite, median, 0), np.inf)


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
