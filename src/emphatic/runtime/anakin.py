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
from jaxtyping import Array, Int, Key, PyTree, Shaped

from emphatic.agent.learner import Learner, LearnerState, Trajectory
from emphatic.agent.surreal import Transitions
from emphatic.envs.base import Environment, TimeStep
from emphatic.errors import UserError
from emphatic.runtime import distributed, placement, reports
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
    """`state = init(key)`; `state, report = run(state, num_updates)`.

    One program does for any number up to `most`; beyond, each number is compiled.
    """

    def __init__(
        self,
        init: Callable[[Key[Array, ""]], AnakinState],
        compiled: Callable[[AnakinState, int, int], tuple[AnakinState, Report]],
        most: int,
    ):
        """See `build`."""
        self.init, self.compiled, self.most = init, compiled, most

    def run(self, state: AnakinState, num_updates: int) -> tuple[AnakinState, Report]:
        """So many updates; returns when they are under way, and the state given is used up.

        Fewer than `most` are waited for.
        """
        state, report = self.compiled(state, num_updates, max(num_updates, self.most))
        report = jax.tree.map(distributed.whole, report)
        return state, report.first(num_updates) if num_updates < self.most else report

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
    run: Callable[[AnakinState, Int[Array, ""] | int, int], tuple[AnakinState, Report]]
    """`run(state, num_updates, room)`: the report has room for so many, the rest are zeros."""


def program(learner: Learner, environment: Environment) -> Program:
    """The program of one learner and one environment."""
    streams = learner.config.num_streams
    env_step = jax.vmap(environment.step)

    def init(key):
        learner_key, env_key, act_key = jax.random.split(key, 3)
        env_state, observation = jax.vmap(environment.init)(jax.random.split(env_key, streams))
        return AnakinState(learner.init(learner_key), env_state, observation, act_key)

    def interact(state, noise):
        """One step of every stream, with the parameters the learner has now."""
        logits = learner.policy(state.learner.params, state.observation)
        action = jnp.argmax(logits + noise, axis=-1).astype(jnp.int32)
        env_state, step = env_step(state.environment, action)
        transition = Transitions(action, step.reward, step.discount, step.weight, logits)
        before = state.observation
        state = state._replace(environment=env_state, observation=step.observation)
        return state, (before, transition, step._replace(observation=None))

    def update(state):
        # Gumbel's noise chooses as `learner.act` does; all of an unroll's is drawn at once.
        key, act_key = jax.random.split(state.key)
        shape = (learner.config.unroll_length, streams, environment.num_actions)
        state, (observation, transitions, steps) = jax.lax.scan(
            interact, state._replace(key=key), jax.random.gumbel(act_key, shape)
        )
        observation = jnp.concatenate([observation, state.observation[None]])
        learned, metrics = learner.update(state.learner, Trajectory(observation, transitions))
        return state._replace(learner=learned), (metrics, steps)

    def run(state, num_updates, room):
        def one(k, carry):
            state, told = carry
            state, tells = update(state)
            return state, jax.tree.map(lambda all, x: all.at[k].set(x), told, tells)

        _, tells = jax.eval_shape(update, state)
        empty = jax.tree.map(lambda x: jnp.zeros((room, *x.shape), x.dtype), tells)
        state, (metrics, steps) = jax.lax.fori_loop(0, num_updates, one, (state, empty))
        return state, _report(metrics, steps, num_updates)

    return Program(init, run)


def build(
    learner: Learner,
    environment: Environment,
    devices: list[jax.Device] | None = None,
    *,
    most: int = 1,
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

    def placed(state, num_updates, room):
        state, report = run(state, num_updates, room)
        return jax.lax.with_sharding_constraint(state, _sharding(state, mesh)), report

    shardings = _sharding(jax.eval_shape(init, jax.random.key(0)), mesh)
    compiled = jax.jit(placed, static_argnums=2, donate_argnums=0)
    return Anakin(jax.jit(init, out_shardings=shardings), compiled, most)


def empty(x: Any) -> Any:
    """An array of this process to restore into; a key stays a key."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), x.shape) if x.shape else jax.random.key(0)
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _report(
    metrics: dict[str, Array], steps: TimeStep, num_updates: Int[Array, ""] | int
) -> Report:
    """Of so many updates; there is room for more, which holds zeros."""
    fault = metrics.pop("fault")
    summed = {
        name: x.max(0) if name.endswith("_max") else x.sum(0)
        for name, x in jax.vmap(reports.weighed)(metrics).items()
    }
    told = reports.means(summed, num_updates)
    return Report(told, fault, steps.ended, steps.episode_return, steps.episode_length)


def _sharding(state: AnakinState, mesh: Mesh) -> Any:
    """Where each array of the state lies: streams over the devices, the rest everywhere."""
    streams: Any = placement.over(0, mesh)
    return state._replace(
        learner=placement.of_learner(state.learner, mesh),
        environment=jax.tree.map(streams, state.environment),
        observation=streams(state.observation),
        key=placement.everywhere(mesh),
    )
