"""Catch: a ball falls, a paddle at the bottom moves left, stays or moves right.

Ten rows, five columns; seconds to learn, and the best return is known: `balls`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from emphatic.envs import base
from emphatic.errors import UserError

ROWS = 10
COLUMNS = 5
LEFT = 0
STAY = 1
RIGHT = 2


class _State(NamedTuple):
    row: Int[Array, ""]
    column: Int[Array, ""]
    paddle: Int[Array, ""]
    landed: Int[Array, ""]
    """Balls that have landed in this episode, in the paddle or beside it."""


def make(*, balls: int = 1, time_limit: int | None = None) -> base.Environment:
    """Catch, with `balls` balls an episode; each gives +1 or -1 where it lands.

    A ball is nine steps in the air, and the next starts at once. The observation is
    `[10, 5, 2]`: where the ball is, where the paddle is. A `time_limit` truncates, so that
    an agent can be seen to bootstrap from the final observation.
    """
    if balls < 1:
        raise UserError("balls", f"must be at least 1, not {balls}")
    return base.environment(
        base.Game(_reset, _step_with(balls), _observe),
        name="catch",
        num_actions=3,
        settings={"balls": balls},
        time_limit=time_limit,
    )


def _reset(key):
    zero = jnp.zeros((), jnp.int32)
    return _State(zero, _drop(key), zero + COLUMNS // 2, zero)


def _drop(key) -> Int[Array, ""]:
    """The column a ball falls in."""
    return jax.random.randint(key, (), 0, COLUMNS, jnp.int32)


def _step_with(balls):
    def step(state, action, key):
        paddle = jnp.clip(state.paddle + action.astype(jnp.int32) - STAY, 0, COLUMNS - 1)
        row = state.row + 1
        lands = row == ROWS - 1
        reward = jnp.where(lands, jnp.where(paddle == state.column, 1.0, -1.0), 0.0)
        landed = state.landed + lands.astype(jnp.int32)
        terminated = landed >= balls
        again = lands & ~terminated
        state = _State(
            jnp.where(again, 0, row), jnp.where(again, _drop(key), state.column), paddle, landed
        )
        return state, base.Outcome(reward, terminated, jnp.zeros((), bool))

    return step


def _observe(state) -> Bool[Array, "10 5 2"]:
    rows, columns = jnp.arange(ROWS)[:, None], jnp.arange(COLUMNS)[None, :]
    ball = (rows == state.row) & (columns == state.column)
    paddle = (rows == ROWS - 1) & (columns == state.paddle)
    return jnp.stack([ball, paddle], axis=-1)
