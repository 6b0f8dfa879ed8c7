"""Whole episodes of environments on the host: scored, and shown.

A lost life is no end of an episode here: returns are those of whole games, of raw rewards.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.agent.learner import Learner
from emphatic.envs import host
from emphatic.errors import UserError


def episodes_by_stream(
    environment: host.HostEnvironment,
    learner: Learner,
    params: Any,
    *,
    each: int,
    streams: int,
    seed: int,
    max_steps: int,
) -> list[list[tuple[float, int]]]:
    """Return and length of the first `each` episodes of each stream, in their order.

    `max_steps` bounds an episode, on average: `each` times that per stream.
    """
    found: list[list[tuple[float, int]]] = [[] for _ in range(streams)]
    player = _Player(environment, learner, params, streams, seed)
    try:
        for _ in range(each * max_steps):
            step = player.step()
            for stream in np.flatnonzero(step.ended):
                outcome = (float(step.episode_return[stream]), int(step.episode_length[stream]))
                found[stream].append(outcome)
            if step.ended.any() and all(len(stream) >= each for stream in found):
                return found
    finally:
        player.close()
    missing = sum(len(stream) < each for stream in found)
    raise UserError("max_steps", f"of {max_steps} left {missing} streams unfinished; raise it")


def record(
    environment: host.HostEnvironment, learner: Learner, params: Any, *, seed: int, max_steps: int
) -> tuple[np.ndarray, float]:
    """Pictures of one episode, `[steps + 1, ...]`, and its return (so far).

    A picture is a frame, where frames are images; else what the environment renders.
    """
    image = len(environment.frame_shape) == 3
    if not image and environment.start_rendered is None:
        raise UserError("run", "its observations are no images, so there is nothing to show")
    player = _Player(environment, learner, params, 1, seed, rendered=not image)
    try:
        pictures, total = [player.picture()], 0.0
        for _ in range(max_steps):
            step = player.step()
            total += float(step.reward[0])
            if not step.first[0]:
                pictures.append(player.picture())
            if step.ended[0]:
                break
    finally:
        player.close()
    return np.stack(pictures), total


class _Player:
    """A batch and the agent in it, without learning."""

    def __init__(
        self,
        environment: host.HostEnvironment,
        learner: Learner,
        params: Any,
        streams: int,
        seed: int,
        *,
        rendered: bool = False,
    ):
        # Not the seeds a run draws from the same number: those are of longer sequences.
        seeds = np.random.SeedSequence([seed]).generate_state(streams)
        self._rendered: host.RenderedBatch | None = None
        if rendered and environment.start_rendered is not None:
            self._rendered = environment.start_rendered(seeds)
        self._batch = self._rendered or environment.start(seeds)
        self._params, self._key = params, jax.random.key(seed)
        self._observation = host.empty(environment, streams)
        self._frame, self._first = self._batch.reset(), np.ones(streams, bool)
        self._act = jax.jit(lambda *given: _act(learner, *given))

    def step(self) -> host.HostStep:
        """One step of every stream."""
        given = (self._observation, self._frame, self._first, self._key)
        action, self._observation, self._key = self._act(self._params, *given)
        step = self._batch.step(np.asarray(action))
        self._frame, self._first = step.frame, step.first
        return step

    def picture(self) -> np.ndarray:
        """Of the first stream, now."""
        return self._frame[0] if self._rendered is None else self._rendered.render()[0]

    def close(self) -> None:
        self._batch.close()


def _act(learner: Learner, params: Any, observation, frame, first, key):
    key, act_key = jax.random.split(key)
    observation = host.push(observation, jnp.asarray(frame), first)
    return learner.act(params, observation, act_key)[0], observation, key
