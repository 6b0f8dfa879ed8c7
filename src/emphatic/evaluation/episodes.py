"""The paper's evaluation phase: whole games, raw rewards, no learning, the policy as it is."""

from collections.abc import Sequence
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
from emphatic.runtime.settings import TrainConfig, check_seed

CHUNK = 500
"""Steps per compiled call."""

MOST_EPISODES = 1_000_000
"""More is a slip of the hand."""


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
    check_episodes(episodes)
    streams = min(streams, episodes)
    each = -(-episodes // streams)
    environment, learner = trained.environment, trained.learner
    if isinstance(environment, HostEnvironment):
        given = {"each": each, "streams": streams, "seed": seed, "max_steps": max_steps}
        found = hosts.episodes_by_stream(environment, learner, trained.params, **given)
    else:
        params = jax.tree.map(lambda x: x[None], trained.params)
        place = (environment, learner, params)
        found = _episodes_by_stream(*place, [seed], each, streams, max_steps)[0]
    return _chosen(found, each, streams, episodes)


def check_episodes(episodes: int) -> None:
    """A number of episodes that can be played."""
    if not 1 <= episodes <= MOST_EPISODES:
        raise UserError("episodes", f"must lie in [1, {MOST_EPISODES:,}], not {episodes}")


def play_together(
    trained: Sequence[Trained], episodes: int, *, seeds: Sequence[int], max_steps: int = 100_000
) -> list[Episodes]:
    """`play` for several agents of one configuration and environment, as one program."""
    check_episodes(episodes)
    environment, learner = trained[0].environment, trained[0].learner
    if not isinstance(environment, Environment):
        return [play(one, episodes, seed=seed) for one, seed in zip(trained, seeds, strict=True)]
    streams = min(32, episodes)
    each = -(-episodes // streams)
    params = jax.tree.map(lambda *x: jnp.stack(x), *(one.params for one in trained))
    found = _episodes_by_stream(environment, learner, params, seeds, each, streams, max_steps)
    return [_chosen(one, each, streams, episodes) for one in found]


def _episodes_by_stream(
    environment: Environment,
    learner: Learner,
    params: Any,
    seeds: Sequence[int],
    each: int,
    streams: int,
    max_steps: int,
) -> list[list[list[tuple[float, int]]]]:
    """Return and length of at least `each` episodes of each stream of each agent.

    The agents are the first axis of `params`. Parameters are an argument of what is compiled:
    agents of one kind share it, also on disk.
    """
    advance = jax.jit(jax.vmap(lambda *given: _advance(environment, learner, *given)))
    state = jax.vmap(lambda key: _start(environment, key, streams))(
        jnp.stack([jax.random.key(seed) for seed in seeds])
    )
    found: list[list[list[tuple[float, int]]]] = [[[] for _ in range(streams)] for _ in seeds]
    for _ in range(-(-max_steps // CHUNK)):
        state, report = advance(params, state)
        ended, returns, lengths = map(np.asarray, report)
        for agent, when, stream in zip(*np.nonzero(ended), strict=True):
            place = (agent, when, stream)
            found[agent][stream].append((float(returns[place]), int(lengths[place])))
        if all(len(stream) >= each for agent in found for stream in agent):
            return found
    missing = sum(len(stream) < each for agent in found for stream in agent)
    raise UserError(
        "max_steps", f"of {max_steps} per stream left {missing} streams unfinished; raise it"
    )


def _chosen(
    found: list[list[tuple[float, int]]], each: int, streams: int, episodes: int
) -> Episodes:
    """Round by round, so that a number that is no multiple of the streams drops no stream first."""
    chosen = [found[stream][turn] for turn in range(each) for stream in range(streams)][:episodes]
    return Episodes(np.array([r for r, _ in chosen]), np.array([n for _, n in chosen]))


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
    check_seed(seed)
    check_episodes(episodes)
    trained = load(path)
    return written(path, trained, play(trained, episodes, seed=seed), seed)


def evaluate_together(paths: Sequence[Path], episodes: int, *, seeds: Sequence[int]) -> None:
    """`evaluate` for runs that differ in their seed alone, as one program."""
    trained = [load(path) for path in paths]
    played = play_together(trained, episodes, seeds=seeds)
    for given in zip(paths, trained, played, seeds, strict=True):
        written(*given)


def written(path: Path, trained: Trained, played: Episodes, seed: int) -> dict[str, Any]:
    """evaluation.json of the run, and what it says."""
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
