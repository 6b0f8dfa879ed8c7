"""A family of random problems with many states, two policies far apart and noisy features.

Garnets (Archibald et al. 1995): every action leads to a few random states. Here π and μ
each favour an action of their own, and how far μ goes its own way differs from state to
state, so that ν(s) does; what is seen of a state is half signal and half noise.
"""

import numpy as np

from emphatic import chains
from emphatic.diagnostics.problems import Problem, of_mdp
from emphatic.mdp import MDP

ACTIONS = 4
BRANCHES = 3
"""States that an action may lead to."""
DISCOUNT = 0.95
FAVOURITE = 0.85
"""Probability of a policy's favourite action; the others share the rest."""
FEATURES = 16


def garnet(rng: np.random.Generator, states: int, furthest: float = 1.0) -> Problem:
    """One member of the family; values have mean 0 and mean square 1 under d_μ.

    `furthest` bounds how far μ goes its own way: 1 is another policy, 0 is π.
    """
    transition = _transition(rng, states)
    target, behaviour = _policies(rng, states, furthest)
    m = MDP(
        name=f"garnet-{states}",
        transition=transition,
        reward=np.broadcast_to(rng.standard_normal(states), transition.shape),
        discount=np.full_like(transition, DISCOUNT),
        target=target,
        behaviour=behaviour,
        features=np.eye(states),
        initial_weights=np.zeros(FEATURES),
    )
    scaled = _with(m, reward=_standard_reward(m))
    return of_mdp(_with(scaled, features=_noisy_features(rng, m)))


def _with(m: MDP, **changes) -> MDP:
    return MDP(**{**vars(m), **changes})


def _transition(rng: np.random.Generator, states: int) -> np.ndarray:
    """p(s'|s, a), `[S, A, S]`. Every state can follow by a small chance, so μ visits all."""
    transition = np.full((states, ACTIONS, states), 0.01 / states)
    for row in transition.reshape(-1, states):
        to = rng.choice(states, size=BRANCHES, replace=False)
        row[to] += 0.99 * rng.dirichlet(np.ones(BRANCHES))
    return transition


def _policies(
    rng: np.random.Generator, states: int, furthest: float
) -> tuple[np.ndarray, np.ndarray]:
    """π, and μ = (1 - w) π + w π', π' with another favourite, w in [0, `furthest`] by state."""
    favourite = np.argsort(rng.random((states, ACTIONS)))[:, :2]
    one, other = (
        np.where(np.arange(ACTIONS) == f[:, None], FAVOURITE, (1 - FAVOURITE) / (ACTIONS - 1))
        for f in favourite.T
    )
    share = furthest * rng.random((states, 1))
    return one, (1 - share) * one + share * other


def _standard_reward(m: MDP) -> np.ndarray:
    """The reward scaled and shifted so that v_π has mean 0 and mean square 1 under d_μ."""
    d, v = chains.stationary(m.chain(m.behaviour)), of_mdp(m).values
    mean = d @ v
    scale = np.sqrt(d @ np.square(v - mean))
    return (m.reward - (1 - DISCOUNT) * mean) / scale


def _noisy_features(rng: np.random.Generator, m: MDP) -> np.ndarray:
    """Values of random rewards under π, standardised, and as much noise, fixed by state."""
    kernel = m.discounted(m.rho)
    rewards = rng.standard_normal((m.num_states, FEATURES))
    signal = np.linalg.solve(np.eye(m.num_states) - kernel, rewards)
    signal = (signal - signal.mean(0)) / signal.std(0)
    return (signal + rng.standard_normal(signal.shape)) / np.sqrt(2)
