"""The problems as the paper draws them: numbers a reader can check by hand."""

import re
import runpy
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from emphatic import UserError, mdp, theory
from emphatic.diagnostics import problems, summaries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "state-dependent-nu.md"
RESULTS = ROOT / "results"


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


@pytest.mark.parametrize(
    ("name", "first", "second"), [("rare-exit", -0.7, 8), ("rare-loop", -0.717, 7.62)]
)
def test_exact_wevtrace_where_windows_beat_with_the_states(name, first, second):
    """At n = 2 a run starts its windows in one state only; the table is the mean of both."""
    m = problems.named()[name]()
    plain, ours = theory.expectation(m, "vtrace", 2), theory.expectation(m, "exact-wevtrace", 2)
    d, phi = plain.d_mu, m.features[:, 0]
    one = theory.expectation(m, "vtrace", 1).key / d[:, None] @ phi
    two = plain.key / d[:, None] @ phi
    start, inside = ours.emphasis[0] / d * phi * two, phi * one
    found = [(start[s] + inside[1 - s]) / 2 for s in (0, 1)]
    np.testing.assert_allclose(found, [first, second], rtol=1e-3)
    assert theory.analyse(m, "exact-wevtrace", 2).A[0, 0] == pytest.approx(np.mean(found))


def rows_below(header):
    """Cells of the page's table of that header, by line."""
    table = PAGE.read_text(encoding="utf-8").split(f"{header}\n|---")[1].split("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def test_what_diverges_in_docs_is_what_was_sampled():
    """The error at the end, measured and as A has it; every run is near."""
    found = summaries.load(RESULTS / "state-dependent-nu" / "rare-exit-3")
    m, alpha, start = problems.rare_exit_3(), found.alphas[0], found.curve[0, 0, 0, 0]
    last = np.arange(found.edges[-2] + 1, found.edges[-1] + 1)
    rows = rows_below("| α = 2⁻¹⁴, n = | 1 | 2 | 3 | 5 |")
    assert [row[0] for row in rows] == ["`vtrace`", "`nevtrace`", "`wevtrace`"]
    for name, *cells in rows:
        for n, cell in zip((1, 2, 3, 5), cells, strict=True):
            i = found.lane(name.strip("`"), n)
            assert set(found.best[1, :, i]) == {0}, "the smallest step size is the best"
            final, A = found.final[1, :, :, i], theory.analyse(m, name.strip("`"), n).A[0, 0]
            expected = (start * np.exp(-alpha * A * last)).mean()
            assert cell == f"{np.median(final):#.3g} ({expected:#.3g})"
            np.testing.assert_allclose(final, np.median(final), rtol=0.13)
            np.testing.assert_array_equal(found.diverged[:, 4:, i], 50)


def test_what_converges_in_docs_is_what_was_sampled():
    found = summaries.load(RESULTS / "state-dependent-nu" / "rare-exit-3")
    header = "| algorithm | n | α | median | quartiles | mean | worst run | none diverges up to |"
    rows = rows_below(header)
    assert len(rows) == 12
    for name, n, *cells in rows:
        i = found.lane(name.strip("`"), int(n))
        total, diverged = found.total[1, :, :, i], found.diverged[:, :, i].sum(0)
        (best,) = set(found.best[1, :, i])
        sound = int((diverged == 0).sum())
        np.testing.assert_array_equal(diverged[sound:], 100)
        low, median, high = np.quantile(total, [0.25, 0.5, 0.75])
        numbers = (f"{median:.2g}", f"{low:.2g} … {high:.2g}", f"{total.mean():.2g}")
        sizes = [_power(found.alphas[k]) for k in (best, sound - 1)]
        assert cells == [sizes[0], *numbers, f"{total.max():.2g}", sizes[1]], (name, n)
        assert found.late[1, :, :, i].max() < 1e-14, "no run rises again late"
        assert 1.3 < total.mean() / median < 1.6
        assert total.max() / median < 16


def _power(alpha):
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "2" + f"{np.log2(alpha):.0f}".translate(superscripts)


def test_the_price_is_in_the_step_size():
    """F in the last state, and how far the expected update is stable."""
    m = problems.rare_exit_3()
    fixed, mixed = theory.analyse(m, "exact-nevtrace", 2), theory.analyse(m, "exact-wevtrace", 5)
    assert fixed.emphasis[0][2] / fixed.d_mu[2] == pytest.approx(49)
    assert mixed.emphasis[0][2] / mixed.d_mu[2] == pytest.approx(145)
    assert 2 / fixed.A[0, 0] == pytest.approx(0.26, abs=0.005)


def test_what_docs_say_of_the_loop_was_sampled():
    """Exact WEVtrace at n = 2 loses the runs whose windows start in the first state."""
    found = summaries.load(RESULTS / "state-dependent-nu-loop" / "rare-loop")
    diverged = found.diverged.sum(0)
    np.testing.assert_array_equal(diverged[5:9, found.lane("exact-wevtrace", 2)], 56)
    np.testing.assert_array_equal(diverged[[7, 9], found.lane("exact-nevtrace-nu", 2)], [85, 0])
    np.testing.assert_array_equal(diverged[:7, found.lane("exact-nevtrace", 1)] > 0, np.eye(7)[4])
    np.testing.assert_array_equal(diverged[:9, found.lane("exact-nevtrace", 3)], 0)
    plain, paper = (found.final[1, :, :, found.lane(x, 1)] for x in ("vtrace", "nevtrace"))
    assert np.median(plain) == pytest.approx(5.0, abs=0.005)
    assert np.median(paper) == pytest.approx(100, rel=0.01)
    assert paper.mean() == pytest.approx(600, rel=0.01)
    ragged = found.total[1, :, :, found.lane("exact-nevtrace", 3)]
    shown = [np.median(ragged), ragged.mean(), ragged.max()]
    np.testing.assert_allclose(shown, [0.006, 0.18, 11], rtol=0.1)
    for n, least in ((3, 2.1), (5, 1.6)):
        mean = found.mean[-1, :, :, found.lane("exact-wevtrace", n)].mean(0)
        assert mean.min() == pytest.approx(least, abs=0.05)


def test_docs_print_what_the_search_prints(capsys):
    script = "examples/search_unstable_vtrace.py"
    with mock.patch.object(sys, "argv", [script]):
        runpy.run_path(str(ROOT / script), run_name="__main__")
    printed = capsys.readouterr().out
    section = PAGE.read_text(encoding="utf-8").split("\n## How they were found\n")[1]
    shown = re.findall(r"^```text\n(.*?)^```$", section, re.M | re.S)
    assert len(shown) == 2
    for text in shown:
        assert text in printed


def test_an_unknown_problem_is_a_sentence():
    with pytest.raises(UserError, match="choose from two-state, baird"):
        problems.problem("three-state")
