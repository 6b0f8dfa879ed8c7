"""The problems as the paper draws them: numbers a reader can check by hand."""

import re
from pathlib import Path

import numpy as np
import pytest

from emphatic import UserError, mdp, theory
from emphatic.diagnostics import problems

PAGE = Path(__file__).parents[2] / "docs" / "state-dependent-nu.md"


@pytest.mark.parametrize("name", problems.named())
def test_every_named_mdp_is_a_valid_one(name):
    m = problems.named()[name]()
    assert m.name == name
    np.testing.assert_allclose(m.transition.sum(-1), 1)
    assert mdp.checked(m) is not None


@pytest.mark.parametrize("name", ["two-state", "baird"])
def test_values_are_zero_and_states_equally_frequent(name):
    p = problems.problem(name)
    np.testing.assert_array_equal(p.values, 0)
    np.testing.assert_allclose(p.weights, 1 / p.mdp.num_states)


def test_collision_values_are_powers_of_the_discount():
    """S₈ → S₉ pays 1; if the self-loop pays too, S₉ is worth 1/(1 - γ) = 10."""
    powers = 0.9 ** np.arange(7, -1, -1)
    np.testing.assert_allclose(problems.problem("collision").values, [*powers, 0])
    np.testing.assert_allclose(problems.problem("collision-restart").values, powers)
    np.testing.assert_allclose(problems.problem("collision-trap-r1").values, [*10 * powers, 10])


def test_collision_weights_are_the_share_of_time_in_a_hundred_steps():
    """Simulated, against the average over an episode's distributions."""
    p = problems.problem("collision")
    rng, counts = np.random.default_rng(0), np.zeros(9)
    for _ in range(2000):
        state = rng.integers(4)
        for _ in range(100):
            counts[state] += 1
            forward = state < 4 or state == 8 or rng.random() < 0.5
            state = min(state + 1, 8) if forward else rng.integers(4)
    np.testing.assert_allclose(p.weights, counts / counts.sum(), atol=0.006)


def test_collision_features_are_drawn_anew():
    p = problems.problem("collision")
    a, b = (p.features(np.random.default_rng(i)) for i in (1, 2))
    for features in (a, b):
        np.testing.assert_array_equal(features.sum(1), 3)
        assert len(np.unique(features, axis=0)) == 9
    assert (a != b).any()


def test_baird_starts_where_sutton_and_barto_do():
    m = problems.baird()
    np.testing.assert_array_equal(m.features @ m.initial_weights, [3] * 6 + [12])
    np.testing.assert_allclose(m.rho[:, 1], 7)


def test_rare_exit_by_hand():
    """2A = 1 (1 - 3) + F ν 9 with F = 1, 2, 40 for V-trace, the paper's emphases, ours."""
    m = problems.rare_exit()
    np.testing.assert_allclose(m.nu(), [1, 1 / 20])
    expected = {"vtrace": 1, "nevtrace": 2, "wevtrace": 2, "exact-nevtrace": 40}
    for name, emphasis in expected.items():
        a = theory.analyse(m, name, 1)
        np.testing.assert_allclose(2 * a.A, [[-2 + emphasis * 9 / 20]], rtol=1e-12)
        assert a.finite_variance
    for name in ("vtrace", "nevtrace", "wevtrace"):
        assert not theory.analyse(m, name, 1).stable


def test_rare_exit_visits_states_as_often_as_the_target_would():
    for m in (problems.rare_exit(), problems.rare_exit_3()):
        a = theory.analyse(m, "td", 1)
        np.testing.assert_allclose(a.d_mu, a.d_pi)
        assert a.stable


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize("name", ["rare-exit-3", "rare-loop"])
def test_the_papers_emphases_fail_at_every_n_and_ours_do_not(name, n):
    m = problems.named()[name]()
    bad = ("vtrace", "vtrace-mixed", "nevtrace", "wevtrace", "wevtrace-literal")
    assert [x for x in bad if theory.analyse(m, x, n).stable] == []
    good = ("td", "netd", "wetd", "exact-nevtrace", "exact-nevtrace-nu", "exact-wevtrace")
    assert [x for x in good if not theory.analyse(m, x, n).stable] == []


def test_only_the_loop_has_no_variance():
    names = ("nevtrace", "exact-nevtrace", "exact-wevtrace")
    for name, finite in (("rare-exit", True), ("rare-exit-3", True), ("rare-loop", False)):
        m = problems.named()[name]()
        assert all(theory.analyse(m, x, 2).finite_variance == finite for x in names), name


EMPHASES = [("vtrace", 1), ("nevtrace", 2), ("wevtrace", 2)]
EMPHASES += [("exact-nevtrace", 40), ("exact-wevtrace", 21)]


@pytest.mark.parametrize(("name", "emphasis"), EMPHASES)
def test_rare_exit_sampled_growth(name, emphasis):
    """A step in the second state is a factor |1 - 9αF| once in twenty, one in the first 1 + 2α."""
    alpha = 2.0**-9
    a = theory.lyapunov(problems.rare_exit(), name, 1, alpha, steps=4000, streams=64)
    expected = (np.log(1 + 2 * alpha) + np.log(abs(1 - 9 * alpha * emphasis)) / 20) / 2
    assert (expected > 0) == (not name.startswith("exact"))
    assert abs(a.mean - expected) < 4 * a.standard_error


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", [name for name, _ in EMPHASES])
def test_samples_of_rare_exit_3_grow_as_theory_says(name, n):
    """By -A a step for small α; a tenth of it for what is quadratic in α."""
    alpha, m = 2.0**-12, problems.rare_exit_3()
    growth = theory.lyapunov(m, name, n, alpha, steps=1000, streams=64)
    expected = -alpha * theory.analyse(m, name, n).A[0, 0]
    assert (expected > 0) == (not name.startswith("exact"))
    assert growth.mean / expected > 0
    assert abs(growth.mean - expected) < 4 * growth.standard_error + 0.1 * abs(expected)


@pytest.mark.parametrize("name", ["rare-exit", "rare-exit-3", "rare-loop"])
def test_the_table_of_docs_is_what_theory_says(name):
    """To the three digits that `emphatic theory` prints."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n### `{name}`\n")[1].split("\n#")[0]
    ns = [int(n) for n in re.search(r"^\| A at n = \| (.*) \|$", section, re.M)[1].split(" | ")]
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", section, re.M)
    assert [row for row, _ in rows] == ["td", *(name for name, _ in EMPHASES)]
    m = problems.named()[name]()
    for row, cells in rows:
        expected = [theory.analyse(m, row, n).A[0, 0] for n in ns]
        assert cells.split(" | ") == [f"{a:.3g}" for a in expected], row


def test_the_columns_of_docs_are_those_of_the_key_matrices():
    """The paper's last step asks for column sums d_μᵀN; ours are d_μ, as the proof says."""
    two, three = problems.rare_exit(), problems.rare_exit_3()
    for m, name, n, sums in (
        (two, "wevtrace", 1, [1 / 2, -9 / 20]),
        (two, "exact-nevtrace", 1, [1 / 2, 1 / 2]),
        (three, "nevtrace", 2, [1 / 5, 2 / 5, -11 / 20]),
        (three, "exact-nevtrace", 2, [1 / 5, 2 / 5, 2 / 5]),
    ):
        np.testing.assert_allclose(theory.expectation(m, name, n).key.sum(0), sums, rtol=1e-9)


def test_an_unknown_problem_is_a_sentence():
    with pytest.raises(UserError, match="choose from two-state, baird"):
        problems.problem("three-state")
