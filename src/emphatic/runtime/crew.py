"""The actors of a process, supervised: who sits where, what came, and who has to be replaced.

An actor that fails or hangs is started anew, with fresh episodes and fresh traces; when that
has happened too often, `ActorFailed`. Nobody ever waits for one that will not come.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from emphatic.envs.host import HostEnvironment
from emphatic.errors import Stopped, UserError
from emphatic.runtime import actors, distributed
from emphatic.runtime.actors import Actor, ActorsConfig, Commit, Delivery, Episodes, Post, Unroll
from emphatic.runtime.channels import Closed, Parameters

_LOOK = 0.2
"""Seconds between two looks at an actor that has not delivered."""


class ActorFailed(Stopped):
    """An actor failed too often, or in a way that a new one would not mend."""


class Standing(NamedTuple):
    """Where streams stand between two trajectories, NumPy, `[B, ...]`."""

    observation: np.ndarray
    """Where the next trajectory starts."""
    environment: np.ndarray
    """`[B, state_bytes]`."""
    generation: np.ndarray
    """How often the stream's episodes were begun anew."""


class Seat:
    """An actor's place and what is known of it; actors come and go."""

    def __init__(self, post: Post, restarts: int):
        self.post = post
        self.restarts_left = restarts
        self.generation = 0
        self.commit = Commit(0, None)
        self.saved: np.ndarray | None = None
        self.backlog: collections.deque[Delivery] = collections.deque()
        self.actor: Actor | None = None

    def took(self, delivery: Delivery) -> None:
        """A delivery came through the channel."""
        self.backlog.append(delivery)
        self.commit = Commit(delivery.number + 1, delivery.after)


class Crew:
    """The actors of this process; begun by the first `publish`."""

    def __init__(
        self,
        environment: HostEnvironment,
        config: ActorsConfig,
        policy: Callable[[PyTree, Shaped[Array, "B ..."]], Float[Array, "B A"]],
        *,
        streams: np.ndarray,
        unroll_length: int,
        seed: int,
        devices: Sequence[jax.Device],
        say: Callable[[str], None],
    ):
        """`streams`: their numbers in the run; `devices`: where the actors act."""
        self._environment, self._config = environment, config
        self._seed, self._devices, self._say = seed, devices, say
        self._acting = actors.acting(policy)
        self._parameters: Parameters = Parameters(kept=config.lag + 2)
        posts = _posts(streams, config, devices, jax.random.key(seed), unroll_length)
        self._seats = [Seat(post, config.restarts) for post in posts]
        self.restarts = 0
        """Actors started anew so far."""

    def publish(self, version: int, params: PyTree) -> None:
        """Hand the parameters to the actors, on each device they act on."""
        copies = {device: distributed.on_device(params, device) for device in self._devices}
        self._parameters.publish(version, copies)
        for seat in self._seats:
            if seat.actor is None:
                self._begin(seat)

    def next(self) -> list[Delivery]:
        """The next trajectory of every stream, an actor's after another's."""
        return [self._wait(seat, 1).popleft() for seat in self._seats]

    def pending(self) -> list[tuple[Unroll, Episodes]]:
        """The `lag` trajectories that come next, all that can be made before the next `publish`."""
        backlogs = [self._wait(seat, self._config.lag) for seat in self._seats]
        told = [[jax.device_get(d[1:3]) for d in backlog] for backlog in backlogs]
        return [_joined(parts, axis=1) for parts in zip(*told, strict=True)]

    def standing(self) -> Standing:
        """Where the streams stand; after `pending`, as the actors wait then."""
        return _joined([self._standing(seat) for seat in self._seats], axis=0)

    def seat(
        self, updates: int, pending: list[tuple[Unroll, Episodes]], standing: Standing
    ) -> None:
        """Go on where all streams of a run stood after so many updates."""
        for seat in self._seats:
            own, device = seat.post.streams, seat.post.device
            after = jax.device_put(standing.observation[own], device)
            seat.commit = Commit(updates + self._config.lag, after)
            resumable = bool(self._environment.state_bytes)
            seat.saved = standing.environment[own] if resumable else None
            seat.generation = int(standing.generation[own].max()) + (not resumable)
            for i, made in enumerate(pending):
                unroll, episodes = jax.tree.map(lambda x, own=own: x[:, own], made)
                unroll = jax.device_put(unroll, device)
                seat.backlog.append(Delivery(updates + i, unroll, episodes, after))

    def close(self) -> None:
        """End the actors; one that hangs is left behind."""
        self._parameters.close("the run ends")
        for seat in self._seats:
            if seat.actor is not None:
                seat.actor.stop("the run ends", timeout=2.0)

    def _begin(self, seat: Seat) -> None:
        """Put a new actor into the seat; it goes on where what was handed over led."""
        seeds = _seeds(self._seed, seat.generation, seat.post.streams)
        seat.actor = Actor(
            seat.post,
            self._environment,
            seeds,
            self._acting,
            self._parameters,
            seat.commit,
            seat.saved,
        )
        seat.saved = None
        seat.actor.start()

    def _wait(self, seat: Seat, count: int) -> collections.deque[Delivery]:
        """The seat's backlog, once it holds that many."""
        while len(seat.backlog) < count:
            self._receive(seat)
        return seat.backlog

    def _receive(self, seat: Seat) -> None:
        """Wait a moment for a delivery; an actor that will not come is replaced."""
        actor = seat.actor
        assert actor is not None
        try:
            seat.took(actor.channel.get(_LOOK))
        except TimeoutError:
            if overdue := actor.watch.overdue(self._config.timeout):
                self._replace(seat, actor, overdue)
        except Closed:
            failure: BaseException | None = actor.failure
            device = isinstance(failure, jax.errors.JaxRuntimeError)
            if failure is not None and device and not actor.of_environment:
                # A device, or another process, is gone.
                raise failure from None
            self._replace(seat, actor, actor.error)

    def _standing(self, seat: Seat) -> Standing:
        """Where a seat's streams stand; the run ends where that cannot be had."""
        assert seat.actor is not None
        try:
            environment = seat.actor.save(self._config.timeout)
        except (Exception, SystemExit) as error:
            reason = f"the state of its environments cannot be saved, {actors.in_a_line(error)}"
            raise ActorFailed(f"{self._where(seat)}: {reason}") from error
        generation = np.full(len(seat.post.streams), seat.generation, np.int32)
        return Standing(np.asarray(seat.commit.observation), environment, generation)

    def _where(self, seat: Seat) -> str:
        return f"{seat.post.name} on {self._environment.name}"

    def _replace(self, seat: Seat, actor: Actor, reason: str) -> None:
        actor.stop(reason, timeout=0.0)
        while len(actor.channel):
            # Handed over just before it was stopped.
            seat.took(actor.channel.get(0.0))
        where = self._where(seat)
        if not seat.restarts_left:
            raise ActorFailed(f"{where} failed once more than actors.restarts allows: {reason}")
        seat.restarts_left -= 1
        seat.generation += 1
        self.restarts += 1
        self._say(f"{where}: {reason}; started anew with fresh episodes")
        self._begin(seat)


def _posts(
    streams: np.ndarray,
    config: ActorsConfig,
    devices: Sequence[jax.Device],
    key: Array,
    unroll_length: int,
) -> list[Post]:
    """Where the streams sit: equal shares, spread over the devices in order."""
    threads = config.threads
    if len(streams) % threads:
        raise UserError(
            "actors.threads", f"must divide the {len(streams)} streams of a process, not {threads}"
        )
    key = jax.random.fold_in(key, 1)
    mine = f"process {jax.process_index()}, " if jax.process_count() > 1 else ""
    return [
        Post(
            name=f"{mine}actor {i}",
            streams=share,
            device=devices[i * len(devices) // threads],
            key=key,
            unroll_length=unroll_length,
            lag=config.lag,
        )
        for i, share in enumerate(np.split(streams, threads))
    ]


def _seeds(seed: int, generation: int, streams: np.ndarray) -> np.ndarray:
    """A seed for each stream's episodes, whoever steps it."""
    made = [np.random.SeedSequence([seed, generation, int(s)]) for s in streams]
    return np.array([sequence.generate_state(1)[0] for sequence in made], np.uint32)


def _joined(parts: Sequence[Any], axis: int) -> Any:
    """Trees of NumPy arrays, joined along the streams."""
    return jax.tree.map(lambda *x: np.concatenate(x, axis=axis), *parts)
