"""What is compared: by which episodes, on which scale, and which runs are left out."""

import dataclasses

import numpy as np
import pytest
import synthetic

from emphatic.errors import UserError
from emphatic.report import analysis, measures, overall, tables

BREAKOUT, ASTERIX, ALIEN = "minatar/breakout", "minatar/asterix", "atari/alien"


def collection(means, *, evaluated=True):
    """Of runs with these returns: agent and environment to a mean for each seed."""
    template = synthetic.summary("surreal", synthetic.GAMES[0], 0)
    runs = []
    for (agent, environment), of_seeds in means.items():
        for seed, mean in enumerate(of_seeds):
            returns = dataclasses.replace(template.evaluation, mean=float(mean))
            values = {
                "name": f"{environment}-{agent}-{seed}",
                "agent": agent,
                "environment": environment,
                "seed": seed,
                "evaluation": returns if evaluated else None,
                "training": dataclasses.replace(returns, mean=float(mean) - 0.5),
            }
            runs.append(dataclasses.replace(template, **values))
    return synthetic.collection(runs)


def without_evaluation(found, name):
    runs = [dataclasses.replace(r, evaluation=None) if r.name == name else r for r in found.runs]
    return dataclasses.replace(found, runs=tuple(runs))


TWO = {
    ("a", BREAKOUT): [10.0, 12.0],
    ("surreal", BREAKOUT): [5.0, 3.0],
    ("a", ASTERIX): [1.0, 3.0],
    ("surreal", ASTERIX): [2.0, 6.0],
}


def test_evaluation_where_all_runs_have_one():
    found = measures.measure(collection(TWO))
    assert found.measure == "evaluation"
    np.testing.assert_array_equal(found.returns("a", BREAKOUT), [10.0, 12.0])


def test_training_returns_where_none_or_only_some_were_evaluated():
    assert measures.measure(collection(TWO, evaluated=False)).measure == "training"
    some = without_evaluation(collection(TWO), f"{BREAKOUT}-a-0")
    found = measures.measure(some)
    assert found.measure == "training"
    np.testing.assert_array_equal(found.returns("a", BREAKOUT), [9.5, 11.5])
    assert "Only 7 of 8 runs were evaluated" in found.notes[0]


def test_runs_without_the_score_asked_for_are_named():
    some = without_evaluation(collection(TWO), f"{BREAKOUT}-a-0")
    found = measures.measure(some, score="evaluation")
    assert found.seeds("a", BREAKOUT) == {1}
    assert f"because they have no evaluation: {BREAKOUT}-a-0." in found.notes[0]
    with pytest.raises(UserError, match="no run has one of evaluation"):
        measures.measure(collection(TWO, evaluated=False), score="evaluation")


def test_runs_without_any_episode_still_make_a_report():
    """Of their curves and health; there is nothing to compare."""
    found = collection({("a", BREAKOUT): [1.0]})
    none = [dataclasses.replace(run, evaluation=None, training=None) for run in found.runs]
    analysed = analysis.analyse(dataclasses.replace(found, runs=tuple(none)))
    assert analysed.tables == analysed.charts == analysed.statements == ()
    assert "because they have no episode in their last tenth" in analysed.measured.notes[0]


def test_raw_returns_of_different_environments_are_not_added_up():
    found = measures.measure(collection(TWO))
    assert found.reference is None
    assert found.summed == ()
    assert tables.summary(found) is tables.intervals(found) is tables.game_scores(found) is None
    assert overall.profiles(found) is overall.median_curve(collection(TWO), found) is None
    assert any("no common scale" in note for note in found.notes)


def test_raw_returns_of_one_environment_are():
    one = collection({key: value for key, value in TWO.items() if key[1] == BREAKOUT})
    found = measures.measure(one)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in tables.summary(found).rows}
    assert rows["Mean"] == ["11.00", "4.00"]
    assert "Optimality gap" not in rows
    assert overall.profiles(found).x_label == "mean return"


def test_scores_relative_to_an_agent():
    found = measures.measure(collection(TWO), reference="surreal")
    assert found.reference.name == "relative to surreal"
    np.testing.assert_allclose(found.scores("a", BREAKOUT), [2.5, 3.0])
    summary = tables.summary(found)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in summary.rows}
    assert rows["Mean"] == ["162.50", "100.00"]
    assert rows["Games above surreal"] == ["1/2", "0/2"]
    assert summary.title == "Relative to surreal score, per cent, 2 games"


def test_scores_between_ends_from_a_file(tmp_path):
    file = tmp_path / "ends.csv"
    file.write_text(f"environment,low,high\n{BREAKOUT},0,20\n")
    found = measures.measure(collection(TWO), reference=str(file))
    assert found.summed == (BREAKOUT,)
    np.testing.assert_allclose(found.scores("a", BREAKOUT), [0.5, 0.6])
    assert any(f"which {ASTERIX} cannot be" in note for note in found.notes)


def test_human_scores_without_being_asked_where_there_are_any():
    found = measures.measure(collection({("a", ALIEN): [7127.7], ("a", ASTERIX): [3.0]}))
    assert found.reference.name == "human-normalised"
    assert found.summed == (ALIEN,)
    np.testing.assert_allclose(found.scores("a", ALIEN), [1.0])
    assert measures.measure(collection({("a", ALIEN): [1.0]}), reference="raw").reference is None


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("human", "none of the environments has human scores"),
        ("nobody", "must be human, raw, one of a, surreal or a file, not 'nobody'"),
    ],
)
def test_a_reference_that_is_none(reference, sentence):
    with pytest.raises(UserError, match=sentence):
        measures.measure(collection(TWO), reference=reference)


def test_games_that_not_all_agents_played_are_left_out_and_named():
    means = {key: value for key, value in TWO.items() if key != ("a", ASTERIX)}
    found = measures.measure(collection(means), reference="surreal")
    assert found.summed == (BREAKOUT,)
    assert any(f"Not all agents have runs of {ASTERIX}" in note for note in found.notes)
    assert found.games(["surreal"]) == (ASTERIX, BREAKOUT)


def test_of_more_seeds_of_one_game_the_lowest_are_summed_up():
    means = TWO | {("a", BREAKOUT): [10.0, 12.0, 100.0]}
    found = measures.measure(collection(means), reference="surreal")
    assert found.number_of_runs == {"a": 2, "surreal": 2}
    np.testing.assert_allclose(found.matrix("a"), [[0.25, 2.5], [0.75, 3.0]])
    assert any(f"a has 2 runs of every game and more of {BREAKOUT}" in n for n in found.notes)
    assert len(found.returns("a", BREAKOUT)) == 3


def test_a_single_seed_has_no_interval():
    one = measures.measure(collection({("a", BREAKOUT): [1.0], ("surreal", BREAKOUT): [2.0]}))
    assert tables.intervals(one) is None
    some = {("a", BREAKOUT): [1.0, 2.0], ("surreal", BREAKOUT): [2.0]}
    rows = tables.intervals(measures.measure(collection(some))).rows
    known = [[cell.value is not None for cell in row[3:]] for row in rows]
    assert known == [[True, True], [False, False]] * 2


def test_no_agent_is_best_alone():
    found = measures.measure(collection({("a", BREAKOUT): [1.0, 2.0]}))
    assert not any(cell.best for row in tables.summary(found).rows for cell in row)
    assert analysis.analyse(collection({("a", BREAKOUT): [1.0, 2.0]})).statements == ()


def test_curves_fill_what_no_episode_tells():
    """Before the first episode, its return; after the last, the last."""
    run = synthetic.summary("surreal", synthetic.GAMES[0], 0)
    none = (None,) * 5
    curve = dataclasses.replace(run.curve, mean_return=none + tuple(map(float, range(10))) + none)
    steps = synthetic.STEPS * np.array([0.01, 0.3, 0.5, 1.0])
    found = overall.smoothed(dataclasses.replace(run, curve=curve), steps)
    np.testing.assert_allclose(found, [0.0, 0.0, 4.0, 9.0])
    nothing = dataclasses.replace(run.curve, mean_return=(None,) * 20)
    assert np.isnan(overall.smoothed(dataclasses.replace(run, curve=nothing), steps)).all()


def test_runs_of_different_lengths_are_laid_beside_each_other_by_part():
    found = collection({("a", BREAKOUT): [1.0, 2.0]})
    half = dataclasses.replace(found.runs[0], steps_planned=10**9)
    found = dataclasses.replace(found, runs=(half, found.runs[1]))
    chart = overall.median_curve(found, measures.measure(found))
    assert chart.x_label == "part of the run"
    assert chart.series[0].x[-1] == pytest.approx(synthetic.STEPS / 10**9)
