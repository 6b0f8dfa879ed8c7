"""The paper's evaluation phase: whole games, raw rewards, no learning, the policy as it is."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.agent.learner import Learner
from emphatic.envs.base import Environment
from emphatic.envs.host import HostEnvironment
from emphatic.errors import UserError
from emphatic.evaluation import hosts
from emphatic.runtime import runs, training
from emphatic.runtime.checkpoints import latest
from emphatic.runtime.settings import TrainConfig

CHUNK = 500
"""Steps per compiled call."""


class Trained(NamedTuple):
    """A trained agent as its run left it."""

    config: TrainConfig
    environment: Environment | HostEnvironment
    learner: Learner
    params: Any
    update: int


def load(path: Path) -> Trained:
    """The agent of the newest checkpoint of the run at `path`."""
    config = training.stored_config(path)
    environment, learner = training.parts(config)
    checkpoint = latest(Path(path) / "checkpoints")
    if checkpoint is None:
        raise UserError("run", f"{path} has no checkpoint yet: train it first")
    fresh = jax.jit(lambda key: learner.init(key).params)(jax.random.key(config.seed))
    params = checkpoint.part(".learner.params", fresh)
    return Trained(config, environment, learner, params, checkpoint.step)


class Episodes(NamedTuple):
    """Whole episodes, in the order of their streams."""

    returns: np.ndarray
    lengths: np.ndarray


def play(
    trained: Trained, episodes: int, *, seed: int = 0, streams: int = 32, max_steps: int = 100_000
) -> Episodes:
    """The first ⌈episodes/streams⌉ episodes of each stream, `episodes` in all.

    Every stream contributes the same number, because taking whichever episodes end first
    would favour short ones. `max_steps` per stream is a guard (on the host: per episode): an
    agent that never finishes its episodes is an error, not a score.
    """
    if episodes < 1:
        raise UserError("episodes", f"must be at least 1, not {episodes}")
    streams = min(streams, episodes)
    each = -(-episodes // streams)
    given = {"each": each, "streams": streams, "seed": seed, "max_steps": max_steps}
    if isinstance(trained.environment, HostEnvironment):
        place = (trained.environment, trained.learner, trained.params)
        found = hosts.episodes_by_stream(*place, **given)
    else:
        found = _episodes_by_stream(trained.environment, trained, **given)
    # Round by round, so that a number that is no multiple of the streams drops no stream first.
    chosen = [found[stream][turn] for turn in range(each) for stream in range(streams)][:episodes]
    return Episodes(np.array([r for r, _ in chosen]), np.array([n for _, n in chosen]))


def _episodes_by_stream(
    environment: Environment,
    trained: Trained,
    *,
    each: int,
    streams: int,
    seed: int,
    max_steps: int,
) -> list[list[tuple[float, int]]]:
    """Return and length of at least `each` episodes of each stream."""
    state = _start(environment, jax.random.key(seed), streams)
    found: list[list[tuple[float, int]]] = [[] for _ in range(streams)]
    # The parameters are an argument: agents of one kind share what is compiled, also on disk.
    compiled = jax.jit(lambda params, state: _advance(environment, trained.learner, params, state))
    for _ in range(-(-max_steps // CHUNK)):
        state, (ended, returns, lengths) = compiled(trained.params, state)
        for when, stream in zip(*np.nonzero(ended), strict=True):
            found[stream].append((float(returns[when, stream]), int(lengths[when, stream])))
        if all(len(stream) >= each for stream in found):
            return found
    missing = sum(len(stream) < each for stream in found)
    raise UserError(
        "max_steps", f"of {max_steps} per stream left {missing} streams unfinished; raise it"
    )


def _start(environment: Environment, key, streams: int):
    key, env_key = jax.random.split(key)
    init = jax.jit(jax.vmap(environment.init))
    return *init(jax.random.split(env_key, streams)), key


def _advance(played: Environment, learner: Learner, params: Any, state):
    """CHUNK steps of every stream."""
    step_all = jax.vmap(played.step)

    def step(state, _):
        environment, observation, key = state
        key, act_key = jax.random.split(key)
        action, _ = learner.act(params, observation, act_key)
        environment, step = step_all(environment, action)
        seen = (step.ended, step.episode_return, step.episode_length)
        return (environment, step.observation, key), seen

    return jax.lax.scan(step, state, length=CHUNK)


def evaluate(path: Path, episodes: int, *, seed: int = 0) -> dict[str, Any]:
    """Play, and write evaluation.json beside the run; what was written."""
    trained = load(path)
    played = play(trained, episodes, seed=seed)
    returns = played.returns
    spread = float(returns.std(ddof=1)) if len(returns) > 1 else None
    result = {
        "update": trained.update,
        "steps": trained.update * trained.config.learner.steps_per_update,
        "seed": seed,
        "episodes": len(returns),
        "mean": float(returns.mean()),
        "median": float(np.median(returns)),
        "standard_deviation": spread,
        "standard_error": None if spread is None else spread / len(returns) ** 0.5,
        "min": float(returns.min()),
        "max": float(returns.max()),
        "length": float(played.lengths.mean()),
        "returns": returns.tolist(),
        "lengths": played.lengths.tolist(),
    }
    runs.write_evaluation(path, result)
    return result


def record(trained: Trained, *, seed: int = 0, max_steps: int = 2000) -> tuple[np.ndarray, float]:
    """Observations of one episode, `[steps + 1, ...]`, and its return (so far).

    Of an environment on the host: its frames, or what it renders where those are no images.
    """
    if isinstance(trained.environment, HostEnvironment):
        place = (trained.environment, trained.learner, trained.params)
        return hosts.record(*place, seed=seed, max_steps=max_steps)
    state = _start(trained.environment, jax.random.key(seed), 1)
    environment, observation, key = state
    step = jax.jit(jax.vmap(trained.environment.step))
    act = jax.jit(trained.learner.act)
    frames, total = [np.asarray(observation[0])], 0.0
    for _ in range(max_steps):
        key, act_key = jax.random.split(key)
        action, _ = act(trained.params, observation, act_key)
        environment, taken = step(environment, action)
        observation = taken.observation
        total += float(jnp.sum(taken.reward))
        if bool(taken.ended[0]):
            break
        frames.append(np.asarray(observation[0]))
    return np.stack(frames), total
