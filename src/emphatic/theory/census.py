"""How often key matrices are indefinite, over random MDPs; and small ones that show it.

`random_mdps` are drawn to be counted. `unstable` searches MDPs made of round numbers for
those on which the algorithms that are named diverge, the simplest ones first: so were
found `rare-exit` and `rare-exit-3` of `diagnostics.problems` (docs/state-dependent-nu.md).
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from emphatic import chains
from emphatic.algorithms import Row
from emphatic.mdp import MDP
from emphatic.theory.expected import expectation
from emphatic.theory.sampled import second_moment

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


SHARES = (1.0, 1.0, 1 / 2, 1 / 10, 1 / 20)
"""How often μ takes π's action in a state of a round MDP."""
LARGEST_FEATURE = 3
MARGIN = 0.05
"""Least -A, in units of Σ d_μ φ², that counts as divergence."""


class Found(NamedTuple):
    """An MDP with one feature on which the algorithms asked about diverge."""

    mdp: MDP
    worst: float
    """The largest A of those algorithms, in units of Σ d_μ φ²; below -`MARGIN`."""
    counts: tuple[int, ...]
    """States where π and μ differ, where it matters for what comes next which action is
    taken, with a step to either of two states, and where an episode can end."""


def unstable(
    rng: np.random.Generator, count: int, states: int, names: tuple[str, ...], n: int
) -> tuple[list[Found], int]:
    """Round MDPs on which every one of `names` has A < 0, simplest first, and out of how many.

    Simple means: small `Found.counts`, in their order, then small features. The one
    feature takes every combination of 1 … `LARGEST_FEATURE`. Kept are those where the
    exact traces have a finite variance, so that samples show what theory says. (That they
    converge needs no search: it is a theorem.) For n > 1 the paper's emphasis must differ
    from 1, and μ's chain have no period, or a window's places would not all see d_μ.
    """
    mdps = _sound(round_mdps(rng, count, states), aperiodic=n > 1)
    d = chains.stationary(mdps.chain(mdps.behaviour))
    phi = np.array(list(itertools.product(range(1, LARGEST_FEATURE + 1), repeat=states)), float)
    keys = np.stack([expectation(mdps, name, n).key for name in names])
    A = np.einsum("fs,kmst,ft->kmf", phi, keys, phi).max(0) / (d @ np.square(phi).T)
    emphasis = expectation(mdps, "nevtrace", n).emphasis[:, 0] / d
    weighed = (emphasis.max(1) > 1.0 + ROUNDING) | (n == 1)
    hits = np.argwhere((A < -MARGIN) & weighed[:, None])
    calm = {int(i): _finite_variance(_entries(mdps, int(i)), n) for i in np.unique(hits[:, 0])}
    found = [_found(_one(mdps, int(i), phi[j]), A[i, j]) for i, j in hits if calm[int(i)]]
    return _distinct(sorted(found, key=_simplicity)), len(d)


ROUNDING = 1e-9
"""What two emphases may differ by and still be equal."""


def round_mdps(rng: np.random.Generator, count: int, states: int) -> MDP:
    """MDPs of two actions, π always the first: steps to one state, or to either of two.

    Discounts are 1, or 0 where an episode ends; μ takes π's action with one of `SHARES`.
    """
    shape = (count, states, 2)
    to = np.eye(states)[rng.integers(states, size=(2, *shape))]
    split = rng.random((*shape, 1)) < 1 / 3
    transition = np.where(split, to.mean(0), to[0])
    discount = np.where(rng.random((*shape, 1)) < 1 / 3, 0.0, np.ones(states))
    share = rng.choice(SHARES, size=shape[:2])
    return MDP(
        name="round",
        transition=transition,
        reward=np.zeros_like(transition),
        discount=discount,
        target=np.broadcast_to([1.0, 0.0], shape),
        behaviour=np.stack([share, 1 - share], -1),
        features=np.broadcast_to(np.eye(states), (count, states, states)),
        initial_weights=np.ones((count, states)),
    )


def _sound(mdps: MDP, *, aperiodic: bool) -> MDP:
    """Those where μ visits all states and π ends from each; without a period if asked."""
    P = mdps.chain(mdps.behaviour)
    keep = chains.reachable(P).all((-1, -2))
    kernel = mdps.discounted(mdps.rho)
    keep &= np.abs(np.linalg.eigvals(kernel)).max(-1) < 1 - ROUNDING
    if aperiodic:
        # All entries of a power beyond (S - 1)² + 1 are positive exactly if there is no period.
        keep &= (np.linalg.matrix_power(P, P.shape[-1] ** 2) > 0).all((-1, -2))
    return _entries(mdps, keep)


def _entries(mdps: MDP, index: np.ndarray | int) -> MDP:
    arrays = {f.name: getattr(mdps, f.name) for f in dataclasses.fields(mdps) if f.name != "name"}
    return MDP(name=mdps.name, **{k: v[index] for k, v in arrays.items()})


def _one(mdps: MDP, i: int, phi: np.ndarray) -> MDP:
    """MDP i of the batch with the one feature φ."""
    return dataclasses.replace(_entries(mdps, i), features=phi[:, None], initial_weights=np.ones(1))


def _found(mdp: MDP, worst: float) -> Found:
    """With what makes it complicated counted, over the actions that μ takes."""
    taken = mdp.behaviour > 0
    steps = np.concatenate([mdp.transition, mdp.discount[..., :1]], -1)
    forks = (steps[:, 0] != steps[:, 1]).any(-1) & taken.all(-1)
    splits = (mdp.transition == 0.5).any(-1) & taken
    ends = (mdp.discount[..., 0] == 0) & taken
    counts = ((mdp.nu() < 1), forks, splits.any(-1), ends.any(-1))
    return Found(mdp, float(worst), tuple(int(x.sum()) for x in counts))


def _simplicity(found: Found) -> tuple:
    return *found.counts, found.mdp.features.sum(), found.worst


def _distinct(found: list[Found]) -> list[Found]:
    """The first of those that are the same but for the order of their states."""
    seen: dict[tuple, Found] = {}
    for f in found:
        seen.setdefault((round(f.worst, 9), *sorted(f.mdp.features[:, 0])), f)
    return list(seen.values())


def _finite_variance(mdp: MDP, n: int) -> bool:
    return max(second_moment(mdp, name, n) for name in ("exact-nevtrace", "exact-wevtrace")) < 1
