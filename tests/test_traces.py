"""Every trace is its slow definition, and the numbers and reductions the paper states."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slow_definitions
from comparisons import BATCH, CUT, STEPS, check_emphasis, unrolled
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from emphatic import algorithms, laws, traces
from emphatic.errors import UserError

INF = float("inf")
ONE_PER_TRACE = {(r.ratio, r.trace, r.interest): r.name for r in algorithms.ROWS}
NAMES = tuple(ONE_PER_TRACE.values())
"""One row for each way of making an emphasis."""

search = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("name", NAMES)
def test_equals_its_definition_in_float64(name, n):
    check_emphasis(algorithms.build(name, n))


@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize("name", NAMES)
def test_equals_its_definition_in_float32_and_two_unrolls(name, n):
    check_emphasis(algorithms.build(name, n), dtype=np.float32, cuts=(CUT,))


@pytest.mark.parametrize("name", NAMES)
def test_equals_its_definition_across_ragged_unrolls(name):
    """Compiled, in float64, by unrolls both shorter and longer than n = 5."""
    check_emphasis(algorithms.build(name, 5), cuts=(1, 4, 13, 16))


SETTINGS = (
    ("netd", {"bound": 1.4}),
    ("clip-netd", {"clip_trace": 0.6, "bound": 1.3}),
    ("clip-netd", {"clip_trace": INF}),
    ("wetd", {"beta": 0.4}),
    ("wetd", {"beta": 0.0}),
    ("wetd", {"eta": 0.3}),
    ("wetd", {"eta": 0.0}),
    ("wetd", {"bound_recursion": 1.7}),
    ("wetd", {"bound": 1.7}),
    (
        "clip-wetd",
        {"clip_trace": 1.5, "beta": 0.8, "eta": 0.6, "bound_recursion": 3.0, "bound": 2.0},
    ),
    ("nevtrace", {"clip_rho": 0.7}),
    ("wevtrace", {"clip_rho": INF, "eta": 0.5, "beta": 0.9}),
    ("wevtrace-literal", {"clip_rho": 0.7}),
    ("wevtrace-literal", {"clip_rho": INF}),
    ("exact-nevtrace", {"clip_rho": 2.0, "clip_c": 0.5, "lambda_": 0.8, "bound": 3.0}),
    ("exact-nevtrace", {"clip_rho": INF, "clip_c": 1.0}),
    ("exact-nevtrace-nu", {"clip_rho": 0.5, "clip_c": 0.5}),
    ("exact-wevtrace", {"clip_rho": 2.0, "clip_c": 0.5, "lambda_": 0.8, "bound": 3.0}),
    ("exact-wevtrace", {"clip_rho": INF, "clip_c": INF, "lambda_": 0.9}),
    ("exact-wevtrace", {"clip_c": 0.0}),
)


@pytest.mark.parametrize(("name", "chosen"), SETTINGS)
def test_equals_its_definition_with_settings(name, chosen):
    check_emphasis(algorithms.build(name, 3, **chosen), cuts=(CUT,))


def test_every_setting_of_a_trace_is_tested():
    tested = {field for _, chosen in SETTINGS for field in chosen}
    assert tested == set(algorithms.Settings._fields) - {"clip_pg_rho"}


def from_one(rho, discount, nu):
    """`[T, B]` from streams `[T]`: the streams as they are, turned round, and rolled."""
    versions = (lambda x: x, lambda x: x[::-1], lambda x: np.roll(x, 5))
    return laws.Stream(*(np.stack([v(x) for v in versions], axis=1) for x in (rho, discount, nu)))


build = functools.cache(algorithms.build)
"""Compiled once for all the examples of a search."""


@search
@given(
    name=st.sampled_from(["netd", "wetd", "exact-nevtrace", "exact-wevtrace"]),
    n=st.integers(1, 6),
    clip_rho=st.sampled_from([0.5, 1.0, INF]),
    rho=arrays(float, STEPS, elements=st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.0, 30.0])),
    discount=arrays(float, STEPS, elements=st.sampled_from([0.0, 0.3, 0.99, 1.0])),
    nu=arrays(float, STEPS, elements=st.sampled_from([0.01, 0.5, 1.0])),
)
def test_no_stream_tells_a_trace_from_its_definition(name, n, clip_rho, rho, discount, nu):
    clips = {"clip_rho": clip_rho, "clip_c": min(0.7, clip_rho)} if "exact" in name else {}
    check_emphasis(build(name, n, **clips), stream=from_one(rho, discount, nu))


VARIED = (
    ("clip-netd", {}),
    ("clip-netd", {"clip_trace": 0.6, "bound": 1.3}),
    ("clip-wetd", {"clip_trace": 1.5, "beta": 0.8, "eta": 0.6, "bound_recursion": 3.0}),
    ("wetd", {"beta": 0.4, "bound": 2.0}),
    ("nevtrace", {}),
    ("wevtrace", {"clip_rho": 2.0, "eta": 0.5}),
    ("wevtrace-literal", {}),
    ("exact-nevtrace-nu", {}),
)
"""Rows and stabilisers that the search above leaves out; at one n, to compile each but once."""


@search
@given(
    case=st.sampled_from(VARIED),
    rho=arrays(float, STEPS, elements=st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.0, 30.0])),
    discount=arrays(float, STEPS, elements=st.sampled_from([0.0, 0.3, 0.99, 1.0])),
    nu=arrays(float, STEPS, elements=st.sampled_from([0.01, 0.5, 1.0])),
)
def test_nor_a_clipped_or_stabilised_one(case, rho, discount, nu):
    name, chosen = case
    check_emphasis(build(name, 3, **chosen), stream=from_one(rho, discount, nu))


@search
@given(
    name=st.sampled_from(["netd", "wetd", "exact-wevtrace"]),
    seed=st.integers(0, 10**6),
    cuts=st.sets(st.integers(1, 6)),
)
def test_no_cut_shows(name, seed, cuts):
    """Any number of unrolls equals one, in float64, wherever the stream is cut."""
    stream = laws.random_stream(7, (BATCH,), seed=seed)
    check_emphasis(build(name, 3), stream=stream, cuts=sorted(cuts))


@search
@given(
    n=st.integers(1, 6),
    gamma=st.floats(0.0, 0.99),
    rho=arrays(np.float32, STEPS, elements=st.floats(0, 8, width=32)),
    end=st.integers(0, STEPS - 1),
)
def test_clipped_nstep_is_bounded(n, gamma, rho, end):
    """F ≤ 1 / (1 - γⁿ) if ratios are clipped at 1."""
    discount = np.where(np.arange(STEPS) == end, 0.0, gamma).astype(np.float32)
    stream = from_one(np.minimum(1.0, rho), discount, np.ones_like(rho))
    assert unrolled(build("netd", n).trace, stream).max() <= 1.00001 / (1.0 - gamma**n)


@pytest.mark.parametrize(
    ("n", "printed"), [(1, "100.00"), (10, "10.46"), (30, "3.84"), (100, "1.58")]
)
def test_on_policy_fixed_points_of_the_paper(n, printed):
    """γ = 0.99, ρ = 1: F settles at 1 / (1 - 0.99ⁿ)."""
    trace = traces.nstep(n)
    _, emphasis = jax.jit(trace.update)(trace.init(()), jnp.ones(3000), jnp.full(3000, 0.99))
    assert f"{emphasis[-1]:.2f}" == printed


@pytest.mark.parametrize("n", [1, 2, 5])
def test_exact_traces_reduce_to_netd_and_wetd_without_clipping(n):
    stream = laws.random_stream(STEPS, (BATCH,), seed=n)
    stream = stream._replace(nu_tm1=np.ones_like(stream.nu_tm1))
    free = {"clip_rho": INF, "clip_c": INF}
    pairs = [(traces.exact_nstep(n, **free, interest=i), traces.nstep(n)) for i in ("one", "nu")]
    pairs.append((traces.exact_windowed(n, **free), traces.windowed(n)))
    for exact, plain in pairs:
        np.testing.assert_allclose(unrolled(exact, stream), unrolled(plain, stream), rtol=1e-5)


def test_netd_wetd_and_the_follow_on_trace_agree_at_n_1():
    stream = laws.random_stream(STEPS, (BATCH,))
    followon = unrolled(traces.followon(), stream)
    for trace in (traces.nstep(1), traces.windowed(1), traces.etd(0.0)):
        np.testing.assert_allclose(unrolled(trace, stream), followon, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 5])
def test_follow_on_exceeds_netd(n):
    """Proposition 1: strictly, from the second step on and while no ratio is 0."""
    rng = np.random.default_rng(n)
    rho, discount = rng.uniform(0.2, 2.0, (2, STEPS, BATCH)).astype(np.float32)
    stream = laws.Stream(rho, np.minimum(discount, 1.0), np.ones_like(rho))
    assert np.all(unrolled(traces.followon(), stream)[1:] > unrolled(traces.nstep(n), stream)[1:])


def test_windows_weigh_their_first_state_by_the_follow_on_trace():
    """Algorithm 1: M = F at k = 0, and 1 for the other states, whatever their F."""
    stream = laws.random_stream(STEPS, (BATCH,), seed=3)
    emphasis, f = unrolled(traces.windowed(4), stream), unrolled(traces.followon(), stream)
    np.testing.assert_allclose(emphasis[::4], f[::4], rtol=1e-6)
    assert np.all(emphasis[np.arange(STEPS) % 4 != 0] == 1.0)


def test_n_step_by_hand():
    """n = 2, decays ½, 2, ¼, 3, 1: F = 1, 1, 1 + ½·2, 1 + 2·¼, 1 + ¼·3·2, 1 + 3·1·1.5."""
    rho = np.array([1.0, 2.0, 0.5, 3.0, 2.0, 7.0], np.float32)
    discount = np.array([0.5, 1.0, 0.5, 1.0, 0.5, 0.9], np.float32)
    stream = laws.Stream(rho, discount, np.ones_like(rho))
    np.testing.assert_array_equal(unrolled(traces.nstep(2), stream), [1.0, 1.0, 2.0, 1.5, 2.5, 5.5])


def test_bound_inside_the_recursion_and_on_the_output_differ():
    stream = laws.Stream(*(np.full(4, x, np.float32) for x in (2.0, 1.0, 1.0)))
    inside = unrolled(traces.followon(bound=2.5), stream)
    outside = unrolled(traces.bounded(traces.followon(), 2.5), stream)
    np.testing.assert_array_equal(inside, [1.0, 2.5, 2.5, 2.5])
    np.testing.assert_array_equal(outside, inside)
    later = laws.Stream(np.array([2.0, 2.0, 0.2, 1.0], np.float32), *stream[1:])
    inside = unrolled(traces.followon(bound=2.5), later)
    outside = unrolled(traces.bounded(traces.followon(), 2.5), later)
    np.testing.assert_allclose(inside, [1.0, 2.5, 2.5, 1.5])
    np.testing.assert_allclose(outside, [1.0, 2.5, 2.5, 2.4])


@pytest.mark.parametrize("lambda_", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("options", [{}, {"beta": 0.5}, {"bound": 2.0}])
def test_etd_and_its_eligibility_trace(lambda_, options):
    """The backward view: emphasis λ + (1 - λ)F and a sum of products of γλρ, across a cut."""
    steps, rng = 17, np.random.default_rng(0)
    stream = laws.random_stream(steps, seed=5)
    rho, discount = (x.astype(float) for x in stream[:2])
    features = rng.normal(size=(steps, 3))
    emphasis = lambda_ + (1 - lambda_) * slow_definitions.followon(rho, discount, **options)
    wanted = slow_definitions.eligibility(rho, discount, emphasis, features, lambda_)
    with jax.enable_x64(True):
        backward = traces.eligibility(lambda_, traces.etd(lambda_, **options))
        update = jax.jit(backward.update)
        state, parts = backward.init((), 3, float), []
        for part in (slice(0, 6), slice(6, steps)):
            inputs = [jnp.asarray(x[part]) for x in (rho, discount, features)]
            state, e = update(state, *inputs)
            parts.append(e)
        np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: traces.nstep(0), "n"),
        (lambda: traces.exact_nstep(-1), "n"),
        (lambda: traces.wevtrace_literal(0), "n"),
        (lambda: traces.windowed(2, eta=1.5), "eta"),
        (lambda: traces.windowed(2, beta=-0.1), "beta"),
        (lambda: traces.followon(bound=0.5), "bound"),
        (lambda: traces.bounded(traces.nstep(2), 0.0), "bound"),
        (lambda: traces.etd(2.0), "lambda_"),
        (lambda: traces.exact_nstep(2, clip_rho=0.0), "clip_rho"),
        (lambda: traces.exact_nstep(2, clip_c=2.0), "clip_c"),
        (lambda: traces.exact_windowed(2, lambda_=1.1), "lambda_"),
    ],
)
def test_impossible_traces_are_refused_by_name(make, field):
    with pytest.raises(UserError) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["nevtrace", "wevtrace-literal", "exact-nevtrace"])
def test_a_trace_that_needs_nu_says_where_to_get_it(name):
    trace = algorithms.build(name, 2).trace
    with pytest.raises(UserError, match=r"nu_tm1.*ratios\.from_logits"):
        trace.update(trace.init(()), jnp.ones(3), jnp.ones(3))


@pytest.mark.parametrize("name", NAMES)
def test_an_emphasis_that_overflows_is_forgotten_with_its_episode(name):
    """Ratios of 1e30, far beyond float32 in their products, then an end: a new stream follows."""
    clips = {"clip_rho": INF, "clip_c": INF} if name.startswith("exact") else {}
    trace = build(name, 3, **clips).trace
    huge, fresh = laws.random_stream(STEPS, (BATCH,)), laws.random_stream(STEPS, (BATCH,), seed=1)
    ones = np.ones_like(huge.rho_tm1)
    huge = huge._replace(rho_tm1=1e30 * ones, discount_t=0.9 * ones, nu_tm1=1e-30 * ones)
    huge = huge.part(0, STEPS - 1).changed(STEPS - 2, discount_t=0.0)
    emphasis = unrolled(trace, huge.then(fresh), cuts=(STEPS - 1,))
    assert np.isfinite(emphasis).all()
    np.testing.assert_allclose(emphasis[STEPS - 1 :], unrolled(trace, fresh), rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if algorithms.row(name).trace != "none"])
def test_a_ratio_that_is_no_number_shows(name):
    """Never an emphasis of 1 for what is unknown."""
    trace = algorithms.build(name, 3).trace
    stream = laws.random_stream(STEPS, (BATCH,)).changed(1, rho_tm1=np.nan)
    ones = np.ones_like(stream.discount_t)
    emphasis = unrolled(trace, stream._replace(discount_t=0.9 * ones))
    assert np.isfinite(emphasis[0]).all()
    assert np.isnan(emphasis[2:]).any(0).all()
