"""Sebulba: actor threads step environments on the host, the learner learns, in lock-step.

    actors     | trajectory 0 | trajectory 1 | trajectory 2 | …       made with θ₀ θ₀ θ₁ …
    learner                   | update 0: θ₁ | update 1: θ₂ | …       (lag 1)

Trajectory k is made with the parameters after max(0, k - lag) updates, whatever the timing:
the same seed gives the same bits. With lag 1 acting and learning overlap fully.

With several processes each steps its share of the streams; the batch is one global array,
and `jit` inserts the all-reduce of the gradient.

Reference: Hessel et al., "Podracer architectures for scalable reinforcement learning", 2021.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Key

from emphatic.agent.learner import Learner, LearnerState
from emphatic.agent.surreal import Transitions
from emphatic.envs.host import HostEnvironment
from emphatic.errors import UserError
from emphatic.runtime import actors, distributed, placement, reports
from emphatic.runtime.actors import ActorsConfig, Episodes, Unroll
from emphatic.runtime.checkpoints import Checkpoint
from emphatic.runtime.crew import Crew, Standing
from emphatic.runtime.reports import Report


class SebulbaState(NamedTuple):
    """What the training loop carries from call to call; the rest lives with the actors."""

    learner: LearnerState


class Snapshot(NamedTuple):
    """What a checkpoint holds: all of a run between two updates, every stream of it."""

    learner: LearnerState
    pending: list[tuple[Unroll, Episodes]]
    """Trajectories made and not yet learned: `lag` of them."""
    standing: Standing


class Sebulba:
    """The runtime of one learner and one environment on the host."""

    def __init__(
        self,
        learner: Learner,
        environment: HostEnvironment,
        config: ActorsConfig,
        *,
        seed: int,
        devices: Sequence[jax.Device],
        acting_devices: Sequence[jax.Device] = (),
        say: Callable[[str], None] = print,
    ):
        """`devices` of all processes learn; `acting_devices` of ours act, or those that learn."""
        self._learner, self._environment, self._config = learner, environment, config
        self._mesh = placement.mesh(devices)
        self._local = [d for d in devices if d.process_index == jax.process_index()]
        self._say = say
        _check_shares(config.threads, len(self._local))
        self._crew = Crew(
            environment,
            config,
            learner.policy,
            streams=_streams_here(learner.config.num_streams, len(devices)),
            unroll_length=learner.config.unroll_length,
            seed=seed,
            devices=list(acting_devices) or self._local,
            say=say,
        )
        self.stop: Callable[[], bool] = lambda: False
        """Asked between two updates; `run` returns early where it says so."""
        self._updates = 0
        self._init, self._update = _compiled(learner, self._mesh)

    def init(self, key: Key[Array, ""]) -> SebulbaState:
        """The start of a run; the actors begin with the first call of `run`."""
        return SebulbaState(self._init(key))

    def run(self, state: SebulbaState, updates: int) -> tuple[SebulbaState, Report]:
        """So many updates, at least one, each on the next trajectory of every stream."""
        learner, sums, told, faults = state.learner, {}, [], []
        for number in range(updates):
            if number and self.stop():
                break
            self._crew.publish(self._updates, learner.params)
            deliveries = self._crew.next()
            parts = self._assembled([d.unroll for d in deliveries])
            learner, metrics = self._update(learner.params, learner._replace(params=None), parts)
            self._updates += 1
            faults.append(metrics.pop("fault"))
            sums = _summed(sums, metrics) if sums else _weighed(metrics)
            told.append(_beside([d.episodes for d in deliveries]))
        return SebulbaState(learner), self._report(sums, faults, told)

    def snapshot(self, state: SebulbaState) -> Snapshot:
        """Everything there is between two updates; the actors wait, having nothing to do."""
        return Snapshot(
            jax.tree.map(distributed.whole, state.learner),
            distributed.gathered(self._crew.pending(), axis=1),
            distributed.gathered(self._crew.standing(), axis=0),
        )

    def restore(self, checkpoint: Checkpoint, key: Key[Array, ""]) -> SebulbaState:
        """Go on from a checkpoint; episodes too, where the environment's state can be had."""
        fresh = self._init(key)
        found = checkpoint.restore(self._template(fresh))
        self._updates = int(found.learner.updates)
        self._crew.seat(self._updates, found.pending, found.standing)
        if not self._environment.state_bytes:
            name = self._environment.name
            self._say(f"{name} keeps no state: going on with fresh episodes and fresh traces")
        return SebulbaState(jax.tree.map(distributed.place, found.learner, fresh))

    def close(self) -> None:
        """End the actors; one that hangs is left behind."""
        self._crew.close()

    def _assembled(self, unrolls: list[Unroll]) -> list[Unroll]:
        """The actors' parts where the learner wants them: as they are, or as one global array."""
        if self._mesh.size == 1:
            return [jax.device_put(unroll, self._local[0]) for unroll in unrolls]
        shares = placement.dealt(unrolls, self._local, axis=1)
        return [placement.one(shares, self._mesh, axis=1)]

    def _report(self, sums: dict[str, Array], faults: list[Array], told: list[Episodes]) -> Report:
        whole = {name: np.asarray(distributed.whole(x)) for name, x in sums.items()}
        metrics: dict[str, Any] = reports.means(whole, len(faults))
        metrics["actor_restarts"] = np.float32(distributed.total(self._crew.restarts))
        codes = np.stack([distributed.whole(x) for x in faults])
        episodes = jax.tree.map(lambda *x: np.stack(x), *told)
        return Report(metrics, codes, *distributed.gathered(episodes, axis=2))

    def _template(self, fresh: LearnerState) -> Snapshot:
        """A checkpoint's shapes and types, as NumPy arrays that take no memory."""
        environment, streams = self._environment, self._learner.config.num_streams
        dtype, actions = environment.frame_dtype, environment.num_actions

        def over_time(dtype, *shape: int, steps: int = self._learner.config.unroll_length):
            return _empty((steps, streams, *shape), dtype)

        number, flag, count = (over_time(t) for t in (np.float32, bool, np.int32))
        unroll = Unroll(
            over_time(dtype, *environment.observation_shape, steps=1),
            over_time(dtype, *environment.frame_shape),
            flag,
            Transitions(count, number, number, number, over_time(np.float32, actions)),
        )
        return Snapshot(
            jax.tree.map(lambda x: _empty(x.shape, x.dtype), fresh),
            [(unroll, Episodes(flag, number, count))] * self._config.lag,
            Standing(
                _empty((streams, *environment.observation_shape), dtype),
                _empty((streams, environment.state_bytes), np.uint8),
                _empty((streams,), np.int32),
            ),
        )


@functools.lru_cache(maxsize=8)
def _compiled(learner: Learner, mesh: Mesh) -> tuple[Callable, Callable]:
    """`init(key)` and `update(params, the rest of the state, parts)`, on that mesh."""
    shapes = jax.eval_shape(learner.init, jax.random.key(0))
    shardings = placement.of_learner(shapes, mesh)

    def update(params, rest, parts):
        unroll = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)
        return learner.update(rest._replace(params=params), actors.observations(unroll))

    # The parameters are not donated: actors still act with them.
    return (
        jax.jit(learner.init, out_shardings=shardings),
        jax.jit(update, donate_argnums=1, out_shardings=(shardings, None)),
    )


_weighed = jax.jit(reports.weighed)


@jax.jit
def _summed(sums: dict[str, Array], metrics: dict[str, Array]) -> dict[str, Array]:
    """Sums over updates of what is weighed; maxima of what ends in `_max`."""
    return {
        name: jnp.maximum(sums[name], x) if name.endswith("_max") else sums[name] + x
        for name, x in reports.weighed(metrics).items()
    }


def _streams_here(streams: int, devices: int) -> np.ndarray:
    """Numbers of the streams that are this process's."""
    if streams % devices:
        raise UserError(
            "num_streams", f"must be a multiple of the {devices} devices, not {streams}"
        )
    return np.split(np.arange(streams), jax.process_count())[jax.process_index()]


def _check_shares(threads: int, devices: int) -> None:
    """An actor's part goes to whole devices, or whole parts to a device."""
    if max(threads, devices) % min(threads, devices):
        raise UserError(
            "actors.threads",
            f"must divide the {devices} devices of a process or be a multiple, not {threads}",
        )


def _beside(parts: Sequence[Episodes]) -> Episodes:
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1), *parts)


def _empty(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.broadcast_to(np.zeros((), dtype), shape)
