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

        def test(horizon: int) -> tuple[bool, str]:
            measured = base.each(lambda x: base.learns_at(s, x, n, horizon), names)
            holds = all(base.never_learns(s, x, n, horizon) for x in names)
            return holds, "better than before learning at: " + measured

        return Finding(*test(-1), base.fewer_steps(test))

    return check


def diverges_faster(name: str, n: int) -> Callable[[Evidence], Finding]:
    """Its error rises, and the longer the faster."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        lane = s.lane(name, n)
        grows = _accelerates(s, lane)
        best = s.mean[-1, :, :, lane].argmin(1)
        chosen = np.take_along_axis(grows, best[:, None], 1)
        count = int(grows.all(0).sum())
        means = ", ".join(base.number(x[np.arange(len(best)), best]) for x in _parts(s, lane))
        small = Reading("at most α", count > len(s.alphas) / 2, f"at {count} of {len(s.alphas)} α")
        return Finding(bool(chosen.all()), f"mean error in the three parts: {means}", (small,))

    return check


def _parts(s: Summary, lane: int) -> list[np.ndarray]:
    """Mean error over runs in the first tenth, from there to the half, and after it, `[s, A]`."""
    ends = [0, *s.horizons.tolist()]
    sums = [np.zeros(s.mean.shape[1:3])]
    sums += [s.mean[h, :, :, lane].astype(float) * ends[h + 1] for h in range(3)]
    with np.errstate(invalid="ignore"):
        return [(sums[h + 1] - sums[h]) / (ends[h + 1] - ends[h]) for h in range(3)]


def _accelerates(s: Summary, lane: int) -> np.ndarray:
    """Does the error rise faster from part to part, `[s, A]`? Rates between their middles."""
    ends = np.array([0, *s.horizons])
    middles = np.array([0.0, *((ends[:-1] + ends[1:]) / 2)])
    errors = [np.full(s.mean.shape[1:3], base.initial(s)), *_parts(s, lane)]
    with np.errstate(invalid="ignore"):
        rates = [(errors[i + 1] - errors[i]) / (middles[i + 1] - middles[i]) for i in range(3)]
        return (rates[0] < rates[1]) & (rates[1] < rates[2]) & (rates[2] > 0)


def converges(names: tuple[str, ...], n: int) -> Callable[[Evidence], Finding]:
    """Each of them ends near zero at its best step size."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        measured = "final over initial error of the median run: " + base.each(
            lambda x: base.number(base.final(s, x, n)), names
        )
        return Finding(all(base.converged(s, x, n) for x in names), measured)

    return check


def etd_converges(evidence: Evidence) -> Finding:
    """ETD(λ) at λ = 0, and at every λ = 1 - 1/n that was run."""
    s = evidence[NAME]

    def test(n: int) -> tuple[bool, str]:
        ends = base.number(base.final(s, "etd", n))
        return base.converged(s, "etd", n), f"final over initial error of the median run: {ends}"

    ns = [lane.n for lane in s.lanes if lane.name == "etd" and lane.n > 1]
    others = tuple(Reading(f"λ = 1 - 1/{n}", *test(n)) for n in ns)
    return Finding(*test(1), others)


def spikes_late(names: tuple[str, ...], n: int, *, some: bool) -> Callable[[Evidence], Finding]:
    """Each of them has, or none has, a run with a visible error in the second half."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]

        def test(measure: Callable[[str], float]) -> tuple[bool, str]:
            shares = {x: measure(x) for x in names}
            holds = all((share > 0) == some for share in shares.values())
            return holds, "share of runs: " + base.each(lambda x: shares[x], names)

        def by(rule: base.Rule) -> tuple[bool, str]:
            return test(lambda x: base.spikes(s, x, n, rule))

        holds, measured = by("mean")
        return Finding(
            holds,
            f"{measured}; {base.late_bins(s)}",
            (
                Reading("α selected by the median run", *by("median")),
                *base.fewer_steps(
                    lambda h: test(lambda x: base.spikes_within(s, x, n, h)), base.FIRST_SEED
                ),
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
    return slowest(slow, (fast,), n)


def slowest(name: str, others: tuple[str, ...], n: int) -> Callable[[Evidence], Finding]:
    """It takes at least twice the steps of each of the others."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        names = (name, *others)

        def test(rule: base.Rule) -> tuple[bool, str]:
            steps = {x: base.reach(s, x, n, rule) for x in names}
            holds = all(
                np.isfinite(steps[x]) and steps[name] >= base.SLOWER * steps[x] for x in others
            )
            return holds, "steps to a tenth of the first error: " + base.each(
                lambda x: steps[x], names
            )

        return Finding(
            *test("mean"),
            (
                Reading("α selected by the median run", *test("median")),
                *base.fewer_steps(lambda h: _larger_error(s, name, others, n, h), BY_ERROR),
                same_alpha(s, tuple((name, x) for x in others), (n,)),
            ),
        )

    return check


BY_ERROR = ", speed being the mean RMSE over them"


def _larger_error(
    s: Summary, name: str, others: tuple[str, ...], n: int, horizon: int
) -> tuple[bool, str]:
    """Twice the error over so many steps, each at its best α for these: learned half as fast."""
    errors = {x: base.best(s, x, n, horizon=horizon) for x in (name, *others)}
    holds = all(bool((errors[name] >= base.SLOWER * errors[x]).all()) for x in others)
    return holds, "least mean RMSE: " + base.each(lambda x: base.number(errors[x]), (name, *others))


def same_alpha(s: Summary, pairs: tuple[tuple[str, str], ...], ns: tuple[int, ...]) -> Reading:
    """At the same step size, on the mean over runs: for how many is the first one worse?"""
    holds, texts = True, []
    for n in ns:
        for bad, good in pairs:
            a, b = (s.mean[-1, :, :, s.lane(x, n)] for x in (bad, good))
            worse = (a > b).all(0)
            holds &= bool(worse.sum() > len(s.alphas) / 2)
            where = f" ({base.span(s.alphas[worse])})" if worse.any() else ""
            at = f"n = {n}, " if len(ns) > 1 else ""
            than = f"{at}{base.label(bad)} than {base.label(good)}"
            texts.append(f"{than} at {worse.sum()} of {len(s.alphas)} α{where}")
    return Reading("same α for both, most α", holds, "worse in every seed: " + "; ".join(texts))


def calmer(pairs: tuple[tuple[str, str], ...], ns: tuple[int, ...]) -> Callable:
    """The first of each pair scatters more between runs than the second, at every n."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]

        def test(measure: Callable[[str, int], np.ndarray], what: str) -> tuple[bool, str]:
            texts, holds = [], True
            for n in ns:
                for wild, calm in pairs:
                    a, b = measure(wild, n), measure(calm, n)
                    holds &= bool((a > b).all())
                    at = f"n = {n}: " if len(ns) > 1 else ""
                    texts.append(
                        f"{at}{base.label(wild)} {base.number(a)}, "
                        f"{base.label(calm)} {base.number(b)}"
                    )
            return holds, f"{what}: " + "; ".join(texts)

        def spread(rule: base.Rule) -> tuple[bool, str]:
            return test(lambda x, n: base.spread(s, x, n, rule), "s.d. over runs")

        def tail(horizon: int) -> tuple[bool, str]:
            return test(lambda x, n: base.tail(s, x, n, horizon), "mean less median over runs")

        quartiles = test(lambda x, n: base.quartile_range(s, x, n), "interquartile range")
        return Finding(
            *spread("mean"),
            (
                Reading("quartiles instead", *quartiles),
                Reading("α by the median run", *spread("median")),
                *base.fewer_steps(tail),
                same_alpha(s, pairs, ns),
            ),
        )

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

    def test(measure: Callable[[int], float]) -> tuple[bool, str]:
        one, five = measure(1), measure(5)
        measured = f"share of runs with late spikes: n = 1 {one:.3g}, n = 5 {five:.3g}"
        return 0 < five < one, measured

    def by(rule: base.Rule) -> tuple[bool, str]:
        return test(lambda n: base.spikes(s, "netd", n, rule))

    heavy = [(s.mean[-1] >= 10 * s.median[-1])[..., s.lane("netd", n)].mean() for n in (1, 5)]
    over_all = Reading(
        "over all α: mean over runs ten times the median",
        bool(0 < heavy[1] < heavy[0]),
        f"at {heavy[0]:.0%} of (α, seed) for n = 1, {heavy[1]:.0%} for n = 5",
    )
    holds, measured = by("mean")
    return Finding(
        holds,
        f"{measured}; {base.late_bins(s)}",
        (
            Reading("α selected by the median run", *by("median")),
            *base.fewer_steps(
                lambda h: test(lambda n: base.spikes_within(s, "netd", n, h)), base.FIRST_SEED
            ),
            over_all,
        ),
    )


def faster_with_n(name: str) -> Callable[[Evidence], Finding]:
    """It learns sooner at n = 5 than at n = 1."""

    def check(evidence: Evidence) -> Finding:
        s = evidence[NAME]
        one, five = (base.reach(s, name, n) for n in (1, 5))
        measured = f"steps to a tenth of the first error: n = 1 {one:g}, n = 5 {five:g}"
        return Finding(five < one, measured)

    return check


SLOW = "at its best α the first takes at least twice the steps to a tenth of the initial error"
SPIKE = (
    "in some run the mean error over a bin of the curve, about a tenth of the steps before it, "
    "reaches a tenth of the initial one in the second half, at the best α"
)
CALM = (
    "in no run does the mean error over a bin of the curve, about a tenth of the steps before "
    "it, reach a tenth of the initial one in the second half, at the best α"
)
NEVER = "at every α and seed the median run's mean RMSE is above the initial error"
END = "at the best α the median run ends at a hundredth of the initial error, in every seed"
SCATTER = "standard deviation over runs of the mean RMSE over steps, best α, larger in every seed"
THREE = ("td", "clipped-td", "vtrace")
CLIPPED = ("clip-netd", "clip-wetd")
REDUCTION = "Variance reduction due to clipping the IS weights in emphatic trace computation"
FASTER = "exhibit faster learning ... compared with the non-clipped version"

CLAIMS = (
    Claim(
        "2s-td-diverges", "2state_3_algs", "TD(0) slowly diverged", NEVER, never_learns(("td",), 1)
    ),
    Claim(
        "2s-td-faster",
        "Two-state MDP",
        "TD(0) diverged faster as training goes on",
        "at the best α the mean error rises faster from part to part: the start, the first tenth, "
        "the rest of the first half, the second half; in every seed",
        diverges_faster("td", 1),
        note=base.ADDED,
    ),
    Claim(
        "2s-netd-is-wetd",
        "Two-state MDP",
        "the emphatic traces NETD and WETD are equivalent when applied to TD(0)",
        "same mean errors at all α and seeds, to 1e-6",
        same_at_one,
    ),
    Claim(
        "2s-netd-converges",
        "Two-state MDP",
        "NETD converged slowly [that it converged]",
        END,
        converges(("netd",), 1),
    ),
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
        "Clip-NETD learned quickly [that it converged]",
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
        "2s-nevtrace-slow-1",
        "Two-state MDP",
        "NEVtrace converged slowly [n = 1]",
        SLOW + " of Clip-NETD and Clip-WETD",
        slowest("nevtrace", CLIPPED, 1),
        note=base.ADDED,
    ),
    Claim(
        "2s-etd",
        "app:bairds",
        "Sutton's ETD(λ) ... converges on the two-state MDP",
        END + "; λ = 0",
        etd_converges,
        note=base.ADDED,
    ),
    Claim(
        "2s-clip-calms-1",
        "2state_clip",
        REDUCTION + " [n = 1]",
        SCATTER,
        calmer((("netd", "clip-netd"),), (1,)),
    ),
    Claim(
        "2s-clip-calms-netd-5",
        "2state_clip",
        REDUCTION + " [NETD, n = 5]",
        SCATTER,
        calmer((("netd", "clip-netd"),), (5,)),
    ),
    Claim(
        "2s-clip-calms-wetd-5",
        "2state_clip",
        REDUCTION + " [WETD, n = 5]",
        SCATTER,
        calmer((("wetd", "clip-wetd"),), (5,)),
    ),
    Claim(
        "2s-clip-calms-any-n",
        "Two-state MDP",
        "clipping IS weights proved to be an effective way of variance reduction at any bootstrap "
        "length n",
        SCATTER + ", than with clipping; NETD and WETD, n = 1 … 5",
        calmer((("netd", "clip-netd"), ("wetd", "clip-wetd")), (1, 2, 3, 4, 5)),
        note=base.ADDED,
    ),
    Claim(
        "2s-clip-faster-netd-5",
        "2state_clip",
        f"Clip-NETD ... {FASTER} NETD [n = 5]",
        SLOW,
        slower("netd", "clip-netd", 5),
    ),
    Claim(
        "2s-clip-faster-wetd-5",
        "2state_clip",
        f"Clip-WETD ... {FASTER} ... WETD [n = 5]",
        SLOW,
        slower("wetd", "clip-wetd", 5),
    ),
    Claim(
        "2s-clip-stable",
        "2state_clip",
        "Clip-NETD ... and Clip-WETD ... no instability issues [n = 5]",
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
        "Clip-NETD remains stable and improves in initial learning [that it improves, n = 5]",
        "fewer steps to a tenth of the initial error at n = 5 than at n = 1, best α",
        faster_with_n("clip-netd"),
    ),
    Claim(
        "2s-baselines-diverge",
        "app:2state",
        "All three baselines diverged on this MDP [n = 1]",
        NEVER,
        never_learns(THREE, 1),
    ),
    Claim(
        "2s-emphatic-converge",
        "app:2state",
        "The emphatic algorithms all converged to the optimal fixed point θ = 0 [n = 1]",
        END,
        converges(base.EMPHATIC, 1),
    ),
    Claim(
        "2s-unclipped-jump",
        "app:2state",
        "both emphatic TD (NETD/WETD) and emphatic V-trace (NEVtrace/WEVtrace) algorithms "
        "exhibited unstable learning, with some runs experiencing large jumps in value error late "
        "in training",
        SPIKE + ", for each",
        spikes_late(("netd", "wetd", "nevtrace", "wevtrace"), 1, some=True),
    ),
    Claim(
        "2s-td-5",
        "app:2state",
        "the Off-policy 5-step TD baseline converged quickly [that it converged]",
        END,
        converges(("td",), 5),
    ),
    Claim(
        "2s-others-5",
        "app:2state",
        "Clipped off-policy n-step TD and V-trace exhibited higher variances",
        SCATTER + " than of TD",
        wilder(("clipped-td", "vtrace"), "td", 5),
    ),
    Claim(
        "2s-clip-fast-5",
        "app:2state",
        "the clipped traces ... demonstrated fast convergence [that they converged, n = 5]",
        END,
        converges(CLIPPED, 5),
    ),
    Claim(
        "2s-wetd-varied-5",
        "app:2state",
        "WETD exhibited more variance in learning [n = 5]",
        SCATTER + " than of Clip-WETD",
        wilder(("wetd",), "clip-wetd", 5),
    ),
    Claim(
        "2s-nevtrace-slow-5",
        "app:2state",
        "NEVtrace converged slowly [n = 5]",
        SLOW + " of Clip-NETD and Clip-WETD",
        slowest("nevtrace", CLIPPED, 5),
    ),
    Claim(
        "2s-late-5",
        "app:2state",
        "NETD, WEVtrace were unstable late in training [n = 5]",
        SPIKE + ", for each",
        spikes_late(("netd", "wevtrace"), 5, some=True),
    ),
)
