"""The 57 Atari games, through ale-py: `envs.make("atari/breakout", protocol="sticky")`.

ale-py's vector environment is called with each of its flags, because its defaults clip
rewards and press FIRE. Three of its ways are not taken over, and docs/environments.md says
more of them:

- Its `episodic_life` restarts the game at each lost life. Here a fall of the lives is a
  discount of 0 and nothing else.
- Its limit on frames ends an episode with a mixture of old frames, and that frame is
  bootstrapped from. Here the limit is counted outside, and the emulator restarted.
- It draws 0 to `noop_max - 1` no-ops. Here 0 to `noop_max`.

Reference: Bellemare et al., "The Arcade Learning Environment", 2013; Machado et al.,
"Revisiting the Arcade Learning Environment", 2018.
"""

import os
import types
from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from emphatic.envs import host
from emphatic.errors import UserError

GAMES = tuple(
    """alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider
    berzerk bowling boxing breakout centipede chopper_command crazy_climber defender
    demon_attack double_dunk enduro fishing_derby freeway frostbite gopher gravitar hero
    ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman
    name_this_game phoenix pitfall pong private_eye qbert riverraid road_runner robotank
    seaquest skiing solaris space_invaders star_gunner surround tennis time_pilot tutankham
    up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon""".split()  # noqa: SIM905
)
"""The 57 games of the usual benchmark."""

FRAMES: Mapping[str, tuple[int, ...]] = {"grey84": (84, 84, 1), "rgb210": (210, 160, 3)}
"""The shape of a frame, by `pixels`."""

PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"noop_max": 30, "life_loss": True, "sticky_actions": 0.0, "full_actions": False},
    "sticky": {"noop_max": 0, "life_loss": False, "sticky_actions": 0.25, "full_actions": True},
}
"""The settings a `protocol` stands for."""

STATE_INCOMPLETE = ("qbert", "road_runner", "yars_revenge")
"""Games of which ale-py 0.12's state lacks something: restored, they go on differently."""

STICKS_OTHERWISE = ("berzerk", "double_dunk")
"""Games whose stream from single emulators, with sticky actions, is not the vector one's. In Double
Dunk what the emulator presses by itself at a start may stick too; Berzerk is not explained."""

_NO_LIMIT = 2**30
"""Of frames in the emulator: beyond any episode, and one more still fits its 32 bits."""


def make(
    game: str,
    *,
    protocol: Literal["paper", "sticky"] = "paper",
    pixels: Literal["grey84", "rgb210"] = "grey84",
    stack: int = 4,
    action_repeat: int = 4,
    max_frames: int | None = 108_000,
    noop_max: int | None = None,
    life_loss: bool | None = None,
    sticky_actions: float | None = None,
    full_actions: bool | None = None,
    emulator: Literal["vector", "single"] = "vector",
    num_threads: int | None = None,
) -> host.HostEnvironment:
    """An Atari game; a frame is the maximum of the last two screens of a step.

    `protocol` fills in each of `noop_max` (an episode starts with 0 to that many frames
    of doing nothing), `life_loss` (a lost life has discount 0), `sticky_actions` (chance
    that an emulator's frame repeats the action before) and `full_actions` (all 18 or those
    that do something) that is not given: "paper" is Jiang et al.'s, "sticky" Machado et
    al.'s. `pixels` is "grey84" (84x84, grey) or "rgb210" (210x160, colour: the paper's).
    `max_frames` truncates; the frames before the first step do not count.

    `emulator="single"` steps plain emulators in Python: slower, the same stream to the
    bit (but for `STICKS_OTHERWISE`), and its state can be saved, but for `STATE_INCOMPLETE`.
    `num_threads` (default: one for each core, not more than streams) changes no result and is
    no setting.
    """
    given = {
        "noop_max": noop_max,
        "life_loss": life_loss,
        "sticky_actions": sticky_actions,
        "full_actions": full_actions,
    }
    chosen = {k: PROTOCOLS[protocol][k] if v is None else v for k, v in given.items()}
    settings: dict[str, Any] = {
        "protocol": protocol,
        "pixels": pixels,
        "stack": stack,
        "action_repeat": action_repeat,
        "max_frames": max_frames,
        **chosen,
        "emulator": emulator,
    }
    _check(settings, num_threads)
    return _environment(game, types.MappingProxyType(settings), num_threads)


def _check(settings: Mapping[str, Any], num_threads: int | None) -> None:
    for field, least in (("stack", 1), ("action_repeat", 1), ("max_frames", 1), ("noop_max", 0)):
        if settings[field] is not None and settings[field] < least:
            raise UserError(field, f"must be at least {least}, not {settings[field]}")
    if not 0 <= settings["sticky_actions"] < 1:
        raise UserError("sticky_actions", f"must lie in [0, 1), not {settings['sticky_actions']}")
    if num_threads is not None and num_threads < 1:
        raise UserError("num_threads", f"must be at least 1, not {num_threads}")


def _environment(
    game: str, settings: Mapping[str, Any], num_threads: int | None
) -> host.HostEnvironment:
    from emphatic.envs import ale

    actions, emulator_bytes = ale.facts(game, settings)
    single = settings["emulator"] == "single"
    savable = single and game not in STATE_INCOMPLETE
    frames, repeat = settings["max_frames"], settings["action_repeat"]
    limit = None if frames is None else -(-frames // repeat)

    def start(seeds: np.ndarray) -> host.Batch:
        if single:
            emulators: Emulators = ale.Emulators(game, settings, len(seeds))
        else:
            emulators = _Vector(game, settings, len(seeds), num_threads)
        return _Batch(emulators, seeds, limit, settings["life_loss"])

    return host.HostEnvironment(
        name=f"atari/{game}",
        num_actions=actions,
        frame_shape=FRAMES[settings["pixels"]],
        frame_dtype=np.dtype(np.uint8),
        start=start,
        stack=settings["stack"],
        state_bytes=_BATCH_BYTES + emulator_bytes if savable else 0,
        settings=settings,
    )


@runtime_checkable
class Emulators(Protocol):
    """A batch of emulators: a frame of each `[B, ...]`, its lives `[B]`."""

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Seed all and start a game in each: frame, lives."""
        ...

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Frame, reward, game over, lives; where a game was over before, a new one starts."""
        ...

    def restart(self, those: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Start a new game in `those` and leave the others: frame, lives."""
        ...

    def save(self) -> np.ndarray: ...
    def load(self, saved: np.ndarray) -> None: ...
    def close(self) -> None: ...


class _Vector:
    """ale-py's emulators in C++."""

    def __init__(
        self, game: str, settings: Mapping[str, Any], streams: int, num_threads: int | None
    ):
        from ale_py import AtariVectorEnv
        from gymnasium.vector import AutoresetMode

        height, width, channels = self._shape = FRAMES[settings["pixels"]]
        self._emulators = AtariVectorEnv(
            game,
            streams,
            batch_size=0,
            num_threads=num_threads or min(streams, os.cpu_count() or 1),
            thread_affinity_offset=-1,
            max_num_frames_per_episode=_NO_LIMIT,
            repeat_action_probability=settings["sticky_actions"],
            full_action_space=settings["full_actions"],
            continuous=False,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            img_height=height,
            img_width=width,
            grayscale=channels == 1,
            stack_num=1,
            frameskip=settings["action_repeat"],
            maxpool=True,
            noop_max=settings["noop_max"] + 1,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,
        )

    def reset(self, seeds):
        frame, info = self._emulators.reset(seed=seeds)
        return self._frame(frame), info["lives"]

    def step(self, action):
        frame, reward, terminated, _, info = self._emulators.step(action)
        return self._frame(frame), reward, terminated, info["lives"]

    def restart(self, those):
        frame, info = self._emulators.reset(options={"reset_mask": those})
        return self._frame(frame), info["lives"]

    def _frame(self, observation: np.ndarray) -> np.ndarray:
        """The same memory, which ale-py allocates anew at each step, without the stack's axis."""
        return observation.reshape(len(observation), *self._shape)

    def save(self):
        raise NotImplementedError('the vector emulator cannot be saved; emulator="single" can')

    def load(self, saved):
        self.save()

    def close(self) -> None:
        self._emulators.close()
        del self._emulators


_BATCH_BYTES = host.Ledger.state_bytes + 4


class _Batch:
    """Emulators by the table of `host`: lives, the limit on frames, returns and lengths."""

    def __init__(self, emulators: Emulators, seeds: np.ndarray, limit: int | None, life_loss: bool):
        # What the emulator takes: 31 bits, and 0 is "by the clock" to parts of it.
        self._seeds = 1 + np.asarray(seeds, np.int64) % (2**31 - 2)
        self._emulators, self._life_loss = emulators, life_loss
        self._ledger = host.Ledger(len(seeds), limit)
        self._lives = np.zeros(len(seeds), np.int32)

    def reset(self) -> np.ndarray:
        frame, self._lives = self._emulators.reset(self._seeds)
        return frame

    def step(self, action: np.ndarray) -> host.HostStep:
        truncated = self._ledger.truncated.copy()
        action = np.asarray(action, np.int32)
        frame, reward, terminated, lives = self._emulators.step(action)
        if truncated.any():  # The emulator went on with those: it knows of no limit.
            frame, lives = self._emulators.restart(truncated)
        lost = self._life_loss & (lives < self._lives)
        self._lives = lives
        return self._ledger.step(frame, reward, terminated, lost_life=lost)

    def save(self) -> np.ndarray:
        lives = host.as_bytes(self._lives.astype(np.int32))
        return np.concatenate([self._ledger.save(), lives, self._emulators.save()], axis=1)

    def load(self, saved: np.ndarray) -> None:
        ledger, lives, emulators = np.split(saved, [host.Ledger.state_bytes, _BATCH_BYTES], axis=1)
        self._ledger.load(ledger)
        self._lives = host.from_bytes(lives, np.dtype(np.int32))
        self._emulators.load(emulators)

    def close(self) -> None:
        self._emulators.close()
