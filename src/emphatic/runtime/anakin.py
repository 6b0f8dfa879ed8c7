"""Anakin: act, step and learn inside one jit, for environments written in JAX.

    one update, K of them a call:

      observation ─► act ─► env.step ─┐  T times, all B streams at once
           ▲                          │
           └──────────────────────────┴─► trajectory ─► learner.update ─► params

The batch of streams is one global array, sharded over devices along B; parameters are
replicated, and `jit` inserts the all-reduce of the gradient.

Reference: Hessel et al., "Podracer architectures for scalable reinforcement learning", 2021.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key, PyTree, Shaped

from emphatic.agent.learner import Learner, LearnerState, Trajectory
from emphatic.agent.surreal import Transitions
from emphatic.envs.base import Environment, TimeStep
from emphatic.errors import UserError


class AnakinState(NamedTuple):
    """All that crosses updates; a checkpoint of it continues the run bit for bit."""

    learner: LearnerState
    environment: PyTree
    """Of every stream, `[B, ...]`."""
    observation: Shaped[Array, "B ..."]
    key: Key[Array, ""]
    """Draws the actions."""


class Report(NamedTuple):
    """What K updates were like."""

    metrics: dict[str, Array]
    """Means over the K updates; maxima of what ends in `_max`."""
    skipped: Array
    """Which updates were left out because the gradient was not finite, `[K]`."""
    ended: Array
    """Whether an episode ended there, `[K, T, B]`."""
    episode_return: Array
    episode_length: Array


class Anakin(NamedTuple):
    """`state = init(key)`; `state, report = run(state, num_updates)`, compiled per number."""

    init: Callable[[Key[Array, ""]], AnakinState]
    run: Callable[[AnakinState, int], tuple[AnakinState, Report]]


def build(
    learner: Learner, environment: Environment, devices: list[jax.Device] | None = None
) -> Anakin:
    """The runtime of one learner and one environment on these devices (default: one)."""
    streams = learner.config.num_streams
    devices = devices or jax.local_devices()[:1]
    if streams % len(devices):
        raise UserError(
            "num_streams", f"must be a multiple of the {len(devices)} devices, not {streams}"
        )
    mesh = Mesh(np.asarray(devices), ("streams",), axis_types=(AxisType.Auto,))
    env_step = jax.vmap(environment.step)

    def init(key):
        learner_key, env_key, act_key = jax.random.split(key, 3)
        env_state, observation = jax.vmap(environment.init)(jax.random.split(env_key, streams))
        return AnakinState(learner.init(learner_key), env_state, observation, act_key)

    def interact(state, _):
        """One step of every stream, with the parameters the learner has now."""
        key, act_key = jax.random.split(state.key)
        action, logits = learner.act(state.learner.params, state.observation, act_key)
        env_state, step = env_step(state.environment, action)
        transition = Transitions(action, step.reward, step.discount, step.weight, logits)
        before = state.observation
        state = state._replace(environment=env_state, observation=step.observation, key=key)
        return state, (before, transition, step._replace(observation=None))

    def update(state, _):
        state, (observation, transitions, steps) = jax.lax.scan(
            interact, state, length=learner.config.unroll_length
        )
        observation = jnp.concatenate([observation, state.observation[None]])
        learned, metrics = learner.update(state.learner, Trajectory(observation, transitions))
        return state._replace(learner=learned), (metrics, steps)

    def run(state, num_updates):
        state, (metrics, steps) = jax.lax.scan(update, state, length=num_updates)
        state = jax.lax.with_sharding_constraint(state, _sharding(state, mesh))
        return state, _report(metrics, steps)

    shardings = _sharding(jax.eval_shape(init, jax.random.key(0)), mesh)
    return Anakin(
        jax.jit(init, out_shardings=shardings),
        jax.jit(run, static_argnums=1, donate_argnums=0),
    )


def _report(metrics: dict[str, Array], steps: TimeStep) -> Report:
    skipped = metrics["skipped_update"]
    reduced = {
        name: x.max(0) if name.endswith("_max") else x.astype(jnp.float32).mean(0)
        for name, x in metrics.items()
    }
    return Report(reduced, skipped, steps.ended, steps.episode_return, steps.episode_length)


def _sharding(state: AnakinState, mesh: Mesh) -> Any:
    """Where each array of the state lies: streams over the devices, the rest everywhere."""

    def over(axis):
        """Streams on this axis of every array, counted from the front or the back."""

        def place(x):
            spec = [None] * x.ndim
            if x.ndim >= 2 or axis == 0:
                spec[axis] = "streams"
            return NamedSharding(mesh, PartitionSpec(*spec))

        return place

    everywhere = NamedSharding(mesh, PartitionSpec())
    learner = jax.tree.map(lambda _: everywhere, state.learner)._replace(
        trace=jax.tree.map(over(-2), state.learner.trace),
        waiting=jax.tree.map(over(1), state.learner.waiting),
    )
    return state._replace(
        learner=learner,
        environment=jax.tree.map(over(0), state.environment),
        observation=over(0)(state.observation),
        key=everywhere,
    )
