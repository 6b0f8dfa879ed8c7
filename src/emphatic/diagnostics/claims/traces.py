"""Claims about the traces themselves, tested on long random streams of ratios."""

import itertools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from emphatic import algorithms
from emphatic.diagnostics import problems
from emphatic.diagnostics.claims.base import ADDED, Claim, Evidence, Finding, Reading
from emphatic.theory import analyse, second_moment

STEPS = 20_000
RUNS = 50


def emphasis(name: str, n: int, rho: np.ndarray, gamma: float, nu: float = 1.0) -> np.ndarray:
    """The library's trace of an algorithm on given ratios, `[T, B]`; the emphasis before t = T."""
    trace = algorithms.build(name, n).trace
    ones = jnp.ones(rho.shape, jnp.float32)
    _, out = trace.update(
        trace.init(rho.shape[1:]), jnp.asarray(rho) * ones, gamma * ones, nu * ones
    )
    return np.asarray(out)


def follow_on(rho: np.ndarray, gamma: float) -> np.ndarray:
    """F of WETD on every step: NETD's trace at n = 1."""
    return emphasis("netd", 1, rho, gamma)


def ratios(low: float, high: float) -> np.ndarray:
    """Positive ratios, log-uniform, `[T, B]`."""
    rng = np.random.default_rng(0)
    return np.exp(rng.uniform(np.log(low), np.log(high), (STEPS, RUNS)))


def fixed_points(evidence: Evidence) -> Finding:
    """γ = 0.99, ρ = 1."""
    del evidence
    printed = {1: 100.0, 10: 10.46, 30: 3.84, 100: 1.58}
    on_policy = np.ones((STEPS, 1))
    measured = {n: float(emphasis("netd", n, on_policy, 0.99)[-1, 0]) for n in printed}
    holds = all(abs(measured[n] - printed[n]) < 0.005 for n in printed)
    return Finding(holds, ", ".join(f"n = {n}: {x:.3f}" for n, x in measured.items()))


def proposition(ns: tuple[int, ...]) -> Callable[[Evidence], Finding]:
    """F > F⁽ⁿ⁾ for every t > 0, with ρ and γ positive. (Rounding hides a tiny difference.)"""

    def check(evidence: Evidence) -> Finding:
        del evidence
        rho = ratios(0.7, 1.3)
        f = follow_on(rho, 0.9)
        share = {n: float((f > emphasis("netd", n, rho, 0.9))[1:].mean()) for n in ns}
        above = ", ".join(f"n = {n}: {x:.1%}" for n, x in share.items())
        beyond = all(share[n] == 1 for n in ns if n > 1)
        said = f"strictly above on {'every step' if beyond else 'some steps only'}"
        reading = Reading("n ≥ 2", beyond, said)
        holds = min(share.values()) == 1
        return Finding(holds, f"strictly above on {above} of steps", (reading,), not holds)

    return check


def grows_with_n(evidence: Evidence) -> Finding:
    """Step by step, and on average."""
    del evidence
    rho = ratios(0.3, 1.5)
    traces = [emphasis("netd", n, rho, 0.9)[100:] for n in range(1, 11)]
    growing = np.mean([(a >= b).mean() for a, b in itertools.pairwise(traces)])
    means = [x.mean() for x in traces]
    average = Reading(
        "on average over the stream",
        all(a > b for a, b in itertools.pairwise(means)),
        "mean of F⁽ⁿ⁾ for n = 1 … 10: " + ", ".join(f"{x:.2f}" for x in means),
    )
    return Finding(bool(growing == 1), f"from n to n + 1 on {growing:.1%} of steps", (average,))


def rho_v_is_larger(evidence: Evidence) -> Finding:
    """ρᵛ = ρ̄/ν with ν ≤ 1."""
    del evidence
    lows = []
    for name in problems.named():
        m = problems.named()[name]()
        clipped = np.minimum(1.0, m.rho)
        lows.append((clipped / m.nu()[:, None] - clipped).min())
    return Finding(min(lows) >= 0, f"least ρᵛ - ρ̄ over all problems: {min(lows):.3g}")


def clipped_is_bounded(evidence: Evidence) -> Finding:
    """F̄⁽ⁿ⁾ ≤ 1/(1 - γⁿ), so its variance is finite; the unclipped has none in two states."""
    del evidence
    rng = np.random.default_rng(1)
    rho = 2.0 * rng.integers(0, 2, (STEPS, RUNS))
    largest = {n: float(emphasis("clip-netd", n, rho, 0.9).max()) for n in (1, 5)}
    holds = all(x <= 1 / (1 - 0.9**n) * (1 + 1e-5) for n, x in largest.items())
    bounds = ", ".join(f"n = {n}: {x:.2f} ≤ {1 / (1 - 0.9**n):.2f}" for n, x in largest.items())
    return Finding(holds, f"largest of {rho.size:,} steps, {bounds}")


def more_variance(evidence: Evidence) -> Finding:
    """Growth of E[F²] per step: ρᵛ against clipped ρ. (0 where every trace is bounded.)"""
    del evidence
    texts, growth = [], []
    for name in ("two-state", "baird", "collision-restart"):
        m = problems.named()[name]()
        growth.append([second_moment(m, x, 1) for x in ("nevtrace", "clip-netd")])
        texts.append(f"{name}: NEVtrace {growth[-1][0]:.3g}, Clip-NETD {growth[-1][1]:.3g}")
    holds = all(a > b or a == b == 0 for a, b in growth) and any(a > b for a, b in growth)
    return Finding(holds, "growth per step (1 and above: no variance): " + "; ".join(texts))


def clipping_is_bias(name: str) -> Callable[[Evidence], Finding]:
    """Clip-NETD is never above NETD, and its expected update settles elsewhere."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        rho = ratios(0.3, 1.5)
        above = max(
            float((emphasis("clip-netd", n, rho, 0.9) - emphasis("netd", n, rho, 0.9)).max())
            for n in (1, 5)
        )
        m, apart = problems.named()[name](), {}
        for n in (1, 5):
            clipped, plain = (analyse(m, x, n).theta for x in ("clip-netd", "netd"))
            assert clipped is not None
            assert plain is not None
            size = max(float(np.linalg.norm(plain)), 1e-12)
            apart[n] = float(np.linalg.norm(clipped - plain)) / size
        moved = ", ".join(f"n = {n}: {x:.1%}" for n, x in apart.items())
        measured = f"Clip-NETD less NETD at most {above:.1g}; fixed points apart by {moved}"
        return Finding(above <= 1e-6 and min(apart.values()) > 0.01, measured)

    return check


CLAIMS = (
    Claim(
        "trace-fixed-points",
        "sec:netd",
        "the fixed point of F_t is 100, whereas the fixed point of F⁽ⁿ⁾_t is ... 10.46 for n=10, "
        "3.84 for n=30, and only 1.58 for n=100 [γ = 0.99, ρ = 1]",
        "the library's traces after 20,000 steps agree to 0.005",
        fixed_points,
    ),
    Claim(
        "trace-proposition",
        "prop",
        "Assume ρ_t > 0 and γ_t > 0 for any time step t. Then we have F_t > F⁽ⁿ⁾_t for any t > 0",
        "on every one of 10⁶ steps, with log-uniform ρ in (0.7, 1.3), γ = 0.9; n = 1, 2, 3, 5",
        proposition((1, 2, 3, 5)),
    ),
    Claim(
        "trace-difference",
        "sec:netd",
        "the difference between them ... grows with n",
        "F⁽ⁿ⁺¹⁾ ≤ F⁽ⁿ⁾ on every step, n = 1 … 9, log-uniform ρ in (0.3, 1.5)",
        grows_with_n,
    ),
    Claim(
        "trace-rho-v",
        "sec:variants",
        "ρᵛ_t = ... ≥ ρ̄_t",
        "on every state and action of all problems",
        rho_v_is_larger,
    ),
    Claim(
        "trace-clipped",
        "app:2state",
        "The clipped emphatic traces (IS clipped at 1) theoretically have a finite variance",
        "Clip-NETD never passes 1/(1 - γⁿ) on 10⁶ steps of the two-state MDP",
        clipped_is_bounded,
    ),
    Claim(
        "trace-more-variance",
        "sec:variants",
        "NEVtrace and WEVtrace are likely to have higher variances than Clip-NETD and Clip-WETD",
        "E[F²] grows faster per step on every problem, or F is bounded anyway (n = 1)",
        more_variance,
    ),
    Claim(
        "trace-clip-bias",
        "sec:variants",
        "clipping reduces the growth of emphatic traces, but may introduce bias in the emphatic "
        "trace weighted learning updates",
        "Clip-NETD never above NETD on 10⁶ steps with log-uniform ρ in (0.3, 1.5); in "
        "collision-restart its fixed point lies elsewhere than NETD's, by over 1%; n = 1, 5",
        clipping_is_bias("collision-restart"),
        note=ADDED,
    ),
)
