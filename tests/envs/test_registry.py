"""Environments by name, and what is said when the name is wrong."""

import subprocess
import sys

import pytest

from emphatic import envs
from emphatic.errors import UserError

GAMES = [f"minatar/{g}" for g in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")]


def test_names_expand():
    assert envs.expand(["minatar/*"]) == tuple(GAMES)
    assert envs.expand(["minatar/seaquest", "catch", "minatar/*"])[:2] == (GAMES[3], "catch")
    atari = envs.expand(["atari/*"])
    assert len(atari) == 57
    assert set(envs.names()) == {"catch", *GAMES, *atari}
    assert envs.expand(["gymnasium:CartPole-v1", "catch"]) == ("gymnasium:CartPole-v1", "catch")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("breakout", "Did you mean 'minatar/breakout' or 'atari/breakout'?"),
        ("pong", "Did you mean 'atari/pong'?"),
        ("atari/mspacman", "Did you mean 'atari/ms_pacman'?"),
        ("minatar/brekout", "Did you mean 'minatar/breakout'?"),
        ("cach", "Did you mean 'catch'?"),
        ("atlantis 3", "there is catch, minatar/*, atari/*, gymnasium:ID"),
    ],
)
def test_an_unknown_name_gets_the_known_ones(name, said):
    for ask in (envs.make, envs.settings, lambda name: envs.expand([name])):
        with pytest.raises(UserError) as error:
            ask(name)
        assert error.value.field == "env"
        assert said in str(error.value)


def test_an_unknown_family_gets_the_known_ones():
    with pytest.raises(UserError, match=r"there is minatar/\*, atari/\*"):
        envs.expand(["mario/*"])


def test_an_unknown_setting_gets_the_known_ones():
    with pytest.raises(UserError, match=r"sticky_actions.*Did you mean 'sticky_actions'"):
        envs.make("minatar/breakout", stickyactions=0.1)


def test_settings_and_their_defaults():
    assert envs.settings("catch") == {"balls": 1, "time_limit": None}
    assert envs.settings("minatar/asterix")["sticky_actions"] == 0.1


def test_what_an_environment_says_of_itself():
    catch = envs.make("catch", balls=2)
    assert (catch.name, catch.num_actions, catch.observation_shape) == ("catch", 3, (10, 5, 2))
    assert catch.observation_dtype.name == "bool"
    assert dict(catch.settings) == {"balls": 2, "time_limit": None}


def test_a_setting_can_be_one_of_some_words():
    with pytest.raises(UserError, match=r"pixels: must be 'grey84' or 'rgb210', not 'rgb84'"):
        envs.make("atari/pong", pixels="rgb84")
    with pytest.raises(UserError, match="noop_max: must be a whole number or none, not True"):
        envs.make("atari/pong", noop_max=True)


def test_naming_environments_imports_none_of_their_packages():
    code = (
        "import sys; from emphatic import envs; envs.expand(['atari/*', 'gymnasium:CartPole-v1']);"
        "assert not {'ale_py', 'gymnasium', 'pgx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sticky_actions", True, "must be a number, not True"),
        ("sticky_actions", "0.1", "must be a number, not '0.1'"),
        ("sticky_actions", 1.0, "must lie in [0, 1), not 1.0"),
        ("difficulty_ramping", 1, "must be true or false, not 1"),
        ("minimal_actions", None, "must be true or false, not None"),
        ("time_limit", 2.5, "must be a whole number or none, not 2.5"),
        ("time_limit", True, "must be a whole number or none, not True"),
        ("time_limit", 0, "must be at least 1 step, not 0"),
    ],
)
def test_a_wrong_setting_is_named(field, value, said):
    with pytest.raises(UserError) as error:
        envs.make("minatar/breakout", **{field: value})
    assert error.value.field == field
    assert said in str(error.value)


def test_a_whole_number_will_do_for_a_number():
    assert envs.make("minatar/breakout", sticky_actions=0).settings["sticky_actions"] == 0
