"""Any Gymnasium environment with discrete actions: `envs.make("gymnasium:CartPole-v1")`.

One's own too, once it is registered: `gymnasium:my_module:MyGame-v0` imports `my_module`
first, as Gymnasium does. A batch is a `SyncVectorEnv` that restarts an ended stream in the
step after its end (`AutoresetMode.NEXT_STEP`), which is the table of `host`.
"""

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from emphatic.envs import host
from emphatic.errors import UserError

PREFIX = "gymnasium:"


class _View(NamedTuple):
    """How an observation becomes a frame."""

    shape: tuple[int, ...]
    dtype: np.dtype
    frames: Callable[[np.ndarray], np.ndarray]
    """Of a batch."""


def make(
    id: str, *, time_limit: int | None = None, stack: int = 1, **arguments: Any
) -> host.HostEnvironment:
    """The environment registered as `id`, or `module:id`.

    `time_limit` takes the place of the registered `max_episode_steps`; like that one it
    truncates. An observation is the last `stack` frames. Further arguments go to
    `gymnasium.make`. A frame is: an image `[H, W, C]` or `[H, W]`, bytes as they are, other
    numbers as float32; a vector as float32, bytes as they are; a number out of `n`, one-hot.
    """
    if stack < 1:
        raise UserError("stack", f"must be at least 1, not {stack}")
    if time_limit is not None and time_limit < 1:
        raise UserError("time_limit", f"must be at least 1 step, not {time_limit}")
    with _said(id):
        example = _made(id, time_limit, arguments)
    actions, first = _actions(id, example.action_space)
    view = _view(id, example.observation_space)
    registered = None if example.spec is None else example.spec.max_episode_steps
    example.close()

    def start(seeds: np.ndarray, **more: Any) -> "_Batch":
        return _Batch(lambda: _made(id, time_limit, arguments | more), seeds, view, first)

    return host.HostEnvironment(
        name=f"{PREFIX}{id}",
        num_actions=actions,
        frame_shape=view.shape,
        frame_dtype=view.dtype,
        start=start,
        start_rendered=functools.partial(start, render_mode="rgb_array"),
        stack=stack,
        settings=types.MappingProxyType({"time_limit": registered, "stack": stack, **arguments}),
    )


def _made(id: str, time_limit: int | None, arguments: dict[str, Any]) -> Any:
    import gymnasium

    # The checker would wrap every environment; what it checks is not ours to complain of.
    options: dict[str, Any] = {"disable_env_checker": True} | arguments
    return gymnasium.make(id, max_episode_steps=time_limit, **options)


@contextlib.contextmanager
def _said(id: str) -> Iterator[None]:
    """What goes wrong in making an environment, in a sentence: the id, a package, an argument."""
    from gymnasium import error

    try:
        yield
    except error.DependencyNotInstalled as problem:
        raise _mistake("env", f"{id!r} needs a package that is missing", problem) from problem
    except ModuleNotFoundError as problem:
        raise _mistake("env", f"{id!r} needs a module that is missing", problem) from problem
    except error.Error as problem:
        raise _mistake("env", f"gymnasium cannot make {id!r}", problem) from problem
    except ValueError as problem:
        # Of Gymnasium's own parsing: an id with several colons.
        raise _mistake("env", f"gymnasium cannot make {id!r}", problem) from problem
    except TypeError as problem:
        raise _mistake("settings", f"{id!r} does not take these", problem) from problem


def _mistake(field: str, sentence: str, problem: Exception) -> UserError:
    return UserError(field, f"{sentence}: {' '.join(str(problem).split())}")


def _actions(id: str, space: Any) -> tuple[int, int]:
    """How many there are, and the environment's number of the first."""
    from gymnasium import spaces

    if not isinstance(space, spaces.Discrete):
        raise UserError("env", f"{id!r} has actions {space}; only Discrete ones can be played")
    return int(space.n), int(space.start)


def _view(id: str, space: Any) -> _View:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        count, first = int(space.n), int(space.start)
        return _View((count,), np.dtype(np.float32), lambda x: _one_hot(x - first, count))
    plain = isinstance(space, spaces.Box | spaces.MultiBinary)
    if not plain or len(space.shape) > 3:
        offer = "wrap it so that they are numbers of up to three axes (gymnasium.spaces.Box)"
        raise UserError("env", f"{id!r} has observations {space}, which no network takes: {offer}")
    shape = {0: (1,), 2: (*space.shape, 1)}.get(len(space.shape), space.shape)
    dtype = np.dtype(np.uint8 if space.dtype == np.uint8 else np.float32)
    if isinstance(space, spaces.MultiBinary):
        dtype = np.dtype(np.float32)
    return _View(shape, dtype, lambda x: np.asarray(x, dtype).reshape(len(x), *shape))


def _one_hot(number: np.ndarray, count: int) -> np.ndarray:
    return np.eye(count, dtype=np.float32)[number]


class _Batch:
    """Environments stepped one after the other, in this thread."""

    def __init__(
        self, make_one: Callable[[], Any], seeds: np.ndarray, view: _View, first_action: int
    ):
        from gymnasium.vector import AutoresetMode, SyncVectorEnv

        self._environments = SyncVectorEnv(
            [make_one] * len(seeds), copy=True, autoreset_mode=AutoresetMode.NEXT_STEP
        )
        self._seeds: list[int | None] = [int(seed) for seed in seeds]
        self._frames, self._first_action = view.frames, first_action
        self._ledger = host.Ledger(len(seeds))

    def reset(self) -> np.ndarray:
        observation, _ = self._environments.reset(seed=self._seeds)
        return self._frames(observation)

    def step(self, action: np.ndarray) -> host.HostStep:
        chosen = np.asarray(action, np.int64) + self._first_action
        observation, reward, terminated, truncated, _ = self._environments.step(chosen)
        return self._ledger.step(self._frames(observation), reward, terminated, truncated)

    def render(self) -> list[np.ndarray]:
        """A picture `[H, W, 3]` of each stream."""
        from gymnasium import error

        try:
            pictures = [environment.render() for environment in self._environments.envs]
        except error.Error as problem:
            raise _mistake("env", "no picture can be had of it", problem) from problem
        if not all(isinstance(picture, np.ndarray) for picture in pictures):
            raise UserError("env", "it does not render pictures (render_mode 'rgb_array')")
        return [np.asarray(picture, np.uint8) for picture in pictures]

    def save(self) -> np.ndarray:
        raise NotImplementedError("the state of a Gymnasium environment cannot be had")

    def load(self, saved: np.ndarray) -> None:
        self.save()

    def close(self) -> None:
        self._environments.close()
