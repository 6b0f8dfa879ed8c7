"""Environments that live on the host: a batch of them stepped at once, outside JAX.

    environment = envs.make("atari/breakout")        # what a network and a run need to know
    batch = environment.start(seeds)                 # one seed a stream
    frame = batch.reset()
    step = batch.step(action)

The stream of steps is that of `base`, with one difference: whatever steps a whole batch in
one call restarts an ended stream in the call after its end, so a pseudo-step follows every
episode's end:

    the step                          reward   discount   weight   ended   next frame
    inside an episode                      r          1        1   no      the next one
    that loses a life and no more          r          0        1   no      the next one
    that terminates an episode             r          0        1   yes     last of this episode
    that truncates an episode              r          1        1   yes     last of this episode
    after an end (pseudo-step)             0          0        0   no      first of a new episode

An environment that starts anew within the step that terminates (`from_jax` keeps the stream
of `base`) shows the first of the new episode there, says so in `first`, and has no
pseudo-step after it.

Frames leave the host once. An observation is the last `stack` frames of an episode, joined
along the last axis, oldest first, zeros where there are none yet; `push` makes it where
the frames are wanted, on a device.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Shaped


class HostStep(NamedTuple):
    """What one step of a batch gave, NumPy arrays `[B]`; see the table of this module."""

    frame: np.ndarray
    """`[B, ...]`, of the states that are current now. Never written to again."""
    first: np.ndarray
    """Whether that frame is the first of an episode."""
    reward: np.ndarray
    """Raw."""
    discount: np.ndarray
    weight: np.ndarray
    ended: np.ndarray
    episode_return: np.ndarray
    """Of raw rewards; 0 where no episode ended."""
    episode_length: np.ndarray
    """Steps, pseudo-steps not counted; 0 where no episode ended."""


@runtime_checkable
class Batch(Protocol):
    """A batch of environments under way; used by one thread at a time."""

    def reset(self) -> np.ndarray:
        """The first frame of every stream, `[B, ...]`; called once."""
        ...

    def step(self, action: np.ndarray) -> HostStep:
        """One step of every stream; the action of a stream at its pseudo-step is ignored."""
        ...

    def save(self) -> np.ndarray:
        """All that `load` needs to go on to the bit: bytes `[B, state_bytes]`."""
        ...

    def load(self, saved: np.ndarray) -> None:
        """Go on where `save` was called; replaces `reset`."""
        ...

    def close(self) -> None:
        """Let go of threads and memory."""
        ...


@runtime_checkable
class RenderedBatch(Batch, Protocol):
    """A batch that can be looked at."""

    def render(self) -> list[np.ndarray]:
        """A picture `[H, W, 3]` of each stream, uint8."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostEnvironment:
    """An environment on the host: what a network and a run need to know, and how to start it."""

    name: str
    num_actions: int
    frame_shape: tuple[int, ...]
    """Of one frame; the last axis is the one that is stacked."""
    frame_dtype: np.dtype
    start: Callable[[np.ndarray], Batch]
    """`start(seeds)`: a batch with a stream for each seed (uint32). A stream depends on its
    seed alone, not on its neighbours."""
    start_rendered: Callable[[np.ndarray], RenderedBatch] | None = None
    """The same, with pictures, for environments whose frames are no images."""
    stack: int = 1
    """Frames that make an observation."""
    state_bytes: int = 0
    """What `save` returns per stream; 0 if the state cannot be had."""
    settings: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType({})
    )
    """Every setting that makes it what it is, for the run's record."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Of an observation, `stack` frames."""
        return (*self.frame_shape[:-1], self.frame_shape[-1] * self.stack)

    @property
    def observation_dtype(self) -> np.dtype:
        """That of a frame."""
        return self.frame_dtype


_PAGE = np.dtype([("total", "f8"), ("length", "i4"), ("over", "?"), ("truncated", "?")])
"""What a `Ledger` knows of a stream."""


class Ledger:
    """Makes steps by the table of this module out of what a batch of environments reports.

    For whatever restarts an ended stream in the call after its end. `limit` truncates an
    episode after that many steps; `truncated` then tells who has to be restarted.
    """

    def __init__(self, streams: int, limit: int | None = None):
        self._limit = limit
        self._book = np.zeros(streams, _PAGE)

    @property
    def truncated(self) -> np.ndarray:
        """Whose last step truncated an episode, bool `[B]`."""
        return self._book["truncated"]

    def step(
        self,
        frame: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray | bool = False,
        lost_life: np.ndarray | bool = False,
    ) -> HostStep:
        """The step that gave these; what a stream reports at its pseudo-step is ignored.

        A termination and a truncation in one step count as a termination.
        """
        book = self._book
        first = book["over"].copy()
        real = ~first
        reward = np.where(real, reward, 0).astype(np.float32)
        book["total"] = np.where(first, 0, book["total"]) + reward
        book["length"] = np.where(first, 0, book["length"] + 1)
        if self._limit is not None:
            truncated = truncated | (book["length"] >= self._limit)
        terminated = real & terminated
        ended = real & (terminated | truncated)
        book["over"], book["truncated"] = ended, ended & ~terminated
        return HostStep(
            frame=frame,
            first=first,
            reward=reward,
            discount=(real & ~terminated & ~np.asarray(lost_life)).astype(np.float32),
            weight=real.astype(np.float32),
            ended=ended,
            episode_return=np.where(ended, book["total"], 0).astype(np.float32),
            episode_length=np.where(ended, book["length"], 0),
        )

    def save(self) -> np.ndarray:
        """Bytes `[B, Ledger.state_bytes]`."""
        return as_bytes(self._book)

    def load(self, saved: np.ndarray) -> None:
        """Go on where `save` was called."""
        self._book = from_bytes(saved, _PAGE)

    state_bytes = _PAGE.itemsize


def as_bytes(records: np.ndarray) -> np.ndarray:
    """The bytes of each of `records[B, ...]`, uint8 `[B, bytes]`: a copy."""
    size = records.nbytes // len(records)
    return np.frombuffer(records.tobytes(), np.uint8).reshape(len(records), size).copy()


def from_bytes(saved: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Records `[B]` out of their bytes: a copy."""
    return np.frombuffer(np.ascontiguousarray(saved, np.uint8).tobytes(), dtype).copy()


def push(
    observation: Shaped[Array, "*batch S"],
    frame: Shaped[Array, "*batch C"],
    first: Bool[Array, "B"],
) -> Shaped[Array, "*batch S"]:
    """The observation after `frame`: the oldest leaves, and all earlier ones if it is a first."""
    size = frame.shape[-1]
    first = first.reshape(-1, *[1] * (frame.ndim - 1))
    kept = jnp.where(first, jnp.zeros((), frame.dtype), observation[..., size:])
    return jnp.concatenate([kept, frame], axis=-1)


def empty(environment: HostEnvironment, streams: int) -> Shaped[Array, "B ..."]:
    """The observation before the first frame."""
    return jnp.zeros((streams, *environment.observation_shape), environment.observation_dtype)
