"""Statistics against formulas, known answers, brute force, and rliable's numbers."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from emphatic.evaluation import statistics

DRAWS = 20_000
RLIABLE = json.loads(Path(__file__).with_name("rliable_reference.json").read_bytes())
X, Y = (np.array(RLIABLE[name]) for name in "xy")
THRESHOLDS = np.array(RLIABLE["thresholds"])
AGGREGATES = {
    "mean": statistics.mean,
    "median": statistics.percentile_of_means(50.0),
    "iqm": statistics.interquartile_mean,
    "optimality_gap": statistics.optimality_gap,
}


def generator():
    return np.random.default_rng(3)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_equal_rliables(name):
    assert float(AGGREGATES[name](X)) == pytest.approx(RLIABLE["found"][name]["value"], rel=1e-12)


@pytest.mark.parametrize("name", AGGREGATES)
def test_intervals_of_aggregates_equal_rliables(name):
    """Two bootstraps with different random numbers: the ends agree to what 20,000 draws settle."""
    draws = AGGREGATES[name](statistics.resampled(X, DRAWS, generator()))
    expected = RLIABLE["found"][name]["interval"]
    np.testing.assert_allclose(statistics.interval(draws), expected, atol=0.02)


def test_probability_of_improvement_equals_rliables():
    found = RLIABLE["found"]["improvement"]
    assert statistics.probability_of_improvement(X, Y) == pytest.approx(found["value"], rel=1e-12)
    draws = statistics.improvement_draws(X, Y, DRAWS, generator())
    np.testing.assert_allclose(statistics.interval(draws), found["interval"], atol=0.01)


def test_profiles_equal_rliables():
    found = RLIABLE["found"]["profile"]
    np.testing.assert_allclose(statistics.profile(X, THRESHOLDS), found["value"], rtol=1e-12)
    draws = statistics.profile_draws(X, THRESHOLDS, DRAWS, generator())
    ends = np.transpose(statistics.interval(draws))
    np.testing.assert_allclose(ends, found["interval"], atol=0.03)


def test_the_papers_sign_test():
    """100 of 57 x 3 pairs: the p = 0.016 of the paper is the one-sided one."""
    found = statistics.sign_test(100, 71)
    assert found.one_sided == pytest.approx(0.01598, abs=5e-6)
    assert found.two_sided == pytest.approx(0.03195, abs=5e-6)
    assert found.two_sided == pytest.approx(2 * found.one_sided, rel=1e-12)


@pytest.mark.parametrize(("wins", "losses"), [(0, 5), (1, 4), (3, 3), (5, 0), (9, 4)])
def test_sign_test_by_counting_coins(wins, losses):
    n = wins + losses
    heads = [sum(coins) for coins in itertools.product((0, 1), repeat=n)]
    more = np.mean([h >= wins for h in heads])
    as_far = np.mean([abs(h - n / 2) >= abs(wins - n / 2) for h in heads])
    found = statistics.sign_test(wins, losses, ties=2)
    assert found.one_sided == pytest.approx(more)
    assert found.two_sided == pytest.approx(as_far)
    assert (found.pairs, found.ties) == (n, 2)
    assert found.smallest == pytest.approx(min(1.0, 2 / 2**n))


def test_sign_test_of_pairs_leaves_out_ties_and_missing_ones():
    x, y = np.array([1.0, 2.0, 3.0, np.nan]), np.array([0.0, 2.0, 4.0, 1.0])
    assert statistics.sign_test_of(x, y)[:3] == (1, 1, 1)
    assert statistics.sign_test(0, 0, ties=3).two_sided == 1.0


@pytest.mark.parametrize(("runs", "others"), [(3, 3), (5, 4), (10, 10)])
def test_rank_test_is_scipys_where_nothing_is_tied(runs, others):
    x, y = generator().normal(0.7, size=runs), generator().normal(size=others)[::-1]
    for one, other in ((x, y), (y, x)):
        expected = stats.mannwhitneyu(one, other, method="exact")
        found = statistics.rank_test([(one, other)])
        assert found.two_sided == pytest.approx(expected.pvalue)
        assert found.won == pytest.approx(expected.statistic / (runs * others))


def won_by_labels(pairs):
    """Pairs of runs won, ties half, for every way to label the runs of every game."""
    by_game = []
    for x, y in pairs:
        everyone = [*x, *y]
        by_game.append([])
        for chosen in itertools.combinations(range(len(everyone)), len(x)):
            ours = [everyone[i] for i in chosen]
            theirs = [v for i, v in enumerate(everyone) if i not in chosen]
            by_game[-1].append(sum((a > b) + (a == b) / 2 for a in ours for b in theirs))
    return np.array([sum(parts) for parts in itertools.product(*by_game)])


@pytest.mark.parametrize(
    "pairs",
    [
        [([1, 2, 2], [2, 2, 3])],
        [([5, 5, 7, 9], [1, 5, 5])],
        [([3, 4], [1, 2]), ([1, 1, 2], [0, 1])],
        [([0, 1], [0]), ([2], [1, 3]), ([4, 4], [4, 5])],
        [([1, 1], [1, 1])],
    ],
)
def test_rank_test_by_counting_labels(pairs):
    """With ties, and over several games."""
    pairs = [(np.array(x, float), np.array(y, float)) for x, y in pairs]
    all_won = won_by_labels(pairs)
    won = sum((a > b) + (a == b) / 2 for x, y in pairs for a in x for b in y)
    tails = [np.mean(all_won >= won), np.mean(all_won <= won)]
    ends = [np.mean(all_won == end(all_won)) for end in (np.min, np.max)]
    found = statistics.rank_test(pairs)
    assert found.won == pytest.approx(won / sum(len(x) * len(y) for x, y in pairs))
    assert found.two_sided == pytest.approx(min(1.0, 2 * min(tails)))
    assert found.smallest == pytest.approx(min(1.0, 2 * min(ends)))


def test_rank_test_holds_its_level():
    """Of runs that differ by chance alone, at most 5 in 100 come out below 0.05."""
    draws = generator().normal(size=(2000, 2, 2, 4))
    found = [statistics.rank_test([tuple(x) for x in draw]).two_sided for draw in draws]
    assert 0.025 < np.mean(np.array(found) <= 0.05) < 0.06


def test_rank_test_of_nothing_shows_nothing():
    assert statistics.rank_test([]) == (0.5, 1.0, 1.0)
    assert statistics.rank_test([(np.ones(1), np.zeros(1))]) == (1.0, 1.0, 1.0)


def test_the_two_orders_of_averaging_differ():
    """Seed by seed the medians are 1 and 5; of the games' means 1, 4.5, 50 it is 4.5."""
    scores = np.array([[0.0, 1.0, 100.0], [2.0, 8.0, 5.0]])[:, [0, 1, 2]]
    assert statistics.percentile(50.0)(scores) == pytest.approx((1.0 + 5.0) / 2)
    assert statistics.percentile_of_means(50.0)(scores) == pytest.approx(4.5)


def test_above_counts_games_by_their_means():
    scores = np.array([[0.0, 1.5, 1.0], [2.5, 0.0, 1.0]])
    assert statistics.above(1.0)(scores) == 1


def test_interquartile_mean_is_the_trimmed_mean():
    for runs, games in [(3, 5), (1, 7), (4, 4), (5, 57)]:
        scores = generator().normal(size=(runs, games))
        expected = stats.trim_mean(scores, 0.25, axis=None)
        assert float(statistics.interquartile_mean(scores)) == pytest.approx(expected)


@pytest.mark.parametrize("of", [*AGGREGATES.values(), statistics.percentile(30.0)])
def test_statistics_of_many_sets_are_those_of_each(of):
    many = generator().normal(size=(4, 3, 5))
    np.testing.assert_allclose(of(many), [of(one) for one in many])


def test_resampling_stays_within_a_game_and_draws_all_runs_alike():
    scores = np.arange(15.0).reshape(3, 5)
    again = statistics.resampled(scores, 4000, generator())
    assert (again % 5 == np.arange(5)).all()
    shares = np.bincount(again.astype(int).ravel(), minlength=15) / again.size
    np.testing.assert_allclose(shares, 1 / 15, atol=0.005)


def test_resampling_is_independent_between_games():
    """Were whole seeds drawn, both games would always show the same one."""
    again = statistics.resampled(np.array([[0.0, 0.0], [1.0, 1.0]]), 4000, generator())
    assert np.mean(again[:, 0, 0] == again[:, 0, 1]) == pytest.approx(0.5, abs=0.05)


def test_counts_draw_as_indices_do():
    """Both ways of resampling give the mean the same distribution."""
    profile = statistics.profile_draws(X, np.array([1.0]), DRAWS, generator())[:, 0]
    direct = (statistics.resampled(X, DRAWS, generator()) > 1.0).mean(axis=(1, 2))
    assert profile.mean() == pytest.approx(direct.mean(), abs=0.005)
    assert profile.std() == pytest.approx(direct.std(), rel=0.03)


def test_the_same_generator_gives_the_same_draws():
    one, other = (statistics.improvement_draws(X, Y, 50, generator()) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_holm_by_its_definition():
    """The smallest p times how many there are, the next times one less, never falling."""
    assert statistics.holm([0.03, 0.01, 0.04]) == pytest.approx([0.06, 0.03, 0.06])
    assert statistics.holm([0.9, 0.6]) == [1.0, 1.0]
    assert statistics.holm([]) == []


def test_difference_interval_is_welchs():
    x, y = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 1.5, 0.5])
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    found = statistics.difference_interval(x, y)
    assert found == pytest.approx((expected.low, expected.high))
    assert statistics.difference_interval(x, y[:1]) is None
    assert statistics.difference_interval(np.ones(2), np.zeros(3)) == (1.0, 1.0)
    low, high = statistics.difference_interval(np.full(3, 21.0), np.array([20.0, 21.0, 22.0]))
    assert low == -high < -1.0
