"""An actor: a thread that steps a batch of host environments and hands over trajectories.

    parameters θ_{k-lag} ─► [ action ─► batch.step ─► frame ─► observation ] x T ─► trajectory k

Trajectory k is made with parameters of exactly version max(0, k - lag), and its actions are
drawn with a key that depends on the seed, the stream and the step alone: so what an actor
makes depends neither on timing nor on how streams are divided among actors.

A frame is sent to the device once; what was sent is stacked there and handed on.

An actor that starts anew, after a fault or from a checkpoint without the emulators' state,
opens its first trajectory with a pseudo-step from the observation it last handed over
to the first one of its fresh episodes. So nothing leaks between the two, and traces start anew.
"""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

from emphatic.agent.learner import Trajectory
from emphatic.agent.surreal import Transitions
from emphatic.envs import host
from emphatic.envs.host import Batch, HostEnvironment, HostStep
from emphatic.errors import UserError
from emphatic.runtime.channels import Channel, Closed, Parameters, Watch, within

_DEVICE = 30
"""Times `actors.timeout` that acting may keep an actor: it compiles, learning shares the device."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorsConfig:
    """How environments on the host are stepped; environments in JAX need none of it."""

    threads: int = 2
    """Actor threads of a process; the streams are divided among them."""
    lag: int = 1
    """Updates by which the acting parameters trail: 1 overlaps acting with learning."""
    devices: int = 0
    """Devices that only act, behind those that learn; 0: act where the learner is."""
    timeout: float = 20.0
    """Seconds an environment may take to start, step or save before its actor is given up."""
    restarts: int = 3
    """Times an actor is started anew, with fresh episodes, before the run stops."""

    def __post_init__(self):
        for field, least in {"threads": 1, "lag": 0, "devices": 0, "restarts": 0}.items():
            if getattr(self, field) < least:
                raise UserError(
                    f"actors.{field}", f"must be at least {least}, not {getattr(self, field)}"
                )
        if self.lag > 100:
            raise UserError("actors.lag", f"must be at most 100, not {self.lag}")
        if not self.timeout > 0:
            raise UserError("actors.timeout", f"must be above 0 seconds, not {self.timeout}")


class Unroll(NamedTuple):
    """A trajectory as an actor hands it over: frames, not yet stacked to observations."""

    before: Shaped[Array, "1 B ..."]
    """The observation it starts from; the streams are axis 1 of every array here."""
    frame: Shaped[Array, "T B ..."]
    first: Bool[Array, "T B"]
    transitions: Transitions


class Episodes(NamedTuple):
    """Where episodes ended in a trajectory, NumPy `[T, B]`."""

    ended: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray


class Delivery(NamedTuple):
    """What goes through an actor's channel."""

    number: int
    unroll: Unroll
    episodes: Episodes
    after: Shaped[Array, "B ..."]
    """The observation it led to, where the next trajectory starts."""


class Commit(NamedTuple):
    """Where the trajectories handed over so far have led."""

    number: int
    """Of the trajectory that comes next."""
    observation: Shaped[Array, "B ..."] | None
    """The one it starts from; None before the first."""


class Acting(NamedTuple):
    """The two compiled steps of acting; shared by all actors."""

    act: Callable[..., tuple[Int[Array, "B"], Float[Array, "B A"]]]
    """`act(params, observation, key, step, streams) -> (action, logits)`."""
    push: Callable[..., Shaped[Array, "B ..."]]
    """`push(observation, frame, first) -> observation`."""


@functools.lru_cache(maxsize=8)
def acting(policy: Callable[[PyTree, Shaped[Array, "B ..."]], Float[Array, "B A"]]) -> Acting:
    """Acting with that policy; an action's key is made of the step's and the stream's number."""

    def act(params, observation, key, step, streams):
        logits = policy(params, observation)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, step), streams)
        return jax.vmap(jax.random.categorical)(keys, logits), logits

    return Acting(jax.jit(act), jax.jit(host.push))


def observations(unroll: Unroll) -> Trajectory:
    """The trajectory with its frames stacked: T+1 observations.

    As `host.push` frame by frame would make them, all at once: a frame of some age is shown
    where no episode began since, and is zero elsewhere.
    """
    before, size, steps = unroll.before[0], unroll.frame.shape[-1], len(unroll.frame)
    stack = before.shape[-1] // size
    frame = jnp.concatenate([jnp.stack(jnp.split(before, stack, axis=-1)), unroll.frame])
    begun = jnp.cumsum(unroll.first, axis=0)
    episode = jnp.concatenate([jnp.zeros((stack, *begun.shape[1:]), begun.dtype), begun])

    def aged(age: int) -> Array:
        shown, its = (x[stack - age : stack - age + steps] for x in (frame, episode))
        same = (its == begun).reshape(*begun.shape, *[1] * (frame.ndim - 2))
        return jnp.where(same, shown, jnp.zeros((), frame.dtype))

    after = jnp.concatenate([aged(age) for age in reversed(range(stack))], axis=-1)
    return Trajectory(jnp.concatenate([unroll.before, after]), unroll.transitions)


class Post(NamedTuple):
    """An actor's place: which streams, where, and how they are drawn."""

    name: str
    streams: np.ndarray
    """Their numbers among all streams of the run."""
    device: jax.Device
    key: Key[Array, ""]
    unroll_length: int
    lag: int


class Actor:
    """A thread with a batch of environments, from `start` to `stop`."""

    def __init__(
        self,
        post: Post,
        environment: HostEnvironment,
        seeds: np.ndarray,
        acting: Acting,
        parameters: Parameters,
        commit: Commit,
        saved: np.ndarray | None = None,
    ):
        """`saved`, of `Batch.save`, goes on with those episodes; without it fresh ones begin."""
        self.post = post
        self.channel: Channel[Delivery] = Channel(post.name, capacity=post.lag + 1)
        self.failure: BaseException | None = None
        self.of_environment = False
        """Whether what failed is the environment's own code."""
        self.watch = Watch()
        self._environment, self._seeds, self._saved = environment, seeds, saved
        self._commit = commit
        self._acting, self._parameters = acting, parameters
        self._key, self._ids = jax.device_put((post.key, _numbers(post.streams)), post.device)
        self._batch: Batch | None = None
        self._thread = threading.Thread(target=self._run, name=post.name, daemon=True)

    def start(self) -> None:
        """Begin with the trajectory that comes next."""
        self._thread.start()

    def stop(self, reason: str, timeout: float) -> bool:
        """End the thread as soon as it looks up; False if it did not in time."""
        self.channel.close(reason)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def error(self) -> str:
        """What ended the thread, in a line."""
        return "ended" if self.failure is None else in_a_line(self.failure)

    def save(self, timeout: float) -> np.ndarray:
        """The environments' state; only while the thread waits for parameters."""
        if self._batch is None or not self._environment.state_bytes:
            return np.zeros((len(self.post.streams), 0), np.uint8)
        saved = within(timeout, self._batch.save)
        wanted = (len(self.post.streams), self._environment.state_bytes)
        if (saved.shape, saved.dtype) != (wanted, np.uint8):
            raise BadEnvironment(f"it is {saved.dtype}{saved.shape}, not uint8{wanted}")
        return saved

    def _run(self) -> None:
        try:
            with self._outside("starting its environments"):
                self._batch = self._environment.start(self._seeds)
                frame = self._entered(self._batch)
            with self.watch("its device", _DEVICE):
                pseudo = self._begin(frame)
            while True:
                params = self._params()
                with self.watch("its device", _DEVICE):
                    delivery = self._unroll(self._batch, params, pseudo)
                self.channel.put(delivery)
                self._commit, pseudo = Commit(delivery.number + 1, delivery.after), None
        except Closed:
            pass
        except BaseException as error:
            # SystemExit too: a thread that ends without a word would be waited for.
            self.failure = error
            self.channel.close(self.error)
        finally:
            self._close()

    @contextlib.contextmanager
    def _outside(self, what: str) -> Iterator[None]:
        """In the environment's own code, which may be written in JAX too."""
        with self.watch(what):
            try:
                yield
            except BaseException:
                self.of_environment = True
                raise

    def _params(self) -> PyTree:
        """For the trajectory that comes next. How long they take is the learner's matter."""
        copies = self._parameters.get(max(0, self._commit.number - self.post.lag))
        return jax.block_until_ready(copies[self.post.device])

    def _entered(self, batch: Batch) -> np.ndarray | None:
        """The first frames of fresh episodes; None where those that were saved go on."""
        if self._saved is None:
            return batch.reset()
        batch.load(self._saved)
        return None

    def _begin(self, frame: np.ndarray | None) -> HostStep | None:
        """Stand where the last trajectory led; the pseudo-step from there, if it takes one."""
        if frame is None:
            return None
        _check(self._environment, frame, len(self.post.streams), "the first frame")
        pseudo = _pseudo_step(frame)
        if self._commit.observation is not None:
            return pseudo
        nothing = host.empty(self._environment, len(self.post.streams))
        observation = self._push(jax.device_put(nothing, self.post.device), pseudo)[0]
        self._commit = Commit(0, observation)
        return None

    def _unroll(self, batch: Batch, params: PyTree, pseudo: HostStep | None) -> Delivery:
        """The trajectory that comes next."""
        number, before = self._commit
        assert before is not None
        observation, made, steps = before, [], []
        for t in range(self.post.unroll_length):
            clock = np.uint32((number * self.post.unroll_length + t) % 2**32)
            action, logits = self._acting.act(params, observation, self._key, clock, self._ids)
            step = pseudo if pseudo is not None and t == 0 else self._step(batch, action)
            observation, frame = self._push(observation, step)
            made.append((frame, action, logits))
            steps.append(step)
        unroll, episodes = _assembled(before, made, steps, self.post.device)
        return Delivery(number, unroll, episodes, observation)

    def _step(self, batch: Batch, action: Array) -> HostStep:
        chosen = np.asarray(action)
        with self._outside("a step of its environments"):
            step = batch.step(chosen)
        _check(self._environment, step.frame, len(chosen), "a frame")
        for field in HostStep._fields[1:]:
            _check_numbers(field, getattr(step, field), len(chosen))
        return step

    def _push(self, observation: Array, step: HostStep) -> tuple[Array, Array]:
        frame = jax.device_put(step.frame, self.post.device)
        return self._acting.push(observation, frame, step.first), frame

    def _close(self) -> None:
        if self._batch is None:
            return
        try:
            self._batch.close()
        except Exception as error:
            self.failure = self.failure or error


def _assembled(
    before: Array, made: list[tuple], steps: list[HostStep], device: jax.Device
) -> tuple[Unroll, Episodes]:
    """What was made on the device stays there; what the host was told follows, once."""
    frame, action, logits = (_stacked(column) for column in zip(*made, strict=True))
    columns = list(zip(*steps, strict=True))
    first, *told = (np.stack(column) for column in columns[1:])
    first, *numbers = jax.device_put([first, *told[:3]], device)
    reward, discount, weight = numbers
    transitions = Transitions(action, reward, discount, weight, logits)
    unroll = Unroll(before[None], frame, first, transitions)
    return unroll, Episodes(*told[3:])


@jax.jit
def _stacked(arrays: Sequence[Array]) -> Array:
    return jnp.stack(arrays)


def in_a_line(error: BaseException) -> str:
    """Its type, and the first line of what it says."""
    line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {line}"


def _numbers(streams: np.ndarray) -> np.ndarray:
    return np.asarray(streams, np.uint32)


def _pseudo_step(frame: np.ndarray) -> HostStep:
    """The step that leads to a fresh episode; nothing is learned from it."""
    streams = len(frame)
    zeros, none = np.zeros(streams, np.float32), np.zeros(streams, bool)
    return HostStep(frame, ~none, zeros, zeros, zeros, none, zeros, np.zeros(streams, np.int32))


class BadEnvironment(ValueError):
    """An environment returned what its description does not allow."""


def _check(environment: HostEnvironment, frame: np.ndarray, streams: int, what: str) -> None:
    wanted = ((streams, *environment.frame_shape), environment.frame_dtype)
    if (frame.shape, frame.dtype) != wanted:
        raise BadEnvironment(f"{what} is {frame.dtype}{frame.shape}, not {wanted[1]}{wanted[0]}")
    if frame.dtype.kind == "f" and not np.isfinite(frame).all():
        raise BadEnvironment(f"{what} holds numbers that are not finite")


def _check_numbers(field: str, values: np.ndarray, streams: int) -> None:
    if values.shape != (streams,):
        raise BadEnvironment(f"{field} is of shape {values.shape}, not ({streams},)")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise BadEnvironment(f"{field} holds numbers that are not finite")
