"""What an environment is: `init(key)` and `step(state, action)`, restarting by itself.

One environment is described; `vmap` makes a batch, `scan` a trajectory. The state is a
pytree of arrays that holds everything, its PRNG key too, so a checkpoint of it continues
the same stream. Episode ends are data in the stream of time steps, never code:

    the step                        reward   discount   weight   ended   next observation
    inside an episode                    r          1        1   no      the next one
    that terminates an episode           r          0        1   yes     first of a new episode
    that truncates an episode            r          1        1   yes     last of this episode
    after a truncation (pseudo-step)     0          0        0   no      first of a new episode

So T steps have T+1 observations, and the value of a step's next observation is always the
value one step on. At a termination it is multiplied by 0, so the new episode may already
show. At a truncation it is bootstrapped from, so the final observation has to show, and
the pseudo-step, whose action is ignored, leads on to the new episode.

Write an environment without restarts (`Game`) and hand it to `environment`.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from emphatic.errors import UserError


class TimeStep(NamedTuple):
    """What one step gave; see the table of this module for the episode's end."""

    observation: Shaped[Array, "..."]
    """Of the state that is current now."""
    reward: Float[Array, ""]
    """Raw: neither clipped nor scaled."""
    discount: Float[Array, ""]
    """0 where an episode terminated and on a pseudo-step, else 1."""
    weight: Float[Array, ""]
    """0 on a pseudo-step, else 1."""
    ended: Bool[Array, ""]
    """This step was the last of its episode; it was truncated if the discount is 1."""
    episode_return: Float[Array, ""]
    """Sum of the raw rewards of the episode that ended; 0 where none did."""
    episode_length: Int[Array, ""]
    """Steps of the episode that ended, pseudo-steps not counted; 0 where none did."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment in JAX: pure functions and what a network and a run need to know."""

    name: str
    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    init: Callable[[PRNGKeyArray], tuple[PyTree, Shaped[Array, "..."]]]
    """`init(key) -> (state, observation)`: the first state of a stream."""
    step: Callable[[PyTree, Int[Array, ""]], tuple[PyTree, TimeStep]]
    """`step(state, action) -> (state, time_step)`, for `vmap` and `scan`."""
    settings: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({})
    )
    """Every setting that makes it what it is, for the run's record."""


class Outcome(NamedTuple):
    """How a step of a `Game` ended."""

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Game(NamedTuple):
    """An environment that does not restart by itself."""

    reset: Callable[[PRNGKeyArray], PyTree]
    """`reset(key) -> state`: of a new episode."""
    step: Callable[[PyTree, Int[Array, ""], PRNGKeyArray], tuple[PyTree, Outcome]]
    """`step(state, action, key) -> (state, outcome)`."""
    observe: Callable[[PyTree], Shaped[Array, "..."]]
    """`observe(state) -> observation`."""


class _Episode(NamedTuple):
    """State of an environment that restarts: the game's, and the episode so far."""

    game: PyTree
    key: PRNGKeyArray
    truncated: Bool[Array, ""]
    """The last step truncated the episode: the next one is a pseudo-step."""
    total: Float[Array, ""]
    length: Int[Array, ""]


def environment(
    game: Game,
    *,
    name: str,
    num_actions: int,
    settings: Mapping[str, Any] | None = None,
    time_limit: int | None = None,
) -> Environment:
    """The environment that plays `game` over and over, as the table of this module says.

    `time_limit` truncates an episode after that many steps; a termination in the same
    step counts as one.
    """
    if time_limit is not None and time_limit < 1:
        raise UserError("time_limit", f"must be at least 1 step, not {time_limit}")

    def init(key):
        key, reset_key = jax.random.split(key)
        state = _new_episode(game.reset(reset_key), key)
        return state, game.observe(state.game)

    def step(state, action):
        key, step_key, reset_key = jax.random.split(state.key, 3)
        played, outcome = game.step(state.game, action, step_key)
        real = ~state.truncated
        reward = jnp.where(real, outcome.reward, 0.0).astype(jnp.float32)
        length = state.length + real.astype(jnp.int32)
        total = state.total + reward

        over = (
            outcome.truncated if time_limit is None else outcome.truncated | (length >= time_limit)
        )
        terminated = real & outcome.terminated
        truncated = real & over & ~outcome.terminated
        restart = terminated | ~real
        ended = terminated | truncated

        new = _Episode(played, key, truncated, total, length)
        fresh = _new_episode(game.reset(reset_key), key)
        new = jax.tree.map(lambda f, s: jnp.where(restart, f, s), fresh, new)
        # Both are observed and one is shown: observing the chosen state makes XLA compute
        # that state again for each of its pixels (Space Invaders: 1.7 times as slow).
        observation = jnp.where(restart, game.observe(fresh.game), game.observe(played))
        return new, TimeStep(
            observation=observation,
            reward=reward,
            discount=(~restart).astype(jnp.float32),
            weight=real.astype(jnp.float32),
            ended=ended,
            episode_return=jnp.where(ended, total, 0.0),
            episode_length=jnp.where(ended, length, 0),
        )

    shape = jax.eval_shape(lambda key: init(key)[1], jax.random.key(0))
    return Environment(
        name=name,
        num_actions=num_actions,
        observation_shape=shape.shape,
        observation_dtype=np.dtype(shape.dtype),
        init=init,
        step=step,
        settings=types.MappingProxyType({**(settings or {}), "time_limit": time_limit}),
    )


def _new_episode(game, key):
    zero = jnp.zeros((), jnp.float32)
    return _Episode(game, key, jnp.zeros((), bool), zero, jnp.zeros((), jnp.int32))


class _Sticky(NamedTuple):
    """State of an environment with sticky actions."""

    inner: PyTree
    key: PRNGKeyArray
    last_action: Int[Array, ""]


def sticky(inner: Environment, probability: float) -> Environment:
    """The same environment; with `probability` a step repeats the action last executed.

    As in the Arcade Learning Environment and MinAtar, what repeats is the action that was
    executed, not the one asked for, and it outlives the episode. Starts with action 0. A
    pseudo-step executes nothing.

    Reference: Machado et al., "Revisiting the Arcade Learning Environment", 2018.
    """
    if not 0 <= probability < 1:
        raise UserError("sticky_actions", f"must lie in [0, 1), not {probability}")

    def init(key):
        key, inner_key = jax.random.split(key)
        state, observation = inner.init(inner_key)
        return _Sticky(state, key, jnp.zeros((), jnp.int32)), observation

    def step(state, action):
        key, sticky_key = jax.random.split(state.key)
        stick = jax.random.bernoulli(sticky_key, probability)
        executed = jnp.where(stick, state.last_action, action).astype(jnp.int32)
        after, time_step = inner.step(state.inner, executed)
        last_action = jnp.where(time_step.weight == 0, state.last_action, executed)
        return _Sticky(after, key, last_action), time_step

    settings = types.MappingProxyType({**inner.settings, "sticky_actions": probability})
    return dataclasses.replace(inner, init=init, step=step, settings=settings)
