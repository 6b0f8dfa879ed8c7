"""A training run: its files, and the commands around it; tests/faults kills and signals it."""

import json
import os
import subprocess
import sys

import pytest
from processes import finished

from emphatic import cli
from emphatic.agent import presets
from emphatic.commands import parsing, train
from emphatic.errors import UserError
from emphatic.runtime import configs, runs, settings, training
from emphatic.runtime.settings import TrainConfig

ARGUMENTS = ["--env", "catch", "--agent", "netd-ace", "--steps", "128000", "--seed", "3"]
ARGUMENTS += ["--log-every", "20", "--checkpoint-every", "40", "--settings", "time_limit=7"]


CONTROL = ["--agent", "surreal-constant"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One compilation cache for all processes of this module."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def uninterrupted(cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    code, output = finished(cache, "train", *ARGUMENTS, "--out", path)
    assert code == 0, output
    return path


@pytest.mark.slow
def test_run_learns_and_can_be_evaluated_and_watched(cache, tmp_path):
    path = tmp_path / "run"
    code, output = finished(cache, "train", "--env", "catch", "--steps", 160_000, "--out", path)
    assert code == 0, output
    code, output = finished(cache, "evaluate", path, "--episodes", 50)
    assert code == 0, output
    evaluation = json.loads((path / "evaluation.json").read_text())
    assert evaluation["episodes"] == len(evaluation["returns"]) == 50
    assert evaluation["mean"] > 0.9
    code, output = finished(cache, "watch", path)
    assert code == 0, output
    assert (path / "watch.gif").read_bytes().startswith(b"GIF8")
    assert (path / "learning_curve.png").stat().st_size > 10_000
    code, output = finished(cache, "watch", path, "--out", tmp_path / "film.webm")
    assert code == 2
    assert "out" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_metrics_sum_up_episodes(uninterrupted):
    """Each line's return is the mean of the returns its episodes were recorded with."""
    episodes = {line["update"]: line for line in runs.read_episodes(uninterrupted)}
    lines = runs.read_metrics(uninterrupted)
    assert [line["update"] for line in lines] == list(range(20, 401, 20))
    for line in lines:
        returns = episodes[line["update"]]["returns"]
        assert line["episodes"] == len(returns)
        assert line["return"] == pytest.approx(sum(returns) / len(returns), abs=1e-6)
        assert all(n <= 7 for n in episodes[line["update"]]["lengths"])
    assert lines[-1]["skipped_update"] == 0


@pytest.mark.slow
def test_a_run_says_what_its_names_stand_for(uninterrupted):
    config = training.stored_config(uninterrupted)
    assert runs.read_config(uninterrupted)["resolved"] == settings.resolved(config)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--env", "minatar/tetris"], "env"),
        (["--agent", "sarsa"], "agent"),
        (["--preset", "huge"], "preset"),
        (["--preset", "paper-fixed", "--agent", "wetd"], "preset"),
        (["--agent", "wetd", "--n", "7"], "unroll_length"),
        (["--beta", "0.9"], "beta"),
        (["--discounts", "1.0", "0.9"], "discounts"),
        (["--steps", "0"], "steps"),
        (["--devices", "3"], "num_streams"),
        (["--settings", "sticky_actions"], "settings"),
        (["--settings", "sticky_actions=2"], "sticky_actions"),
        (["--settings", "wind=2"], "wind"),
        (["--optimiser.learning-rate", "-1"], "learning_rate"),
        (["--network.name", "transformer"], "network.name"),
        (["--resume", "nowhere"], "run"),
        (["--resume", "nowhere", "--steps", "5"], "resume"),
        (["--resume"], "resume"),
        (["--preset"], "preset"),
        (["--preset", ""], "preset"),
        (["--seed", "4294967295", "--seeds", "2"], "seed"),
        (["--constant-from", "nowhere"], "constant_from"),
        ([*CONTROL, "--constant", "3", "--constant-from", "nowhere"], "constant"),
        ([*CONTROL, "--constant=1.0", "--constant_from=nowhere"], "constant"),
    ],
)
def test_mistakes_get_one_sentence(arguments, field, tmp_path, monkeypatch, capsys):
    """Exit code 2, the field named, nothing written, before any compute."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"emphatic: {field}: ")
    assert "\n" not in error
    assert list(tmp_path.iterdir()) == []


def trained(path, agent, *lines):
    """A run of that agent with these lines of metrics."""
    config = configs.to_json(TrainConfig(env="catch", learner=presets.catch(agent)))
    given = {"environment": {}, "seed": 0, "command": [], "created": ""}
    with runs.Run.create(path, config, **given) as run:
        run.metrics.append(*lines)
    return path


def test_a_control_has_the_scheme_of_its_run(tmp_path):
    """One constant for all auxiliary heads; a run of the other scheme is told from it."""
    emphasis = {"emphasis": [1.0, 2.0, 3.0]}
    fixed, mixed = (trained(tmp_path / name, name, emphasis) for name in ("netd-ace", "wetd-ace"))
    given = {"surreal-constant": (fixed, mixed), "surreal-constant-mixed": (mixed, fixed)}
    for control, (right, wrong) in given.items():
        arguments = ["--env", "catch", "--agent", control, "--constant-from"]
        options = parsed([*arguments, str(right)])
        assert train._config(options).learner.constant == 2.5
        with pytest.raises(UserError, match=f"constant_from: .* not {control}$"):
            train._config(parsed([*arguments, str(wrong)]))


def parsed(arguments):
    return parsing.parsed(train.Options, "train", arguments, default=train._defaults(arguments))


@pytest.mark.slow
def test_constant_is_taken_from_a_run(cache, uninterrupted, tmp_path):
    """The control weighs with the mean emphasis of the run it is the control of."""
    path = tmp_path / "control"
    arguments = ["--env", "catch", "--agent", "surreal-constant", "--steps", 6400]
    code, output = finished(
        cache, "train", *arguments, "--constant-from", uninterrupted, "--out", path
    )
    assert code == 0, output
    learned = [x for line in runs.read_metrics(uninterrupted) for x in line["emphasis"][1:]]
    constant = runs.read_config(path)["config"]["learner"]["constant"]
    assert constant == pytest.approx(sum(learned) / len(learned), abs=1e-4)
    wanted = pytest.approx([1.0, constant, constant], rel=1e-5)  # A mean, weighed in float32.
    assert runs.read_metrics(path)[-1]["emphasis"] == wanted


@pytest.mark.slow
def test_four_devices_compute_what_one_does(tmp_path):
    """Forced host devices: the same returns and, within float tolerance, the same numbers."""
    found = []
    for devices in (1, 4):
        path = tmp_path / f"on{devices}"
        flags = f"--xla_force_host_platform_device_count={devices}"
        arguments = ["--env", "catch", "--agent", "netd-ace", "--steps", "12800"]
        arguments += ["--devices", str(devices), "--log-every", "5"]
        subprocess.run(
            [sys.executable, "-m", "emphatic", "train", *arguments, "--out", str(path)],
            env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "EMPHATIC_CACHE": ""},
            check=True,
            capture_output=True,
            timeout=300,
        )
        found.append(runs.read_metrics(path))
    for one, four in zip(*found, strict=True):
        assert one["episodes"] == four["episodes"]
        for name in ("return", "emphasis", "value_loss", "gradient_norm", "kl"):
            assert four[name] == pytest.approx(one[name], rel=2e-3, abs=1e-5)


def test_config_goes_to_json_and_back():
    config = TrainConfig(env="catch", env_settings={"time_limit": 5}, steps=7)
    data = json.loads(json.dumps(configs.to_json(config)))
    assert configs.from_json(TrainConfig, data) == config


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["steps"], "many", "config.steps"),
        (["steps"], True, "config.steps"),
        (["learner", "n"], 2.5, "config.learner.n"),
        (["learner", "reward"], "doubled", "config.learner.reward"),
        (["learner", "discounts"], [0.9, "x"], "config.learner.discounts[1]"),
        (["learner", "optimiser"], None, "config.learner.optimiser"),
        (["learner", "colour"], 1, "config.learner.colour"),
    ],
)
def test_damaged_config_is_named(path, value, field):
    data = json.loads(json.dumps(configs.to_json(TrainConfig())))
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(UserError) as error:
        configs.from_json(TrainConfig, data)
    assert error.value.field == field


def test_missing_field_is_named():
    data = configs.to_json(TrainConfig())
    del data["learner"]["n"]
    with pytest.raises(UserError) as error:
        configs.from_json(TrainConfig, data)
    assert error.value.field == "config.learner.n"
