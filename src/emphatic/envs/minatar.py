"""The five MinAtar games, through pgx (extra `minatar`).

What pgx leaves out (difficulty ramping as a setting, sticky actions that outlive an
episode) is added here, and where its Seaquest departs from MinAtar 1.0.15 it is put
right: docs/environments.md lists every difference, and tests/envs/test_minatar.py plays
both side by side.

Reference: Young and Tian, "MinAtar: An Atari-Inspired Testbed for Thorough and
Reproducible Reinforcement Learning Experiments", 2019.
"""

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from emphatic.envs import base
from emphatic.errors import UserError

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")

_CLASSES = {
    "asterix": "MinAtarAsterix",
    "breakout": "MinAtarBreakout",
    "freeway": "MinAtarFreeway",
    "seaquest": "MinAtarSeaquest",
    "space_invaders": "MinAtarSpaceInvaders",
}

RAMP = {
    "asterix": ("_spawn_speed", "_move_speed", "_ramp_timer", "_ramp_index"),
    "breakout": (),
    "freeway": (),
    "seaquest": ("_e_spawn_speed", "_move_speed", "_ramp_index"),
    "space_invaders": ("_enemy_move_interval", "_ramp_index"),
}
"""The fields that difficulty ramping moves: each game does so last in its step."""

_FIRE, _SHOT_INTERVAL = 5, 10
"""Seaquest: the number of an action among all six, and the steps between an enemy's shots."""


def make(
    game: str,
    *,
    sticky_actions: float = 0.1,
    difficulty_ramping: bool = True,
    minimal_actions: bool = True,
    time_limit: int | None = None,
) -> base.Environment:
    """A MinAtar game; the observation is its `[10, 10, channels]` of bool.

    `sticky_actions` and `difficulty_ramping` default to MinAtar's own values;
    `minimal_actions` offers only the actions that do something in this game (MinAtar's
    `minimal_action_set`), else all six. MinAtar has no truncation (Freeway's 2,501 steps
    end in a termination): `time_limit` adds one.
    """
    pgx_game = _pgx(game, minimal_actions)
    settings = {"difficulty_ramping": difficulty_ramping, "minimal_actions": minimal_actions}
    inner = base.environment(
        _game(pgx_game, game, difficulty_ramping),
        name=f"minatar/{game}",
        num_actions=pgx_game.num_actions,
        settings=settings,
        time_limit=time_limit,
    )
    return base.sticky(inner, sticky_actions)


def _pgx(game: str, minimal_actions: bool) -> Any:
    """The game as pgx has it, its own sticky actions off."""
    if game not in GAMES:
        raise UserError("env", f"minatar has no {game!r}; its games are {', '.join(GAMES)}")
    try:
        module = importlib.import_module(f"pgx.minatar.{game}")
    except ImportError as error:
        raise UserError(
            "env", f"minatar needs the package pgx ({error}): pip install 'emphatic[minatar]'"
        ) from error
    make = getattr(module, _CLASSES[game])
    return make(use_minimal_action_set=minimal_actions, sticky_action_prob=0.0)


def _game(pgx_game: Any, game: str, difficulty_ramping: bool) -> base.Game:
    correct: Callable[[Any, Any], Any] = {"seaquest": _correct_seaquest}.get(
        game, lambda before, after: after
    )

    def reset(key):
        return _unobserved(pgx_game.init(key))

    def step(state, action, key):
        after = correct(state, _unobserved(pgx_game.step(state, action, key)))
        if not difficulty_ramping:
            after = after.replace(**{field: getattr(state, field) for field in RAMP[game]})
        outcome = base.Outcome(after.rewards[0], after.terminated, jnp.zeros((), bool))
        return after, outcome

    return base.Game(reset, step, pgx_game.observe)


def _unobserved(state: Any) -> Any:
    """The state without the observation pgx keeps in it, so that it is computed once."""
    return state.replace(observation=jnp.zeros((0,), bool))


def _correct_seaquest(before: Any, after: Any) -> Any:
    """Where pgx 2.6 departs from MinAtar 1.0.15; each line is harmless once pgx agrees.

    The game ends with the oxygen at 0, not below. The first surfacing leaves the enemies'
    speed alone, and every second one raises it (pgx: the first, and every second after).
    Enemy bullets leave the screen (pgx keeps them, and one at x = -1 freezes the rest). A
    submarine that moves into a bullet while its gun is due still fires (`_last_shots`).
    """
    surfaced = after._ramp_index != before._ramp_index
    faster = surfaced & (before._move_speed > 2) & (before._ramp_index % 2 == 1)
    shots = _last_shots(before, after)
    struck = (shots[:, 0] == after._sub_x) & (shots[:, 1] == after._sub_y)
    over = after.terminated | (before._oxygen <= 0) | struck.any()
    bullets = jnp.concatenate([after._e_bullets, shots])
    return after.replace(
        _move_speed=before._move_speed - faster.astype(jnp.int32),
        _e_bullets=_on_screen(bullets)[: len(after._e_bullets)],
        _terminal=over,
        terminated=over,
    )


def _last_shots(before: Any, after: Any) -> jax.Array:
    """What submarines fired that were shot in the act: `[25, 3]`, -1 where there was none.

    In a step, the player's bullets move first, then submarines, then theirs. One that was
    to move and to fire, is gone, and did not meet a bullet where it was, met one where it
    went. Its own bullet has then moved one cell on.
    """
    subs = before._e_subs
    x, y, right, until_move, until_shot = subs.T
    ahead = jnp.where(right == 1, 1, -1)
    due = (x >= 0) & (until_move == 0) & (until_shot == 0) & (x + ahead >= 0) & (x + ahead <= 9)
    reload = jnp.full_like(x, _SHOT_INTERVAL)
    moved = jnp.stack([x + ahead, y, right, jnp.full_like(x, before._move_speed), reload], 1)
    there = (moved[:, None] == after._e_subs[None]).all(-1).any(1)
    fired = (after._last_action == _FIRE) & (before._shot_timer == 0)
    new = jnp.stack([before._sub_x, before._sub_y, before._sub_or.astype(jnp.int32)])
    bullets = jnp.concatenate([before._f_bullets, jnp.where(fired, new, -1)[None]])
    met_x = bullets[:, 0] + jnp.where(bullets[:, 2] == 1, 1, -1)
    met = (met_x[None] == x[:, None]) & (bullets[:, 1][None] == y[:, None])
    shot = due & ~there & ~met.any(1)
    return jnp.where(shot[:, None], jnp.stack([x + 2 * ahead, y, right], 1), -1)


def _on_screen(bullets: jax.Array) -> jax.Array:
    """The bullets inside the grid, in their order, then empty places (-1)."""
    inside = (bullets[:, 0] >= 0) & (bullets[:, 0] <= 9)
    order = jnp.argsort(~inside, stable=True)
    return jnp.where(inside[order][:, None], bullets[order], -1)
