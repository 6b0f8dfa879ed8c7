"""What samples add to the expectation: variance of the trace, growth of sampled updates."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from emphatic import algorithms, chains
from emphatic.algorithms import Row, Settings
from emphatic.errors import UserError
from emphatic.mdp import MDP
from emphatic.theory.expected import setting, trace_kernel


def second_moment(mdp: MDP, name: str | Row, n: int, **settings) -> float:
    """A number below 1 exactly if lim E[Fₜ²] is finite; 0 where F is bounded anyway.

    Product traces, Fₜ = 1 + x Fₜ₋ₙ with x a product of n factors wγ. Let
    q(s) = d_μ(s) E[Fₜ²|Sₜ=s]; squaring and taking expectations,

        q = d_μ + 2 (Mᵀ)ⁿ f + (M₂ᵀ)ⁿ q,    M₂(s, s') = Σₐ μ w² p γ².

    d_μ is positive wherever μ keeps going, so q is finite iff the spectral radius of M₂
    there is below 1. That is the number; it does not depend on n. For the two-state MDP
    it is γ² E[ρ²] = 1.62. A weight that is linear in F (η > 0, literal WEVtrace) has the
    same criterion, since its other factors are bounded.

    Exact traces: see `_exact_second_moment`.

    The update's variance is finite iff the trace's is: given Sₜ the two factors F and
    G - v are independent, and the second is bounded (ratios of a finite MDP are).
    """
    row, values = setting(name, n, **settings)
    bounds = (values.bound, values.bound_recursion)
    if row.trace == "none" or values.eta == 0.0 or any(bound is not None for bound in bounds):
        return 0.0
    visited = chains.recurrent(mdp.chain(mdp.behaviour))
    if row.trace.startswith("exact"):
        operator = _exact_second_moment(mdp, n, values, visited)
    else:
        operator = trace_kernel(mdp, row, values, power=2)[np.ix_(visited, visited)]
    return float(np.abs(np.linalg.eigvals(operator)).max())


def _exact_second_moment(mdp: MDP, n: int, values: Settings, visited: np.ndarray) -> np.ndarray:
    """Matrix whose spectral radius is below 1 iff E[F²] of the exact traces is finite.

    With zᵏ = Fₜ₋ₖ₊₁ times the γc since, σ = Σₖ₌₁ⁿ zᵏ and τ = Σₖ₌₁ⁿ⁻¹ zᵏ (at t - 1), the
    traces are, up to terms of bounded coefficients and finite mean,

        Fₜ = γ (ρ̄/ν(Sₜ) σ - c τ),   z¹ = Fₜ,   zᵏ⁺¹ = γ c zᵏ.

    Let Xⱼₖ(s) = d_μ(s) E[zʲ zᵏ|s] and hₖ = X₁ₖ. For j ≤ k, Xⱼₖ = (M₂[c²]ᵀ)ʲ⁻¹ hₖ₋ⱼ₊₁ by the last
    equation, j - 1 steps late; the first two give with M₂[w](s, s') = Σₐ μ w p γ²

        h₁ = M₂[ρ̄²]ᵀ E σ² / ν² - 2 M₂[ρ̄c]ᵀ E στ / ν + M₂[c²]ᵀ E τ²
        hₖ₊₁ = M₂[ρ̄c]ᵀ E σzᵏ / ν - M₂[c²]ᵀ E τzᵏ.

    All of F's coefficients are nonnegative (c ν ≤ ρ̄), hence so is this linear map of past
    h's, whatever their lateness. A nonnegative system with delays is stable iff the sum
    of its coefficients over the delays, the `[nS, nS]` matrix returned, has a spectral
    radius below 1. The forcing reaches every hₖ(s) that is not 0 for ever: h₁ gets d_μ > 0
    and hₖ the mean of zᵏ. So no unstable mode stays asleep, and the criterion is exact.
    """
    rho = mdp.rho
    rho_bar = np.minimum(values.clip_rho, rho)
    c = values.lambda_ * np.minimum(values.clip_c, rho)
    rr, rc, cc = (
        mdp.discounted(w, power=2)[np.ix_(visited, visited)].T
        for w in (rho_bar**2, rho_bar * c, c**2)
    )
    nu = mdp.nu(values.clip_rho)[visited][:, None]
    S = len(nu)
    h = np.eye(n * S).reshape(n, S, n * S)
    X = np.empty((n, n, S, n * S))
    for j in range(n):
        for k in range(j, n):
            X[j, k] = X[k, j] = h[k] if j == 0 else cc @ X[j - 1, k - 1]
    sigma, tau = X.sum(0), X[:-1].sum(0)  # E[σ zᵏ], E[τ zᵏ] by k
    first = rr @ sigma.sum(0) / nu**2 - 2 * rc @ sigma[:-1].sum(0) / nu + cc @ tau[:-1].sum(0)
    later = [rc @ sigma[k] / nu - cc @ tau[k] for k in range(n - 1)]
    return np.stack([first, *later]).reshape(n * S, n * S)


class Stream(NamedTuple):
    """Transitions of μ in R independent streams, transition aligned."""

    state: np.ndarray
    """Sₜ, `[T + 1, R]` indices."""
    action: np.ndarray
    """Aₜ, `[T, R]` indices."""
    reward: np.ndarray
    """Rₜ₊₁, `[T, R]`."""
    discount: np.ndarray
    """γₜ₊₁, `[T, R]`."""
    rho: np.ndarray
    """`[T, R]`."""
    nu: np.ndarray
    """ν(Sₜ), `[T, R]`."""


def sample(
    mdp: MDP, steps: int, streams: int, rng: np.random.Generator, clip_rho: float = 1.0
) -> Stream:
    """Streams of μ that start in its stationary distribution."""
    pair = np.einsum("sa,sax->sax", mdp.behaviour, mdp.transition).reshape(mdp.num_states, -1)
    ladder = np.cumsum(pair, axis=1)
    ladder /= ladder[:, -1:]
    start = np.cumsum(chains.stationary(mdp.chain(mdp.behaviour)))
    draws = rng.random((steps + 1, streams))
    states = [np.searchsorted(start / start[-1], draws[0], side="right")]
    pairs = []
    for draw in draws[1:]:
        pairs.append((ladder[states[-1]] <= draw[:, None]).sum(1))
        states.append(pairs[-1] % mdp.num_states)
    state = np.stack(states)
    action = np.stack(pairs) // mdp.num_states
    step = (state[:-1], action, state[1:])
    nu = mdp.nu(clip_rho)[state[:-1]]
    return Stream(state, action, mdp.reward[step], mdp.discount[step], mdp.rho[step[:2]], nu)


class Exponent(NamedTuple):
    """Estimated growth of ‖θ - θ*‖ per sampled update, as a logarithm."""

    mean: float
    """Below 0: sampled updates forget where they began."""
    standard_error: float
    """Of `mean`, from the scatter between streams."""


def lyapunov(
    mdp: MDP,
    name: str | Row,
    n: int,
    step_size: float,
    *,
    steps: int = 2000,
    streams: int = 256,
    seed: int = 0,
    **settings,
) -> Exponent:
    """Top Lyapunov exponent of x ← x - α Mₜ φₜ (aₜᵀ x), the sampled update without its noise.

    aₜᵀx is what the target takes away from the value, v - G at reward 0. Monte Carlo
    with the library's own trace and target on independent streams, states updated one
    at a time in their order, after as many steps for the trace alone. A negative
    exponent with an infinite variance is no contradiction: almost all runs converge
    while their mean square diverges.
    """
    if not step_size > 0:
        raise UserError("step_size", f"must be positive, not {step_size}")
    built = algorithms.build(name, n, **settings)
    rng = np.random.default_rng(seed)
    steps = -(-steps // n) * n
    stream = sample(mdp, 2 * steps + n, streams, rng, built.settings.clip_rho)
    emphasis = np.asarray(emphases(built, stream), np.float64)
    learned = slice(steps, 2 * steps)
    parts = (stream.state, emphasis, _removed(mdp, built, stream))
    seen = mdp.features[chains.recurrent(mdp.chain(mdp.behaviour))]
    x = rng.standard_normal((streams, len(seen))) @ seen
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    growth = np.zeros(streams)
    for state, weight, away in zip(*(part[learned] for part in parts), strict=True):
        x = x - (step_size * weight * (away * x).sum(1))[:, None] * mdp.features[state]
        size = np.maximum(np.linalg.norm(x, axis=1), 1e-300)
        growth += np.log(size)
        x /= size[:, None]
    rates = growth / steps
    return Exponent(float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(streams)))


def emphases(built: algorithms.Algorithm, stream: Stream) -> jnp.ndarray:
    """The emphasis of every transition of a stream, `[T, R]`, by the library's trace."""
    inputs = (jnp.asarray(stream.rho), jnp.asarray(stream.discount), jnp.asarray(stream.nu))
    return built.trace.update(built.trace.init(stream.rho.shape[1:]), *inputs)[1]


def _removed(mdp: MDP, built: algorithms.Algorithm, stream: Stream) -> np.ndarray:
    """aₜ = φₜ - (the target's φ), `[T, R, d]`: the target of the features as values."""
    features = jnp.asarray(mdp.features)[stream.state]
    wide = features[1:].shape
    discount = jnp.broadcast_to(jnp.asarray(stream.discount)[..., None], wide)
    rho = jnp.broadcast_to(jnp.asarray(stream.rho)[..., None], wide)
    target = built.target(features[:-1], features[1:], jnp.zeros(wide), discount, rho)
    return np.asarray(features[:-1] - target.value_tm1, np.float64)
