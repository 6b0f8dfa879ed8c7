"""What the expected update does: is it stable, where does it settle, how fast may it go."""

import dataclasses

import numpy as np

from emphatic import chains
from emphatic.algorithms import Row, Settings
from emphatic.mdp import MDP
from emphatic.theory.expected import expectation, setting, state_values
from emphatic.theory.sampled import second_moment

ROUNDING = 1e-12
"""What counts as zero, relative to a matrix's size: the result of rounding in float64."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Definiteness:
    """xᵀ M x over unit vectors x, and the eigenvalues of M itself."""

    smallest: float
    """Smallest eigenvalue of (M + Mᵀ)/2, the minimum of xᵀ M x."""
    rightmost: float
    """Smallest real part of M's eigenvalues: positive means θ̇ = b - M θ settles."""
    scale: float
    """Largest singular value, to judge rounding by."""

    @property
    def definite(self) -> bool:
        """Positive definite: stable whatever the features, if M is a key matrix."""
        return self.smallest > ROUNDING * self.scale

    @property
    def stable(self) -> bool:
        """All eigenvalues in the right half plane: small enough steps converge."""
        return self.rightmost > ROUNDING * self.scale


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """Everything theory has to say about one algorithm on one MDP."""

    algorithm: Row
    n: int
    settings: Settings
    d_mu: np.ndarray
    """Stationary distribution of μ, `[S]`."""
    d_pi: np.ndarray | None
    """Stationary distribution of π, `[S]`; None if it has several."""
    v_pi: np.ndarray
    """Values of π, `[S]`."""
    v_target: np.ndarray
    """Values the target leaves alone, `[S]`: v_π, for V-trace those of π_ρ̄."""
    emphasis: np.ndarray
    """f(s) = d_μ(s) lim E[Mₜ|Sₜ=s] by place in the window, `[n, S]` or `[1, S]`."""
    key: np.ndarray
    """Key matrix, `[S, S]`."""
    A: np.ndarray
    """`[d, d]`."""
    b: np.ndarray
    """`[d]`."""
    key_definiteness: Definiteness
    """Of the key matrix among the states μ keeps visiting."""
    A_definiteness: Definiteness
    """Of A in the subspace that is learned."""
    theta: np.ndarray | None
    """Fixed point, `[d]`; None if there is no single one."""
    value_error: float | None
    """√ Σ d_μ (Φθ - v_π)² at the fixed point."""
    target_error: float | None
    """The same against `v_target`."""
    max_step_size: float
    """Expected updates with a step below it converge; 0 if none does."""
    second_moment: float
    """Below 1 exactly if the trace has a finite variance; see `theory.second_moment`."""

    @property
    def stable(self) -> bool:
        """The expected update converges for small steps."""
        return self.A_definiteness.stable

    @property
    def finite_variance(self) -> bool:
        """The emphasis has a finite variance."""
        return self.second_moment < 1.0 - ROUNDING


def analyse(mdp: MDP, name: str | Row, n: int, **settings) -> Analysis:
    """All of the theory of an algorithm on an MDP, `algorithms.Settings` by keyword."""
    row, values = setting(name, n, **settings)
    expected = expectation(mdp, row, n, **settings)
    plain_td = row._replace(target="td")
    v_pi, v_target = state_values(mdp, plain_td, values), state_values(mdp, row, values)
    basis = learned_subspace(mdp, expected.d_mu)
    A = basis.T @ expected.A @ basis
    theta = fixed_point(expected.A, expected.b, basis, mdp.initial_weights)
    visited = np.flatnonzero(expected.d_mu > 0)
    return Analysis(
        algorithm=row,
        n=n,
        settings=values,
        d_mu=expected.d_mu,
        d_pi=target_distribution(mdp),
        v_pi=v_pi,
        v_target=v_target,
        emphasis=expected.emphasis,
        key=expected.key,
        A=expected.A,
        b=expected.b,
        key_definiteness=definiteness(expected.key[np.ix_(visited, visited)]),
        A_definiteness=definiteness(A),
        theta=theta,
        value_error=_error(mdp, theta, v_pi, expected.d_mu),
        target_error=_error(mdp, theta, v_target, expected.d_mu),
        max_step_size=largest_step_size(A),
        second_moment=second_moment(mdp, row, n, **settings),
    )


def target_distribution(mdp: MDP) -> np.ndarray | None:
    """d_π, `[S]`; None if π's chain has several recurrent classes."""
    P = mdp.chain(mdp.target)
    return chains.stationary(P) if len(chains.recurrent_classes(P)) == 1 else None


def definiteness(matrix: np.ndarray) -> Definiteness:
    """Eigenvalues of a square matrix and of its symmetric part; a 0 x 0 one is definite."""
    if not matrix.size:
        return Definiteness(smallest=np.inf, rightmost=np.inf, scale=0.0)
    return Definiteness(
        smallest=float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min()),
        rightmost=float(np.linalg.eigvals(matrix).real.min()),
        scale=float(np.linalg.norm(matrix, 2)),
    )


def learned_subspace(mdp: MDP, d_mu: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the span of the features that μ keeps seeing, `[d, r]`.

    Updates never leave it and no update depends on anything outside, so stability is a
    matter of A in this basis. Baird's eight features of seven states span seven
    dimensions: A itself is singular, and still there is a stable fixed point.
    """
    _, sizes, directions = np.linalg.svd(mdp.features[d_mu > 0], full_matrices=False)
    return directions[sizes > ROUNDING * sizes.max(initial=0.0)].T


def fixed_point(
    A: np.ndarray, b: np.ndarray, basis: np.ndarray, initial_weights: np.ndarray
) -> np.ndarray | None:
    """Where A θ = b, `[d]`; what is not learned stays as it began. None if not unique."""
    reduced = basis.T @ A @ basis
    sizes = np.linalg.svd(reduced, compute_uv=False)
    if sizes.size and sizes.min() <= ROUNDING * sizes.max():
        return None
    unlearned = initial_weights - basis @ (basis.T @ initial_weights)
    return unlearned + basis @ np.linalg.solve(reduced, basis.T @ b)


def largest_step_size(A: np.ndarray) -> float:
    """The largest α with spectral radius of I - α A below 1 underneath: min 2 Re z / |z|².

    0 if an eigenvalue z does not lie in the right half plane: no step size will do.
    """
    if not definiteness(A).stable:
        return 0.0
    z = np.linalg.eigvals(A)
    return float((2.0 * z.real / np.abs(z) ** 2).min(initial=np.inf))


def spectral_radius(A: np.ndarray, step_size: float) -> float:
    """Spectral radius of I - α A, the factor of the expected error per update.

    Give it A in the basis of `learned_subspace`: outside of it the radius is 1.
    """
    return float(np.abs(1.0 - step_size * np.linalg.eigvals(A)).max(initial=0.0))


def _error(
    mdp: MDP, theta: np.ndarray | None, values: np.ndarray, d_mu: np.ndarray
) -> float | None:
    """Root mean square error of Φθ, weighed by d_μ."""
    if theta is None:
        return None
    return float(np.sqrt(d_mu @ np.square(mdp.features @ theta - values)))
