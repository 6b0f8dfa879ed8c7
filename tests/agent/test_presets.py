"""Presets: the paper's to the letter, each for every agent of its scheme, the page true."""

import re
from pathlib import Path

import numpy as np
import pytest

from emphatic.agent import presets
from emphatic.agent.agents import AGENTS
from emphatic.agent.surreal import AgentConfig
from emphatic.commands import train
from emphatic.errors import UserError
from emphatic.runtime import configs, settings
from emphatic.runtime.settings import TrainConfig

PAGE = Path(__file__).parents[2] / "docs" / "agent.md"
IN_SCHEME = {"fixed": "netd-ace", "mixed": "wetd-ace"}


def configured(*given):
    arguments = list(given)
    options = train.parsing.parsed(
        train.Options, "train", arguments, default=train._defaults(arguments)
    )
    return train._config(options)


def flat(config):
    """Fields by dotted name."""
    data = configs.to_json(config)
    inner = {name: data.pop(name) for name in ("optimiser", "network")}
    return data | {f"{name}.{field}": x for name in inner for field, x in inner[name].items()}


# Jiang et al. 2021, appendix "Hyperparameters", its two tables, as (fixed, mixed).
IN_THE_APPENDIX = {
    "optimiser.learning_rate": (2e-4, 6e-4),
    "optimiser.end_learning_rate": (0.0, 0.0),
    "optimiser.decay": (0.99, 0.99),
    "optimiser.epsilon": (0.1, 0.1),
    "optimiser.max_gradient_norm": (1.0, 0.3),
    **dict.fromkeys(("clip_rho", "clip_c", "clip_pg_rho", "clip_trace"), (1.0, 1.0)),
    **dict.fromkeys(("n", "unroll_length"), (10, 40)),
    "num_streams": (18, 18),
    "discounts": (tuple(1 / (1 + np.exp(-np.array([4.6, 4.4, 4.2])))),) * 2,
    "network.name": ("paper", "paper"),
}
# Algorithm 3, and IMPALA, whose parameters "most of the hyperparameters follow".
INHERITED = {
    "reduction": "mean",
    "policy_cost": 1.0,
    "value_cost": 0.5,
    "entropy_cost": 0.01,
    "reward": "clip",
    "optimiser.momentum": 0.0,
}
NOT_IN_THE_PAPER = {
    **{"lambda_": 1.0, "eta": 1.0, "constant": 1.0, "optimiser.epsilon_inside_root": True},
    **dict.fromkeys(("beta", "bound", "bound_recursion")),
    **dict.fromkeys(("network.head_hidden", "network.weights", "network.policy_gain")),
    **dict.fromkeys(("network.microbatch", "network.recompute")),
    "network.copy_main": False,
}


@pytest.mark.parametrize("scheme", IN_SCHEME)
def test_the_papers_presets_are_the_appendix(scheme):
    """Every field has a source, and the value that stands there."""
    config = presets.preset(f"paper-{scheme}", IN_SCHEME[scheme])
    column = ("fixed", "mixed").index(scheme)
    wanted = {field: values[column] for field, values in IN_THE_APPENDIX.items()}
    wanted |= INHERITED | NOT_IN_THE_PAPER | {"agent": IN_SCHEME[scheme]}
    found = flat(config)
    np.testing.assert_allclose(found.pop("discounts"), wanted.pop("discounts"), rtol=1e-12)
    assert found == wanted


def test_the_papers_network_is_the_appendix():
    network = settings.resolved(TrainConfig(learner=presets.paper_fixed()))["network"]
    assert [layer["channels"] for layer in network["torso"]] == [64, 128, 128, 64]
    assert [layer["blocks"] for layer in network["torso"]] == [2, 2, 2, 2]
    assert {layer["kind"] for layer in network["torso"]} == {"section"}
    assert (network["dense"], network["head_hidden"]) == ([], 512)


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        (["--preset", "paper-fixed", "--env", "atari/pong"], 50_000_000),
        (["--preset", "paper-mixed"], 50_000_000),
        (["--preset", "paper-fixed", "--steps", "7"], 7),
        (["--preset", "demo"], 4_000_000),
        (["--env", "atari/pong"], 5_000_000),
    ],
)
def test_a_preset_has_its_number_of_steps(given, steps):
    """The paper's is 200e6 frames, four a step; the learning rate goes to 0 over them."""
    assert configured(*given).steps == steps


def tables():
    """Of the page's two tables of presets: preset to its fields and what the cells say."""
    found = {}
    for table in re.findall(r"^\| field \|.*\n\|[-|]+\|\n(?:\|.*\n)+", PAGE.read_text(), re.M):
        head, _, *rows = [
            [cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()
        ]
        for row in rows:
            cells = [row[1] if cell == "same" else cell for cell in row[1:]]
            for field in re.findall(r"`([\w.]+)`", row[0]) if row[0] != "for" else ():
                for name, cell in zip(head[1:], cells, strict=True):
                    if name != "source":
                        found.setdefault(name, {})[field] = cell
    return found


def value(cell, scheme):
    """What a cell says for agents of that scheme."""
    plain, mixed = re.fullmatch(r"(.*?)(?: \(mixed: (.*)\))?", cell).groups()
    text = mixed if mixed and scheme == "mixed" else plain
    words = {"yes": True, "the network's": None}
    if text in words:
        return words[text]
    numbers = [float(x) for x in re.findall(r"[\d.]+(?:e-?\d+)?", text.replace(",000", "000"))]
    if text.startswith("σ"):
        return tuple(1 / (1 + np.exp(-np.array(numbers))))
    return text if not numbers else numbers[0] if len(numbers) == 1 else tuple(numbers)


def test_the_page_tells_of_every_preset():
    assert set(tables()) == set(presets.PRESETS) - {"demo"}


@pytest.mark.parametrize("scheme", IN_SCHEME)
@pytest.mark.parametrize("name", sorted(set(presets.PRESETS) - {"demo"}))
def test_the_page_says_what_a_preset_is(name, scheme):
    """In its table's column, and what the table leaves out is as in paper-fixed."""
    if name == f"paper-{'fixed' if scheme == 'mixed' else 'mixed'}":
        return
    agent = IN_SCHEME[scheme]
    said = {field: value(cell, scheme) for field, cell in tables()[name].items()}
    assert said.pop("steps") == presets.STEPS.get(name, TrainConfig.steps)
    wanted = flat(presets.paper_fixed()) | said | {"agent": agent}
    found = flat(presets.preset(name, agent))
    np.testing.assert_allclose(found.pop("discounts"), wanted.pop("discounts"), rtol=1e-12)
    assert found == wanted


@pytest.mark.parametrize("name", presets.PRESETS)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_preset_takes_every_agent_of_its_scheme(name, agent):
    scheme = AGENTS[agent].row.scheme
    other = {"paper-fixed": "mixed", "paper-mixed": "fixed"}.get(name)
    if scheme == other:
        with pytest.raises(UserError, match=f"paper-{scheme}"):
            presets.preset(name, agent)
        return
    config = presets.preset(name, agent)
    assert isinstance(config, AgentConfig)
    assert config.agent == agent


def test_the_papers_agents_see_colour_unless_told_otherwise():
    paper = ["--preset", "paper-fixed", "--env", "atari/breakout"]
    assert configured(*paper).env_settings == {"pixels": "rgb210"}
    assert configured("--preset", "paper-mixed", "--env", "atari/pong").env_settings["pixels"]
    grey = configured(*paper, "--settings", "pixels=grey84", "noop_max=3")
    assert grey.env_settings == {"pixels": "grey84", "noop_max": 3}
    assert configured("--env", "atari/breakout").env_settings == {}
    assert configured("--preset", "paper-fixed", "--env", "catch").env_settings == {}


@pytest.mark.parametrize(
    ("env", "preset"),
    [
        ("atari/pong", "atari-small"),
        ("minatar/breakout", "minatar"),
        ("catch", "catch"),
        ("gymnasium:CartPole-v1", "vector"),
    ],
)
def test_an_environment_has_its_preset(env, preset):
    assert configured("--env", env).learner == presets.preset(preset, "netd-ace")
