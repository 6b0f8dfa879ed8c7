"""How often key matrices are indefinite, over random MDPs."""

from collections.abc import Iterator

import numpy as np

from emphatic.algorithms import Row
from emphatic.mdp import MDP
from emphatic.theory.expected import expectation

SIZES = ((2, 2), (3, 2), (5, 3), (8, 3))
"""States and actions of the random MDPs, in equal parts."""

CLIPS = (
    {"clip_rho": 1.0, "clip_c": 1.0},
    {"clip_rho": 1.0, "clip_c": 0.5},
    {"clip_rho": 2.0, "clip_c": 1.0},
    {"clip_rho": 0.5, "clip_c": 0.5},
    {"clip_rho": 1.0, "clip_c": 1.0, "lambda_": 0.7},
    {"clip_rho": np.inf, "clip_c": 1.0},
    {"clip_rho": np.inf, "clip_c": np.inf},
)
"""Thresholds of V-trace: the paper's, others, and none at all."""


def random_mdps(rng: np.random.Generator, count: int) -> Iterator[MDP]:
    """Batches of tabular MDPs, one per entry of `SIZES`, `count` MDPs in all.

    Transitions, π and μ are concentrated (Dirichlet), so that π and μ differ much and
    ν varies from state to state. A third each has a constant discount, one by the state
    arrived in and one by the whole transition, some of them 0 or 1.
    """
    for i, (states, actions) in enumerate(SIZES):
        yield _batch(rng, count // len(SIZES) + (i < count % len(SIZES)), states, actions)


def indefinite(mdps: MDP, name: str | Row, n: int, **settings) -> int:
    """How many of a batch have a key matrix that is not positive definite."""
    key = expectation(mdps, name, n, **settings).key
    symmetric = (key + np.swapaxes(key, -1, -2)) / 2
    return int((np.linalg.eigvalsh(symmetric)[..., 0] <= 0).sum())


def _batch(rng: np.random.Generator, count: int, states: int, actions: int) -> MDP:
    target = _distributions(rng, 0.3, (count, states, actions))
    return MDP(
        name="random",
        transition=_distributions(rng, 0.2, (count, states, actions, states)),
        reward=rng.standard_normal((count, states, actions, states)),
        discount=_discounts(rng, (count, states, actions, states)),
        target=target,
        behaviour=_distributions(rng, 0.5, (count, states, actions)),
        features=np.broadcast_to(np.eye(states), (count, states, states)),
        initial_weights=np.zeros((count, states)),
    )


def _distributions(
    rng: np.random.Generator, concentration: float, shape: tuple[int, ...]
) -> np.ndarray:
    """Dirichlet distributions; nothing is quite impossible."""
    x = rng.gamma(concentration, size=shape) + 1e-6
    return x / x.sum(-1, keepdims=True)


def _discounts(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A third constant, a third by the state arrived in, a third by transition."""
    levels = np.array([0.0, 0.5, 0.9, 0.99, 1.0])
    count, *_, states = shape
    constant = rng.uniform(0.5, 0.99, (count, 1, 1, 1))
    by_state = levels[rng.integers(len(levels), size=(count, 1, 1, states))]
    # A state that is never undiscounted keeps every target from going on for ever.
    by_state[..., 0] = 0.9
    by_transition = rng.uniform(0.0, 1.0, shape) ** 0.2
    kind = rng.integers(3, size=(count, 1, 1, 1))
    return np.where(kind == 0, constant, np.where(kind == 1, by_state, by_transition))
