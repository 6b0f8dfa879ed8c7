"""Two agents: tests with known answers, improvements, and sentences that say no more than is so."""

import numpy as np
import pytest
import synthetic
from scipy import stats

from emphatic.evaluation import scores
from emphatic.report import comparison, measures, sentences, tables
from emphatic.report.measures import Measured


def measured(means, reference=None):
    """Of agent and environment to a return for each seed."""
    found = {key: dict(enumerate(map(float, values))) for key, values in means.items()}
    return Measured(
        measure="evaluation",
        agents=tuple(sorted({agent for agent, _ in found})),
        environments=tuple(sorted({environment for _, environment in found})),
        found=found,
        reference=reference,
        notes=(),
    )


def games(better, worse, level=0):
    """`a` against `b` with one seed: better by 1 in so many games, and so on."""
    differences = [1.0] * better + [-1.0] * worse + [0.0] * level
    means = {}
    for number, difference in enumerate(differences):
        means |= {("a", f"game{number:02}"): [difference], ("b", f"game{number:02}"): [0.0]}
    return measured(means)


@pytest.fixture(scope="module")
def ace():
    """netd-ace against surreal, on 57 made-up games, three of them in the report."""
    found = measures.measure(synthetic.collection())
    made = comparison.compare_all(found, "surreal")
    return next(c for c in made if c.agent == "netd-ace")


def test_the_papers_test_on_pairs(ace):
    pairs = ace.on_seeds
    assert (pairs.wins, pairs.pairs) == (synthetic.WINS, synthetic.PAIRS)
    assert pairs.one_sided == pytest.approx(0.01598, abs=5e-6)
    assert pairs.two_sided == pytest.approx(0.03195, abs=5e-6)


def test_the_sound_test_on_games(ace):
    expected = stats.binom.sf(synthetic.GAMES_WON - 1, 57, 0.5)
    assert (ace.on_games.wins, ace.on_games.pairs) == (synthetic.GAMES_WON, 57)
    assert ace.on_games.one_sided == pytest.approx(expected)
    assert ace.on_games.two_sided == pytest.approx(2 * expected)
    assert ace.adjusted == pytest.approx(6 * expected)


def test_improvements_are_differences_of_scores(ace):
    expected = synthetic.by_game("netd-ace") - synthetic.by_game("surreal")
    by_game = {i.environment: i.difference for i in ace.improvements}
    np.testing.assert_allclose([by_game[g] for g in synthetic.GAMES], expected, atol=1e-8)
    bars = comparison.bars(ace)
    values = [bar.value for bar in bars.bars]
    assert values == sorted(values, reverse=True)
    assert bars.unit == "percentage points of human-normalised score"
    assert {bar.label for bar in bars.bars} == {scores.game_of(g) for g in synthetic.GAMES}
    assert all(bar.low < bar.value < bar.high for bar in bars.bars)


def test_words_of_the_papers_comparison(ace):
    on_games, on_pairs, improves = sentences.statements(ace)
    assert on_games.text.startswith("netd-ace is better than surreal on 33 of 57 games: ")
    assert "p = 0.14 one-sided, 0.29 two-sided (0.87 adjusted" in on_games.text
    assert "does not show that either agent is better" in on_games.allows
    assert on_games.sound
    assert "100 of 171 pairs of game and seed" in on_pairs.text
    assert "p = 0.016 one-sided, 0.032 two-sided" in on_pairs.text
    assert on_pairs.allows.startswith("Not sound: seeds of one game are not independent games")
    assert not on_pairs.sound
    assert improves.text.startswith("The probability that a run of netd-ace beats a run of surreal")


def test_a_clear_result_may_be_claimed():
    made = comparison.compare(games(20, 3), "a", "b")
    allowed = sentences.statements(made)[0].allows
    assert "a is better than b on more than half of games" in allowed
    turned = comparison.compare(games(20, 3), "b", "a")
    assert "a is better than b on more than half of games" in sentences.statements(turned)[0].allows


@pytest.mark.parametrize(("number", "few"), [(5, True), (6, False)])
def test_five_games_can_show_nothing_and_six_can(number, few):
    """All six one way: p = 2/64."""
    made = comparison.compare(games(number, 0), "a", "b")
    allowed = sentences.statements(made)[0].allows
    assert ("too few for this test" in allowed) is few
    assert ("one may say that a is better" in allowed) is not few


def test_what_is_claimed_is_what_holds_for_all_comparisons_together():
    """Alone 6 of 6 may be claimed; beside four others p is 0.16."""
    means = dict(games(6, 0).found)
    for other in "cdef":
        means |= {(other, f"game{n:02}"): means["a", f"game{n:02}"] for n in range(6)}
    found = measured({key: list(by_seed.values()) for key, by_seed in means.items()})
    made = comparison.compare_all(found, "b")
    assert [c.adjusted for c in made] == pytest.approx([5 * 2 / 64] * 5)
    assert "does not show" in sentences.statements(made[0])[0].allows


def test_ties_are_left_out_and_said():
    made = comparison.compare(games(6, 1, level=2), "a", "b")
    assert (made.on_games.pairs, made.on_games.ties) == (7, 2)
    assert "on 6 of 7 games, 2 ties left out:" in sentences.statements(made)[0].text


def test_pairs_are_of_the_same_seed():
    means = {("a", "x"): [1.0, 5.0], ("b", "x"): [2.0, 3.0, 9.0]}
    made = comparison.compare(measured(means), "a", "b")
    assert (made.on_seeds.wins, made.on_seeds.losses) == (1, 1)


def test_one_environment_speaks_of_itself_alone():
    means = {("a", "x"): list(range(10, 20)), ("b", "x"): list(range(10))}
    said = sentences.statements(comparison.compare(measured(means), "a", "b"))
    assert len(said) == 2
    assert said[0].text.startswith("a is better than b on 10 of 10 pairs of seeds on x")
    assert "One may say that a is better than b on x." in said[0].allows
    assert "no claim about any other" in said[0].allows
    few = {key: values[:3] for key, values in means.items()}
    said = sentences.statements(comparison.compare(measured(few), "a", "b"))
    assert "3 pairs of seeds are too few" in said[0].allows


def test_probability_with_more_runs_of_one_game_and_of_one_agent():
    means = {("a", "x"): [1, 3, 5], ("b", "x"): [2, 4], ("a", "y"): [1], ("b", "y"): [1, 2]}
    made = comparison.compare(measured(means), "a", "b")
    assert made.probability == pytest.approx(((0 + 1 + 2) / 6 + 0.25) / 2)
    low, high = made.probability_interval
    assert low < made.probability < high


def test_an_interval_without_spread_is_no_finding():
    """Resampling one seed a game has nothing to draw from; the exact test says what it is worth."""
    said = sentences.statements(comparison.compare(games(3, 0), "a", "b"))[-1]
    assert "beats a run of b is 1.00 (resampling finds no spread), mean over 3" in said.text
    assert "too few seeds to show a difference" in said.allows
    assert "p would be 0.25." in said.allows
    found = tables.comparisons([comparison.compare(games(3, 0), "a", "b")])
    line = dict(zip(found.columns, found.rows[0], strict=True))
    assert line["P(better)"].value == 1.0
    assert (line["95% from"].text, line["to"].value) == ("", None)
    assert (line["p of runs"].value, line["p of runs, adjusted"].value) == (0.25, 0.25)


def two_games(a, b):
    return measured({(agent, g): x for agent, x in (("a", a), ("b", b)) for g in "xy"})


def test_what_one_may_say_of_runs_is_by_the_exact_test():
    """Four seeds of two games, all won: p = 2/70**2. Two of each: 2/36, which is too few."""
    made = comparison.compare(two_games([5, 6, 7, 8], [1, 2, 3, 4]), "a", "b")
    said = sentences.statements(made)[-1]
    assert made.on_runs.two_sided == pytest.approx(2 / 70**2)
    assert "Rank test of the runs: p = 0.00041 two-sided." in said.text
    assert said.allows.startswith("One may say that runs of a do better than runs of b on these")
    assert said.allows.endswith("It does not speak of other environments, nor of each of these.")
    turned = sentences.statements(comparison.compare(two_games([1, 2, 3], [4, 5, 6]), "a", "b"))[-1]
    assert "runs of b do better than runs of a" in turned.allows
    few = sentences.statements(comparison.compare(two_games([3, 4], [1, 2]), "a", "b"))[-1]
    assert "too few seeds" in few.allows
    assert "p would be 0.056" in few.allows
    mixed = comparison.compare(two_games([1, 4, 5, 8], [2, 3, 6, 7]), "a", "b")
    assert "neither is shown to be better" in sentences.statements(mixed)[-1].allows


def test_the_rank_test_is_adjusted_for_all_comparisons():
    means = {("b", "x"): [1, 2, 3, 4]}
    means |= {(agent, "x"): [5, 6, 7, 8] for agent in "acd"}
    made = comparison.compare_all(measured(means), "b")
    assert [c.adjusted_on_runs for c in made] == pytest.approx([3 * 2 / 70] * 3)
    said = sentences.statements(made[0])[-1]
    assert "p = 0.029 two-sided (0.086 adjusted for all comparisons here)." in said.text
    assert "neither is shown to be better" in said.allows


def test_raw_returns_are_compared_in_per_cent_of_the_baselines():
    means = {
        **{("a", "x"): [3.0, 5.0], ("b", "x"): [2.0, 2.0]},
        **{("a", "y"): [-5.0], ("b", "y"): [-10.0]},
        **{("a", "z"): [1.0], ("b", "z"): [0.0]},
    }
    made = comparison.compare(measured(means), "a", "b")
    assert [(i.environment, i.difference) for i in made.improvements] == [("x", 100), ("y", 50)]
    assert made.unit == "per cent of the mean return of b"
    assert made.on_games.wins == 3


def test_agents_without_a_game_in_common_are_not_compared():
    found = measured({("a", "x"): [1.0], ("b", "y"): [1.0]})
    assert comparison.compare_all(found, "b") == []
    assert tables.comparisons([]) is None


def test_a_line_of_the_table(ace):
    found = tables.comparisons([ace])
    line = dict(zip(found.columns, found.rows[0], strict=True))
    assert line["Better on pairs"].value == 100
    assert line["p of pairs, one-sided"].text == "0.016"
    assert line["p two-sided"].text == "0.29"
    assert found.row_agents == ("netd-ace",)


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "1"), (0.0312, "0.031"), (0.00012, "0.00012"), (1.5e-9, "1.5e-09")]
)
def test_p_values_have_two_digits(p, text):
    assert sentences.p_value(p) == text
