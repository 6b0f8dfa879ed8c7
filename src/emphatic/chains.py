"""Finite Markov chains: recurrent classes and stationary distributions.

A chain is a matrix P(s, s') whose rows sum to 1. Arrays may have leading axes, a batch
of chains.
"""

import numpy as np


def reachable(P: np.ndarray) -> np.ndarray:
    """Whether s' can be reached from s in any number of steps, 0 included, `[..., S, S]`."""
    size = P.shape[-1]
    steps = (P > 0) | np.eye(size, dtype=bool)
    for _ in range(max(1, size - 1).bit_length()):
        steps = np.matmul(steps, steps)
    return steps


def recurrent(P: np.ndarray) -> np.ndarray:
    """The states that are visited for ever once visited, `[..., S]`."""
    to = reachable(P)
    return np.asarray((~to | np.swapaxes(to, -1, -2)).all(-1))


def recurrent_classes(P: np.ndarray) -> list[np.ndarray]:
    """The closed communicating classes of one chain, each as the indices of its states."""
    to = reachable(P)
    first = {}
    for state in np.flatnonzero(recurrent(P)):
        first.setdefault(int(np.flatnonzero(to[state])[0]), np.flatnonzero(to[state]))
    return list(first.values())


def stationary(P: np.ndarray) -> np.ndarray:
    """The d with dᵀP = dᵀ and sum 1, `[..., S]`; needs a single recurrent class.

    Solves (I - P + 1 1ᵀ)ᵀ d = 1: the matrix is regular exactly if the class is single,
    and summing dᵀ(I - P + 1 1ᵀ) = 1ᵀ over columns gives dᵀ1 = 1. Transient states get 0,
    not a rounding error. A periodic chain has a d as well: the share of time spent.
    """
    size = P.shape[-1]
    ones = np.ones((*P.shape[:-1], 1))
    d = np.linalg.solve(np.swapaxes(np.eye(size) - P + 1.0, -1, -2), ones)[..., 0]
    d = np.where(recurrent(P), d, 0.0)
    return d / d.sum(-1, keepdims=True)
