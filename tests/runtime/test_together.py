"""Several seeds as one program: each is the run it would be alone, to rounding."""

import dataclasses
import json
import os
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import cli
from emphatic.agent import presets
from emphatic.errors import UserError
from emphatic.evaluation import episodes as evaluation
from emphatic.runtime import anakin, runs, together, training
from emphatic.runtime.settings import TrainConfig

SEEDS = (4, 5)
CONFIG = TrainConfig(
    env="catch",
    learner=presets.catch("netd-ace"),
    steps=25_600,
    log_every=20,
    checkpoint_every=20,
    env_settings={"time_limit": 7},
)


def paths_in(folder):
    return {seed: folder / f"seed{seed}" for seed in SEEDS}


def trained(folder, progress=lambda line, seconds: None, config=CONFIG):
    folder.mkdir(exist_ok=True)
    given = {"command": ["test"], "created": "now", "progress": progress}
    return together.train(paths_in(folder), config, **given)


def bytes_of(folder):
    """What must not depend on interruptions, of every run."""
    found = {}
    for path in paths_in(folder).values():
        last = max((path / "checkpoints").iterdir())
        for file in (path / "metrics.jsonl", path / "episodes.jsonl", last / "arrays.bin"):
            found[path.name, file.name] = file.read_bytes()
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together") / "whole"
    outcomes = trained(folder)
    assert [outcome.finished for outcome in outcomes] == [True, True]
    return folder


def test_each_seed_is_the_run_it_would_be_alone():
    """Ten updates: the same actions and episodes, parameters equal to rounding."""
    made = training.parts(CONFIG)
    alone = anakin.build(made.learner, made.environment)
    runtime = together.build(CONFIG, len(SEEDS))
    keys = jnp.stack([jax.random.key(seed) for seed in SEEDS])
    states, report = runtime.run(runtime.init(keys), 10)
    for i, seed in enumerate(SEEDS):
        state, lone = alone.run(alone.init(jax.random.key(seed)), 10)
        np.testing.assert_array_equal(report.episode_return[i], lone.episode_return)
        params = jax.tree.map(lambda x, i=i: x[i], states.learner.params)
        for got, wanted in zip(
            jax.tree.leaves(params), jax.tree.leaves(state.learner.params), strict=True
        ):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)


def test_two_devices_compute_what_one_does(whole, tmp_path):
    """Seeds lie on devices of their own and exchange nothing."""
    config = dataclasses.replace(CONFIG, devices=2, steps=3200, log_every=10)
    trained(tmp_path / "two", config=config)
    trained(tmp_path / "one", config=dataclasses.replace(config, devices=1))
    for path in paths_in(tmp_path / "one").values():
        ours = runs.read_metrics(tmp_path / "two" / path.name)
        for line, other in zip(runs.read_metrics(path), ours, strict=True):
            assert line["return"] == other["return"]
            np.testing.assert_allclose(line["loss"], other["loss"], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("lost", [None, 5])
def test_resumed_runs_are_those_never_interrupted(whole, tmp_path, lost):
    """Stopped by a signal; once also as if killed when only one run had its checkpoint."""

    def stop(line, seconds):
        if line["update"] == 40:
            os.kill(os.getpid(), signal.SIGTERM)

    outcomes = trained(tmp_path, progress=stop)
    assert not outcomes[0].finished
    if lost is not None:
        newest = max((tmp_path / f"seed{lost}" / "checkpoints").iterdir())
        assert int(newest.name) > 20
        shutil.rmtree(newest)
    folders = list(paths_in(tmp_path).values())
    outcomes = together.resume(folders, progress=lambda line, seconds: None)
    assert outcomes[0].finished
    assert bytes_of(tmp_path) == bytes_of(whole)


def test_progress_is_the_mean_over_seeds(tmp_path):
    told = []
    trained(tmp_path, progress=lambda line, seconds: told.append(line))
    lines = [runs.read_metrics(path) for path in paths_in(tmp_path).values()]
    assert len(told) == len(lines[0])
    for line, *each in zip(told, *lines, strict=True):
        assert line["return"] == pytest.approx(np.mean([run["return"] for run in each]))


def test_one_of_them_is_not_resumed_alone(whole, tmp_path):
    with pytest.raises(UserError, match="2 runs begun together"):
        training.resume(whole / "seed4", progress=lambda line, seconds: None)
    shutil.copytree(whole / "seed4", tmp_path / "moved")
    with pytest.raises(UserError, match="begun together with 1 others"):
        together.resume([tmp_path / "moved"], progress=lambda line, seconds: None)
    shutil.copytree(whole / "seed4", tmp_path / "seed4")
    with pytest.raises(UserError, match="seed5 is gone"):
        together.resume([tmp_path / "seed4"], progress=lambda line, seconds: None)


def test_a_folder_that_a_kill_kept_from_being_made_is_made(whole, tmp_path, monkeypatch):
    """The first run has its folder, the second one not yet."""
    create = runs.Run.create

    def first_alone(path, *given, **named):
        if path.name == "seed5":
            raise KeyboardInterrupt
        return create(path, *given, **named)

    with monkeypatch.context() as killed:
        killed.setattr(together.Run, "create", first_alone)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["seed4"]
    outcomes = together.resume([tmp_path / "seed4"], progress=lambda line, seconds: None)
    assert [outcome.finished for outcome in outcomes] == [True, True]
    assert bytes_of(tmp_path) == bytes_of(whole)


def test_runs_that_differ_are_not_resumed_together(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "other")
    file = tmp_path / "other" / "seed5" / "config.json"
    document = json.loads(file.read_bytes())
    document["config"]["steps"] = 51_200
    file.write_text(json.dumps(document))
    folders = [tmp_path / "other" / f"seed{seed}" for seed in SEEDS]
    with pytest.raises(UserError, match="differ in more than the seed"):
        together.resume(folders, progress=lambda line, seconds: None)


def test_environments_on_the_host_are_not_run_together(tmp_path, capsys):
    arguments = ["train", "--env", "gymnasium:CartPole-v1", "--seeds", "2"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments, "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("emphatic: seeds: ")
    assert not (tmp_path / "out").exists()


def test_from_the_command_line(tmp_path, capsys):
    """A folder with a run a seed; resuming names the folder."""
    out = tmp_path / "out"
    arguments = ["--env", "catch", "--seeds", "2", "--seed", "9", "--steps", "6400"]
    cli.main(["train", *arguments, "--out", str(out)])
    assert sorted(path.name for path in out.iterdir()) == ["seed10", "seed9"]
    assert (out / "seed10" / "learning_curve.png").exists()
    before = (out / "seed9" / "metrics.jsonl").read_bytes()
    cli.main(["train", "--resume", str(out)])
    assert (out / "seed9" / "metrics.jsonl").read_bytes() == before
    assert f"emphatic evaluate {out / 'seed9'}" in capsys.readouterr().out


def test_nothing_is_compiled_after_the_first_call():
    runtime = together.build(CONFIG, len(SEEDS))
    keys = jnp.stack([jax.random.key(seed) for seed in SEEDS])
    state, _ = runtime.run(runtime.init(keys), 2)
    for _ in range(2):
        state, _ = runtime.run(state, 2)
    assert runtime.compiled._cache_size() == 1


def test_evaluated_together_is_evaluated_alone(whole, tmp_path):
    """The same episodes: their returns do not hang on a product's rounding here."""
    folders = []
    for seed in SEEDS:
        shutil.copytree(whole / f"seed{seed}", tmp_path / f"seed{seed}")
        folders.append(tmp_path / f"seed{seed}")
    evaluation.evaluate_together(folders, 20, seeds=SEEDS)
    for folder, seed in zip(folders, SEEDS, strict=True):
        written = json.loads((folder / "evaluation.json").read_bytes())
        assert written == evaluation.evaluate(folder, 20, seed=seed)
