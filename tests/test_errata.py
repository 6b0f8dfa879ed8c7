"""Where the paper's formulas are wrong: each with the numbers that show it.

docs/errata.md tells the same in words.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import algorithms, mdp, targets, theory, traces
from emphatic.diagnostics import problems
from emphatic.diagnostics.claims import theory as claims
from emphatic.mdp import MDP


def alternating(discount: tuple[float, float], behaviour: float = 0.1) -> MDP:
    """Two states that alternate whatever is done; in state 0 π and μ disagree on what.

    π takes action 1 in state 0, μ takes it with probability `behaviour`; in state 1 both
    toss a coin. `discount` is γ on arrival in states 0 and 1.
    """
    document = {
        "name": "alternating",
        "transition": [[[0.0, 1.0]] * 2, [[1.0, 0.0]] * 2],
        "reward": [[0.0, 0.0], [0.0, 0.0]],
        "discount": list(discount),
        "target": [[0.0, 1.0], [0.5, 0.5]],
        "behaviour": [[1.0 - behaviour, behaviour], [0.5, 0.5]],
    }
    return mdp.from_dict(document)


@pytest.fixture
def stream():
    """ρ and γ of 12 steps of 5 streams, all positive."""
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.uniform(0.2, 2.0, (12, 5))), jnp.asarray(rng.uniform(0.5, 1.0, (12, 5)))


def test_lambda_as_printed_never_updates_a_windows_first_state(stream):
    """Eq. "tdn_lambda" with λₜ = 0 at t mod n = 0 in the appendix's sum

        Gₜ = V(Sₜ) + Σᵢ (∏ⱼ₌ₜⁱ⁻¹ ρⱼ γⱼ₊₁ λⱼ) λᵢ ρᵢ δᵢ

    has a factor λₜ in every term: G = V where t mod n = 0. Elsewhere it is Algorithm 1's
    target, which does update the first state.
    """
    n = 3
    rho, discount = (np.asarray(x) for x in stream)
    rng = np.random.default_rng(1)
    reward, v = rng.standard_normal((12, 5)), rng.standard_normal((13, 5))
    delta = reward + discount * v[1:] - v[:-1]
    lambda_ = (np.arange(12) % n != 0).astype(float)
    printed = v[:-1].copy()
    for t in range(12):
        product = np.ones(5)
        for i in range(t, 12):
            printed[t] += product * lambda_[i] * rho[i] * delta[i]
            product = product * rho[i] * discount[i] * lambda_[i]
    arrays = [jnp.asarray(x) for x in (v[:-1], v[1:], reward, discount, rho)]
    ours = np.asarray(targets.td(*arrays, n=n, scheme="mixed").value_tm1)
    starts = np.arange(12) % n == 0
    np.testing.assert_array_equal(printed[starts], v[:-1][starts])
    assert np.abs(ours - v[:-1])[starts].min() > 1e-3
    np.testing.assert_allclose(printed[~starts], ours[~starts], rtol=2e-5, atol=1e-5)


def test_proposition_1_is_not_strict_at_n_1(stream):
    """F > F⁽ⁿ⁾ for t > 0 holds for n ≥ 2; at n = 1 the two are one trace."""
    followon = traces.followon()
    _, f = followon.update(followon.init((5,)), *stream)
    for n, strict in ((1, False), (2, True), (4, True)):
        trace = traces.nstep(n)
        _, f_n = trace.update(trace.init((5,)), *stream)
        if strict:
            assert (np.asarray(f) > np.asarray(f_n))[1:].all()
        else:
            np.testing.assert_allclose(f, f_n, rtol=1e-6)


def test_powers_of_p_and_gamma_do_not_separate():
    """Two alternating states, γ = (0.9, 0.5), n = 2: (PΓ)² = 0.45 I, P²Γ² = diag(0.81, 0.25).

    Enumerating the only trajectory gives 0.45, and NETD's f = d_μ/(1 - 0.45), not the
    printed (I - (Pᵀ)²Γ²)⁻¹d_μ.
    """
    m = alternating((0.9, 0.5))
    expected = theory.expectation(m, "td", 2)
    P, Gamma = m.chain(m.target), np.diag([0.9, 0.5])
    np.testing.assert_allclose(expected.key, 0.5 * (np.eye(2) - 0.45 * np.eye(2)), rtol=1e-12)
    np.testing.assert_allclose(P @ P @ Gamma @ Gamma, np.diag([0.81, 0.25]), rtol=1e-12)
    printed = np.linalg.solve(np.eye(2) - P.T @ P.T @ Gamma @ Gamma, expected.d_mu)
    np.testing.assert_allclose(printed, [0.5 / 0.19, 0.5 / 0.75], rtol=1e-12)
    f = theory.expectation(m, "netd", 2).emphasis[0]
    np.testing.assert_allclose(f, [0.5 / 0.55] * 2, rtol=1e-12)
    # By sampling: of two steps' ratios only the one at state 0 is not 1, and E[ρ] = 1.
    trace = traces.nstep(2)
    stream = theory.sample(alternating((0.9, 0.5), 0.9), 200, 2000, np.random.default_rng(0))
    _, sampled = trace.update(trace.init((2000,)), *map(jnp.asarray, (stream.rho, stream.discount)))
    assert np.asarray(sampled)[-20:].mean() / 2 == pytest.approx(0.5 / 0.55, rel=0.01)


def test_wevtrace_is_not_stable_at_n_1():
    """The proof writes the key matrix as F (I - PΓ) N; it is F N (I - PΓ).

    Two alternating states, γ = 0.9, μ(1|0) = 0.1, so ν = (0.1, 1) and f = (5, 5). The key
    matrix is [[0.5, -0.45], [-4.5, 5]]; at Φ = (4, 1)ᵀ, A = 8 - 19.8 + 5 = -6.8.
    """
    m = dataclasses.replace(alternating((0.9, 0.9)), features=np.array([[4.0], [1.0]]))
    m = dataclasses.replace(m, initial_weights=np.ones(1))
    np.testing.assert_allclose(m.nu(), [0.1, 1.0])
    for name in ("wevtrace", "wevtrace-literal", "nevtrace"):
        analysis = theory.analyse(m, name, 1)
        np.testing.assert_allclose(analysis.emphasis[0], [5, 5])
        np.testing.assert_allclose(analysis.key, [[0.5, -0.45], [-4.5, 5.0]], rtol=1e-9)
        assert analysis.A[0, 0] == pytest.approx(-6.8)
        assert not analysis.stable
    for n in (2, 5, 10):
        assert not theory.analyse(m, "wevtrace", n).key_definiteness.definite
        assert not theory.analyse(m, "nevtrace", n).key_definiteness.definite
    for n in (1, 2, 5, 10):
        for name in ("exact-wevtrace", "exact-nevtrace", "exact-nevtrace-nu"):
            analysis = theory.analyse(m, name, n)
            assert analysis.key_definiteness.definite
            assert analysis.stable


def test_the_ring_on_which_the_approximate_key_matrix_is_indefinite():
    """n = 1: d_μ = (20, 1, 1)/22, and the printed F = (…, 1/22 + γ F₀, 1/22 + γ F₁/20).

    State 1 takes γ of state 2 for each of its own F₁: a matrix [[F₁, -γF₁], [·, F₂]] is
    positive definite only if F₂ > γ²F₁/4.
    """
    m = mdp.checked(claims.ring(1))
    key = claims._approximation(m, 1, transposed=False)
    first = (20 / 22 + 0.9 / 20 / 22 + 0.9**2 / 20**2 / 22) / (1 - 0.9**3 / 20**2)
    second = 1 / 22 + 0.9 * first
    third = 1 / 22 + 0.9 * second / 20
    np.testing.assert_allclose(key[[1, 1, 2, 2], [1, 2, 1, 2]], [second, -0.9 * second, 0, third])
    assert third < 0.9**2 * second / 4


def test_the_printed_column_sums_are_not_those_of_the_key_matrix():
    """1ᵀ F N (I - PΓ) ≠ d_μᵀ N when ν varies: (-4, 4.55) against (0.05, 0.5)."""
    m = alternating((0.9, 0.9))
    expected = theory.expectation(m, "wevtrace", 1)
    np.testing.assert_allclose(expected.key.sum(0), [-4.0, 4.55], rtol=1e-9)
    np.testing.assert_allclose(expected.d_mu * m.nu(), [0.05, 0.5], rtol=1e-9)
    exact = theory.expectation(m, "exact-wevtrace", 1)
    np.testing.assert_allclose(exact.key.sum(0), [0.05, 0.5], rtol=1e-9)


def test_literal_wevtrace_moves_v_traces_fixed_point():
    """λᵛ = ρ̄ₜ/ρₜ weighs by the step's own action, so even tabular it is not v of π_ρ̄."""
    rng = np.random.default_rng(0)
    m = MDP(
        name="random",
        transition=rng.dirichlet(np.ones(3), (3, 2)),
        reward=rng.standard_normal((3, 2, 3)),
        discount=np.full((3, 2, 3), 0.9),
        target=rng.dirichlet(np.ones(2), 3),
        behaviour=rng.dirichlet(np.ones(2), 3),
        features=np.eye(3),
        initial_weights=np.zeros(3),
    )
    assert theory.analyse(m, "wevtrace-literal", 1).target_error == pytest.approx(0, abs=1e-9)
    assert theory.analyse(m, "wevtrace-literal", 3).target_error > 0.01
    assert theory.analyse(m, "wevtrace", 3).target_error == pytest.approx(0, abs=1e-9)


def test_a_constant_nu_is_not_enough_beyond_n_1():
    """Episodes of a forced end; μ does what π does once in twenty times, everywhere.

    A product of two factors spans an episode's end, so that NEVtrace is V-trace, by either
    of the paper's two f. A = (1 (1 - 19/20 · 3) + 1/20 · 9)/21 = -1/15 at n ≥ 2.
    """
    transition, discount = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
    transition[0, 0, 1] = transition[0, 1, 0] = 1.0
    transition[1, :, 0] = 1.0
    discount[1] = 0.0
    m = MDP(
        name="rare everywhere",
        transition=transition,
        reward=np.zeros_like(transition),
        discount=discount,
        target=np.array([[1.0, 0.0]] * 2),
        behaviour=np.array([[1 / 20, 19 / 20]] * 2),
        features=np.array([[1.0], [3.0]]),
        initial_weights=np.ones(1),
    )
    np.testing.assert_allclose(m.nu(), 1 / 20)
    np.testing.assert_allclose(theory.expectation(m, "td", 1).d_mu, [20 / 21, 1 / 21])
    A = {
        (name, n): theory.analyse(m, name, n).A[0, 0]
        for name in ("vtrace", "nevtrace", "wevtrace", "exact-nevtrace", "exact-wevtrace")
        for n in (1, 2, 3, 5, 10)
    }
    for n in (2, 3, 5, 10):
        assert A["nevtrace", n] == A["vtrace", n] == pytest.approx(-1 / 15)
        np.testing.assert_allclose(
            theory.expectation(m, "clip-netd", n).emphasis, theory.expectation(m, "td", n).emphasis
        )
    assert A["nevtrace", 1] == A["wevtrace", 1] == pytest.approx(0.355, abs=5e-4)
    assert A["wevtrace", 2] == pytest.approx(0.144, abs=5e-4)
    assert A["wevtrace", 10] == pytest.approx(-0.025, abs=5e-4)
    assert min(a for (name, _), a in A.items() if name.startswith("exact")) > 0


@pytest.mark.parametrize("n", [1, 2])
def test_nevtrace_appendix_derives_the_clipped_trace(n):
    """The appendix's f has ν P_π_ρ̄ in it: that is min(ρ̄, ρ) in the trace, Clip-NETD's.

    The body's definition takes ρᵛ = min(ρ̄, ρ)/ν, whose f has P_π_ρ̄ alone.
    """
    m = alternating((0.9, 0.7), 0.3)
    d_mu = theory.expectation(m, "td", n).d_mu
    policy = theory.expected.vtrace_policy(m)
    step = np.diag(m.nu()) @ m.chain(policy) @ np.diag([0.9, 0.7])
    f = d_mu.copy()
    for _ in range(500):
        f = d_mu + np.linalg.matrix_power(step.T, n) @ f
    np.testing.assert_allclose(theory.expectation(m, "clip-netd", n).emphasis[0], f, rtol=1e-9)
    body = theory.expectation(m, "nevtrace", n).emphasis[0]
    assert np.abs(body / f - 1).max() > 0.3


@pytest.mark.parametrize(("n", "uniform", "windowed"), [(2, 73 / 22, 3.355), (5, 22 / 7, 3.237118)])
def test_wetd_is_not_uniform_lambda(n, uniform, windowed):
    """ETD(λ) with λ = 1 - 1/n has another expected update: WETD's λₜ multiply, and the
    expectation of a product of dependent λs is not the product of expectations.

    In the two-state MDP A differs (γ = 0.9: 3.318 against 3.355 at n = 2), in Collision the
    fixed point does. WETD is stable all the same.
    """
    m = problems.named()["collision-restart"]()
    wetd = theory.analyse(m, "wetd", n)
    A, b = etd(m, 1 - 1 / n, wetd.d_mu)
    theta = np.linalg.solve(A, b)
    assert np.linalg.norm(theta - wetd.theta) > 0.01 * np.linalg.norm(wetd.theta)
    one = theory.analyse(m, "wetd", 1)
    np.testing.assert_allclose(etd(m, 0.0, wetd.d_mu)[0], one.A, rtol=1e-9)
    assert wetd.key_definiteness.definite
    two_states = theory.analyse(problems.two_state(), "wetd", n)
    assert etd(problems.two_state(), 1 - 1 / n, two_states.d_mu)[0] == pytest.approx(uniform)
    assert pytest.approx(windowed) == two_states.A
    assert two_states.stable


def etd(m, lambda_, d_mu):
    """A and b of ETD(λ), Sutton et al. 2016: Φᵀ M (I - λPΓ)⁻¹ (I - PΓ) Φ.

    The emphasis is m = d_μ λ + (1 - λ) f with f = (I - (PΓ)ᵀ)⁻¹ d_μ.
    """
    M, eye = m.discounted(m.rho), np.eye(m.num_states)
    f = np.linalg.solve(eye - M.T, d_mu)
    emphasis = np.diag(lambda_ * d_mu + (1 - lambda_) * f)
    forward = emphasis @ np.linalg.inv(eye - lambda_ * M)
    A = m.features.T @ forward @ (eye - M) @ m.features
    return A, m.features.T @ forward @ m.expected_reward(m.rho)


def test_baird_nevtrace_is_netd_with_a_seventh_of_the_step():
    """At n = 1, ρᵛ = ρ (0 or 7) and the target's ratio is min(1, 7): NEVtrace(α) = NETD(α/7).

    So "both emphatic traces converge" and "all V-trace targets diverge" cannot both be.
    """
    m = problems.baird()
    netd, nevtrace = theory.analyse(m, "netd", 1), theory.analyse(m, "nevtrace", 1)
    np.testing.assert_allclose(nevtrace.A, netd.A / 7, rtol=1e-12, atol=1e-15)
    assert netd.stable
    assert nevtrace.stable
    stream = theory.sample(m, 50, 20, np.random.default_rng(0))
    v = m.features @ m.initial_weights
    updates = []
    for name in ("netd", "nevtrace"):
        built = algorithms.build(name, 1)
        weight = theory.sampled.emphases(built, stream)
        steps = (v[stream.state[:-1]], v[stream.state[1:]], stream.reward)
        inputs = (*steps, stream.discount, stream.rho)
        target = built.target(*map(jnp.asarray, inputs)).value_tm1
        updates.append(np.asarray(weight * (target - steps[0])))
    np.testing.assert_allclose(updates[1], updates[0] / 7, rtol=1e-4, atol=1e-4)


def test_clipped_netd_on_baird_is_stable_but_slow():
    """n = 1: smallest real part 0.0155, largest step 0.287; about 1e3 steps per factor e."""
    analysis = theory.analyse(problems.baird(), "clip-netd", 1)
    assert analysis.stable
    assert 0.01 < analysis.A_definiteness.rightmost < 0.02
    assert not analysis.key_definiteness.definite
