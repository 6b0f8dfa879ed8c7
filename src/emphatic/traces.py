"""Emphatic traces: how much each state's update counts, from the past alone.

A trace is a pair `(init, update)` of pure functions over arrays `[T, *B]`, like an optax
transformation. Transition t goes from S (`_tm1`) to S' (`_t`), and `decay[t] =
discount_t[t] * rho_tm1[t]` is the paper's γₜ₊₁ρₜ. The emphasis of a transition weighs
the update of its source state and holds only what came before it: no ratio of its own
step, and the incoming discount. The state carries the rest from one unroll to the next,
so the unroll length is invisible; a discount of 0 ends an episode without further code.

    trace = traces.nstep(10)
    state = trace.init((batch,))
    state, emphasis_tm1 = trace.update(state, rho_tm1, discount_t)

Emphases come detached: no gradient flows through them.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, Int, PyTree

from emphatic.errors import UserError
from emphatic.ratios import Transform, required

Interest = Literal["one", "nu"]


class Init(Protocol):
    """`init(batch_shape) -> state`: the state at the start of a stream."""

    def __call__(self, batch_shape: tuple[int, ...], dtype: DTypeLike = ...) -> PyTree: ...


class Update(Protocol):
    """`update(state, rho_tm1, discount_t, nu_tm1) -> (state, emphasis_tm1)`."""

    def __call__(
        self,
        state: Any,
        rho_tm1: Float[Array, "T *B"],
        discount_t: Float[Array, "T *B"],
        nu_tm1: Float[Array, "T *B"] | None = None,
    ) -> tuple[PyTree, Float[Array, "T *B"]]: ...


class Trace(NamedTuple):
    """An emphatic trace: `state = init(batch_shape)`, `state, emphasis_tm1 = update(...)`."""

    init: Init
    update: Update


def uniform() -> Trace:
    """No emphasis: every update weighs 1. The baselines."""

    def init(batch_shape, dtype=jnp.float32):
        del batch_shape, dtype
        return ()

    def update(state, rho_tm1, discount_t, nu_tm1=None):
        del discount_t, nu_tm1
        return state, jnp.ones_like(rho_tm1)

    return Trace(init, update)


class NstepState(NamedTuple):
    """State of `nstep`: the last n steps, oldest first."""

    followon: Float[Array, "n *B"]
    """Fₜ₋ₙ, …, Fₜ₋₁."""
    decay: Float[Array, "n *B"]
    """γₜ₋ₙ₊₁ρₜ₋ₙ, …, γₜρₜ₋₁; zero before a stream starts, so that F is 1 for n steps."""


def nstep(n: int) -> Trace:
    """Trace of emphatic TD(n), NETD; with n = 1 the follow-on trace of ETD.

        Fₜ = ∏ᵢ₌₁ⁿ (γₜ₋ᵢ₊₁ ρₜ₋ᵢ) Fₜ₋ₙ + 1,   F₀ = … = Fₙ₋₁ = 1

    A terminal transition (γ = 0) is in every product that spans it, so the n states
    after it have F = 1 and an episode boundary needs no code of its own. With ρ clipped
    at 1 and a constant discount, F ≤ 1 / (1 - γⁿ).

    The products are one sliding window; what is sequential is T/n blocks of n steps.

    Reference: Jiang et al., "Emphatic Algorithms for Deep Reinforcement Learning",
    2021, https://arxiv.org/abs/2106.11779, Eq. "netd".
    """
    _check_n(n)

    def init(batch_shape, dtype=jnp.float32):
        zeros = jnp.zeros((n, *batch_shape), dtype)
        return NstepState(zeros, zeros)

    def block(followon, product):
        # An F that overflowed stays finite, and the next episode's end clears even a NaN.
        largest = jnp.finfo(product.dtype).max
        grown = jnp.minimum(product * followon + 1.0, largest)
        followon = jnp.where(product == 0, 1.0, grown)
        return followon, followon

    @_detached
    def update(state, rho_tm1, discount_t, nu_tm1=None):
        del nu_tm1
        decay = jnp.concatenate([state.decay, discount_t * rho_tm1])
        product = _sliding_product(decay[:-1], n)
        # A product that overflowed and then met an episode's end is inf · 0, NaN, where it
        # should be 0; a ratio that is no number must show.
        product = jnp.where(product > 0, product, 0.0)
        product = jnp.where(jnp.isnan(decay[n - 1 : -1]), jnp.nan, product)
        steps, in_blocks = len(product), len(product) // n * n
        blocks = product[:in_blocks].reshape(-1, n, *product.shape[1:])
        last, followon = state.followon, product[:0]
        if in_blocks:
            last, followon = jax.lax.scan(block, state.followon, blocks)
        rest, _ = block(last[: steps - in_blocks], product[in_blocks:])
        followon = jnp.concatenate([followon.reshape(in_blocks, *product.shape[1:]), rest])
        recent = jnp.concatenate([last[steps - in_blocks :], rest])
        return NstepState(recent, decay[steps:]), followon

    return Trace(init, update)


def _sliding_product(x: Float[Array, "..."], n: int) -> Float[Array, "..."]:
    """∏ of n neighbours along axis 0, for every place that has them."""
    window, stride = (n, *[1] * (x.ndim - 1)), (1,) * x.ndim
    return jax.lax.reduce_window(x, jnp.ones((), x.dtype), jax.lax.mul, window, stride, "VALID")


class WindowedState(NamedTuple):
    """State of a trace that is used at the start of each window of n."""

    decayed: PyTree
    """What the follow-on trace carries into the next state."""
    position: Int[Array, ""]
    """Place of the next state in its window, 0 … n - 1."""


def followon(*, beta: float | None = None, bound: float | None = None) -> Trace:
    """The follow-on trace of ETD, Fₜ = γₜ ρₜ₋₁ Fₜ₋₁ + 1, F₀ = 1.

    Equal to `nstep(1)`, with two of the paper's stabilisers inside the recursion:

    - `beta` takes the discount's place, ETD(λ, β): Fₜ = β ρₜ₋₁ Fₜ₋₁ + 1. A discount of 0
      still ends the episode.
    - `bound`: Fₜ = min(bound, γₜ ρₜ₋₁ Fₜ₋₁ + 1).

    Reference: Sutton, Mahmood, White, "An emphatic approach to the problem of
    off-policy temporal-difference learning", 2016; Hallak et al. 2016 for β.
    """
    _check_bound("bound", bound)
    if beta is not None and not 0 <= beta <= 1:
        raise UserError("beta", f"must lie in [0, 1], not {beta}")

    def init(batch_shape, dtype=jnp.float32):
        return jnp.zeros(batch_shape, dtype)

    @_detached
    def update(decayed, rho_tm1, discount_t, nu_tm1=None):
        del nu_tm1
        discount_t = discount_t if beta is None else jnp.where(discount_t == 0, 0.0, beta)

        decay = (discount_t * rho_tm1).astype(rho_tm1.dtype)
        # An F that overflowed stays finite: infinity would outlive a discount of 0, as NaN.
        limit = jnp.finfo(decay.dtype).max if bound is None else bound

        def step(decayed, decay):
            followon = jnp.minimum(limit, decayed + 1.0)
            return decay * followon, followon

        return jax.lax.scan(step, decayed, decay)

    return Trace(init, update)


def windowed(
    n: int, *, eta: float = 1.0, beta: float | None = None, bound: float | None = None
) -> Trace:
    """Windowed ETD, WETD: the follow-on trace at the start of each window of n, 1 inside.

        Fₜ = γₜ ρₜ₋₁ Fₜ₋₁ + 1,   Mₜ = 1 - η(1 - λₜ) + η(1 - λₜ) Fₜ,   λₜ = [t mod n ≠ 0]

    F runs on every step and is used at t mod n = 0. The paper's stabilisers: `eta`
    interpolates between 1 and F, `beta` and `bound` act inside the recursion (see
    `followon`); `bounded(windowed(n), bound)` bounds what is used and leaves F alone.

    Reference: Jiang et al. 2021, Eq. "wetd", Algorithm 1 and "Emphatic Results".
    """
    _check_n(n)
    if not 0 <= eta <= 1:
        raise UserError("eta", f"must lie in [0, 1], not {eta}")

    def use(followon):
        return 1.0 - eta + eta * followon

    return _at_window_starts(n, followon(beta=beta, bound=bound), use)


def wevtrace_literal(n: int, clip_rho: float = 1.0) -> Trace:
    """WEVtrace with the paper's λᵛ taken at its word (`windowed` is the other reading).

        Fᵛₜ = ρᵛₜ₋₁ γₜ Fᵛₜ₋₁ + 1,   Mₜ = λᵛₜ + (1 - λᵛₜ) Fᵛₜ,
        λᵛₜ = 0 if t mod n = 0, else min(ρ̄, ρₜ)/ρₜ

    Eq. "vtrace_lambda" makes λᵛ depend on the step's own ratio, so inside a window the
    emphasis is that of the action taken as well as of the state, and the independence
    that the stability proofs use is lost. Takes the raw ratio and ν (it clips itself).
    """
    _check_n(n)
    trace = followon()

    def init(batch_shape, dtype=jnp.float32):
        return WindowedState(trace.init(batch_shape, dtype), jnp.zeros((), jnp.int32))

    @_detached
    def update(state, rho_tm1, discount_t, nu_tm1=None):
        rho_v = jnp.minimum(clip_rho, rho_tm1) / required(nu_tm1)
        decayed, f = trace.update(state.decayed, rho_v, discount_t)
        lambda_v = jnp.where(rho_tm1 <= clip_rho, 1.0, clip_rho / jnp.maximum(rho_tm1, clip_rho))
        start, position = _window_starts(state.position, f, n)
        lambda_v = jnp.where(start, 0.0, lambda_v)
        return WindowedState(decayed, position), lambda_v + (1.0 - lambda_v) * f

    return Trace(init, update)


class ExactState(NamedTuple):
    """State of an exact trace: what the last n states send on, and the last transition."""

    reached: Float[Array, "k n *B"]
    """Fₜ₋₁, …, Fₜ₋ₙ, each times the γc of the steps between; k = 2 adds the same of ones."""
    discount: Float[Array, "*B"]
    """γₜ of the transition that led here."""
    rho: Float[Array, "*B"]
    """min(ρ̄, ρₜ₋₁) of that transition."""
    c: Float[Array, "*B"]
    """λ min(c̄, ρₜ₋₁) of that transition."""


def exact_nstep(
    n: int,
    *,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    lambda_: float = 1.0,
    interest: Interest = "one",
) -> Trace:
    """Exact emphatic trace of the n-step V-trace target, fixed scheme: exact NEVtrace.

        Fₜ = (i(Sₜ) + Qₙ(F)ₜ) / ν(Sₜ),   interest i = 1, or i = ν

        Qₘ(F)ₜ = Σₖ₌₁ᵐ⁻¹ [∏ⱼ₌ₜ₋ₖᵗ⁻² γⱼ₊₁cⱼ] γₜ (ρ̄ₜ₋₁ - cₜ₋₁ν(Sₜ)) Fₜ₋ₖ
                 + [∏ⱼ₌ₜ₋ₘᵗ⁻² γⱼ₊₁cⱼ] γₜ ρ̄ₜ₋₁ Fₜ₋ₘ

    with ρ̄ₜ = min(clip_rho, ρₜ) and cₜ = λ min(clip_c, ρₜ). The expected update it weighs
    is positive definite for every n, every state-dependent γ and ν, and every c̄ ≤ ρ̄,
    where the paper's NEVtrace needs ν to be constant: see docs/theory.md. Without
    clipping (clips and λ at their neutral values) it is `nstep(n)`, NETD.

    Feed it the raw ratio and ν(S) of the source state (computed with the same
    `clip_rho`). ν can be small: `bounded` puts a bound on what is used.
    """
    return _exact(n, clip_rho, clip_c, lambda_, interest, mixed=False)


def exact_windowed(
    n: int, *, clip_rho: float = 1.0, clip_c: float = 1.0, lambda_: float = 1.0
) -> Trace:
    """Exact emphatic trace of the V-trace target in the mixed scheme: exact WEVtrace.

        Fₜ = 1 + (Σₘ₌₁ⁿ⁻¹ Qₘ(1)ₜ + Qₙ(F)ₜ) / ν(Sₜ)   at t mod n = 0,   1 inside a window

    with Qₘ as in `exact_nstep`. F runs on every step and is used at window starts.
    Without clipping it is `windowed(n)`, WETD.
    """
    return _at_window_starts(n, _exact(n, clip_rho, clip_c, lambda_, "nu", mixed=True))


def _exact(
    n: int, clip_rho: float, clip_c: float, lambda_: float, interest: Interest, *, mixed: bool
) -> Trace:
    """Both exact traces: all their Qₘ read the same n values `reached`."""
    _check_n(n)
    _check_clips(clip_rho, clip_c, lambda_)
    if interest not in ("one", "nu"):
        raise UserError("interest", f"must be 'one' or 'nu', not {interest!r}")

    def init(batch_shape, dtype=jnp.float32):
        zeros = jnp.zeros(batch_shape, dtype)
        reached = jnp.zeros((2 if mixed else 1, n, *batch_shape), dtype)
        return ExactState(reached, zeros, zeros, zeros)

    def incoming(state, nu):
        """Qₙ(F), in the mixed scheme plus Σₘ₌₁ⁿ⁻¹ Qₘ(1)."""
        inner = state.discount * (state.rho - state.c * nu)
        last = state.discount * state.rho
        reached = state.reached[0]
        q = inner * reached[:-1].sum(0) + last * reached[-1]
        if mixed:
            # Place k is the last of Qₖ and an inner one of Qₖ₊₁ … Qₙ₋₁.
            ones = state.reached[1, :-1]
            times = jnp.arange(n - 2, -1, -1, dtype=ones.dtype).reshape(-1, *[1] * nu.ndim)
            q += inner * (times * ones).sum(0) + last * ones.sum(0)
        return q

    def step(state, transition):
        discount, rho, c, nu = transition
        # As in `followon`; n² of them can be added up.
        limit = jnp.finfo(nu.dtype).max / (n * n)
        followon = (1.0 if interest == "one" else nu) / nu + incoming(state, nu) / nu
        followon = jnp.minimum(limit, followon)
        newest = jnp.stack([followon, jnp.ones_like(followon)][: len(state.reached)])
        older = jnp.minimum(limit, state.reached[:, :-1] * (state.discount * state.c)[None, None])
        reached = jnp.concatenate([newest[:, None], older], axis=1)
        return ExactState(reached, discount, rho, c), followon

    @_detached
    def update(state, rho_tm1, discount_t, nu_tm1=None):
        rho = jnp.minimum(clip_rho, rho_tm1)
        c = lambda_ * jnp.minimum(clip_c, rho_tm1)
        transitions = (discount_t, rho, c, required(nu_tm1))
        return jax.lax.scan(step, state, transitions)

    return Trace(init, update)


def etd(lambda_: float, *, beta: float | None = None, bound: float | None = None) -> Trace:
    """Emphasis of ETD(λ), and ETD(λ, β) with `beta`: Mₜ = λ + (1 - λ) Fₜ.

    For the backward view, with `eligibility`; F as in `followon`.
    """
    if not 0 <= lambda_ <= 1:
        raise UserError("lambda_", f"must lie in [0, 1], not {lambda_}")
    trace = followon(beta=beta, bound=bound)

    def update(state, rho_tm1, discount_t, nu_tm1=None):
        state, f = trace.update(state, rho_tm1, discount_t, nu_tm1)
        return state, lambda_ + (1.0 - lambda_) * f

    return Trace(trace.init, update)


class Eligibility(NamedTuple):
    """A trace of gradients: `init(batch_shape, size)`, `update(...) -> (state, e)`."""

    init: Callable[..., PyTree]
    update: Callable[..., tuple[PyTree, Float[Array, "T *B d"]]]


def eligibility(lambda_: float, trace: Trace) -> Eligibility:
    """Eligibility trace of the backward view, weighed by `trace`.

        eₜ = ρₜ (γₜ λ eₜ₋₁ + Mₜ φₜ)

    `eligibility(λ, etd(λ))` is ETD(λ), `eligibility(λ, uniform())` off-policy TD(λ); the
    parameters then move by α δₜ eₜ. φ is `[T, *B, d]`. The state holds γₜ₊₁ λ eₜ.
    """

    def init(batch_shape, size, dtype=jnp.float32):
        return trace.init(batch_shape, dtype), jnp.zeros((*batch_shape, size), dtype)

    @_detached
    def update(state, rho_tm1, discount_t, features_tm1, nu_tm1=None):
        trace_state, carried = state
        trace_state, emphasis_tm1 = trace.update(trace_state, rho_tm1, discount_t, nu_tm1)

        def step(carried, transition):
            rho, discount, emphasis, features = transition
            e = rho[..., None] * (carried + emphasis[..., None] * features)
            return discount[..., None] * lambda_ * e, e

        transitions = (rho_tm1, discount_t, emphasis_tm1, features_tm1)
        carried, e = jax.lax.scan(step, carried, transitions)
        return (trace_state, carried), e

    return Eligibility(init, update)


def bounded(trace: Trace, bound: float) -> Trace:
    """The same trace, what is used of it at most `bound`; its recursion is left alone.

    The paper "directly clipped the values of F": this is one reading, `bound` inside
    the recursion of `followon` and `windowed` is the other.
    """
    _check_bound("bound", bound)

    def update(state, rho_tm1, discount_t, nu_tm1=None):
        state, emphasis_tm1 = trace.update(state, rho_tm1, discount_t, nu_tm1)
        return state, jnp.minimum(bound, emphasis_tm1)

    return Trace(trace.init, update)


def fed_with(transform: Transform, trace: Trace) -> Trace:
    """The same trace on another ratio, such as `ratios.clipped(1.0)`: Clip-NETD and so on."""

    def update(state, rho_tm1, discount_t, nu_tm1=None):
        return trace.update(state, transform(rho_tm1, nu_tm1), discount_t, nu_tm1)

    return Trace(trace.init, update)


def _at_window_starts(n: int, trace: Trace, use: Callable[[Any], Any] = lambda f: f) -> Trace:
    """`use(F)` at t mod n = 0 and 1 elsewhere; the trace itself runs on every step."""

    def init(batch_shape, dtype=jnp.float32):
        return WindowedState(trace.init(batch_shape, dtype), jnp.zeros((), jnp.int32))

    def update(state, rho_tm1, discount_t, nu_tm1=None):
        decayed, f = trace.update(state.decayed, rho_tm1, discount_t, nu_tm1)
        start, position = _window_starts(state.position, f, n)
        return WindowedState(decayed, position), jnp.where(start, use(f), 1.0)

    return Trace(init, update)


def _window_starts(
    position: Int[Array, ""], like: Float[Array, "T *B"], n: int
) -> tuple[Bool[Array, "T ..."], Int[Array, ""]]:
    """Which steps open a window, shaped to broadcast against `like`, and the next position."""
    steps = len(like)
    start = (position + jnp.arange(steps, dtype=jnp.int32)) % n == 0
    return start.reshape(steps, *[1] * (like.ndim - 1)), (position + steps) % n


def _detached(update: Callable[..., Any]) -> Callable[..., Any]:
    """An update through which no gradient flows."""

    @functools.wraps(update)
    def detached(*args, **kwargs):
        args, kwargs = jax.lax.stop_gradient((args, kwargs))
        return update(*args, **kwargs)

    return detached


def _check_n(n: int) -> None:
    if not isinstance(n, int) or n < 1:
        raise UserError("n", f"must be a whole number of at least 1, not {n!r}")


def _check_bound(field: str, bound: float | None) -> None:
    if bound is not None and not bound >= 1:
        raise UserError(
            field, f"must be at least 1, the weight of a state without past, not {bound}"
        )


def _check_clips(clip_rho: float, clip_c: float, lambda_: float) -> None:
    if not clip_rho > 0:
        raise UserError("clip_rho", f"must be positive, not {clip_rho}")
    if not 0 <= clip_c <= clip_rho:
        raise UserError("clip_c", f"must lie in [0, clip_rho = {clip_rho}], not {clip_c}")
    if not 0 <= lambda_ <= 1:
        raise UserError("lambda_", f"must lie in [0, 1], not {lambda_}")
