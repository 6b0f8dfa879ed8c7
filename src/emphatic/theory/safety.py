"""How far the behaviour may move from the target before definiteness is lost."""

import dataclasses
from typing import Literal, NamedTuple

import numpy as np

from emphatic import chains
from emphatic.algorithms import Row
from emphatic.mdp import MDP
from emphatic.theory.analysis import definiteness, learned_subspace
from emphatic.theory.expected import expectation, setting


class Safety(NamedTuple):
    """Where on the way from π to μ an algorithm's matrix first stops being definite."""

    epsilon: float
    """Definite for μ_ε = (1 - ε) π + ε μ below it; 1 if it holds all the way."""
    total_variation: float
    """max over states of the total variation between π and that μ_ε."""
    lost: bool
    """Whether definiteness is lost at all on the way."""


def safety_region(
    mdp: MDP,
    name: str | Row,
    n: int,
    *,
    matrix: Literal["key", "A"] = "key",
    grid: int = 200,
    precision: float = 1e-6,
    **settings,
) -> Safety:
    """The first ε at which the key matrix (or A) of μ_ε = (1 - ε) π + ε μ is not definite.

    Definiteness may come and go along the way, so ε is scanned upwards on a grid and the
    first loss refined by bisection; a loss that is over within 1/grid can go unseen.
    """
    row, _ = setting(name, n, **settings)

    def definite(epsilon: float) -> bool:
        moved = _moved(mdp, epsilon)
        expected = expectation(moved, row, n, **settings)
        if matrix == "A":
            basis = learned_subspace(moved, expected.d_mu)
            return definiteness(basis.T @ expected.A @ basis).definite
        visited = np.flatnonzero(expected.d_mu > 0)
        return definiteness(expected.key[np.ix_(visited, visited)]).definite

    first = next((k for k in range(1, grid + 1) if not definite(k / grid)), None)
    if first is None:
        return Safety(1.0, _distance(mdp, 1.0), lost=False)
    low, high = (first - 1) / grid, first / grid
    while high - low > precision:
        middle = (low + high) / 2
        low, high = (middle, high) if definite(middle) else (low, middle)
    return Safety(low, _distance(mdp, low), lost=True)


def _moved(mdp: MDP, epsilon: float) -> MDP:
    """The MDP with behaviour μ_ε; ε > 0, so its chain has μ's single recurrent class."""
    behaviour = (1.0 - epsilon) * mdp.target + epsilon * mdp.behaviour
    return dataclasses.replace(mdp, behaviour=behaviour)


def _distance(mdp: MDP, epsilon: float) -> float:
    """max over states of ½ Σₐ |π - μ_ε|."""
    visited = chains.recurrent(mdp.chain(mdp.behaviour))
    apart = np.abs(mdp.target - mdp.behaviour).sum(1) / 2
    return float(epsilon * apart[visited].max())
