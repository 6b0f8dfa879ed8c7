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
from jax.sharding import Mesh
from jaxtyping import Array, Key, PyTree, Shaped

from emphatic.agent.learner import Learner, LearnerState, Trajectory
from emphatic.agent.surreal import Transitions
from emphatic.envs.base import Environment, TimeStep
from emphatic.errors import UserError
from emphatic.runtime import distributed, placement
from emphatic.runtime.checkpoints import Checkpoint
from emphatic.runtime.reports import Report


class AnakinState(NamedTuple):
    """All that crosses updates; a checkpoint of it continues the run bit for bit."""

    learner: LearnerState
    environment: PyTree
    """Of every stream, `[B, ...]`."""
    observation: Shaped[Array, "B ..."]
    key: Key[Array, ""]
    """Draws the actions."""


class Anakin:
    """`state = init(key)`; `state, report = run(state, num_updates)`, compiled per number."""

    def __init__(
        self,
        init: Callable[[Key[Array, ""]], AnakinState],
        compiled: Callable[[AnakinState, int], tuple[AnakinState, Report]],
    ):
        """See `build`."""
        self.init, self.compiled = init, compiled

    def run(self, state: AnakinState, num_updates: int) -> tuple[AnakinState, Report]:
        """So many updates; returns when they are under way, and the state given is used up."""
        state, report = self.compiled(state, num_updates)
        return state, jax.tree.map(distributed.whole, report)

    def snapshot(self, state: AnakinState) -> AnakinState:
        """What a checkpoint holds: everything."""
        return jax.tree.map(distributed.whole, state)

    def restore(self, checkpoint: Checkpoint, key: Key[Array, ""]) -> AnakinState:
        """Go on from a checkpoint, bit for bit."""
        fresh = self.init(key)
        if jax.process_count() == 1:
            return checkpoint.restore(fresh)
        found = checkpoint.restore(jax.tree.map(empty, fresh))
        return jax.tree.map(distributed.place, found, fresh)

    def close(self) -> None:
        """Nothing to end."""


class Program(NamedTuple):
    """Acting, stepping and learning as pure functions, for whoever places and compiles them."""

    init: Callable[[Key[Array, ""]], AnakinState]
    run: Callable[[AnakinState, int], tuple[AnakinState, Report]]


def program(learner: Learner, environment: Environment) -> Program:
    """The program of one learner and one environment."""
    streams = learner.config.num_streams
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
        return state, _report(metrics, steps)

    return Program(init, run)


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
    mesh = placement.mesh(devices)
    init, run = program(learner, environment)

    def placed(state, num_updates):
        state, report = run(state, num_updates)
        return jax.lax.with_sharding_constraint(state, _sharding(state, mesh)), report

    shardings = _sharding(jax.eval_shape(init, jax.random.key(0)), mesh)
    compiled = jax.jit(placed, static_argnums=1, donate_argnums=0)
    return Anakin(jax.jit(init, out_shardings=shardings), compiled)


def empty(x: Any) -> Any:
    """An array of this process to restore into; a key stays a key."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), x.shape) if x.shape else jax.random.key(0)
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _report(metrics: dict[str, Array], steps: TimeStep) -> Report:
    reduced = {
        name: x.max(0) if name.endswith("_max") else x.astype(jnp.float32).mean(0)
        for name, x in metrics.items()
        if name != "fault"
    }
    return Report(
        reduced, metrics["fault"], steps.ended, steps.episode_return, steps.episode_length
    )


def _sharding(state: AnakinState, mesh: Mesh) -> Any:
    """Where each array of the state lies: streams over the devices, the rest everywhere."""
    streams: Any = placement.over(0, mesh)
    return state._replace(
        learner=placement.of_learner(state.learner, mesh),
        environment=jax.tree.map(streams, state.environment),
        observation=streams(state.observation),
        key=placement.everywhere(mesh),
    )
