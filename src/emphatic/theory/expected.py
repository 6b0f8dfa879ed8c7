"""Expected updates: emphasis per state, key matrix, A and b of every algorithm.

Averaged over a long run of μ, one learned state moves the weights by

    E[Mₜ (Gₜ - φₜᵀθ) φₜ] = b - A θ,    A = Φᵀ K Φ,    b = Φᵀ g,

K the key matrix. Two facts make both: the emphasis holds only the past, the target's
error only the future, so they are independent given Sₜ; and an error that reaches m
steps is linear in the values,

    E[Gₜ - v(Sₜ) | Sₜ] = gₘ - Bₘ v,
    Bₘ = Σₖ₌₀ᵐ⁻¹ Cᵏ (R - K),   gₘ = Σₖ₌₀ᵐ⁻¹ Cᵏ r,

with K and C the kernels of the ratios on the TD error and in the products, and R and r
the mass and the reward of the former. docs/theory.md derives each emphasis.

An MDP's arrays may have leading axes (a batch); results then have them too.
"""

from typing import NamedTuple

import numpy as np

from emphatic import algorithms, chains
from emphatic.algorithms import Row, Settings
from emphatic.errors import UserError
from emphatic.mdp import MDP


class TargetKernels(NamedTuple):
    """What one step of a target does in expectation."""

    kept: np.ndarray
    """Diagonal of R: Σₐ μ ρ, the mass of the TD error's ratio, `[S]`."""
    kernel: np.ndarray
    """K, of the ratio on the TD error, `[S, S]`."""
    carried: np.ndarray
    """C, of the ratio in the products, `[S, S]`."""
    reward: np.ndarray
    """r, the expected reward weighed by the TD error's ratio, `[S]`."""


class Weight(NamedTuple):
    """An emphasis as expectations see it."""

    profile: np.ndarray
    """d_μ(s) times the expected weight from the past, `[S]`."""
    own: np.ndarray
    """Factor by the step's own action, `[S, A]`; ones except in literal WEVtrace."""


class Expectation(NamedTuple):
    """The expected update of an algorithm on an MDP."""

    d_mu: np.ndarray
    """Stationary distribution of μ, `[S]`."""
    emphasis: np.ndarray
    """d_μ(s) lim E[Mₜ|Sₜ=s] by place in the window, `[n, S]`; `[1, S]` if all are alike."""
    key: np.ndarray
    """Key matrix K, averaged over the places of a window, `[S, S]`."""
    drive: np.ndarray
    """g, `[S]`."""
    A: np.ndarray
    """Φᵀ K Φ, `[d, d]`."""
    b: np.ndarray
    """Φᵀ g, `[d]`."""


def setting(name: str | Row, n: int, **settings) -> tuple[Row, Settings]:
    """The row and its settings, checked as `algorithms.build` checks them."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise UserError("n", f"must be a whole number of at least 1, not {n!r}")
    built = algorithms.build(name, n, **settings)
    values = built.settings
    for field in ("clip_rho", "clip_c", "clip_trace"):
        if not getattr(values, field) >= 0 or values.clip_rho == 0:
            raise UserError(field, f"must be positive, not {getattr(values, field)}")
    if not 0 <= values.lambda_ <= 1:
        raise UserError("lambda_", f"must lie in [0, 1], not {values.lambda_}")
    return built.row, values


def expectation(mdp: MDP, name: str | Row, n: int, **settings) -> Expectation:
    """The expected update of an algorithm, with `algorithms.Settings` by keyword.

    Assumes that each place in a window of the mixed scheme sees d_μ: so it is from a
    start in d_μ, and from any start unless the behaviour's chain has a period that
    shares a factor with n.
    """
    row, values = setting(name, n, **settings)
    d_mu = chains.stationary(mdp.chain(mdp.behaviour))
    first, inside = _weights(mdp, row, n, values, d_mu)
    emphasis, key, drive = _applied(mdp, row, n, values, first, inside)
    features = mdp.features
    A = np.swapaxes(features, -1, -2) @ key @ features
    b = np.einsum("...sd,...s->...d", features, drive)
    return Expectation(d_mu, emphasis, key, drive, A, b)


def target_kernels(
    mdp: MDP, row: Row, values: Settings, own: np.ndarray | float = 1.0
) -> TargetKernels:
    """R, K, C and r of a row's target; `own` is one more factor on both ratios, `[S, A]`."""
    rho = mdp.rho
    if row.target == "vtrace":
        error = np.minimum(values.clip_rho, rho)
        carried = values.lambda_ * np.minimum(values.clip_c, rho)
    else:
        error = rho
        carried = np.minimum(values.clip_c, rho) if row.target == "clipped-td" else rho
    error, carried = own * error, own * carried
    kept = (mdp.behaviour * error).sum(-1)
    return TargetKernels(
        kept, mdp.discounted(error), mdp.discounted(carried), mdp.expected_reward(error)
    )


def state_values(mdp: MDP, row: Row, values: Settings) -> np.ndarray:
    """The values that the row's target leaves alone, `[S]`: v_π, for V-trace that of π_ρ̄.

    (R - K) v = r, for V-trace ν times the Bellman equation of `vtrace_policy`. Neither c
    nor n changes it.
    """
    kernels = target_kernels(mdp, row, values)
    return _solve(_diagonal(kernels.kept) - kernels.kernel, kernels.reward)


def vtrace_policy(mdp: MDP, clip_rho: float = 1.0) -> np.ndarray:
    """π_ρ̄(a|s) = min(ρ̄ μ, π)/ν, `[S, A]`: the policy V-trace evaluates."""
    clipped = mdp.behaviour * np.minimum(clip_rho, mdp.rho)
    return clipped / clipped.sum(-1, keepdims=True)


def trace_kernel(mdp: MDP, row: Row, values: Settings, power: int = 1) -> np.ndarray:
    """M_w of the ratio that feeds a product trace, `[S, S]`; `power` 2 squares w and γ.

    With β the discount is β wherever it is not 0, as in `traces.followon`.
    """
    rho = mdp.rho
    if row.trace == "wetd-literal" or row.ratio == "vtrace":
        w = np.minimum(values.clip_rho, rho) / mdp.nu(values.clip_rho)[..., None]
    else:
        w = np.minimum(values.clip_trace, rho) if row.ratio == "clipped" else rho
    if values.beta is None:
        return mdp.discounted(w**power, power)
    continues = (mdp.discount > 0).astype(np.float64)
    weighted = mdp.behaviour * w**power
    return values.beta**power * np.einsum(
        "...sa,...sax->...sx", weighted, mdp.transition * continues
    )


def reaches(kernels: TargetKernels, n: int) -> list[np.ndarray]:
    """B₁, …, Bₙ by Bₘ = R - K + C Bₘ₋₁."""
    one = _diagonal(kernels.kept) - kernels.kernel
    B = [one]
    for _ in range(n - 1):
        B.append(one + kernels.carried @ B[-1])
    return B


def _weights(
    mdp: MDP, row: Row, n: int, values: Settings, d_mu: np.ndarray
) -> tuple[list[Weight], list[Weight]]:
    """Emphases at window starts (fixed scheme: everywhere) and inside windows."""
    if values.bound is not None or values.bound_recursion is not None:
        field = "bound" if values.bound is not None else "bound_recursion"
        raise UserError(
            field, "makes the expected emphasis nonlinear, so theory cannot give it; leave it out"
        )
    ones = np.ones_like(mdp.target)
    uniform = [Weight(d_mu, ones)]
    if row.trace == "none":
        return uniform, uniform
    if row.trace.startswith("exact"):
        return [Weight(_exact(mdp, row, n, values, d_mu), ones)], uniform
    kernel = trace_kernel(mdp, row, values)
    f = _follow_on(kernel, n if row.trace == "netd" else 1, d_mu, values.beta)
    if row.trace == "wetd-literal":
        rho = mdp.rho
        lambda_v = np.where(rho > values.clip_rho, values.clip_rho / np.maximum(rho, 1e-300), 1.0)
        return [Weight(f, ones)], [Weight(d_mu, lambda_v), Weight(f, 1.0 - lambda_v)]
    return [Weight((1.0 - values.eta) * d_mu + values.eta * f, ones)], uniform


def _follow_on(kernel: np.ndarray, n: int, d_mu: np.ndarray, beta: float | None) -> np.ndarray:
    """f = d_μ + (Mᵀ)ⁿ f: NETD, and with n = 1 the follow-on trace of WETD."""
    if not np.all(_radius_recurrent(kernel, d_mu) < 1.0 - 1e-13):
        field = "discount" if beta is None else "beta"
        raise UserError(field, "is too large: the expected follow-on trace grows without bound")
    power = np.linalg.matrix_power(np.swapaxes(kernel, -1, -2), n)
    return _solve(np.eye(kernel.shape[-1]) - power, d_mu)


def _radius_recurrent(kernel: np.ndarray, d_mu: np.ndarray) -> np.ndarray:
    """Spectral radius of a kernel among the states that μ keeps visiting, `[...]`."""
    visited = (d_mu > 0)[..., None] * kernel
    return np.asarray(np.abs(np.linalg.eigvals(visited)).max(-1))


def _exact(mdp: MDP, row: Row, n: int, values: Settings, d_mu: np.ndarray) -> np.ndarray:
    """f of the exact traces: Bₙᵀ f = x.

    x = d_μ or ν d_μ by interest; in the mixed scheme x = ν d_μ + Σₘ₌₁ⁿ⁻¹ (R - Bₘ)ᵀ d_μ, which
    makes the columns of the whole window's matrix sum to n ν d_μ.
    """
    kernels = target_kernels(mdp, row._replace(target="vtrace"), values)
    B = reaches(kernels, n)
    x = kernels.kept * d_mu if row.interest == "nu" or row.trace == "exact-wetd" else d_mu
    if row.trace == "exact-wetd":
        for shorter in B[:-1]:
            x = x + kernels.kept * d_mu - np.einsum("...st,...s->...t", shorter, d_mu)
    return _solve(np.swapaxes(B[-1], -1, -2), x)


def _applied(
    mdp: MDP, row: Row, n: int, values: Settings, first: list[Weight], inside: list[Weight]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Emphasis by place, key matrix and drive g of the whole update."""
    mixed = row.scheme == "mixed"
    plain = target_kernels(mdp, row, values)
    key, drive = _weighed(mdp, row, values, plain, first, range(n, n + 1))
    profiles = [_profile(mdp, first)]
    if mixed:
        more_key, more_drive = _weighed(mdp, row, values, plain, inside, range(1, n))
        key, drive = (key + more_key) / n, (drive + more_drive) / n
        profiles += [_profile(mdp, inside)] * (n - 1)
    return np.stack(profiles, axis=-2), key, drive


def _weighed(
    mdp: MDP,
    row: Row,
    values: Settings,
    plain: TargetKernels,
    weights: list[Weight],
    lengths: range,
) -> tuple[np.ndarray, np.ndarray]:
    """Σ over weights and reaches m of D_profile (R' - K' + C' Bₘ₋₁), and of its reward.

    Primed kernels hold the factor of the step's own action, which acts once: on the TD
    error of the state itself and on the first factor of every product.
    """
    key = np.zeros_like(plain.kernel)
    drive = np.zeros_like(plain.kept)
    summed_B, summed_g = _sum_shorter(plain, lengths)
    for weight in weights:
        own = target_kernels(mdp, row, values, weight.own)
        B = len(lengths) * (_diagonal(own.kept) - own.kernel) + own.carried @ summed_B
        g = len(lengths) * own.reward + _times(own.carried, summed_g)
        key = key + weight.profile[..., None] * B
        drive = drive + weight.profile * g
    return key, drive


def _sum_shorter(plain: TargetKernels, lengths: range) -> tuple[np.ndarray, np.ndarray]:
    """Σ of Bₘ₋₁ and gₘ₋₁ over the reaches m in `lengths`; B₀ = 0, g₀ = 0."""
    B, g = np.zeros_like(plain.kernel), np.zeros_like(plain.reward)
    summed_B, summed_g = B, g
    for m in range(1, lengths.stop):
        if m in lengths:
            summed_B, summed_g = summed_B + B, summed_g + g
        B = _diagonal(plain.kept) - plain.kernel + plain.carried @ B
        g = plain.reward + _times(plain.carried, g)
    return summed_B, summed_g


def _profile(mdp: MDP, weights: list[Weight]) -> np.ndarray:
    """d_μ(s) E[Mₜ|Sₜ=s]: own factors averaged over μ's actions."""
    averages = [(mdp.behaviour * w.own).sum(-1) * w.profile for w in weights]
    return np.sum(averages, axis=0)


def _diagonal(x: np.ndarray) -> np.ndarray:
    return x[..., None] * np.eye(x.shape[-1])


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.einsum("...st,...t->...s", matrix, vector)


def _solve(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.linalg.solve(matrix, vector[..., None])[..., 0]
