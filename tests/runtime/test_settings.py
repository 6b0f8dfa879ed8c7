"""What a configuration's names stand for is written down, and compared before a run goes on."""

import copy

import pytest

from emphatic.agent import networks, presets
from emphatic.agent.networks import Architecture, Conv, NetworkConfig
from emphatic.agent.surreal import AgentConfig
from emphatic.errors import UserError
from emphatic.runtime import configs, runs, settings, training
from emphatic.runtime.settings import TrainConfig

CONFIG = TrainConfig(env="catch", learner=presets.catch())


def test_a_network_is_resolved_layer_by_layer():
    config = TrainConfig(learner=AgentConfig(network=NetworkConfig(name="small", head_hidden=7)))
    assert settings.resolved(config) == {
        "network": {
            "torso": [
                {"kind": "conv", "channels": 16, "kernel": 8, "stride": 4},
                {"kind": "conv", "channels": 32, "kernel": 4, "stride": 2},
            ],
            "dense": [256],
            "head_hidden": 7,
            "weights": "orthogonal",
            "policy_gain": 0.01,
        }
    }


def create(path, resolved):
    data = configs.to_json(CONFIG)
    given = {"environment": {}, "seed": 0, "command": [], "created": "", "resolved": resolved}
    runs.Run.create(path, data, **given).close()


def test_a_run_whose_network_has_changed_since_does_not_go_on(tmp_path, monkeypatch):
    create(tmp_path / "run", settings.resolved(CONFIG))
    assert training.stored_config(tmp_path / "run") == CONFIG
    changed = networks.ARCHITECTURES["mlp"]._replace(dense=(32, 32))
    monkeypatch.setitem(networks.ARCHITECTURES, "mlp", changed)
    with pytest.raises(UserError, match=r"'mlp' had 'dense' \[64, 64\] .* has \[32, 32\]") as error:
        training.resume(tmp_path / "run", progress=lambda *_: None)
    assert error.value.field == "network"
    assert "\n" not in str(error.value)


def test_how_a_network_is_computed_is_no_part_of_what_it_is(monkeypatch):
    before = settings.resolved(CONFIG)
    faster = networks.ARCHITECTURES["mlp"]._replace(microbatch=3, recompute=True)
    monkeypatch.setitem(networks.ARCHITECTURES, "mlp", faster)
    settings.check_resolved(before, CONFIG)


def test_a_run_that_does_not_tell_is_taken_as_it_is(tmp_path):
    create(tmp_path / "run", None)
    assert training.stored_config(tmp_path / "run") == CONFIG


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network.pop("weights"),
        lambda network: network.update(head_hidden=65),
        lambda network: network.update(activation="tanh"),
        lambda network: network["dense"].append(1),
    ],
)
def test_any_difference_is_told(change):
    stored = copy.deepcopy(settings.resolved(CONFIG))
    change(stored["network"])
    with pytest.raises(UserError, match="in this version of emphatic"):
        settings.check_resolved(stored, CONFIG)


@pytest.mark.parametrize("stored", [3, [], {}, {"network": "mlp"}, {"network": []}])
def test_what_is_no_network_is_a_sentence(stored):
    with pytest.raises(UserError, match="network: 'mlp' had"):
        settings.check_resolved(stored, CONFIG)


def test_every_network_can_be_written_down():
    for name, design in networks.ARCHITECTURES.items():
        assert isinstance(design, Architecture)
        config = TrainConfig(learner=AgentConfig(network=NetworkConfig(name=name)))
        torso = settings.resolved(config)["network"]["torso"]
        kinds = ["conv" if isinstance(layer, Conv) else "section" for layer in design.torso]
        assert [layer["kind"] for layer in torso] == kinds
