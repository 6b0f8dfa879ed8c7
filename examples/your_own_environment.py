"""Write an environment of your own, prove that it keeps the contract, train an agent on it.

The game: on a grid of 5 x 5 one walks to a flag, which is worth 1. Write it as if an episode
were all there is; `base.environment` adds restarts, the time limit and the counting, and
`conformance.check` plays it to see whether it is what the agent expects.

    python examples/your_own_environment.py
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from emphatic.agent import learner, presets
from emphatic.envs import base, conformance
from emphatic.runtime import anakin

SIZE = 5
MOVES = jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


class State(NamedTuple):
    """Where one stands and where the flag is."""

    walker: Int[Array, "2"]
    flag: Int[Array, "2"]


def reset(key):
    """Two different cells."""
    walker, flag = jax.random.choice(key, SIZE * SIZE, (2,), replace=False)
    return State(*(jnp.stack([cell // SIZE, cell % SIZE]) for cell in (walker, flag)))


def step(state, action, key):
    """One move; the wall holds."""
    del key
    state = state._replace(walker=jnp.clip(state.walker + MOVES[action], 0, SIZE - 1))
    there = (state.walker == state.flag).all()
    return state, base.Outcome(there.astype(jnp.float32), there, jnp.zeros((), bool))


def observe(state):
    """`[5, 5, 2]`: where one stands, where the flag is."""
    rows, columns = jnp.indices((SIZE, SIZE))
    planes = [(rows == row) & (columns == column) for row, column in state]
    return jnp.stack(planes, axis=-1)


def make(time_limit: int = 20) -> base.Environment:
    """The environment; what the limit cuts short is bootstrapped from, not lost."""
    game = base.Game(reset, step, observe)
    return base.environment(game, name="flag", num_actions=4, time_limit=time_limit)


def train(environment: base.Environment, calls: int, updates: int) -> list[float]:
    """The share of episodes that reach the flag, for each call of so many updates."""
    agent = learner.build(
        presets.catch("netd-ace"),
        num_actions=environment.num_actions,
        observation_shape=environment.observation_shape,
        observation_dtype=environment.observation_dtype,
        num_updates=calls * updates,
    )
    runtime = anakin.build(agent, environment)
    state, shares = runtime.init(jax.random.key(0)), []
    for _ in range(calls):
        state, report = runtime.run(state, updates)
        ended = np.asarray(report.ended)
        shares.append(float(np.asarray(report.episode_return)[ended].mean()))
        steps = int(state.learner.updates) * agent.config.steps_per_update
        length = np.asarray(report.episode_length)[ended].mean()
        print(
            f"{steps:>8,} steps: the flag in {shares[-1]:.0%} of episodes, {length:.1f} steps each"
        )
    return shares


def main() -> None:
    """Check and train."""
    environment = make()
    conformance.check(environment)
    print(f"{environment.name} keeps the contract")
    train(environment, calls=5, updates=100)


if __name__ == "__main__":
    main()
