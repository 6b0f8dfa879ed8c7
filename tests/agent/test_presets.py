"""Presets: each trains every agent of its scheme, and asks of the environment what it needs."""

import pytest

from emphatic.agent import presets
from emphatic.agent.agents import AGENTS
from emphatic.agent.surreal import AgentConfig
from emphatic.commands import train
from emphatic.errors import UserError


def configured(*given):
    arguments = list(given)
    options = train.parsing.parsed(
        train.Options, "train", arguments, default=train._defaults(arguments)
    )
    return train._config(options)


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
