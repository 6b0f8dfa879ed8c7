"""Claims about the Collision problem, with its other readings at hand."""

import itertools
from collections.abc import Callable

import numpy as np

from emphatic.diagnostics.claims import base
from emphatic.diagnostics.claims.base import Claim, Evidence, Finding, Reading
from emphatic.diagnostics.summaries import Rule, Summary

NAME = "collision-trap"
VARIANTS = ("collision-trap-r1", "collision-restart", "collision-termination")
NS = (1, 2, 3, 5)
THREE = ("td", "vtrace", "clipped-td")
UNCLIPPED = ("wetd", "netd", "wevtrace", "nevtrace")
CLIPPED = ("clip-netd", "clip-wetd")

Test = Callable[[Summary, tuple[str, ...], Rule, int], tuple[bool, str]]
"""(summary, baselines, selection rule, horizon) -> holds, measured."""


def with_readings(test: Test, baselines: tuple[str, ...]) -> Callable[[Evidence], Finding]:
    """A test on `trap`, and under every other reading of the experiment."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        readings = [
            Reading("α selected by the median run", *test(s, baselines, "median", -1)),
            Reading("baselines in the mixed scheme", *test(s, base.mixed(baselines), "mean", -1)),
            Reading("a tenth of the steps", *test(s, baselines, "mean", 0)),
            Reading("half of the steps", *test(s, baselines, "mean", 1)),
        ]
        readings += [
            Reading(name, *test(evidence[name], baselines, "mean", -1)) for name in VARIANTS
        ]
        return Finding(*test(s, baselines, "mean", -1), tuple(readings))

    return check


def lower(emphatic: tuple[str, ...], ns: tuple[int, ...]) -> Test:
    """Each of the emphatic algorithms has a lower best error than every baseline."""

    def test(s: Summary, baselines: tuple[str, ...], rule: Rule, horizon: int) -> tuple[bool, str]:
        failing, texts = [], []
        for n in ns:
            bar = np.min([base.best(s, x, n, rule, horizon) for x in baselines], axis=0)
            errors = {x: base.best(s, x, n, rule, horizon) for x in emphatic}
            failing += [f"{base.label(x)} (n = {n})" for x, e in errors.items() if (e >= bar).any()]
            low, high = (
                min(e.mean() for e in errors.values()),
                max(e.mean() for e in errors.values()),
            )
            texts.append(
                f"n = {n}: emphatic {low:.4f} to {high:.4f}, best baseline {bar.mean():.4f}"
            )
        measured = "; ".join(texts)
        return not failing, measured + (f"; not below: {', '.join(failing)}" if failing else "")

    return test


def best_of_all(ns: tuple[int, ...]) -> Test:
    """The weaker reading: the best algorithm of all is emphatic."""

    def test(s: Summary, baselines: tuple[str, ...], rule: Rule, horizon: int) -> tuple[bool, str]:
        holds, texts = True, []
        for n in ns:
            errors = {
                x: base.best(s, x, n, rule, horizon).mean() for x in (*base.EMPHATIC, *baselines)
            }
            winner = min(errors, key=lambda x: errors[x])
            holds &= winner in base.EMPHATIC
            texts.append(f"n = {n}: {base.label(winner)} {errors[winner]:.4f}")
        return holds, "best of all: " + "; ".join(texts)

    return test


def smaller_alphas(ns: tuple[int, ...]) -> Test:
    """Each emphatic algorithm's best α is below every baseline's."""

    def test(s: Summary, baselines: tuple[str, ...], rule: Rule, horizon: int) -> tuple[bool, str]:
        failing, texts = [], []
        for n in ns:
            alphas = {
                x: base.best_alpha(s, x, n, rule, horizon) for x in (*base.EMPHATIC, *baselines)
            }
            bar = np.min([alphas[x] for x in baselines], axis=0)
            failing += [
                f"{base.label(x)} (n = {n})" for x in base.EMPHATIC if (alphas[x] >= bar).any()
            ]
            exponents = ", ".join(f"{base.label(x)} {np.log2(a[0]):.0f}" for x, a in alphas.items())
            texts.append(f"n = {n}: {exponents}")
        # At one n the step sizes themselves; at several only which of them are not smaller.
        measured = "log₂ of the best α, " + "; ".join(texts) if len(ns) == 1 else ""
        measured = measured or f"n = {', '.join(map(str, ns))}"
        return not failing, measured + (f"; not smaller: {', '.join(failing)}" if failing else "")

    return test


def ranking(ns: tuple[int, ...]) -> Test:
    """Unclipped emphatic below clipped emphatic below baselines, group by group."""

    def test(s: Summary, baselines: tuple[str, ...], rule: Rule, horizon: int) -> tuple[bool, str]:
        holds, texts = True, []
        for n in ns:
            groups = [
                [base.best(s, x, n, rule, horizon) for x in group]
                for group in (UNCLIPPED, CLIPPED, baselines)
            ]
            for lower_group, upper_group in itertools.pairwise(groups):
                holds &= bool((np.max(lower_group, 0) < np.min(upper_group, 0)).all())
            spans = [f"{np.mean(g, 1).min():.4f}…{np.mean(g, 1).max():.4f}" for g in groups]
            texts.append(f"n = {n}: unclipped {spans[0]}, clipped {spans[1]}, baselines {spans[2]}")
        return bool(holds), "; ".join(texts)

    return test


def stable(evidence: Evidence) -> Finding:
    """At the best α no run diverges and errors end below where they began."""
    s = evidence[NAME]
    names = (*base.EMPHATIC, *THREE)
    lanes = [s.lane(x, n) for x in names for n in NS]
    diverged = int(np.isinf(s.total[0][:, :, lanes]).sum())
    end = s.final[0][:, :, lanes].mean(1) / base.initial(s)
    measured = f"{diverged} diverged runs; final over initial error at most {end.max():.2f}"
    return Finding(diverged == 0 and bool((end < 1).all()), measured)


LOWER = "least mean RMSE over α below that of every baseline, in every seed, for each of the six"
SMALLER = "the α of least mean RMSE is smaller than that of every baseline, in every seed"

CLAIMS = (
    Claim(
        "col-best-2",
        "collision_u_curve",
        "The emphatic algorithms achieve best performance in this task [n = 2]",
        LOWER,
        with_readings(lower(base.EMPHATIC, (2,)), base.BASELINES),
    ),
    Claim(
        "col-winner-2",
        "collision_u_curve",
        "The emphatic algorithms achieve best performance in this task [n = 2; weakest sense]",
        "the algorithm of least mean RMSE is an emphatic one",
        with_readings(best_of_all((2,)), base.BASELINES),
    ),
    Claim(
        "col-alpha-2",
        "collision_u_curve",
        "... and do so with smaller step-sizes than V-trace and n-step TD [n = 2]",
        SMALLER,
        with_readings(smaller_alphas((2,)), base.BASELINES),
    ),
    Claim(
        "col-stable",
        "app:collision",
        "All algorithms achieved stable learning with their best learning rates",
        "no run diverges, and the mean error ends below the initial one, n = 1, 2, 3, 5",
        stable,
    ),
    Claim(
        "col-best-all",
        "app:collision",
        "Emphatic algorithms consistently achieved the smallest mean RMSE averaged over 200 runs "
        "for all values of n tested",
        LOWER + "; n = 1, 2, 3, 5",
        with_readings(lower(base.EMPHATIC, NS), THREE),
    ),
    Claim(
        "col-winner-all",
        "collision_u_curves",
        "The emphatic algorithms achieved the lowest value error [in the weakest sense]",
        "at n = 1, 2, 3, 5 the algorithm of least mean RMSE is an emphatic one",
        with_readings(best_of_all(NS), THREE),
    ),
    Claim(
        "col-alpha-all",
        "collision_u_curves",
        "The emphatic algorithms achieved the lowest value error with smaller learning rates than "
        "the baselines [that they were smaller]",
        SMALLER + "; n = 1, 2, 3, 5",
        with_readings(smaller_alphas(NS), THREE),
    ),
    Claim(
        "col-unclipped",
        "collision_learning_curve",
        "Emphatic algorithms ETD, NETD and EVtrace, NEVtrace consistently produced the lowest "
        "RMSEs for all bootstrap values n",
        "the four unclipped are below all baselines, in every seed; n = 1, 2, 3, 5",
        with_readings(lower(UNCLIPPED, NS), THREE),
    ),
    Claim(
        "col-ranking",
        "collision_learning_curve",
        "The three baselines produced the highest averaged RMSE errors. Emphatic algorithms ETD, "
        "NETD and EVtrace, NEVtrace consistently produced the lowest RMSEs for all bootstrap "
        "values n, followed by the clipped emphatic traces",
        "each of the four unclipped below each clipped, each clipped below each baseline",
        with_readings(ranking(NS), THREE),
    ),
)
