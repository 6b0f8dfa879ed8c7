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
from emphatic.errors import UserError

SCREEN = (210, 160)
"""Height and width of the screen, the same in all 57 games."""

_ROOM = 24 * 1024
"""For an emulator's own state: 14.5 KB in the 57 games; its length varies a little."""


def facts(game: str, settings: Mapping[str, Any]) -> tuple[int, int]:
    """The number of actions and the size of an `Emulators`' state."""
    actions = _number_of_actions(game, bool(settings["full_actions"]))
    return actions, _record(_channels(settings)).itemsize


@functools.cache
def _number_of_actions(game: str, full: bool) -> int:
    """Asked of an emulator, which takes a tenth of a second to start."""
    settings = {"full_actions": full}
    return len(_actions(_emulator(game, settings, 1), settings))


def _channels(settings: Mapping[str, Any]) -> tuple[int, ...]:
    return () if settings["pixels"] == "grey84" else (3,)


def _record(channels: tuple[int, ...]) -> np.dtype:
    screen = (*SCREEN, *channels)
    fields = [("over", "?"), ("executed", "i4"), ("size", "i4")]
    twisters = [("keys", "u4", (2, 624)), ("positions", "i4", 2)]
    screens = [("pooled", "u1", screen), ("earlier", "u1", screen)]
    return np.dtype([*fields, *twisters, *screens, ("emulator", "u1", _ROOM)])


def _emulator(game: str, settings: Mapping[str, Any], seed: int) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", seed)
    emulator.setFloat("repeat_action_probability", 0.0)  # See `_Game._act`.
    emulator.setInt("frame_skip", 1)
    emulator.setInt("max_num_frames_per_episode", 0)
    emulator.setBool("color_averaging", False)
    rom = roms.get_rom_path(game)
    if rom is None:
        raise UserError("env", f"ale-py has no {game!r}")
    emulator.loadROM(str(rom))
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
        self._sticky = float(np.float32(settings["sticky_actions"]))
        self._noops, self._sticks = Twister(), Twister()
        self._pooled, self._earlier = np.zeros((2, *SCREEN, *self._channels), np.uint8)
        self.over = False
        self.seed(1)

    def seed(self, seed: int) -> None:
        """All that is random here comes from `seed`."""
        self._emulator = _emulator(self._name, self._settings, seed)
        self._actions = _actions(self._emulator, self._settings)
        self._noops.seed(seed)
        self._sticks.seed(seed)
        self._executed = ale_py.Action.NOOP

    def restart(self) -> None:
        """A new game, some frames into it."""
        self._reset()
        for _ in range(self._noops.below(self._settings["noop_max"] + 1)):
            self._act(ale_py.Action.NOOP)
            if self._emulator.game_over():
                self._reset()
        self._screen(self._pooled)
        self._earlier[:] = 0
        self.over = False

    def _reset(self) -> None:
        self._emulator.reset_game()
        self._executed = ale_py.Action.NOOP

    def _act(self, action: ale_py.Action) -> int:
        """One frame of the emulator, and its reward.

        What sticks is decided here, with the emulator's generator and in its order (it
        draws for a second player too): the emulator's state lacks the action executed last.
        """
        if self._sticky:
            sticks, _ = self._sticks.fraction() < self._sticky, self._sticks.fraction()
            action = self._executed if sticks else action
        self._executed = action
        return self._emulator.act(action)

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
            reward += self._act(self._actions[action])
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
        keys, positions = zip(self._noops.save(), self._sticks.save(), strict=True)
        record["keys"], record["positions"] = keys, positions
        record["over"], record["executed"] = self.over, self._executed.value
        record["size"] = len(state)
        record["pooled"], record["earlier"] = self._pooled, self._earlier
        record["emulator"][0, : len(state)] = state
        return record

    def load(self, saved: np.ndarray) -> None:
        """Go on where `save` was called."""
        record = host.from_bytes(saved, _record(self._channels))[0]
        state = record["emulator"][: record["size"]].tobytes()
        self._emulator.restoreSystemState(ale_py.ALEState(state))
        self._executed = ale_py.Action(int(record["executed"]))
        for twister, i in ((self._noops, 0), (self._sticks, 1)):
            twister.load(record["keys"][i], int(record["positions"][i]))
        self._pooled, self._earlier = record["pooled"].copy(), record["earlier"].copy()
        self.over = bool(record["over"])


class Twister:
    """`std::mt19937`, and two distributions on it as libstdc++ and the emulator have them."""

    def __init__(self):
        self._generator = np.random.MT19937()

    def seed(self, seed: int) -> None:
        """As C++ seeds it with one number."""
        key = np.empty(624, np.uint32)
        key[0] = value = seed
        for i in range(1, 624):
            value = (1812433253 * (value ^ value >> 30) + i) % 2**32
            key[i] = value
        self.load(key, 624)

    def save(self) -> tuple[np.ndarray, int]:
        """Its key and the position in it."""
        state: Any = self._generator.state
        return state["state"]["key"], state["state"]["pos"]

    def load(self, key: np.ndarray, position: int) -> None:
        """Go on where `save` was called."""
        inner: Any = {"key": key, "pos": position}
        self._generator.state = {"bit_generator": "MT19937", "state": inner}

    def below(self, count: int) -> int:
        """A number from 0 to `count - 1`.

        Reference: Lemire, "Fast Random Integer Generation in an Interval", 2019.
        """
        while True:
            product = count * int(self._generator.random_raw())
            if product % 2**32 >= 2**32 % count:
                return product >> 32

    def fraction(self) -> float:
        """A number from 0 to 1."""
        return int(self._generator.random_raw()) / 2**32


def area(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """`image[H, W]` resampled by area, as OpenCV does it: in float32 and in its order.

    A pixel is the mean of what it covers, along the rows first, rounded half to even.
    """
    columns, across = _cover(image.shape[1], width)
    rows, down = _cover(image.shape[0], height)
    narrow: Any = sum(image[:, c] * a for c, a in zip(columns, across, strict=True))
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
