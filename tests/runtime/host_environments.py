"""Host environments for tests: a countdown that can be told to misbehave."""

import threading
import time

import jax
import numpy as np

from emphatic.envs import host

LENGTH = 7
"""Steps of an episode."""


class Trouble:
    """What goes wrong, and when: `trouble.at[n]` is done to the n-th step of any batch."""

    def __init__(self, **at):
        self.at = {int(step.removeprefix("step")): what for step, what in at.items()}
        self.started = 0
        self.steps = 0
        self.release = threading.Event()
        self.delay = lambda: 0.0

    def __call__(self, step):
        self.steps += 1
        time.sleep(self.delay())
        what = self.at.pop(self.steps, None)
        if what == "raise":
            raise ValueError("the emulator broke")
        if what == "jax":
            raise jax.errors.JaxRuntimeError("INTERNAL: the environment's own program broke")
        if what == "hang":
            self.release.wait(30.0)
        if what == "nan":
            return step._replace(reward=np.full_like(step.reward, np.nan))
        if what == "bad frame":
            return step._replace(frame=np.full_like(step.frame, np.inf))
        if what == "shape":
            return step._replace(frame=step.frame[:, :1])
        return step


class Countdown:
    """A batch: frames tell seed, episode and step; an action of 1 pays 1."""

    def __init__(self, seeds, trouble):
        trouble.started += 1
        self.seeds, self.trouble = seeds % 97, trouble
        self.episode = np.zeros(len(seeds), np.int32)
        self.steps = np.zeros(len(seeds), np.int32)
        self.total = np.zeros(len(seeds), np.float32)
        self.over = np.zeros(len(seeds), bool)

    def frame(self):
        columns = [self.seeds / 97, self.episode / 10, self.steps / LENGTH]
        return np.stack(columns, axis=1).astype(np.float32)

    def reset(self):
        return self.frame()

    def step(self, action):
        pseudo = self.over
        self.steps = np.where(pseudo, 0, self.steps + 1).astype(np.int32)
        self.episode = self.episode + pseudo
        reward = np.where(pseudo, 0, action == 1).astype(np.float32)
        self.total = np.where(pseudo, 0, self.total + reward).astype(np.float32)
        ended = self.steps == LENGTH
        step = host.HostStep(
            self.frame(),
            pseudo.copy(),
            reward,
            np.where(pseudo | ended, 0, 1).astype(np.float32),
            (~pseudo).astype(np.float32),
            ended,
            np.where(ended, self.total, 0).astype(np.float32),
            np.where(ended, self.steps, 0).astype(np.int32),
        )
        self.over = ended
        return self.trouble(step)

    def save(self):
        raise AssertionError("a countdown keeps no state")

    load = save

    def close(self):
        pass


def countdown(trouble):
    """Its state cannot be saved."""
    return host.HostEnvironment(
        name="countdown",
        num_actions=2,
        frame_shape=(3,),
        frame_dtype=np.dtype(np.float32),
        start=lambda seeds: Countdown(seeds, trouble),
        stack=2,
    )
