"""Broken traces and targets, and who catches them: a law, or the slow definition.

Each mutant is a mistake somebody could make. What it stands in for passes the same check,
so a check that fails on everything would be seen too.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparisons import CUT, check_emphasis, check_target

from emphatic import algorithms, laws, targets, traces

NETD = algorithms.build("netd", 3)
WETD = algorithms.build("wetd", 3)
EXACT = algorithms.build("exact-nevtrace", 3)


def with_update(trace, change):
    """The trace with `change(update, state, rho, discount, nu)` for its update."""
    return traces.Trace(trace.init, functools.partial(change, trace.update))


def outgoing_discount(update, state, rho, discount, nu=None):
    """γ(Sₜ)ρₜ instead of γ(Sₜ₊₁)ρₜ: the discount one step late."""
    late = jnp.concatenate([jnp.ones_like(discount[:1]), discount[:-1]])
    return update(state, rho, late, nu)


def own_ratio(update, state, rho, discount, nu=None):
    """ρₜ in Fₜ: the ratios one step early."""
    early = jnp.concatenate([rho[1:], jnp.ones_like(rho[:1])])
    return update(state, early, discount, nu)


def outcome_of_the_step(update, state, rho, discount, nu=None):
    """Fₜ weighed by the ratio of the action it weighs."""
    state, f = update(state, rho, discount, nu)
    return state, rho * f


def later_nu(update, state, rho, discount, nu=None):
    """ν of the next state."""
    return update(state, rho, discount, jnp.concatenate([nu[1:], nu[:1]]))


def forgetful(update, state, rho, discount, nu=None):
    """The state is not carried into the next unroll."""
    return state, update(state, rho, discount, nu)[1]


def through_terminations(update, state, rho, discount, nu=None):
    """A discount of 0 does not end the episode for the trace."""
    return update(state, rho, jnp.where(discount == 0, 0.9, discount), nu)


def over_autoreset_steps(update, state, rho, discount, nu=None):
    """Autoreset steps are passed over as if they had not been."""
    autoreset = (rho == 0) & (discount == 0)
    return update(state, jnp.where(autoreset, 1.0, rho), jnp.where(autoreset, 1.0, discount), nu)


def starts_lower_after_an_end(update, state, rho, discount, nu=None):
    """The state after an end inside the unroll weighs half."""
    state, f = update(state, rho, discount, nu)
    ended = jnp.concatenate([jnp.zeros_like(f[:1]), (discount[:-1] == 0).astype(f.dtype)])
    return state, f * (1.0 - 0.5 * ended)


def mixes_streams(update, state, rho, discount, nu=None):
    """Normalised by the mean over the batch."""
    state, f = update(state, rho, discount, nu)
    return state, f / f.mean(axis=tuple(range(1, f.ndim)), keepdims=True) if f.ndim > 1 else f


def lets_gradients_through(update, state, rho, discount, nu=None):
    """A part of the emphasis that is not detached."""
    state, f = update(state, rho, discount, nu)
    past = jnp.concatenate([jnp.zeros_like(rho[:1]), (discount * rho)[:-1]])
    return state, f + past - jax.lax.stop_gradient(past)


def nan_gradient(update, state, rho, discount, nu=None):
    """Detached too late: the gradient of log ρ at ρ = 0, times 0."""
    state, f = update(state, rho, discount, nu)
    return state, f + 0.0 * jnp.where(rho > 0, jnp.log(rho), 0.0)


def through_logarithms(update, state, rho, discount, nu=None):
    """Products as exp of a sum of logs, divided again: 0/0 after an end."""
    product = jnp.cumprod(discount * rho, axis=0)
    return state, product / product


def negative(update, state, rho, discount, nu=None):
    """F - 2."""
    state, f = update(state, rho, discount, nu)
    return state, f - 2.0


def half_precision_state(update, state, rho, discount, nu=None):
    """The state comes back in another dtype."""
    state, f = update(state, rho, discount, nu)
    return jax.tree.map(lambda x: x.astype(jnp.float16), state), f


def one_number_for_all(update, state, rho, discount, nu=None):
    """The emphasis of the batch, not of each stream."""
    state, f = update(state, rho, discount, nu)
    return state, f.mean(axis=-1) if f.ndim > 1 else f


def knows_jit(update, state, rho, discount, nu=None):
    """Something else when compiled."""
    state, f = update(state, rho, discount, nu)
    return state, f * 1.01 if isinstance(rho, jax.core.Tracer) else f


def chance(generator, update, state, rho, discount, nu=None):
    """Draws in Python: another emphasis at every call that is not compiled."""
    state, f = update(state, rho, discount, nu)
    return state, f * (1.0 if isinstance(rho, jax.core.Tracer) else generator.uniform())


def position_by_unroll(update, state, rho, discount, nu=None):
    """Windows counted from each unroll's start."""
    return update(state._replace(position=jnp.zeros_like(state.position)), rho, discount, nu)


def first_stream_only_under_vmap(update, state, rho, discount, nu=None):
    """Single streams take another path than batches."""
    state, f = update(state, rho, discount, nu)
    return state, f if rho.ndim > 1 else f + 0.1


BREAKS_A_LAW = {
    "outgoing discount": (NETD, outgoing_discount, "two_unrolls_equal_one|termination"),
    "own ratio": (NETD, own_ratio, "causality"),
    "outcome of the step": (NETD, outcome_of_the_step, "causality"),
    "later nu": (EXACT, later_nu, "causality"),
    "state dropped": (NETD, forgetful, "two_unrolls_equal_one"),
    "leak across a termination": (NETD, through_terminations, "termination_starts_anew"),
    "leak across an autoreset step": (NETD, over_autoreset_steps, "autoreset_starts_anew"),
    "low after an end": (NETD, starts_lower_after_an_end, "two_unrolls_equal_one"),
    "mixed streams": (NETD, mixes_streams, "elementwise_over_batch"),
    "gradient": (NETD, lets_gradients_through, "no_gradient"),
    "gradient not a number": (NETD, nan_gradient, "no_gradient.*nan"),
    "not a number": (NETD, through_logarithms, "one_number_per_step.*nan"),
    "negative": (NETD, negative, "one_number_per_step.*-1"),
    "dtype of the state": (NETD, half_precision_state, "state_keeps_its_form.*float16"),
    "shape of the emphasis": (NETD, one_number_for_all, "one_number_per_step"),
    "jit": (NETD, knows_jit, "jit_changes_nothing"),
    "window position": (WETD, position_by_unroll, "two_unrolls_equal_one"),
    "single streams": (NETD, first_stream_only_under_vmap, "elementwise_over_batch"),
    "chance": (
        NETD,
        functools.partial(chance, np.random.default_rng(0)),
        "same_input_same_output",
    ),
}


@pytest.mark.parametrize("name", BREAKS_A_LAW)
def test_a_law_catches(name):
    algorithm, change, said = BREAKS_A_LAW[name]
    period = 3 if algorithm is WETD else 1
    with pytest.raises(laws.LawError, match=said):
        laws.check(with_update(algorithm.trace, change), period=period)


def test_vmap_is_a_law_of_its_own():
    """`elementwise_over_batch` comes first in the battery and sees this mutant too."""
    mutant = with_update(NETD.trace, first_stream_only_under_vmap)
    with pytest.raises(laws.LawError, match="vmap_over_streams"):
        laws.vmap_over_streams(laws.Case(mutant))


def exact_without_nu(update, state, rho, discount, nu=None):
    """ν = 1 in the exact trace."""
    return update(state, rho, discount, jnp.ones_like(nu))


def exact_fed_with_rho_v(update, state, rho, discount, nu=None):
    """ρᵛ where the exact trace wants the raw ratio."""
    return update(state, jnp.minimum(1.0, rho) / nu, discount, nu)


def own_discount_in_exact(update, state, rho, discount, nu=None):
    """ρ̄ₜ₋₁ with the discount of another step."""
    return update(state, jnp.roll(rho, 1, axis=0), discount, nu)


def windows_by_episode(update, state, rho, discount, nu=None):
    """Windows counted from the last termination."""
    decayed, f = traces.followon().update(state.decayed, rho, discount)
    step = jnp.broadcast_to(jnp.arange(len(rho))[:, None], rho.shape)
    ended = jnp.concatenate([jnp.zeros_like(step[:1]), (discount[:-1] == 0).astype(step.dtype)])
    latest_end = jax.lax.cummax(step * ended, axis=0)
    place = step - latest_end + jnp.where(latest_end == 0, state.position, 0)
    position = (state.position + len(rho)) % 3
    return traces.WindowedState(decayed, position), jnp.where(place % 3 == 0, f, 1.0)


WRONG_TRACES = {
    "outgoing discount": (NETD, with_update(NETD.trace, outgoing_discount)),
    "own ratio": (NETD, with_update(NETD.trace, own_ratio)),
    "state dropped": (NETD, with_update(NETD.trace, forgetful)),
    "leak across a termination": (NETD, with_update(NETD.trace, through_terminations)),
    "leak across an autoreset step": (NETD, with_update(NETD.trace, over_autoreset_steps)),
    "n too small": (NETD, traces.nstep(2)),
    "n too large": (NETD, traces.nstep(4)),
    "follow-on trace for NETD": (NETD, traces.followon()),
    "follow-on trace inside windows": (WETD, traces.followon()),
    "window too long": (WETD, traces.windowed(4)),
    "NETD in windows": (WETD, NETD.trace),
    "windows restart with unrolls": (WETD, with_update(WETD.trace, position_by_unroll)),
    "windows restart with episodes": (WETD, with_update(WETD.trace, windows_by_episode)),
    "clipped where it should not be": (NETD, algorithms.build("clip-netd", 3).trace),
    "not clipped": (algorithms.build("clip-netd", 3), NETD.trace),
    "clipped, not V-trace's": (
        algorithms.build("nevtrace", 3),
        algorithms.build("clip-netd", 3).trace,
    ),
    "the literal reading": (
        algorithms.build("wevtrace", 3),
        algorithms.build("wevtrace-literal", 3).trace,
    ),
    "paper's for exact": (EXACT, algorithms.build("nevtrace", 3).trace),
    "exact without nu": (EXACT, with_update(EXACT.trace, exact_without_nu)),
    "exact fed with rho_v": (EXACT, with_update(EXACT.trace, exact_fed_with_rho_v)),
    "exact, wrong step": (EXACT, with_update(EXACT.trace, own_discount_in_exact)),
    "exact, interest nu": (EXACT, traces.exact_nstep(3, interest="nu")),
    "exact, n too small": (EXACT, traces.exact_nstep(2)),
    "exact, lambda forgotten": (
        algorithms.build("exact-nevtrace", 3, lambda_=0.5),
        traces.exact_nstep(3),
    ),
    "fixed for mixed": (algorithms.build("exact-wevtrace", 3), EXACT.trace),
    "beta beside the discount": (algorithms.build("wetd", 3, beta=0.5), WETD.trace),
    "bound on the output": (
        algorithms.build("wetd", 3, bound_recursion=1.5),
        traces.bounded(WETD.trace, 1.5),
    ),
    "bound in the recursion": (
        algorithms.build("wetd", 3, bound=1.5),
        traces.windowed(3, bound=1.5),
    ),
}


@pytest.mark.parametrize("name", WRONG_TRACES)
def test_the_slow_definition_catches(name):
    algorithm, mutant = WRONG_TRACES[name]
    check_emphasis(algorithm, cuts=(CUT,))
    with pytest.raises(AssertionError):
        check_emphasis(algorithm, mutant, cuts=(CUT,))


TD = algorithms.build("td", 3)
TD_MIXED = algorithms.build("td-mixed", 3)
VTRACE = algorithms.build("vtrace", 3, clip_pg_rho=1.0)
WIDE = algorithms.build("vtrace", 3, clip_pg_rho=2.0)


def changed_target(target, change):
    """The target on changed inputs: `change(v_tm1, v_t, r_t, discount_t, rho_tm1)`."""
    return lambda *arrays: target(*change(*arrays))


def clip_on_the_target(v_tm1, v_t, r_t, discount_t, rho_tm1):
    return v_tm1, v_t, r_t, discount_t, jnp.minimum(1.0, rho_tm1)


def discount_too_late(v_tm1, v_t, r_t, discount_t, rho_tm1):
    return v_tm1, v_t, r_t, jnp.roll(discount_t, 1, axis=0), rho_tm1


def ratio_too_early(v_tm1, v_t, r_t, discount_t, rho_tm1):
    return v_tm1, v_t, r_t, discount_t, jnp.roll(rho_tm1, -1, axis=0)


def through_ends(v_tm1, v_t, r_t, discount_t, rho_tm1):
    return v_tm1, v_t, r_t, jnp.where(discount_t == 0, 0.9, discount_t), rho_tm1


def truncation_as_termination(v_tm1, v_t, r_t, discount_t, rho_tm1):
    """The step before an autoreset step loses its discount."""
    autoreset = (discount_t == 0) & (rho_tm1 == 0)
    ends = jnp.concatenate([autoreset[1:], jnp.zeros_like(autoreset[:1])])
    return v_tm1, v_t, r_t, jnp.where(ends, 0.0, discount_t), rho_tm1


def own_value_at_the_end(v_tm1, v_t, r_t, discount_t, rho_tm1):
    """Bootstraps from the value of the last source state."""
    return v_tm1, jnp.concatenate([v_t[:-1], v_tm1[-1:]]), r_t, discount_t, rho_tm1


def advantage_beyond_the_window(*arrays):
    """Gₜ₊₁ as a full n-step target of its own: n + 1 steps in all."""
    return targets.Target(
        TD.target(*arrays).value_tm1, targets.td(*arrays, n=4, scheme="fixed").advantage_tm1
    )


def advantage_of_the_target(*arrays):
    """G - V, the same only where the three clips are."""
    target = WIDE.target(*arrays)
    return target._replace(advantage_tm1=target.value_tm1 - arrays[0])


def clip_pg_rho_forgotten(*arrays):
    return targets.vtrace(*arrays, n=3, scheme="fixed", clip_pg_rho=float("inf"))


WRONG_TARGETS = {
    "clip of the trace on the target": (TD, changed_target(TD.target, clip_on_the_target)),
    "discount too late": (TD, changed_target(TD.target, discount_too_late)),
    "ratio too early": (TD, changed_target(TD.target, ratio_too_early)),
    "leak across an end": (TD, changed_target(TD.target, through_ends)),
    "truncation as termination": (TD, changed_target(TD.target, truncation_as_termination)),
    "own value at the end": (TD, changed_target(TD.target, own_value_at_the_end)),
    "n too small": (TD, functools.partial(targets.td, n=2, scheme="fixed")),
    "fixed for mixed": (TD_MIXED, TD.target),
    "mixed for fixed": (TD, TD_MIXED.target),
    "window too long": (TD_MIXED, functools.partial(targets.td, n=4, scheme="mixed")),
    "advantage one step too far": (TD, advantage_beyond_the_window),
    "advantage of the target": (WIDE, advantage_of_the_target),
    "policy-gradient clip forgotten": (VTRACE, clip_pg_rho_forgotten),
    "ratio on the TD error not clipped": (
        VTRACE,
        functools.partial(targets.clipped_td, n=3, scheme="fixed", clip_pg_rho=1.0),
    ),
    "products not clipped": (
        VTRACE,
        functools.partial(targets.vtrace, n=3, scheme="fixed", clip_c=float("inf")),
    ),
    "lambda forgotten": (
        algorithms.build("vtrace", 3, lambda_=0.5, clip_pg_rho=1.0),
        VTRACE.target,
    ),
}


@pytest.mark.parametrize("name", WRONG_TARGETS)
def test_the_slow_definition_catches_a_target(name):
    algorithm, mutant = WRONG_TARGETS[name]
    check_target(algorithm)
    with pytest.raises(AssertionError):
        check_target(algorithm, mutant)
