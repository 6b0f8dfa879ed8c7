"""Theory against definitions, against sampling, and against the paper's numbers."""

import dataclasses
import functools
import importlib.util
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import algorithms, cli, mdp, theory
from emphatic.algorithms import NAMES, Settings
from emphatic.diagnostics import problems
from emphatic.errors import UserError
from emphatic.mdp import MDP
from emphatic.theory import census, sampled

EXACT = [r.name for r in algorithms.ROWS if r.trace.startswith("exact")]
OTHER = {"clip_rho": 1.2, "clip_c": 0.7, "lambda_": 0.9, "clip_trace": 0.8, "beta": 0.6, "eta": 0.7}
"""No setting at its default."""


@functools.cache
def mild(seed=3, states=4, actions=2) -> MDP:
    """A random MDP with γ(s, a, s'), mild ratios (finite variances) and 2 features."""
    rng = np.random.default_rng(seed)
    m = MDP(
        name="mild",
        transition=rng.dirichlet(np.ones(states), (states, actions)),
        reward=rng.standard_normal((states, actions, states)),
        discount=rng.choice([0.0, 0.5, 0.8, 0.95], (states, actions, states)),
        target=rng.dirichlet(3 * np.ones(actions), states),
        behaviour=rng.dirichlet(3 * np.ones(actions), states),
        features=rng.standard_normal((states, 2)),
        initial_weights=np.zeros(2),
    )
    return mdp.checked(m)


def one_state(discount: float) -> MDP:
    """On-policy, one state, one action: every trace has a closed form."""
    one = np.ones((1, 1, 1))
    policies = {"target": np.ones((1, 1)), "behaviour": np.ones((1, 1))}
    return MDP(
        name="one",
        transition=one,
        reward=one,
        discount=discount * one,
        features=np.ones((1, 1)),
        initial_weights=np.zeros(1),
        **policies,
    )


# The paper's printed numbers.


@pytest.mark.parametrize(("n", "printed"), [(10, 10.46), (30, 3.84), (100, 1.58)])
def test_printed_on_policy_fixed_points(n, printed):
    """F = 100 for WETD whatever n; 1/(1 - 0.99ⁿ) for NETD, as the paper prints it."""
    m = one_state(0.99)
    assert theory.expectation(m, "wetd", n).emphasis[0, 0] == pytest.approx(100.0)
    assert round(theory.expectation(m, "netd", n).emphasis[0, 0], 2) == printed


def test_printed_key_matrix():
    """Appendix "Unstable Learning": two states, γ = 0.99, n = 2; xᵀKx < 0 at Φ = (1, 2)."""
    m = dataclasses.replace(problems.two_state(), discount=np.full((2, 2, 2), 0.99))
    analysis = theory.analyse(m, "td", 2)
    printed = [[0.5, -(0.99**2) / 2], [0.0, (1 - 0.99**2) / 2]]
    np.testing.assert_allclose(analysis.key, printed, rtol=1e-12, atol=1e-15)
    assert analysis.A[0, 0] < 0
    assert not analysis.stable
    assert not analysis.key_definiteness.definite


def test_two_state_second_moment():
    """γ² E[ρ²] = 0.81 * 2 = 1.62: unclipped traces have infinite variance."""
    m = problems.two_state()
    assert theory.second_moment(m, "netd", 1) == pytest.approx(1.62)
    for name in ("netd", "wetd", "nevtrace", "wevtrace", "wevtrace-literal", *EXACT):
        assert not theory.analyse(m, name, 3).finite_variance, name
    for name in ("td", "vtrace", "clip-netd", "clip-wetd"):
        assert theory.analyse(m, name, 3).finite_variance, name


# Expectations against sampling, with the library's own traces and targets.


@pytest.mark.parametrize("changed", [{}, OTHER], ids=["defaults", "others"])
def test_monte_carlo(changed):
    """d_μ(s) E[M|s] by place in the window, and E[M (G - v) φ] = b - Aθ, z below 4.5."""
    n, burn_in, steps, streams = 3, 60, 120, 4000
    m, rng = mild(), np.random.default_rng(0)
    clip_rho = changed.get("clip_rho", 1.0)
    stream = theory.sample(m, burn_in + steps + n, streams, rng, clip_rho)
    values = m.features @ (theta := np.array([1.0, -2.0]))
    inputs = (values[stream.state], stream.reward, stream.discount, stream.rho)
    v, reward, discount, rho = (jnp.asarray(x) for x in inputs)
    state = stream.state[burn_in : burn_in + steps]
    for name, built in algorithms.table(n, **changed).items():
        expected = theory.expectation(m, name, n, **built.settings._asdict())
        assert theory.second_moment(m, name, n, **built.settings._asdict()) < 1, name
        weight = np.asarray(sampled.emphases(built, stream))[burn_in : burn_in + steps]
        places = len(expected.emphasis)
        visits = (state[..., None] == np.arange(m.num_states)) * weight[..., None]
        profile = visits.reshape(-1, places, *visits.shape[1:]).mean(0)
        assert_mean(profile, expected.emphasis, 1, name)
        target = built.target(v[:-1], v[1:], reward, discount, rho).value_tm1
        error = np.asarray(target - v[:-1])[burn_in : burn_in + steps]
        update = ((weight * error)[..., None] * m.features[state]).mean(0)
        assert_mean(update, expected.b - expected.A @ theta, 0, name)


def assert_mean(samples, expected, axis, name):
    """z-score of the mean over streams."""
    mean, spread = samples.mean(axis), samples.std(axis, ddof=1)
    error = spread / np.sqrt(samples.shape[axis])
    z = np.abs(mean - expected) / np.maximum(error, 1e-6 * np.abs(expected) + 1e-12)
    assert z.max() < 4.5, (name, z)


# Laws.


@pytest.mark.parametrize("name", [name for name in NAMES if name != "wevtrace-literal"])
def test_tabular_fixed_point_is_the_targets_value(name):
    """With a feature per state, weights and windows move nothing: θ = v_π or v of π_ρ̄.

    Literal WEVtrace weighs by the step's own action: see test_errata.
    """
    m = dataclasses.replace(mild(), features=np.eye(4), initial_weights=np.zeros(4))
    for n in (1, 2, 5):
        analysis = theory.analyse(m, name, n)
        np.testing.assert_allclose(analysis.theta, analysis.v_target, rtol=1e-9)
        assert analysis.target_error == pytest.approx(0, abs=1e-9)


def test_values_by_iteration():
    """v_π and the value of V-trace's policy, by Bellman backups from their definitions."""
    m = mild()
    clipped = np.minimum(0.8 * m.behaviour, m.target)
    policy = clipped / clipped.sum(1, keepdims=True)
    np.testing.assert_allclose(theory.expected.vtrace_policy(m, 0.8), policy, rtol=1e-12)
    analysis = theory.analyse(m, "vtrace", 3, clip_rho=0.8)
    for pi, values in ((m.target, analysis.v_pi), (policy, analysis.v_target)):
        v = np.zeros(4)
        for _ in range(2000):
            q = (m.transition * (m.reward + m.discount * v)).sum(-1)
            v = (pi * q).sum(-1)
        np.testing.assert_allclose(values, v, rtol=1e-9)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("exact-nevtrace", "netd"), ("exact-wevtrace", "wetd")]
)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_exact_traces_reduce_without_clipping(ours, theirs, n):
    """ν = 1 and c = ρ: emphasis, key matrix and drive are those of NETD and WETD."""
    unclipped = {"clip_rho": np.inf, "clip_c": np.inf}
    left = theory.expectation(mild(), ours, n, **unclipped)
    right = theory.expectation(mild(), theirs, n)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("n", [1, 3])
def test_exact_key_matrix_has_the_proofs_form(name, n):
    """Off-diagonal entries ≤ 0, row sums > 0, column sums exactly the interest's."""
    m = mild()
    expected = theory.expectation(m, name, n, clip_rho=1.0, clip_c=0.6)
    off = expected.key - np.diag(np.diag(expected.key))
    assert off.max() <= 1e-15
    assert expected.key.sum(1).min() > 0
    interest = expected.d_mu * (1.0 if name == "exact-nevtrace" else m.nu())
    np.testing.assert_allclose(expected.key.sum(0), interest, rtol=1e-9)


@pytest.mark.parametrize("name", ["td", "td-mixed", "clipped-td", "vtrace", "vtrace-mixed"])
def test_expected_error_by_enumeration(name):
    """g - K v of an unweighted update, summing over every trajectory of three transitions."""
    m, n = mild(states=3), 3
    v = np.array([0.3, -0.7, 1.1])
    row, values = theory.setting(name, n, **SOME.get(name.removesuffix("-mixed"), {}))
    given = {k: x for k, x in values._asdict().items() if x != getattr(Settings(), k)}
    expected = theory.expectation(m, name, n, **given)
    reaches = [n] if row.scheme == "fixed" else [1, 2, 3]
    errors = [[expected_error(m, v, s, reach, row, values) for s in range(3)] for reach in reaches]
    slow = expected.d_mu * np.mean(errors, axis=0)
    np.testing.assert_allclose(expected.drive - expected.key @ v, slow, rtol=1e-10)
    np.testing.assert_allclose(expected.A, m.features.T @ expected.key @ m.features, rtol=1e-12)
    np.testing.assert_allclose(expected.b, m.features.T @ expected.drive, rtol=1e-12)


SOME = {"clipped-td": {"clip_c": 0.7}, "vtrace": {"clip_rho": 0.9, "clip_c": 0.7, "lambda_": 0.8}}


def expected_error(m, v, s, reach, row, values):
    """E[Gₜ - v(Sₜ)|Sₜ=s] = Σₐ μ Σₛ' p (ρ δ + c γ times the same from s', one step shorter)."""
    if reach == 0:
        return 0.0
    total = 0.0
    for a, x in np.ndindex(m.num_actions, m.num_states):
        raw, gamma = m.target[s, a] / m.behaviour[s, a], m.discount[s, a, x]
        rho = min(values.clip_rho, raw) if row.target == "vtrace" else raw
        c = raw if row.target == "td" else values.lambda_ * min(values.clip_c, raw)
        delta = m.reward[s, a, x] + gamma * v[x] - v[s]
        beyond = expected_error(m, v, x, reach - 1, row, values)
        chance = m.behaviour[s, a] * m.transition[s, a, x]
        total += chance * (rho * delta + c * gamma * beyond)
    return total


def test_step_size_limit():
    """The radius of I - αA is 1 at the limit, below it under, above it over."""
    A = theory.expectation(mild(), "netd", 2).A
    limit = theory.largest_step_size(A)
    assert theory.spectral_radius(A, limit) == pytest.approx(1.0)
    assert theory.spectral_radius(A, 0.99 * limit) < 1 < theory.spectral_radius(A, 1.01 * limit)
    assert theory.largest_step_size(-A) == 0.0


def test_more_features_than_states():
    """Baird's A is singular; the fixed point keeps what no update can reach."""
    m = problems.baird()
    analysis = theory.analyse(m, "netd", 1)
    assert analysis.stable
    assert analysis.value_error == pytest.approx(0, abs=1e-9)
    weights = m.initial_weights
    for _ in range(400):
        weights = weights + 0.3 * (analysis.b - analysis.A @ weights)
    np.testing.assert_allclose(analysis.theta, weights, rtol=1e-6)


def test_states_left_for_ever():
    """Collision's trap: all of d_μ is on S₉, and only what is visited is judged."""
    analysis = theory.analyse(problems.collision_trap(), "td", 2)
    np.testing.assert_array_equal(np.flatnonzero(analysis.d_mu), [8])
    assert analysis.stable
    assert analysis.key_definiteness.smallest == pytest.approx(1 - 0.81)


def test_several_target_distributions():
    """π may have several recurrent classes: then d_π is not a number."""
    m = dataclasses.replace(
        mild(states=2), transition=np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], float)
    )
    m = mdp.checked(dataclasses.replace(m, target=np.array([[1.0, 0.0], [1.0, 0.0]])))
    assert theory.analyse(m, "td", 1).d_pi is None
    np.testing.assert_allclose(theory.analyse(problems.two_state(), "td", 1).d_pi, [0, 1])


# Variance.


def test_second_moment_of_products_by_iteration():
    """q ← d + 2 Mᵀf + M₂ᵀq stays bounded exactly where the criterion says so."""
    seen = set()
    for m in each(next(census.random_mdps(np.random.default_rng(1), 200))):
        finite = theory.second_moment(m, "netd", 1) < 1
        expected = theory.expectation(m, "netd", 1)
        M, f = m.discounted(m.rho), expected.emphasis[0]
        M2 = m.discounted(m.rho**2, power=2)
        q = np.zeros(2)
        for _ in range(20_000):
            q = expected.d_mu + 2 * M.T @ f + M2.T @ q
            if q.max() > 1e30:
                break
        again = expected.d_mu + 2 * M.T @ f + M2.T @ q
        settled = np.allclose(again, q, rtol=1e-9)
        assert settled == finite
        seen.add(finite)
    assert seen == {True, False}


@pytest.mark.parametrize("n", [1, 2, 4])
def test_second_moment_of_exact_traces_by_brute_force(n):
    """Same side of 1 as the n²S-square matrix of E[z zᵀ], built transition by transition."""
    seen = set()
    for m in each(next(census.random_mdps(np.random.default_rng(2), 120))):
        for clips in ({"clip_rho": 1.0, "clip_c": 0.6}, {"clip_rho": 3.0, "clip_c": 2.0}):
            ours = theory.second_moment(m, "exact-nevtrace", n, **clips)
            slow = np.abs(np.linalg.eigvals(pair_operator(m, n, **clips))).max()
            assert (ours < 1) == (slow < 1), (ours, slow)
            if n == 1:
                assert ours == pytest.approx(slow)
            seen.add(ours < 1)
    assert seen == {True, False}


def pair_operator(m, n, clip_rho, clip_c):
    """E[z zᵀ; s] one step on: Σₐ μ p L ⊗ L, with L the step of z = (reached values)."""
    S, nu = m.num_states, m.nu(clip_rho)
    operator = np.zeros((S, n * n, S, n * n))
    for s, a, x in np.ndindex(m.transition.shape):
        rho, c = min(clip_rho, m.rho[s, a]), min(clip_c, m.rho[s, a])
        L = np.zeros((n, n))
        L[0, :-1] = (rho - c * nu[x]) / nu[x]
        L[0, -1] = rho / nu[x]
        L[range(1, n), range(n - 1)] = c
        L *= m.discount[s, a, x]
        operator[x, :, s, :] += m.behaviour[s, a] * m.transition[s, a, x] * np.kron(L, L)
    return operator.reshape(S * n * n, S * n * n)


def each(batch: MDP) -> list[MDP]:
    """The MDPs of a batch."""
    arrays = {k: v for k, v in vars(batch).items() if k != "name"}
    return [
        MDP(name="one", **{k: v[i] for k, v in arrays.items()})
        for i in range(len(batch.transition))
    ]


# Sampled growth and the safety region, where they have closed forms.


def test_lyapunov_closed_forms():
    """One state: log|1 - α(1 - γ)|. Two states: ¼ log(1 + 1.6α) + ¼ log(1 - 0.8α)."""
    short = {"steps": 200, "streams": 64}
    exact = theory.lyapunov(one_state(0.5), "td", 1, 0.3, **short)
    assert exact.mean == pytest.approx(np.log(0.85), abs=1e-5)
    assert exact.standard_error < 1e-6
    estimate = theory.lyapunov(problems.two_state(), "td", 1, 0.3, **short)
    closed = (np.log(1 + 1.6 * 0.3) + np.log(1 - 0.8 * 0.3)) / 4
    assert estimate.standard_error < 0.1 * abs(closed)
    assert abs(estimate.mean - closed) < 4.5 * estimate.standard_error
    with pytest.raises(UserError, match="step_size"):
        theory.lyapunov(one_state(0.5), "td", 1, 0.0)


def test_safety_region_closed_form():
    """Two states: A = 0.4 - 0.6 ε for TD, lost at ε = 2/3; NETD never loses it."""
    m = problems.two_state()
    region = theory.safety_region(m, "td", 1, matrix="A")
    assert region.lost
    assert region.epsilon == pytest.approx(2 / 3, abs=1e-5)
    assert region.total_variation == pytest.approx(1 / 3, abs=1e-5)
    assert theory.safety_region(m, "netd", 1) == (1.0, 0.5, False)


def test_safety_region_returns_the_first_loss():
    """On the way to μ the smallest eigenvalue is positive until the ε returned."""
    m = problems.baird()
    region = theory.safety_region(m, "td", 2)
    for epsilon, definite in ((0.5, True), (0.999, True), (1.001, False)):
        moved = (1 - region.epsilon * epsilon) * m.target + region.epsilon * epsilon * m.behaviour
        there = theory.analyse(dataclasses.replace(m, behaviour=moved), "td", 2)
        assert there.key_definiteness.definite == definite


def test_safety_region_where_definiteness_comes_back():
    """Lost at ε in 0.4 … 0.6 and definite again at μ itself: the first loss counts."""
    batch = list(census.random_mdps(np.random.default_rng(7), 2000))[2]
    m = each(batch)[98]
    assert theory.analyse(m, "vtrace", 1).key_definiteness.definite
    region = theory.safety_region(m, "vtrace", 1)
    assert region.lost
    assert 0.3 < region.epsilon < 0.5


# Ours is definite, everywhere; the paper's are not.


def test_census(capsys):
    """No indefinite key matrix in 5,000 random MDPs x n x clips; the others' counts beside."""
    path = Path(__file__).parents[1] / "benchmarks" / "definiteness.py"
    spec = importlib.util.spec_from_file_location("definiteness", path)
    assert spec is not None
    assert spec.loader is not None
    definiteness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(definiteness)
    table = definiteness.count(("td", "vtrace", "nevtrace", "wevtrace", *EXACT), 5000)
    with capsys.disabled():
        print("\n" + definiteness.render(table))
    for name in EXACT:
        assert table[name] == ([0, 0, 0, 0], 5000 * len(census.CLIPS))
    for name in ("td", "vtrace", "nevtrace", "wevtrace"):
        assert min(table[name][0]) > 0, name


def test_search_finds_what_it_says():
    """Each hit diverges under all that were named, simplest first; ours converge on all."""
    names = ("vtrace", "nevtrace", "wevtrace")
    found, of = census.unstable(np.random.default_rng(0), 1000, 3, names, 2)
    assert 0 < len(found) < of < 1000
    assert [f.counts for f in found] == sorted(f.counts for f in found)
    for f in found[::10]:
        m = mdp.checked(f.mdp)
        size = theory.analyse(m, "td", 2).d_mu @ m.features[:, 0] ** 2
        A = {x: theory.analyse(m, x, 2).A[0, 0] for x in (*names, "exact-nevtrace")}
        assert max(A[x] for x in names) == pytest.approx(f.worst * size)
        assert f.worst < -census.MARGIN
        assert A["exact-nevtrace"] > 0


@pytest.mark.parametrize(("n", "states"), [(1, 2), (2, 3)])
def test_search_finds_the_named_problems(n, states):
    """The second simplest of examples/search_unstable_vtrace.py, whatever its states' order."""
    names = ("vtrace", "nevtrace", "wevtrace")
    found, _ = census.unstable(np.random.default_rng(0), 20_000, states, names, n)
    named = {1: problems.rare_exit(), 2: problems.rare_exit_3()}[n]
    for name in ("vtrace", "exact-wevtrace", "td"):
        A = [theory.analyse(m, name, n).A[0, 0] for m in (found[1].mdp, named)]
        assert A[0] == pytest.approx(A[1])


# What cannot be answered, and the command.


@pytest.mark.parametrize(
    ("name", "n", "given", "field"),
    [
        ("netd", 2, {"bound": 5.0}, "bound"),
        ("wetd", 2, {"bound_recursion": 5.0}, "bound_recursion"),
        ("netd", 0, {}, "n"),
        ("nope", 1, {}, "algorithm"),
        ("td", 1, {"clip_rho": 0.5}, "clip_rho"),
        ("vtrace", 1, {"clip_rho": float("nan")}, "clip_rho"),
        ("vtrace", 1, {"lambda_": 2.0}, "lambda_"),
    ],
)
def test_mistakes(name, n, given, field):
    with pytest.raises(UserError) as error:
        theory.expectation(mild(), name, n, **given)
    assert error.value.field == field


def test_beta_too_large():
    """β = 1 takes the discount away: the follow-on trace has no limit."""
    with pytest.raises(UserError, match="beta"):
        theory.expectation(problems.two_state(), "wetd", 2, beta=1.0)


def run(capsys, *argv):
    cli.main(["theory", *argv])
    return capsys.readouterr().out


def test_command_prints_every_algorithm(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = run(capsys, "two-state", "--n", "1", "2")
    assert printed.count("exact-nevtrace-nu") == 4
    assert "n = 1" in printed
    assert "n = 2" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_command_json_on_a_file(capsys, tmp_path):
    path = tmp_path / "mild.json"
    path.write_text(mdp.to_json(mild()))
    asked = ("--n", "3", "--algorithm", "clip-netd", "--clip-trace")
    free = run(capsys, str(path), *asked, "inf", "--json")
    document = json.loads(free, parse_constant=pytest.fail)
    assert document["analyses"][0]["settings"]["clip_trace"] == "inf"
    document = json.loads(run(capsys, str(path), *asked, "0.5", "--json"))
    (entry,) = document["analyses"]
    expected = theory.analyse(mild(), "clip-netd", 3, clip_trace=0.5)
    np.testing.assert_allclose(entry["A"], expected.A)
    np.testing.assert_allclose(entry["emphasis"], expected.emphasis)
    assert entry["settings"]["clip_trace"] == 0.5
    assert document["problem"] == "mild"


def test_command_knows_the_problems_that_diagnose_knows(capsys):
    asked = ("--n", "1", "--algorithm", "td")
    for name in ("collision", "collision-termination"):
        assert problems.problem(name).name in run(capsys, name, *asked)


def test_command_more(capsys):
    printed = run(capsys, "two-state", "--n", "1", "--algorithm", "td", "--safety")
    assert "0.661" in printed
    assert json.loads(run(capsys, "--schema"))["title"] == "MDP"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nowhere"], "two-state"),
        ([], "two-state"),
        (["missing.json"], "no such file"),
        (["two-state", "--n", "0"], "n:"),
        (["two-state", "--algorithm", "td", "--clip-rho", "2"], "clip_rho"),
        (["two-state", "--step-size", "-1"], "step-size"),
    ],
)
def test_command_mistakes(capsys, argv, words):
    with pytest.raises(SystemExit) as stop:
        cli.main(["theory", *argv])
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
