"""Collecting runs from wherever they lie; every fault is a sentence and the rest is kept."""

import dataclasses
import json
import re

import made_runs
import numpy as np
import pytest

from emphatic.agent import presets
from emphatic.errors import UserError
from emphatic.report import folders, summaries
from emphatic.report.collect import collect, only, write_summaries
from emphatic.study import ledger, spec
from emphatic.study.spec import Study


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder with runs of two agents."""
    root = tmp_path_factory.mktemp("two")
    made_runs.make(root / "a" / "one", agent="netd-ace", seed=0, evaluated=0.9)
    made_runs.make(root / "b" / "c" / "other", agent="surreal", seed=0)
    return root


def test_a_run_is_summed_up(two):
    run = folders.summary(two / "a" / "one", "one")
    done = made_runs.UPDATES * made_runs.PER_UPDATE
    assert (run.environment, run.agent, run.seed) == ("catch", "netd-ace", 0)
    assert (run.steps, run.steps_planned, run.finished) == (done, done, True)
    assert run.evaluation.mean == 0.9
    assert run.command == ("emphatic", "train", "--agent", "netd-ace")
    assert (run.seconds, run.cpu_seconds) == (10.0, 20.0)


def test_where_a_command_wrote_is_no_part_of_it():
    words = ["report", "runs", "--out", "there", "--n", "--summaries=b", "--out=a", "3"]
    assert folders.without_places(words) == ("report", "runs", "--n", "3")


def test_training_return_is_of_the_episodes_of_the_last_tenth(two):
    run = folders.summary(two / "a" / "one", "one")
    updates = [u for u in range(271, 301) if u % 3]
    assert run.training.episodes == 2 * len(updates)
    assert run.training.steps == 270 * made_runs.PER_UPDATE
    assert run.training.mean == pytest.approx(np.mean(updates) / 300)
    returns = np.concatenate([[u / 450, u / 225] for u in updates])
    assert run.training.median == pytest.approx(np.median(returns))
    assert run.training.standard_deviation == pytest.approx(returns.std(ddof=1))


def test_without_recorded_episodes_the_mean_comes_from_the_metrics(tmp_path):
    made_runs.make(tmp_path / "run")
    (tmp_path / "run" / "episodes.jsonl").unlink()
    run = folders.summary(tmp_path / "run", "run")
    expected = np.mean([u for u in range(271, 301) if u % 3]) / 300
    assert run.training.mean == pytest.approx(expected, rel=1e-4)
    assert run.training.median is run.training.standard_error is None


def test_curves_are_thinned_and_lose_no_episode_and_no_maximum(two):
    run = folders.summary(two / "a" / "one", "one")
    assert len(run.curve.steps) == 200
    assert len(run.health.steps) == 50
    assert run.curve.steps[-1] == run.health.steps[-1] == run.steps
    assert max(run.health.emphasis_max[2]) == 93.0
    assert run.health.emphasis[0] == (1.0,) * 50
    assert run.curve.mean_return[0] == pytest.approx(1 / 300, rel=1e-4)


def test_a_stretch_without_episodes_has_no_return(tmp_path):
    made_runs.make(tmp_path / "run", updates=3)
    curve = folders.summary(tmp_path / "run", "run").curve
    assert curve.mean_return == (
        pytest.approx(1 / 300, rel=1e-4),
        pytest.approx(2 / 300, rel=1e-4),
        None,
    )


def test_a_curve_weighs_episodes_alike(tmp_path):
    made_runs.make(tmp_path / "run", updates=2)
    file = tmp_path / "run" / "metrics.jsonl"
    lines = [{**made_runs.line(i, 1.0), "episodes": n, "return": r} for i, n, r in FEW]
    file.write_text("".join(json.dumps(x) + "\n" for x in lines * 200))
    found = folders.summary(tmp_path / "run", "run").curve.mean_return
    assert found[0] == pytest.approx(4.0)


FEW = [(1, 3, 5.0), (2, 1, 1.0)]


def test_runs_are_found_three_levels_down(two):
    found = collect([two])
    assert [run.name for run in found.runs] == ["a/one", "b/c/other"]
    assert found.folders["b/c/other"] == two / "b" / "c" / "other"
    assert found.agents == ("netd-ace", "surreal")
    assert found.problems == ()
    assert [run.name for run in collect([two / "a" / "one"]).runs] == ["one"]


def test_runs_four_levels_down_are_not_looked_for(two, tmp_path):
    (tmp_path / "deep").symlink_to(two)
    assert [run.name for run in collect([tmp_path]).runs] == ["deep/a/one"]


def test_summaries_give_back_what_the_folders_gave(two, tmp_path):
    there = collect([two])
    files = write_summaries(there, tmp_path / "summaries")
    assert [file.name for file in files] == ["a--one.json", "b--c--other.json"]
    for given in ([tmp_path], [tmp_path / "summaries"], files):
        again = collect(given)
        assert again.runs == there.runs
        assert again.labels == there.labels
        assert again.folders == {}
    before = [file.read_bytes() for file in files]
    assert [f.read_bytes() for f in write_summaries(again, tmp_path / "again")] == before


def test_a_run_and_its_summary_count_once(two, tmp_path):
    write_summaries(collect([two]), tmp_path)
    both = collect([two, tmp_path])
    assert both.runs == collect([two]).runs
    assert both.problems == ()


def test_what_json_has_no_word_for_survives(two):
    run = folders.summary(two / "a" / "one", "one")
    endless = dataclasses.replace(run.health, gradient_norm=(float("inf"),) * 49 + (None,))
    run = dataclasses.replace(run, health=endless)
    assert summaries.decode(summaries.encode(run)) == run


def problems_of(folder):
    found = collect([folder])
    assert [run.name for run in found.runs] == ["good"]
    assert all(problem.count("\n") == 0 for problem in found.problems)
    return " ".join(found.problems)


def half_written(folder):
    (folder / "config.json").unlink()


def not_json(folder):
    (folder / "config.json").write_text("{")


def no_metrics(folder):
    (folder / "metrics.jsonl").write_text("")


def damaged_metrics(folder):
    (folder / "metrics.jsonl").write_text("{}\n}\n")


def other_metrics(folder):
    (folder / "metrics.jsonl").write_text('{"update": 1, "steps": 3}\n')


def damaged_evaluation(folder):
    (folder / "evaluation.json").write_text('{"mean": 1}')


def wrong_evaluation(folder):
    (folder / "evaluation.json").write_text("[]")


def metrics_of(folder, **changed):
    """The last line of the metrics, with other values."""
    file = folder / "metrics.jsonl"
    lines = [json.loads(x) for x in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(x) + "\n" for x in [*lines[:-1], lines[-1] | changed]))


def steps_in_words(folder):
    metrics_of(folder, steps="many")


def heads_that_come_and_go(folder):
    metrics_of(folder, kl=[0.0])


def endless_steps(folder):
    metrics_of(folder, steps=10**400)


def boundless_return(folder):
    made_runs.evaluation(folder, 1e300, steps=1)


def name_of_a_number(folder):
    document = json.loads((folder / "config.json").read_bytes())
    document["config"]["env"] = 5
    (folder / "config.json").write_text(json.dumps(document))


def no_learner(folder):
    document = json.loads((folder / "config.json").read_bytes())
    del document["config"]["learner"]
    (folder / "config.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (half_written, "bad is half-written: it has no config.json; left out."),
        (not_json, "config.json is not JSON"),
        (no_metrics, "bad has no metrics yet; left out."),
        (damaged_metrics, "metrics.jsonl, line 2, is damaged; left out."),
        (other_metrics, "bad lacks what a run has: 'episodes'; left out."),
        (damaged_evaluation, "evaluation.json cannot be read"),
        (wrong_evaluation, "evaluation.json cannot be read"),
        (no_learner, "bad lacks what a run has: 'learner'; left out."),
        (steps_in_words, "bad holds what no run has ("),
        (heads_that_come_and_go, "bad holds what no run has ("),
        (endless_steps, "bad holds what no run has (int too large"),
        (boundless_return, "bad holds what no run has: evaluation.mean is a number that no run"),
        (name_of_a_number, "bad holds what no run has"),  # By the checks of types, in tests.
    ],
)
def test_a_broken_run_is_a_sentence_and_the_rest_stays(tmp_path, break_it, sentence):
    made_runs.make(tmp_path / "good", updates=3)
    made_runs.make(tmp_path / "bad", agent="surreal", updates=3)
    break_it(tmp_path / "bad")
    assert sentence in problems_of(tmp_path)


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    made_runs.make(tmp_path / "run", updates=3)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"update": 4, "st')
    assert collect([tmp_path]).runs[0].steps == 3 * made_runs.PER_UPDATE


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "json: cannot be read"),
        ("{}", "holds no summary of a run"),
        ('{"run_summary": 99}', "is not of this version"),
        (
            '{"run_summary": 1, "name": "x"}',
            "summary.curve: must have the fields steps, mean_return; left out",
        ),
    ],
)
def test_a_broken_summary_is_a_sentence(two, tmp_path, content, sentence):
    folder = tmp_path / "summaries"
    write_summaries(collect([two]), folder)
    (folder / "broken.json").write_text(content)
    found = collect([tmp_path])
    assert len(found.runs) == 2
    assert [sentence in problem for problem in found.problems] == [True]


def shorter(document):
    document["curve"]["steps"].pop()


def words(document):
    document["health"]["kl"][0][3] = "a"


def flat(document):
    document["health"]["kl"][0] = 1.0


def without_a_step(document):
    document["curve"]["steps"][0] = None


def no_environment(document):
    del document["environment"]


def wrong_seed(document):
    document["seed"] = "0"


def no_steps_at_all(document):
    document["curve"] = {"steps": [], "mean_return": []}


def steps_before_the_first(document):
    document["health"]["steps"][0] = -1


def whole_number_beyond_floats(document):
    document["health"]["gradient_norm"][0] = 2**60


def less_than_nothing(document):
    document["steps"] = -1


def nothing_planned(document):
    document["steps_planned"] = 0


def no_episode(document):
    document["evaluation"]["episodes"] = 0


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (no_steps_at_all, "summary.curve.steps: are none, or numbers that no run has"),
        (steps_before_the_first, "summary.health.steps: are none, or numbers that no run has"),
        (whole_number_beyond_floats, "summary.health.gradient_norm: has a number that no run has"),
        (less_than_nothing, "summary.steps: is a number that no run has"),
        (nothing_planned, "summary.steps_planned: is a number that no run has"),
        (no_episode, "summary.evaluation.episodes: is a number that no run has"),
        (shorter, "summary.curve: has curves of different lengths"),
        (words, "summary.health.kl: must be numbers, not 'a'"),
        (flat, "summary.health.kl: must be a list, not 1.0"),
        (without_a_step, "summary.curve.steps: must be numbers, not None"),
        (no_environment, "summary.environment: is missing"),
        (wrong_seed, "summary.seed: must be a whole number, not '0'"),
    ],
)
def test_a_summary_is_checked_to_its_last_number(two, break_it, sentence):
    document = json.loads(summaries.encode(collect([two]).runs[0]))
    break_it(document)
    with pytest.raises(UserError, match=re.escape(sentence)):
        summaries.decode(json.dumps(document).encode())


def test_nothing_there_is_a_sentence(tmp_path, two):
    empty = tmp_path / "empty"
    empty.mkdir()
    found = collect([two, empty, tmp_path / "nowhere"])
    assert len(found.runs) == 2
    assert found.problems == (
        f"{empty}: the folder has no runs.",
        f"{tmp_path / 'nowhere'} does not exist.",
    )


def test_runs_that_do_not_belong_together_are_named(tmp_path):
    made_runs.make(tmp_path / "old", seed=0, updates=3, versions={"jax": "0.9"}, evaluated=1.0)
    made_runs.make(tmp_path / "new", seed=1, versions={"jax": "0.10"})
    made_runs.evaluation(tmp_path / "new", 1.0, steps=100, episodes=7)
    found = " ".join(collect([tmp_path]).problems)
    assert "The runs are of different versions of jax: 0.10, 0.9." in found
    assert "Not finished, and counted as far as they got: old (960 of 96,000 steps)." in found
    assert "Evaluated before the end of training: new." in found
    assert "The evaluations are of different numbers of episodes: 7, 100." in found


def test_variants_of_an_agent_are_told_apart_by_what_differs(tmp_path):
    usual = presets.preset("catch", "netd-ace")
    other = dataclasses.replace(usual, entropy_cost=0.5)
    made_runs.make(tmp_path / "usual", learner=usual, updates=3)
    made_runs.make(tmp_path / "other", learner=other, updates=3)
    made_runs.make(tmp_path / "plain", agent="surreal", updates=3)
    found = collect([tmp_path])
    assert found.agents == (
        "netd-ace (entropy_cost=0.01)",
        "netd-ace (entropy_cost=0.5)",
        "surreal",
    )
    assert found.differing["learner.entropy_cost"]["other"] == 0.5
    assert "learner.n" not in found.differing
    assert [run.name for run in only(found, ["surreal"]).runs] == ["plain"]


def test_settings_that_suit_each_environment_make_no_variants(tmp_path):
    usual = presets.preset("catch", "netd-ace")
    other = dataclasses.replace(usual, entropy_cost=0.5)
    made_runs.make(tmp_path / "here", env="catch", learner=usual, updates=3)
    made_runs.make(tmp_path / "there", env="minatar/breakout", learner=other, updates=3)
    assert collect([tmp_path]).agents == ("netd-ace",)


def test_of_the_same_seed_twice_the_one_that_got_further_counts(tmp_path):
    made_runs.make(tmp_path / "short", updates=3)
    made_runs.make(tmp_path / "long", updates=5)
    found = collect([tmp_path])
    assert [run.name for run in found.runs] == ["long"]
    assert (
        "short and long are the same agent, environment and seed; short is left out."
        in " ".join(found.problems)
    )


def test_equal_names_stay_apart(tmp_path):
    made_runs.make(tmp_path / "a" / "run", seed=0, updates=3)
    made_runs.make(tmp_path / "b" / "run", seed=1, updates=3)
    found = collect([tmp_path / "a", tmp_path / "b"])
    assert [run.name for run in found.runs] == ["run", "run (2)"]
    assert found.folders["run (2)"] == tmp_path / "b" / "run"


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned = Study(environments=("catch",), agents={"netd-ace": 2, "surreal": 1}, preset="catch")
    folder = spec.locate("small")
    spec.create(folder, planned)
    return folder


def test_a_study_by_its_name_with_what_is_missing_and_what_failed(study):
    made_runs.make(study / "runs" / "catch-netd-ace-seed0", updates=3)
    (study / "attempts").mkdir(exist_ok=True)
    for _ in range(2):
        ledger.record(study, "catch-surreal-seed0", "started")
        ledger.record(study, "catch-surreal-seed0", "failed", error="OSError: disk full")
    found = collect(["small"])
    assert [run.name for run in found.runs] == ["catch-netd-ace-seed0"]
    assert found.problems[:2] == (
        "small: 2 of 3 runs of the study are missing: catch-surreal-seed0, catch-netd-ace-seed1.",
        "catch-surreal-seed0 failed, tried twice: OSError: disk full.",
    )


def test_a_failure_that_was_made_good_is_not_told(study):
    """By whoever trained and evaluated the run since."""
    folder = study / "runs" / "catch-surreal-seed0"
    made_runs.make(folder, agent="surreal")
    (study / "attempts").mkdir(exist_ok=True)
    ledger.record(study, "catch-surreal-seed0", "failed", error="OSError: disk full")
    failed = "catch-surreal-seed0 failed, tried 0 times: OSError: disk full."
    assert failed in collect([study]).problems
    made_runs.evaluation(folder, 0.5, steps=made_runs.UPDATES * made_runs.PER_UPDATE)
    assert failed not in collect([study]).problems


def test_a_run_named_in_unprintable_characters_has_a_file(two, tmp_path):
    found = collect([two])
    odd = dataclasses.replace(found.runs[0], name="a/\ud800\n")
    [file, _] = write_summaries(
        dataclasses.replace(found, runs=(odd, found.runs[1])), tmp_path / "summaries"
    )
    assert file.name == "a--__.json"


def test_an_empty_study_is_a_sentence(study):
    found = collect([study])
    assert found.runs == ()
    assert found.problems == (f"{study}: the study has no runs.",)


def test_a_study_with_a_broken_description_still_has_its_runs(study):
    made_runs.make(study / "runs" / "catch-netd-ace-seed0")
    (study / "study.json").write_text("{")
    found = collect([study])
    assert len(found.runs) == 1
    assert "study.json is not JSON" in found.problems[0]
