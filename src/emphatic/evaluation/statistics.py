"""Statistics of scores over games and seeds, and how sure they are.

Scores are `[runs, games]`: run s of a game is one seed, and a column's runs are
independent of another's. What sums up all scores is a function of the last two axes, so it
takes one set of scores or, with axes in front, as many resampled ones as there are.

References: Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", 2021, https://arxiv.org/abs/2108.13264 (rliable); Arbuthnot, "An Argument for
Divine Providence", 1710 (the sign test); Holm, "A Simple Sequentially Rejective Multiple
Test Procedure", 1979.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

Scores = Float[np.ndarray, "*R runs games"]
Values = Float[np.ndarray, "*R"] | float
"""A number of each set of scores; NumPy's of a single set is a float."""
Statistic = Callable[[Scores], Values]
"""From scores `[*R, runs, games]` to numbers `[*R]`."""


def percentile(q: float) -> Statistic:
    """The q-th percentile over games in each run, averaged over runs: the paper's order.

    A run here is the games played with one seed, as in the paper's Figure 7, whose shaded
    areas need a median for each seed. Between two games it interpolates linearly.
    """

    def of(scores: Scores) -> Values:
        return np.percentile(scores, q, axis=-1).mean(axis=-1)

    return of


def percentile_of_means(q: float) -> Statistic:
    """The other order: the mean over runs of each game, then the percentile over games."""

    def of(scores: Scores) -> Values:
        return np.percentile(scores.mean(axis=-2), q, axis=-1)

    return of


def mean(scores: Scores) -> Values:
    """Over games and runs; the order makes no difference."""
    return scores.mean(axis=(-2, -1))


def above(threshold: float) -> Statistic:
    """How many games have a mean over runs above the threshold: 1 is a human's score."""

    def of(scores: Scores) -> Values:
        return (scores.mean(axis=-2) > threshold).sum(axis=-1) * 1.0

    return of


def interquartile_mean(scores: Scores) -> Values:
    """IQM: the mean of the middle half of all scores, runs and games pooled.

    ⌊N/4⌋ scores are left out at each end, so a few games decide less than in the mean and
    more than two decide, unlike in the median.
    """
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


def optimality_gap(scores: Scores) -> Values:
    """By how much scores fall short of 1 on average; what is above 1 makes up for nothing."""
    return 1.0 - np.minimum(scores, 1.0).mean(axis=(-2, -1))


def resampled(
    scores: Float[np.ndarray, "runs games"], draws: int, generator: np.random.Generator
) -> Float[np.ndarray, "draws runs games"]:
    """Stratified bootstrap: the runs of each game drawn anew, with replacement; games stay."""
    runs, games = scores.shape
    chosen = generator.integers(runs, size=(draws, runs, games))
    return scores[chosen, np.arange(games)]


def interval(
    values: Float[np.ndarray, "draws *rest"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Percentile interval of a bootstrap."""
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(values, [tail, 100.0 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def wins(
    x: Float[np.ndarray, "runs games"], y: Float[np.ndarray, "others games"]
) -> Float[np.ndarray, "runs others games"]:
    """Whether run s of x beats run t of y in a game: 1, 0, or ½ where they are level."""
    x, y = x[:, None], y[None]
    return (x > y) + 0.5 * (x == y)


def probability_of_improvement(
    x: Float[np.ndarray, "runs games"], y: Float[np.ndarray, "others games"]
) -> float:
    """P(X > Y) + ½ P(X = Y): a run of x against a run of y in a game, the mean over games."""
    return float(wins(x, y).mean())


def improvement_draws(
    x: Float[np.ndarray, "runs games"],
    y: Float[np.ndarray, "others games"],
    draws: int,
    generator: np.random.Generator,
) -> Float[np.ndarray, " draws"]:
    """The probability of improvement of resampled runs of both.

    How often each run was drawn is all that matters, so the comparisons are made once.
    """
    against = wins(x, y)
    of_x = _counts(len(x), x.shape[1], draws, generator) / len(x)
    of_y = _counts(len(y), x.shape[1], draws, generator) / len(y)
    expected = np.einsum("dsg,stg->dtg", of_x, against)
    return (expected * of_y).sum(axis=1).mean(axis=-1)


def profile(
    scores: Float[np.ndarray, "runs games"], thresholds: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T"]:
    """Performance profile: the fraction of runs, over all games, with a score above each τ."""
    return (scores.reshape(-1, 1) > thresholds).mean(axis=0)


def profile_draws(
    scores: Float[np.ndarray, "runs games"],
    thresholds: Float[np.ndarray, " T"],
    draws: int,
    generator: np.random.Generator,
) -> Float[np.ndarray, "draws T"]:
    """The profile of resampled runs."""
    runs, games = scores.shape
    counts = _counts(runs, games, draws, generator).reshape(draws, -1)
    over = (scores.reshape(-1, 1) > thresholds).astype(float)
    return counts @ over / scores.size


class SignTest(NamedTuple):
    """How often the first of a pair was better, and how likely that is by a fair coin."""

    wins: int
    losses: int
    ties: int
    """Left out of the test, as is usual."""
    one_sided: float
    """P(at least so many wins): for the claim that the first is better, made beforehand."""
    two_sided: float
    """Twice the smaller tail: for the claim that they differ."""

    @property
    def pairs(self) -> int:
        """Pairs that are compared."""
        return self.wins + self.losses

    @property
    def smallest(self) -> float:
        """The two-sided p if all pairs had gone one way: what this many can show at best."""
        return min(1.0, 2.0 * 0.5**self.pairs)


def sign_test(wins: int, losses: int, ties: int = 0) -> SignTest:
    """Exact, of a fair coin; with no pair to compare it says 1."""
    if not wins + losses:
        return SignTest(wins, losses, ties, 1.0, 1.0)
    one, two = (
        float(stats.binomtest(wins, wins + losses, alternative=side).pvalue)
        for side in ("greater", "two-sided")
    )
    return SignTest(wins, losses, ties, one, two)


def sign_test_of(x: Float[np.ndarray, " pairs"], y: Float[np.ndarray, " pairs"]) -> SignTest:
    """Of pairs of scores; those with a missing score are left out."""
    return sign_test(int((x > y).sum()), int((x < y).sum()), int((x == y).sum()))


class RankTest(NamedTuple):
    """Whether two sets of runs differ by more than the seeds they were started from."""

    won: float
    """Part of all pairs of runs that the first won, ties half."""
    two_sided: float
    """P(at least as far from even), had the labels of all runs been drawn by lot."""
    smallest: float
    """The same, had every run of one beaten every run of the other in each game."""


def rank_test(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> RankTest:
    """Exact Mann-Whitney test of runs of x against runs of y, in one game or in several.

    What counts is how many pairs of runs x wins, ties half, summed over games. Its
    distribution, if nothing but chance told x from y, is that over all ways to label the runs
    of each game; games are independent, so it is the convolution of theirs. Twice the
    smaller tail; where nothing is tied that is scipy's exact `mannwhitneyu` of a game.

    Reference: Mann and Whitney, 1947; over several games van Elteren, 1960.
    """
    won, count, chances = 0, 0, np.ones(1)
    for x, y in pairs:
        won += round(2 * wins(x[:, None], y[:, None]).sum())
        count += 2 * len(x) * len(y)
        chances = np.convolve(chances, _pairs_won(x, y))
    lower, upper = chances[: won + 1].sum(), chances[won:].sum()
    possible = chances[chances > 0]
    smallest = min(possible[0], possible[-1]) if len(possible) else 1.0
    two_sided, least = (min(1.0, 2 * float(p)) for p in (min(lower, upper), smallest))
    return RankTest(won / count if count else 0.5, two_sided, least)


def _pairs_won(x: Float[np.ndarray, " runs"], y: Float[np.ndarray, " others"]) -> np.ndarray:
    """Chances of each number of half pairs won, `[0 ... 2 runs others]`, over all labellings.

    Pairs won are the sum of the winner's ranks less a constant; ranks are doubled, so that
    ties have whole ones. Built up run by run: ways to choose so many with such a sum.
    """
    ranks = np.rint(2 * stats.rankdata(np.concatenate([x, y]))).astype(int)
    ways = np.zeros((len(x) + 1, ranks.sum() + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    least = len(x) * (len(x) + 1)
    chosen = ways[len(x), least : least + 2 * len(x) * len(y) + 1]
    return chosen / chosen.sum()


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted so that the chance of one false claim among all stays what it says."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    sorted_values = np.maximum.accumulate(np.asarray(p_values, float)[order] * factors)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(sorted_values, 1.0)
    return adjusted.tolist()


def difference_interval(
    x: Float[np.ndarray, " runs"], y: Float[np.ndarray, " others"], confidence: float = 0.95
) -> tuple[float, float] | None:
    """Of mean(x) - mean(y) in one game, by Welch's t; None with fewer than two runs of either."""
    if len(x) < 2 or len(y) < 2:
        return None
    difference = float(x.mean() - y.mean())
    errors = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])
    total = errors.sum()
    if total == 0:
        return difference, difference
    freedom = total**2 / (errors**2 / [len(x) - 1, len(y) - 1]).sum()
    half = float(stats.t.ppf(0.5 + confidence / 2, freedom) * total**0.5)
    return difference - half, difference + half


def _counts(
    runs: int, games: int, draws: int, generator: np.random.Generator
) -> Int[np.ndarray, "draws runs games"]:
    """How often each run is drawn when as many as there are, in each game, are drawn anew."""
    counted = generator.multinomial(runs, np.full(runs, 1.0 / runs), size=(draws, games))
    return counted.swapaxes(1, 2)
