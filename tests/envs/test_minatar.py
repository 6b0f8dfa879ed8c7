"""Our MinAtar beside the original package, step by step.

The original plays its own games from its own states: all it is given is the actions asked
for and the random draws that ours made. Everything a learner sees is compared: every
observation (also the first one of every new episode), reward and end, with sticky actions
and difficulty ramping. The draws themselves are compared with their distributions.

Games start far from the beginning (few bricks or aliens left, fast enemies, little
oxygen, divers on board), or a random player would never see the ramp.
"""

import functools
import importlib
import inspect
import sys
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import minatar as original
import numpy as np
import pytest
import scipy.stats

from emphatic import envs
from emphatic.envs import minatar
from emphatic.errors import UserError

GAMES = minatar.GAMES


def advanced(game, state, rng, batch):
    """The batch of game states, half of them moved on to a later part of the game."""
    new: dict[str, np.ndarray] = {}

    def some(low, high, shape=()):
        return rng.integers(low, high, size=(batch, *shape), dtype=np.int32)

    def few(mask, share):
        """Some of the cells of `mask`, at least one."""
        kept = mask & (rng.random((batch, 10, 10)) < share)
        kept[:, 2, 5] |= ~kept.any((1, 2))
        return kept

    if game == "breakout":
        new["_brick_map"] = few(np.asarray(state._brick_map), 0.07)
    if game == "space_invaders":
        new["_alien_map"] = few(np.asarray(state._alien_map), 0.06)
        new["_f_bullet_map"] = few(np.ones((batch, 10, 10), bool), 0.4)
        new["_enemy_move_interval"] = some(6, 13)
        new["_alien_move_timer"] = some(0, 4)
    if game == "asterix":
        new["_spawn_speed"] = new["_spawn_timer"] = some(1, 11)
        new["_move_speed"] = new["_move_timer"] = some(1, 6)
        new["_ramp_timer"] = some(-1, 20)
        new["_ramp_index"] = some(0, 4)
    if game == "freeway":
        new["_pos"] = some(1, 4)
        new["_terminate_timer"] = some(20, 400)
    if game == "seaquest":
        new["_e_spawn_speed"] = new["_e_spawn_timer"] = some(1, 21)
        new["_move_speed"] = some(2, 6)
        new["_ramp_index"] = some(0, 9)
        new["_oxygen"] = np.where(some(0, 3) == 0, some(0, 12), some(12, 201)).astype(np.int32)
        new["_diver_count"] = some(0, 7)
        new["_sub_y"] = some(1, 9)
        new["_surface"] = np.zeros(batch, bool)
        # Submarines about to move and fire, and bullets of the player on their way.
        subs = [some(0, 10, (4,)), some(1, 4, (4,)), some(0, 2, (4,)), some(0, 2, (4,))]
        subs = np.stack([*subs, some(0, 2, (4,))], -1)
        bullets = np.stack([some(0, 10, (3,)), some(1, 4, (3,)), some(0, 2, (3,))], -1)
        new["_e_subs"] = np.pad(subs, ((0, 0), (0, 21), (0, 0)), constant_values=-1)
        new["_f_bullets"] = np.pad(bullets, ((0, 0), (0, 2), (0, 0)), constant_values=-1)
    half = np.arange(batch) % 2 == 0

    def choose(value, old):
        old = np.asarray(old)
        return jnp.asarray(np.where(half.reshape(-1, *[1] * (old.ndim - 1)), old, value))

    return state.replace(**{field: choose(new[field], getattr(state, field)) for field in new})


def copy_to(theirs, game, state):
    """Set the original's game to the state that ours was moved on to."""
    moved = {
        "breakout": "brick_map",
        "space_invaders": "alien_map f_bullet_map enemy_move_interval alien_move_timer",
        "asterix": "spawn_speed spawn_timer move_speed move_timer ramp_timer ramp_index",
        "freeway": "pos terminate_timer",
        "seaquest": "e_spawn_speed e_spawn_timer move_speed ramp_index oxygen diver_count "
        "sub_y surface e_subs f_bullets",
    }
    for name in moved[game].split():
        value = np.asarray(getattr(state, f"_{name}"))
        if name in ("e_subs", "f_bullets"):
            setattr(theirs.env, name, [row.tolist() for row in value if row[0] >= 0])
            continue
        setattr(theirs.env, name, value.astype(float) if value.ndim else value.item())


def drawn(game, state, action, key):
    """The random draws of pgx's step, caught where they go in."""
    module = importlib.import_module(f"pgx.minatar.{game}")
    signature = inspect.signature(module._step_det)
    caught: dict[str, Any] = {}

    def spy(*args, **kwargs):
        caught.update(signature.bind(*args, **kwargs).arguments)
        return state

    with mock.patch.object(module, "_step_det", spy):
        module._step(state, action, key, 0.0)
    return {name: caught[name] for name in caught if name not in ("state", "action")}


def preferred(game, state, key):
    """An action of a player who gets somewhere; the rest is uniform."""
    num_actions = 6 if game == "seaquest" else 3
    random = jax.random.randint(key, (), 0, num_actions)
    if game == "breakout":
        return jnp.where(state._ball_x < state._pos, 1, jnp.where(state._ball_x > state._pos, 2, 0))
    if game == "freeway":
        return jnp.where(random == 0, random, 1)
    if game == "seaquest":  # Up, every third time: enemies speed up as the player surfaces.
        return jnp.where(random >= 4, 2, jax.random.randint(jax.random.fold_in(key, 1), (), 0, 6))
    return random


class Did(NamedTuple):
    """What happened in a step, beside what a learner sees."""

    asked: Any
    before: Any
    """The action executed last."""
    executed: Any
    draws: dict[str, Any]
    free: Any
    """Asterix: which slots were free, `[8]`."""


@functools.cache
def unroller(game, ramping):
    """One compiled program a game: the environment as a learner gets it, and its draws."""
    environment = envs.make(f"minatar/{game}", difficulty_ramping=ramping)

    def step(state, key):
        player, which, uniform = jax.random.split(key, 3)
        anything = jax.random.randint(uniform, (), 0, environment.num_actions)
        wanted = preferred(game, state.inner.game, player)
        action = jnp.where(jax.random.bernoulli(which, 0.7), wanted, anything)
        before = state.inner.game
        _, step_key, _ = jax.random.split(state.inner.key, 3)  # As base.environment does.
        draws = drawn(game, before, action, step_key)
        free = before._entities[:, 0] == 99 if game == "asterix" else ()
        after, time_step = environment.step(state, action)
        did = Did(action, state.last_action, after.last_action, draws, free)
        return after, (after.inner.game, time_step, did)

    def unroll(state, keys):
        return jax.lax.scan(jax.vmap(step), state, keys)

    return environment, jax.jit(jax.vmap(environment.init)), jax.jit(unroll)


@functools.cache
def played(game, ramping, steps, batch, seed):
    """The environment; its first game states, game states, time steps and `Did`, NumPy."""
    environment, init, unroll = unroller(game, ramping)
    state, _ = init(jax.random.split(jax.random.key(seed), batch))
    moved = advanced(game, state.inner.game, np.random.default_rng(seed), batch)
    state = state._replace(inner=state.inner._replace(game=moved))
    keys = jax.random.split(jax.random.key(seed + 1000), steps * batch).reshape(steps, batch)
    _, results = unroll(state, keys)
    return environment, *jax.tree.map(np.asarray, (moved, *results))


class Script:
    """A RandomState that says what it was told to, in order, and nothing else."""

    def __init__(self):
        self.queue = []

    def rand(self, *shape):
        return self.queue.pop(0)

    def randint(self, *args, **kwargs):
        return self.queue.pop(0)


def chance(true):
    """A draw in [0, 1) that falls below every threshold, or above."""
    return np.where(true, 0.0, 1.0 - 1e-9)


def script_step(env, game, draws):
    """What the original will ask for in this step."""
    if game == "asterix" and env.spawn_timer == 0:
        free = [i for i, entity in enumerate(env.entities) if entity is None]
        slot = [free.index(int(draws["slot"]))] if free else []
        return [chance(draws["lr"]), chance(draws["is_gold"]), *slot]
    if game == "freeway":
        return [draws["speeds"].copy(), chance(draws["directions"] < 0)]
    spawned = []
    if game == "seaquest" and env.e_spawn_timer == 0:
        spawned += [chance(draws["enemy_lr"]), chance(draws["is_sub"]), int(draws["enemy_y"])]
    if game == "seaquest" and env.d_spawn_timer == 0:
        spawned += [chance(draws["diver_lr"]), int(draws["diver_y"])]
    return spawned


def restart(theirs, game, state):
    """The original begins the episode that our state is the beginning of."""
    if game == "breakout":
        theirs.env.random.queue = [int(state._ball_x == 9)]
    if game == "freeway":
        speeds = state._cars[:, 3]
        theirs.env.random.queue = [abs(speeds), chance(speeds < 0)]
    theirs.reset()


def compare(game, ramping, steps, batch, seed):
    """Play both; the number of episodes that ended, or a failure with its place."""
    environment, first, states, time_steps, did = played(game, ramping, steps, batch, seed)
    episodes = 0
    for b in range(batch):
        theirs = original.Environment(game, sticky_action_prob=0.5, difficulty_ramping=ramping)
        actions = theirs.minimal_action_set()
        assert environment.num_actions == len(actions)
        theirs.random, theirs.env.random = Script(), Script()
        start = jax.tree.map(lambda x, b=b: x[b], first)
        restart(theirs, game, start)
        copy_to(theirs, game, start)
        for t in range(steps):
            asked, executed = did.asked[t, b], did.executed[t, b]
            draws = {name: drawn[t, b] for name, drawn in did.draws.items()}
            theirs.env.random.queue = script_step(theirs.env, game, draws)
            theirs.random.queue = [chance(asked != executed)]
            reward, terminal = theirs.act(actions[asked])
            place = f"{game}, environment {b}, step {t}"
            assert theirs.last_action == actions[executed], place
            assert reward == time_steps.reward[t, b], place
            assert terminal == (time_steps.discount[t, b] == 0), place
            if terminal:
                episodes += 1
                restart(theirs, game, jax.tree.map(lambda x, t=t, b=b: x[t, b], states))
            np.testing.assert_array_equal(theirs.state(), time_steps.observation[t, b], place)
    return episodes


BATCH, STEPS = 32, 250
ENDS = {"asterix": 30, "breakout": 30, "freeway": 5, "seaquest": 30, "space_invaders": 30}
"""So many episodes must end among the steps compared, or the restart was hardly seen."""
QUICK = ("breakout",)
EACH = [pytest.param(game, marks=[] if game in QUICK else pytest.mark.slow) for game in GAMES]


@pytest.mark.parametrize("game", EACH)
def test_the_original_package_agrees(game):
    """8,000 steps of every game: observations, rewards, ends, sticky actions, ramp."""
    assert compare(game, True, STEPS, BATCH, seed=0) >= ENDS[game]


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_the_original_package_agrees_for_long(game):
    """64,000 more steps of every game."""
    for seed in range(1, 9):
        assert compare(game, True, STEPS, BATCH, seed) >= ENDS[game]


@pytest.mark.slow
def test_crowded_scenes_of_seaquest_agree():
    """500 times four submarines and three bullets in three rows, many guns due."""
    assert compare("seaquest", True, steps=6, batch=1000, seed=9) > 50


@pytest.mark.slow
@pytest.mark.parametrize(("player", "dies"), [(7, False), (6, True)])
def test_a_submarine_shot_in_the_act_still_fires(player, dies):
    """It goes from 4 to 5, where a bullet is from 6; its own is then at 6."""
    environment = envs.make("minatar/seaquest", sticky_actions=0.0)
    state, _ = environment.init(jax.random.key(0))
    game = state.inner.game.replace(
        _sub_x=jnp.int32(player),
        _sub_y=jnp.int32(3),
        _surface=jnp.zeros((), bool),
        _e_subs=state.inner.game._e_subs.at[0].set(jnp.int32([4, 3, 1, 0, 0])),
        _f_bullets=state.inner.game._f_bullets.at[0].set(jnp.int32([6, 3, 0])),
    )
    state = state._replace(inner=state.inner._replace(game=game))
    _, time_step = jax.jit(environment.step)(state, jnp.int32(0))

    theirs = original.Environment("seaquest", sticky_action_prob=0.0)
    theirs.reset()
    theirs.env.sub_x, theirs.env.sub_y, theirs.env.surface = player, 3, False
    theirs.env.e_subs, theirs.env.f_bullets = [[4, 3, True, 0, 0]], [[6, 3, False]]
    assert theirs.act(0) == (1, dies)
    assert (time_step.reward, time_step.discount) == (1, 0 if dies else 1)
    assert dies or (time_step.observation == theirs.state()).all()


@pytest.mark.slow
@pytest.mark.parametrize("game", ["asterix", "seaquest", "space_invaders"])
def test_the_original_package_agrees_without_ramping(game):
    assert compare(game, False, STEPS, BATCH, seed=0) >= ENDS[game]


@pytest.mark.parametrize("game", EACH)
def test_the_ramp_was_met(game):
    """The comparison saw enemies speed up: without ramping, states differ."""
    _, first, states, time_steps, _ = played(game, True, STEPS, BATCH, 0)
    if game in ("breakout", "freeway"):
        assert not minatar.RAMP[game]
        return
    whole = np.cumsum(time_steps.ended, 0) == 0  # In the first episode of a stream.
    for field in minatar.RAMP[game]:
        moved = (getattr(states, field) != getattr(first, field)[None]) & whole
        assert moved.sum() > 10, field


@pytest.mark.parametrize("game", EACH)
def test_sticky_actions_have_their_probability(game):
    *_, did = played(game, True, STEPS, BATCH, 0)
    distinct = did.asked != did.before
    stuck = int((did.executed != did.asked).sum())
    assert (did.executed == np.where(did.executed != did.asked, did.before, did.asked)).all()
    assert scipy.stats.binomtest(stuck, int(distinct.sum()), 0.1).pvalue > 1e-3


def fits(counts, shares):
    """χ² of counts against the shares they should have, its p-value."""
    counts = np.asarray(counts)
    return scipy.stats.chisquare(counts, counts.sum() * np.asarray(shares)).pvalue


@pytest.mark.slow
def test_draws_have_the_distributions_of_the_original():
    """Read off the original: lr 1/2, gold and submarine 1/3, rows, speeds, slots uniform."""
    *_, did = played("asterix", True, STEPS, BATCH, 0)
    draws = did.draws
    assert fits(np.bincount(draws["lr"].ravel()), [1 / 2] * 2) > 1e-3
    assert fits(np.bincount(draws["is_gold"].ravel()), [2 / 3, 1 / 3]) > 1e-3
    free, slot = did.free.reshape(-1, 8), draws["slot"].ravel()
    some = free.any(1)
    assert free[some, slot[some]].all()
    place = (np.cumsum(free, 1)[np.arange(len(slot)), slot] - 1)[some]
    for number in range(2, 9):
        counts = np.bincount(place[free[some].sum(1) == number], minlength=number)
        assert counts.sum() < 100 or fits(counts, [1 / number] * number) > 1e-3

    *_, did = played("seaquest", True, STEPS, BATCH, 0)
    draws = did.draws
    for name in ("enemy_lr", "diver_lr"):
        assert fits(np.bincount(draws[name].ravel()), [1 / 2] * 2) > 1e-3
    assert fits(np.bincount(draws["is_sub"].ravel()), [2 / 3, 1 / 3]) > 1e-3
    for name in ("enemy_y", "diver_y"):
        assert fits(np.bincount(draws[name].ravel())[1:], [1 / 8] * 8) > 1e-3

    *_, did = played("freeway", True, STEPS, BATCH, 0)
    assert fits(np.bincount(did.draws["speeds"].ravel())[1:], [1 / 5] * 5) > 1e-3
    assert fits(np.bincount(did.draws["directions"].ravel() + 1)[[0, 2]], [1 / 2] * 2) > 1e-3


def test_breakout_starts_on_either_side():
    _, first, *_ = played("breakout", True, STEPS, BATCH, 0)
    assert set(first._ball_x.tolist()) == {0, 9}


def test_without_pgx_the_extra_is_named():
    with (
        mock.patch.dict(sys.modules, {"pgx.minatar.breakout": None}),
        pytest.raises(UserError, match=r"emphatic\[minatar\]"),
    ):
        envs.make("minatar/breakout")


def test_settings_are_recorded():
    environment = envs.make("minatar/breakout", sticky_actions=0.25, minimal_actions=False)
    assert environment.num_actions == 6
    assert dict(environment.settings) == {
        "sticky_actions": 0.25,
        "difficulty_ramping": True,
        "minimal_actions": False,
        "time_limit": None,
    }
