"""Claims about the two-state MDP."""

from collections.abc import Callable

import numpy as np

from emphatic.diagnostics.claims import base
from emphatic.diagnostics.claims.base import Claim, Evidence, Finding, Reading
from emphatic.diagnostics.summaries import Summary

NAME = "two-state"


def never_learns(names: tuple[str, ...], n: int) -> Callable[[Evidence], Finding]:
    """Each of them is worse than before learning at every step size."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        measured = "better than before learning at: " + base.each(
            lambda x: base.learns_at(s, x, n), names
        )
        return Finding(all(base.never_learns(s, x, n) for x in names), measured)

    return check


def converges(names: tuple[str, ...], n: int) -> Callable[[Evidence], Finding]:
    """Each of them ends near zero at its best step size."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        measured = "final over initial error of the median run: " + base.each(
            lambda x: base.number(base.final(s, x, n)), names
        )
        return Finding(all(base.converged(s, x, n) for x in names), measured)

    return check


def spikes_late(names: tuple[str, ...], n: int, *, some: bool) -> Callable[[Evidence], Finding]:
    """Each of them has, or none has, a run with a visible error in the second half."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]

        def test(rule: base.Rule) -> tuple[bool, str]:
            shares = [base.spikes(s, x, n, rule) for x in names]
            holds = all((share > 0) == some for share in shares)
            return holds, "share of runs: " + base.each(lambda x: base.spikes(s, x, n, rule), names)

        holds, measured = test("mean")
        return Finding(
            holds,
            measured,
            (
                Reading("α selected by the median run", *test("median")),
                _small_alphas(s, names, n, some),
            ),
        )

    return check


def _small_alphas(s: Summary, names: tuple[str, ...], n: int, some: bool) -> Reading:
    """Spikes show in a mean far above the median: at which step sizes is it tenfold?"""

    def heavy(name: str) -> np.ndarray:
        i = s.lane(name, n)
        return np.asarray((s.mean[-1, :, :, i] >= 10 * s.median[-1, :, :, i]).any(0))

    measured = "mean over runs ten times the median at " + base.each(
        lambda x: base.span(s.alphas[heavy(x)]), names
    )
    holds = all(heavy(x).any() == some for x in names)
    return Reading("at any step size instead of the best", holds, measured)


def slower(slow: str, fast: str, n: int) -> Callable[[Evidence], Finding]:
    """The first takes at least twice the steps to learn; other readings below."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        pair = (slow, fast)

        def test(rule: base.Rule) -> tuple[bool, str]:
            first, second = (base.reach(s, x, n, rule) for x in pair)
            measured = base.each(lambda x: base.reach(s, x, n, rule), pair)
            holds = bool(np.isfinite(second)) and first >= base.SLOWER * second
            return holds, "steps to a tenth of the first error: " + measured

        return Finding(
            *test("mean"),
            (
                Reading("α selected by the median run", *test("median")),
                same_alpha(s, slow, fast, n),
            ),
        )

    return check


def same_alpha(s: Summary, slow: str, fast: str, n: int) -> Reading:
    """At the same step size, on the mean over runs: for how many is the first one worse?"""
    worse = s.mean[-1, :, :, s.lane(slow, n)] > s.mean[-1, :, :, s.lane(fast, n)]
    count = worse.all(0).sum()
    measured = f"worse at {count} of {len(s.alphas)} α in every seed"
    if count:
        measured += f" ({base.span(s.alphas[worse.all(0)])})"
    return Reading("same α for both, most α", bool(count > len(s.alphas) / 2), measured)


def calmer(wild: str, calm: str, n: int) -> Callable[[Evidence], Finding]:
    """The first scatters more between runs, by standard deviation."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]

        def test(measure, what, rule="mean"):
            a, b = measure(s, wild, n, rule), measure(s, calm, n, rule)
            measured = f"{what}: {base.label(wild)} {base.number(a)}, "
            return bool((a > b).all()), measured + f"{base.label(calm)} {base.number(b)}"

        return Finding(
            *test(base.spread, "s.d. over runs"),
            (
                Reading("quartiles instead", *test(base.quartile_range, "interquartile range")),
                Reading("α by the median run", *test(base.spread, "s.d. over runs", "median")),
                same_alpha(s, wild, calm, n),
            ),
        )

    return check


def slowest(name: str, others: tuple[str, ...], n: int) -> Callable[[Evidence], Finding]:
    """It takes at least twice the steps of each of the others."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        steps = base.reach(s, name, n)
        holds = all(steps >= base.SLOWER * base.reach(s, x, n) for x in others)
        measured = base.each(lambda x: base.reach(s, x, n), (name, *others))
        return Finding(holds, "steps to a tenth of the first error: " + measured)

    return check


def wilder(names: tuple[str, ...], than: str, n: int) -> Callable[[Evidence], Finding]:
    """Each of them scatters more than one."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        limit = base.spread(s, than, n)
        holds = all((base.spread(s, x, n) > limit).all() for x in names)
        measured = base.each(lambda x: base.number(base.spread(s, x, n)), (*names, than))
        return Finding(holds, "s.d. over runs: " + measured)

    return check


def same_at_one(evidence: Evidence) -> Finding:
    """NETD and WETD are one algorithm at n = 1."""
    s = evidence[NAME]
    a, b = (s.mean[..., s.lane(x, 1)].astype(float) for x in ("netd", "wetd"))
    finite = np.isfinite(a) & np.isfinite(b)
    same = bool((np.isfinite(a) == np.isfinite(b)).all())
    worst = float(np.abs(a[finite] / b[finite] - 1).max(initial=0.0))
    return Finding(
        same and worst < 1e-6, f"largest relative difference of mean errors: {worst:.1g}"
    )


def less_spiky_with_n(evidence: Evidence) -> Finding:
    """NETD at n = 5 has fewer late spikes than at n = 1, but some."""
    s = evidence[NAME]
    one, five = (base.spikes(s, "netd", n) for n in (1, 5))
    heavy = [(s.mean[-1] >= 10 * s.median[-1])[..., s.lane("netd", n)].mean() for n in (1, 5)]
    reading = Reading(
        "over all α: mean over runs ten times the median",
        bool(0 < heavy[1] < heavy[0]),
        f"at {heavy[0]:.0%} of (α, seed) for n = 1, {heavy[1]:.0%} for n = 5",
    )
    measured = f"share of runs with late spikes: n = 1 {one:.3g}, n = 5 {five:.3g}"
    return Finding(0 < five < one, measured, (reading,))


def faster_with_n(name: str) -> Callable[[Evidence], Finding]:
    """It learns sooner at n = 5 than at n = 1."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        one, five = (base.reach(s, name, n) for n in (1, 5))
        measured = f"steps to a tenth of the first error: n = 1 {one:g}, n = 5 {five:g}"
        return Finding(five < one, measured)

    return check


SLOW = "at its best α the first takes at least twice the steps to a tenth of the initial error"
SPIKE = "in some run the error reaches a tenth of the initial one in the second half, at the best α"
CALM = "in no run does the error reach a tenth of the initial one in the second half, at the best α"
NEVER = "at every α and seed the median run's mean RMSE is above the initial error"
END = "at the best α the median run ends at a hundredth of the initial error, in every seed"
SCATTER = "standard deviation over runs of the mean RMSE over steps, best α, larger in every seed"
THREE = ("td", "clipped-td", "vtrace")
CLIPPED = ("clip-netd", "clip-wetd")

CLAIMS = (
    Claim(
        "2s-td-diverges", "2state_3_algs", "TD(0) slowly diverged", NEVER, never_learns(("td",), 1)
    ),
    Claim(
        "2s-netd-is-wetd",
        "Two-state MDP",
        "NETD and WETD are equivalent when applied to TD(0)",
        "same mean errors at all α and seeds, to 1e-6",
        same_at_one,
    ),
    Claim("2s-netd-converges", "Two-state MDP", "NETD converged", END, converges(("netd",), 1)),
    Claim(
        "2s-netd-slow",
        "2state_3_algs",
        "NETD learned slowly ... Clip-NETD learned quickly",
        SLOW,
        slower("netd", "clip-netd", 1),
    ),
    Claim(
        "2s-netd-unstable",
        "2state_3_algs",
        "NETD ... exhibited significant instability, even late in learning",
        SPIKE,
        spikes_late(("netd",), 1, some=True),
    ),
    Claim(
        "2s-clip-netd-converges",
        "2state_3_algs",
        "Clip-NETD learned quickly",
        END,
        converges(("clip-netd",), 1),
    ),
    Claim(
        "2s-clip-netd-stable",
        "2state_3_algs",
        "Clip-NETD ... exhibits no instability beyond a few initial fluctuations",
        CALM,
        spikes_late(("clip-netd",), 1, some=False),
    ),
    Claim(
        "2s-vtrace-diverges",
        "2state_2_algs",
        "All runs of V-trace diverged, regardless of α",
        NEVER,
        never_learns(("vtrace",), 1),
    ),
    Claim(
        "2s-nevtrace-converges",
        "2state_2_algs",
        "NEVtrace did converge",
        END,
        converges(("nevtrace",), 1),
    ),
    Claim(
        "2s-nevtrace-spikes",
        "2state_2_algs",
        "NEVtrace ... exhibited instability in some runs",
        SPIKE,
        spikes_late(("nevtrace",), 1, some=True),
    ),
    Claim(
        "2s-clip-calms-1",
        "2state_clip",
        "variance reduction due to clipping, n = 1",
        SCATTER,
        calmer("netd", "clip-netd", 1),
    ),
    Claim(
        "2s-clip-calms-netd-5",
        "2state_clip",
        "variance reduction due to clipping, NETD, n = 5",
        SCATTER,
        calmer("netd", "clip-netd", 5),
    ),
    Claim(
        "2s-clip-calms-wetd-5",
        "2state_clip",
        "variance reduction due to clipping, WETD, n = 5",
        SCATTER,
        calmer("wetd", "clip-wetd", 5),
    ),
    Claim(
        "2s-clip-faster-netd-5",
        "2state_clip",
        "Clip-NETD learns faster than NETD, n = 5",
        SLOW,
        slower("netd", "clip-netd", 5),
    ),
    Claim(
        "2s-clip-faster-wetd-5",
        "2state_clip",
        "Clip-WETD learns faster than WETD, n = 5",
        SLOW,
        slower("wetd", "clip-wetd", 5),
    ),
    Claim(
        "2s-clip-stable",
        "2state_clip",
        "Clip-NETD and Clip-WETD: no instability issues, n = 5",
        CALM,
        spikes_late(CLIPPED, 5, some=False),
    ),
    Claim(
        "2s-netd-n",
        "2state_clip",
        "As n gets larger, NETD becomes more stable but still exhibits spikes late in learning",
        SPIKE + ": fewer runs at n = 5 than at n = 1, but some",
        less_spiky_with_n,
    ),
    Claim(
        "2s-clip-netd-n",
        "2state_clip",
        "Clip-NETD ... improves in initial learning (n = 5)",
        "fewer steps to a tenth of the initial error at n = 5 than at n = 1, best α",
        faster_with_n("clip-netd"),
    ),
    Claim(
        "2s-baselines-diverge",
        "2state_n_0",
        "All three baselines diverged on this MDP (n = 1)",
        NEVER,
        never_learns(THREE, 1),
    ),
    Claim(
        "2s-emphatic-converge",
        "2state_n_0",
        "The emphatic algorithms all converged to the optimal fixed point (n = 1)",
        END,
        converges(base.EMPHATIC, 1),
    ),
    Claim(
        "2s-unclipped-jump",
        "2state_n_0",
        "NETD/WETD and NEVtrace/WEVtrace: some runs experiencing large jumps late in training",
        SPIKE + ", for each",
        spikes_late(("netd", "wetd", "nevtrace", "wevtrace"), 1, some=True),
    ),
    Claim(
        "2s-td-5",
        "2state_n_4",
        "the Off-policy 5-step TD baseline converged quickly",
        END,
        converges(("td",), 5),
    ),
    Claim(
        "2s-others-5",
        "2state_n_4",
        "Clipped off-policy n-step TD and V-trace exhibited higher variances",
        SCATTER,
        wilder(("clipped-td", "vtrace"), "td", 5),
    ),
    Claim(
        "2s-clip-fast-5",
        "2state_n_4",
        "the clipped traces ... demonstrated fast convergence (n = 5)",
        END,
        converges(CLIPPED, 5),
    ),
    Claim(
        "2s-wetd-varied-5",
        "2state_n_4",
        "WETD exhibited more variance in learning (n = 5)",
        SCATTER + " than of Clip-WETD",
        wilder(("wetd",), "clip-wetd", 5),
    ),
    Claim(
        "2s-nevtrace-slow-5",
        "2state_n_4",
        "NEVtrace converged slowly (n = 5)",
        SLOW + " of Clip-NETD and Clip-WETD",
        slowest("nevtrace", CLIPPED, 5),
    ),
    Claim(
        "2s-late-5",
        "2state_n_4",
        "NETD, WEVtrace were unstable late in training (n = 5)",
        SPIKE + ", for each",
        spikes_late(("netd", "wevtrace"), 5, some=True),
    ),
)
