"""The vectorised learners against NumPy loops, and identities between algorithms."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pseudo_code
import pytest

from emphatic import algorithms, mdp, theory
from emphatic.diagnostics import learners, problems, streams

NS = (1, 2, 3, 4, 5)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def random_problem():
    """Rewards, several actions, discounts by state, ends and a cut: all that can happen."""
    rng = np.random.default_rng(3)
    states, actions = 5, 3
    transition = rng.dirichlet(np.ones(states), size=(states, actions))
    m = mdp.MDP(
        name="random",
        transition=transition,
        reward=rng.normal(size=transition.shape),
        discount=np.broadcast_to(np.array([0.9, 0.5, 0.0, 1.0, 0.8]), transition.shape),
        target=rng.dirichlet(np.ones(actions), size=states),
        behaviour=rng.dirichlet(np.ones(actions) * 3, size=states),
        features=rng.normal(size=(states, 3)),
        initial_weights=rng.normal(size=3),
    )
    return problems.Problem(mdp=m, start=np.full(states, 0.2), limit=37)


def problem(name):
    return random_problem() if name == "random" else problems.problem(name)


def run(problem, plan, alphas, steps, chunk, runs=1, seed=7, states=0):
    """Errors before each update and after the last, `[runs, steps + 1, A]` by lane.

    With `states` there are at least so many; those added are never visited. Problems of one
    size share one compiled program, and compiling is what costs here.
    """
    ahead = max(lane.n for lane in plan)
    total = -(-(steps + 1) // chunk) * chunk
    stream = streams.sample(seed, range(runs), problem, total + ahead)
    features = np.stack([problem.features(np.random.default_rng(r)) for r in range(runs)])
    added = (0, max(0, states - problem.mdp.num_states))
    phi = np.pad(features, ((0, 0), added, (0, 0)))
    gram = jnp.asarray(phi @ phi.transpose(0, 2, 1))
    values, weights = (jnp.asarray(np.pad(x, added)) for x in (problem.values, problem.weights))
    case = learners.Case(gram, values, weights)
    initial = jnp.asarray(phi @ problem.mdp.initial_weights)
    state = jax.vmap(lambda v: learners.start(v, plan, len(alphas), steps + 2))(initial)
    traces = learners.trace_states(plan, runs, phi.shape[1])
    slots = np.minimum(np.arange(total), steps + 1)
    for begin in range(0, total, chunk):
        window = slice(begin, begin + chunk + ahead - 1)
        state, traces = learners.advance(
            plan,
            state,
            traces,
            case,
            streams.Stream(*(x[window] for x in stream)),
            jnp.asarray(slots[begin : begin + chunk], jnp.int32),
            jnp.asarray(alphas),
            jnp.asarray(begin),
            jnp.asarray(steps),
            steps=chunk,
        )
    curves = {}
    for kind, learner in state.items():
        # What lies beyond the last step of the last chunk must change nothing.
        np.testing.assert_allclose(learner.error, np.asarray(learner.curve)[:, steps])
        for i, lane in enumerate(x for x in plan if x.kind == kind):
            curves[lane] = np.asarray(learner.curve)[:, :-1, :, i]
    return curves, stream, features


ROUNDING = dict.fromkeys(("rare-exit", "rare-exit-3", "rare-loop"), 2.0**-52)
"""What float64 loses of the first error, where the last state is valued 3 θ: our learners hold
one value of each state, and these are no longer exact multiples of one another once rounded.
No update takes that away, so it shows when the error has come down to 10⁻⁸. (The two states'
2 θ is exact, and they are compared down to 10⁻¹⁰⁰.)"""


def check_pseudo_code(name, plan, alphas, steps, chunk, states=0):
    subject = problem(name)
    curves, stream, features = run(subject, plan, alphas, steps, chunk, states=states)
    behaviour = pseudo_code.Behaviour(
        [x[:, 0] for x in stream],
        features[0],
        subject.mdp.initial_weights,
        subject.values,
        subject.weights,
    )
    for lane, curve in curves.items():
        for a, alpha in enumerate(alphas):
            expected = pseudo_code.errors(*lane, behaviour, alpha, steps)
            # What comes after divergence is no longer learned; a test of its own says so.
            sane = np.logical_and.accumulate(expected < learners.LIMIT / 10)
            lost = ROUNDING.get(name, 0.0) * expected[0]
            np.testing.assert_allclose(
                curve[0, sane, a], expected[sane], 1e-9, lost, err_msg=str(lane)
            )


@pytest.mark.slow
@pytest.mark.parametrize("name", [*problems.named(), "collision-termination", "random"])
def test_equals_the_pseudo_code(name):
    """Every algorithm, scheme and n, over 500 steps in chunks that cut windows."""
    plan = learners.lanes(tuple(learners.LABELS), NS)
    check_pseudo_code(name, plan, np.array([2.0**-4, 2.0**-9]), steps=500, chunk=167, states=9)


def test_equals_the_pseudo_code_in_short():
    """One algorithm of each kind of target, trace and scheme, where everything happens."""
    names = ("netd", "clip-wetd", "vtrace", "clipped-td-mixed", "etd-beta", "gtd2", "tdrc")
    plan = learners.lanes(names, (1, 3))
    check_pseudo_code("random", plan, np.array([2.0**-4]), steps=120, chunk=50)


@pytest.fixture(scope="module")
def two_problems():
    """Curves on two-state and Baird, at α = 2^-k and k steps apart as the identities need."""
    names = ("td", "netd", "wetd", "vtrace", "nevtrace", "clipped-td", "etd")
    plan = learners.lanes(names, (1, 3))
    with jax.enable_x64(True):
        return {
            name: (
                nu,
                run(
                    problems.problem(name), plan, np.array([0.002, 0.002 * nu]), 200, 201, states=7
                )[0],
            )
            for name, nu in (("two-state", 1 / 2), ("baird", 1 / 7))
        }


@pytest.mark.parametrize("name", ["two-state", "baird"])
class TestIdentities:
    def test_emphatic_td_is_one_algorithm_at_n_1(self, two_problems, name):
        _, curves = two_problems[name]
        for other in ("wetd", "etd"):
            np.testing.assert_allclose(
                curves[learners.Lane(other, 1)], curves[learners.Lane("netd", 1)], rtol=1e-9
            )

    def test_vtrace_is_td_with_a_smaller_step_at_n_1(self, two_problems, name):
        """V-trace(α) = TD(αν) and NEVtrace(α) = NETD(αν): here ν is the same in all states."""
        _, curves = two_problems[name]
        for clipped, plain in (("vtrace", "td"), ("nevtrace", "netd")):
            a, b = curves[learners.Lane(clipped, 1)], curves[learners.Lane(plain, 1)]
            np.testing.assert_allclose(a[:, :, 0], b[:, :, 1], rtol=1e-9)
            assert not np.allclose(a[:, :, 0], b[:, :, 0], rtol=1e-3)

    def test_vtrace_is_clipped_td_with_a_smaller_step(self, two_problems, name):
        """For any n: only the ratio on the TD error differs, and it is ν times as large."""
        _, curves = two_problems[name]
        for n in (1, 3):
            a, b = curves[learners.Lane("vtrace", n)], curves[learners.Lane("clipped-td", n)]
            np.testing.assert_allclose(a[:, :, 0], b[:, :, 1], rtol=1e-9)


def test_a_diverged_lane_stands_still_and_touches_no_other():
    """α = 1e6 passes the limit at once; its neighbour learns as it does alone."""
    plan = learners.lanes(("td", "netd", "etd", "tdc"), (1, 2))
    subject = problems.problem("baird")
    both, _, _ = run(subject, plan, np.array([0.001, 1e6]), 60, 61)
    alone, _, _ = run(subject, plan, np.array([0.001, 0.001]), 60, 61)
    for lane in plan:
        assert (both[lane][0, -5:, 1] == learners.LIMIT).all(), lane
        assert np.isfinite(both[lane]).all()
        for a in (0, 1):
            np.testing.assert_allclose(both[lane][..., 0], alone[lane][..., a], rtol=1e-12)


def test_targets_are_those_of_the_library():
    """b + Σ aₖ v(sₖ), with F = 1, is `algorithm.target` minus v."""
    plan = learners.lanes(algorithms.NAMES, (1, 3))
    steps = 30
    stream = streams.sample(0, range(1), random_problem(), steps + 2)
    stream = streams.Stream(*(x[:, 0] for x in stream))
    # The library has no `chain_t`: without cuts the two discounts are one, and a
    # transition begins where the last one ended.
    joined = jnp.append(stream.state_tm1[1:], 0)
    stream = stream._replace(chain_t=stream.discount_t, state_t=joined)
    v = jnp.asarray(np.random.default_rng(0).normal(size=5))
    ones = jnp.ones((steps, len(plan)))
    found = jax.jit(functools.partial(learners.coefficients, plan))(stream, ones, jnp.asarray(0))
    delta = found.bias + (found.weight * v[found.state][:, :, None]).sum(1)
    v_tm1, v_t = v[stream.state_tm1], v[stream.state_t]
    arrays = (v_tm1, v_t, stream.reward_t, stream.discount_t, stream.rho_tm1)
    for i, lane in enumerate(plan):
        target = algorithms.build(lane.name, lane.n).target(*arrays).value_tm1 - v_tm1
        np.testing.assert_allclose(delta[:, i], target[:steps], rtol=1e-9, atol=1e-12)


def ergodic():
    """A problem without cuts: what `theory` is about."""
    m = random_problem().mdp
    discount = np.broadcast_to(np.array([0.6, 0.5, 0.0, 0.9, 0.8]), m.discount.shape)
    m = dataclasses.replace(m, discount=discount)
    return problems.Problem(mdp=m, start=problems.of_mdp(m).weights)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3])
def test_the_mean_update_is_the_expected_one(n):
    """b - A θ of `theory`, for all algorithms of the table, within five standard errors."""
    subject, runs, steps = ergodic(), 400, 600
    plan = learners.lanes(algorithms.NAMES, (n,))
    stream = streams.sample(1, range(runs), subject, steps + n)
    stream = streams.Stream(*(x[: steps + n - 1] for x in stream))
    phi = jnp.asarray(subject.mdp.features)
    traces = learners.trace_states(plan, runs, subject.mdp.num_states)
    gram = jnp.broadcast_to(phi @ phi.T, (runs, len(phi), len(phi)))

    def one(stream, emphasis):
        c = learners.coefficients(plan, stream, emphasis, jnp.asarray(0))
        source = phi[c.state[:, 0]]
        b = jnp.einsum("tl,td->ltd", c.bias, source)
        a = -jnp.einsum("tkl,tke,td->ltde", c.weight, phi[c.state], source)
        # The first 60 steps are left to the trace to forget that it started.
        return b[:, 60:].mean(1), a[:, 60:].mean(1)

    @jax.jit
    def updates(traces, stream):
        here = streams.Stream(*(x[:steps] for x in stream))
        _, driven = learners.drive(plan, traces, here, gram)
        return jax.vmap(one, 1)(stream, driven.emphasis)

    b, a = (np.asarray(x) for x in updates(traces, stream))
    for i, lane in enumerate(plan):
        expected = theory.analyse(subject.mdp, lane.name, n)
        for sampled, exact in ((b[:, i], expected.b), (a[:, i], expected.A)):
            error = sampled.std(0) / np.sqrt(runs)
            assert (np.abs(sampled.mean(0) - exact) < 5 * error + 1e-9).all(), lane
