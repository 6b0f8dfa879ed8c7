"""Emulators stepped one by one in Python: slow, readable, and their state can be saved.

What `AtariVectorEnv` does with its threads, done with plain `ALEInterface`s: the same
no-ops from the same generator, the same pooling of screens, the same resampling; the
stream is the same to the bit (tests/envs/test_atari.py). A state is a record of fixed
size, and holds the emulator's own state, its random numbers too.
"""

import functools
from collections.abc import Mapping
from typing import Any

import ale_py
import numpy as np
from ale_py import roms

from emphatic.envs import host

SCREEN = (210, 160)
"""Height and width of the screen, the same in all 57 games."""

_ROOM = 24 * 1024
"""For an emulator's own state: 14.5 KB in the 57 games; its length varies a little."""


def facts(game: str, settings: Mapping[str, Any]) -> tuple[int, int]:
    """The number of actions and the size of an `Emulators`' state."""
    emulator = _emulator(game, settings, 1)
    return len(_actions(emulator, settings)), _record(_channels(settings)).itemsize


def _channels(settings: Mapping[str, Any]) -> tuple[int, ...]:
    return () if settings["pixels"] == "grey84" else (3,)


def _record(channels: tuple[int, ...]) -> np.dtype:
    screen = (*SCREEN, *channels)
    fields = [("over", "?"), ("key", "u4", 624), ("position", "i4"), ("size", "i4")]
    screens = [("pooled", "u1", screen), ("earlier", "u1", screen)]
    return np.dtype([*fields, *screens, ("emulator", "u1", _ROOM)])


def _emulator(game: str, settings: Mapping[str, Any], seed: int) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", seed)
    emulator.setFloat("repeat_action_probability", settings["sticky_actions"])
    emulator.setInt("frame_skip", 1)
    emulator.setInt("max_num_frames_per_episode", 0)
    emulator.setBool("color_averaging", False)
    emulator.loadROM(roms.get_rom_path(game))
    return emulator


def _actions(emulator: ale_py.ALEInterface, settings: Mapping[str, Any]) -> list[ale_py.Action]:
    full = settings["full_actions"]
    return emulator.getLegalActionSet() if full else emulator.getMinimalActionSet()


class Emulators:
    """A batch of them; see `atari.Emulators`."""

    def __init__(self, game: str, settings: Mapping[str, Any], streams: int):
        self._games = [_Game(game, settings) for _ in range(streams)]

    def reset(self, seeds):
        for game, seed in zip(self._games, seeds, strict=True):
            game.seed(int(seed))
            game.restart()
        return self._frames(), self._lives()

    def step(self, action):
        pairs = zip(self._games, action, strict=True)
        reward = np.array([game.step(int(a)) for game, a in pairs], np.int32)
        over = np.array([game.over for game in self._games])
        return self._frames(), reward, over, self._lives()

    def restart(self, those):
        for game, wanted in zip(self._games, those, strict=True):
            if wanted:
                game.restart()
        return self._frames(), self._lives()

    def _frames(self) -> np.ndarray:
        return np.stack([game.frame() for game in self._games])

    def _lives(self) -> np.ndarray:
        return np.array([game.lives() for game in self._games], np.int32)

    def save(self):
        return np.concatenate([host.as_bytes(game.save()) for game in self._games])

    def load(self, saved):
        for game, one in zip(self._games, saved, strict=True):
            game.load(one)

    def close(self) -> None:
        self._games = []


class _Game:
    """One emulator, with the ways of ale-py's vector environment."""

    def __init__(self, game: str, settings: Mapping[str, Any]):
        self._name, self._settings = game, settings
        self._channels = _channels(settings)
        self._noops = Draws(settings["noop_max"] + 1)
        self._pooled, self._earlier = np.zeros((2, *SCREEN, *self._channels), np.uint8)
        self.over = False
        self.seed(1)

    def seed(self, seed: int) -> None:
        """All that is random here comes from `seed`."""
        self._emulator = _emulator(self._name, self._settings, seed)
        self._actions = _actions(self._emulator, self._settings)
        self._noops.seed(seed)

    def restart(self) -> None:
        """A new game, some frames into it."""
        emulator = self._emulator
        emulator.reset_game()
        for _ in range(self._noops.draw()):
            emulator.act(ale_py.Action.NOOP)
            if emulator.game_over():
                emulator.reset_game()
        self._screen(self._pooled)
        self._earlier[:] = 0
        self.over = False

    def step(self, action: int) -> int:
        """The reward of a step; 0 if it is a restart.

        As in ale-py, a screen on which the game is over is not looked at: the frame of a
        termination, whose value is multiplied by 0, shows what was there before.
        """
        if self.over:
            self.restart()
            return 0
        reward, repeat = 0, self._settings["action_repeat"]
        for left in range(repeat - 1, -1, -1):
            reward += self._emulator.act(self._actions[action])
            self.over = self._emulator.game_over()
            if self.over:
                break
            if left < 2:
                self._screen(self._earlier if left else self._pooled)
        np.maximum(self._pooled, self._earlier, out=self._pooled)
        return reward

    def _screen(self, into: np.ndarray) -> None:
        colour = bool(self._channels)
        get = self._emulator.getScreenRGB if colour else self._emulator.getScreenGrayscale
        get(into)

    def frame(self) -> np.ndarray:
        """`[210, 160, 3]`, a copy, or `[84, 84, 1]`."""
        return self._pooled.copy() if self._channels else area(self._pooled, 84, 84)[..., None]

    def lives(self) -> int:
        return self._emulator.lives()

    def save(self) -> np.ndarray:
        """A record `[1]`."""
        record = np.zeros(1, _record(self._channels))
        state = np.frombuffer(self._emulator.cloneSystemState().serialize(), np.uint8)
        if len(state) > _ROOM:
            raise RuntimeError(f"the emulator's state needs {len(state)} bytes, more than {_ROOM}")
        key, position = self._noops.state
        values = {"over": self.over, "key": key, "position": position, "size": len(state)}
        for field, value in values.items():
            record[field] = value
        record["pooled"], record["earlier"] = self._pooled, self._earlier
        record["emulator"][0, : len(state)] = state
        return record

    def load(self, saved: np.ndarray) -> None:
        """Go on where `save` was called."""
        record = host.from_bytes(saved, _record(self._channels))[0]
        state = record["emulator"][: record["size"]].tobytes()
        self._emulator.restoreSystemState(ale_py.ALEState(state))
        self._noops.state = record["key"], int(record["position"])
        self._pooled, self._earlier = record["pooled"].copy(), record["earlier"].copy()
        self.over = bool(record["over"])


class Draws:
    """`std::uniform_int_distribution(0, count - 1)` on `std::mt19937`, as libstdc++ has it.

    Reference: Lemire, "Fast Random Integer Generation in an Interval", 2019.
    """

    def __init__(self, count: int):
        self._count = count
        self._generator = np.random.MT19937()

    def seed(self, seed: int) -> None:
        key = np.empty(624, np.uint32)
        key[0] = value = seed
        for i in range(1, 624):
            value = (1812433253 * (value ^ value >> 30) + i) % 2**32
            key[i] = value
        self.state = key, 624

    @property
    def state(self) -> tuple[np.ndarray, int]:
        """Key and position of the generator."""
        inner: Any = self._generator.state["state"]
        return inner["key"], inner["pos"]

    @state.setter
    def state(self, state: tuple[np.ndarray, int]) -> None:
        key, position = state
        inner = {"key": key, "pos": position}
        self._generator.state = {"bit_generator": "MT19937", "state": inner}

    def draw(self) -> int:
        """A number from 0 to `count - 1`."""
        if self._count == 1:  # Nothing is drawn then.
            return 0
        while True:
            product = self._count * int(self._generator.random_raw())
            if product % 2**32 >= 2**32 % self._count:
                return product >> 32


def area(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """`image[H, W]` resampled by area, as OpenCV does it: in float32 and in its order.

    A pixel is the mean of what it covers, along the rows first, rounded half to even.
    """
    columns, across = _cover(image.shape[1], width)
    rows, down = _cover(image.shape[0], height)
    narrow = sum(image[:, c] * a for c, a in zip(columns, across, strict=True))
    small = sum(narrow[r] * d[:, None] for r, d in zip(rows, down, strict=True))
    return np.rint(small).astype(np.uint8)


@functools.cache
def _cover(source: int, target: int) -> tuple[np.ndarray, np.ndarray]:
    """What each of `target` pixels covers of `source`, `[k, target]`: where, how much of it."""
    scale = source / target
    edge = np.arange(target) * scale
    first = np.floor(edge).astype(int) + np.arange(int(np.ceil(scale)) + 1)[:, None]
    covered = np.minimum(first + 1, edge + scale) - np.maximum(first, edge)
    share = np.where(covered > 1e-3, covered, 0.0) / np.minimum(scale, source - edge)
    return np.minimum(first, source - 1), share.astype(np.float32)
