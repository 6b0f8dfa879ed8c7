"""What every environment on the host must keep to, checked on what it does.

`check(environment)` is the whole battery. What is broken is a `NonconformingError`, which
says the rule and the place. The rules are those of the table in `host`; the word for who
restarts an ended stream within the step that terminates is `first`.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from emphatic.envs import host
from emphatic.envs.conformance import (
    Stream,
    check_arrays,
    check_different,
    check_episodes,
    check_same,
    nowhere,
    require,
)


class Recorded(NamedTuple):
    """What a batch did: its stream, whose observations are frames, and `first[T, B]`."""

    stream: Stream
    first: np.ndarray


def check(
    environment: host.HostEnvironment,
    *,
    steps: int = 200,
    batch: int = 4,
    seed: int = 0,
    policy: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] | None = None,
) -> Recorded:
    """Everything an environment on the host must do; what was recorded, for more checks.

    Plays `2 steps` with uniform actions, or with those of `policy(rng, shape)`, about five
    times over. At least one episode has to end in that time, and so has a life to be lost
    if the settings say that this matters (`life_loss`) and a real step has discount 0.
    """
    rng = np.random.default_rng(seed)
    shape = (2 * steps, batch)
    action = policy(rng, shape) if policy else rng.integers(environment.num_actions, size=shape)
    seeds = rng.integers(2**32, size=batch, dtype=np.uint32)
    recorded = record(environment, seeds, action)
    check_stream(recorded, environment)
    stream = recorded.stream
    require(bool(stream.ended.any()), "an episode ends", f"none in {2 * steps} steps: play more")

    other = np.where(stream.weight == 0, (action + 1) % environment.num_actions, action)
    check_replay(recorded, record(environment, seeds, other))
    _check_alone(recorded, environment, seeds, action)
    check_different(stream, record(environment, seeds + np.uint32(1), action).stream)
    if environment.state_bytes:
        check_state(recorded, environment, seeds, action)
    return recorded


def record(environment: host.HostEnvironment, seeds: np.ndarray, action: np.ndarray) -> Recorded:
    """Play `action[T, B]` with a new batch."""
    batch = environment.start(seeds)
    try:
        return _played(batch, batch.reset(), action)
    finally:
        batch.close()


def _played(batch: host.Batch, frame: np.ndarray, action: np.ndarray) -> Recorded:
    """Steps from `frame` on; what was handed out must still be there at the end."""
    steps, frames, copies = [], [frame], [frame.copy()]
    for chosen in action:
        step = batch.step(chosen)
        steps.append(step)
        frames.append(step.frame)
        copies.append(step.frame.copy())
    kept = all(np.array_equal(a, b) for a, b in zip(frames, copies, strict=True))
    require(kept, "a frame is never written to again", "one was")
    _, first, *rest = (np.stack(field) for field in zip(*steps, strict=True))
    return Recorded(Stream(action, np.stack(copies), *rest), first)


def check_stream(recorded: Recorded, environment: host.HostEnvironment) -> None:
    """The rules that need nothing but the stream, and of the environment its numbers."""
    stream, first = recorded
    check_arrays(stream, dataclasses.replace(environment, stack=1))
    require(first.dtype == np.bool_ and first.shape == stream.ended.shape, "types", "first is off")
    _check_ends(stream, first, bool(environment.settings.get("life_loss", False)))
    check_episodes(stream)


def _check_ends(stream: Stream, first: np.ndarray, life_loss: bool) -> None:
    for field in ("discount", "weight"):
        values = getattr(stream, field)
        require(bool(np.isin(values, (0.0, 1.0)).all()), f"{field} is 0 or 1", "some are not")
    pseudo, over, ended = stream.weight == 0, stream.discount == 0, stream.ended
    at_once = first & ~pseudo
    if not life_loss:
        nowhere(~pseudo & over & ~ended, "discount 0 on a real step ends the episode")
    nowhere(pseudo & ~over, "a pseudo-step has discount 0")
    nowhere(pseudo & (stream.reward != 0), "a pseudo-step has reward 0")
    nowhere(pseudo & ended, "a pseudo-step ends no episode")
    nowhere(pseudo & ~first, "a pseudo-step shows the first frame of an episode")
    nowhere(at_once & ~(ended & over), "only a termination may show the next episode at once")
    nowhere(pseudo[1:] & ~(ended & ~first)[:-1], "a pseudo-step follows an end and its last frame")
    nowhere(~pseudo[1:] & (ended & ~first)[:-1], "an end and its last frame have a pseudo-step")
    nowhere(pseudo[:1], "a stream starts with a real step")


def check_replay(recorded: Recorded, replay: Recorded) -> None:
    """The same seeds and actions give the same stream, to the bit."""
    check_same(recorded.stream, replay.stream)
    same = np.array_equal(recorded.first, replay.first)
    require(same, "the same key and actions give the same stream", "first differs")


def _check_alone(
    recorded: Recorded, environment: host.HostEnvironment, seeds: np.ndarray, action: np.ndarray
) -> None:
    """A stream depends on its seed alone: in two batches, and in another order."""
    order = np.roll(np.arange(len(seeds)), 1)
    halves = [part for part in np.array_split(order, 2) if len(part)]
    parts = [record(environment, seeds[part], action[:, part]) for part in halves]
    back = np.argsort(order)
    for field, whole in zip(Stream._fields, recorded.stream, strict=True):
        apart = np.concatenate([getattr(part.stream, field) for part in parts], axis=1)[:, back]
        same = whole.tobytes() == apart.tobytes()
        require(same, "a stream depends on its seed alone", f"{field} differs in another batch")


def check_state(
    recorded: Recorded, environment: host.HostEnvironment, seeds: np.ndarray, action: np.ndarray
) -> None:
    """Saved and loaded half-way, it goes on to the bit; and saving changes nothing."""
    half = len(action) // 2
    one, other = environment.start(seeds), environment.start(seeds[::-1])
    try:
        head = _played(one, one.reset(), action[:half])
        saved = one.save()
        right = saved.dtype == np.uint8 and saved.shape == (len(seeds), environment.state_bytes)
        require(right, "a state is state_bytes bytes", f"{saved.dtype} {saved.shape}")
        other.load(saved.copy())
        last = head.stream.observation[-1]
        expected = [field[half:] for field in recorded.stream]
        for batch, rule in ((one, "saving changes nothing"), (other, "a loaded state goes on")):
            tail, first = _played(batch, last, action[half:])
            for field, want, have in zip(Stream._fields, expected, tail, strict=True):
                require(want.tobytes() == have.tobytes(), rule, f"{field} differs")
            require(np.array_equal(first, recorded.first[half:]), rule, "first differs")
    finally:
        one.close()
        other.close()
