"""Claims of the paper's proofs, tested on random MDPs and on its own problems."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from emphatic import algorithms, chains, mdp
from emphatic.diagnostics import problems
from emphatic.diagnostics.claims.base import ADDED, Claim, Evidence, Finding, Reading
from emphatic.theory import analyse, census, expectation, safety_region
from emphatic.theory.expected import vtrace_policy

COUNT = 1000
"""Random MDPs in a test: states, actions, policies and discounts as in `theory.census`."""

NS = (1, 2, 3, 5)

EQUAL = 1e-9
"""Two sides of an equation are equal if they differ by less."""


def size(x: float) -> str:
    """A difference; rounding, which is another on another machine, is not printed."""
    return "0" if x < EQUAL else f"{x:.2g}"


@functools.cache
def indefinite(names: tuple[str, ...], n: int, count: int = COUNT) -> dict[str, float]:
    """Share of random MDPs whose key matrix is not positive definite."""
    found = dict.fromkeys(names, 0)
    for batch in census.random_mdps(np.random.default_rng(0), count):
        for name in names:
            found[name] += census.indefinite(batch, name, n)
    return {name: x / count for name, x in found.items()}


def unstable_td(evidence: Evidence) -> Finding:
    """n-step TD on the two-state MDP and on random MDPs."""
    del evidence
    least = analyse(problems.two_state(), "td", 1).A[0, 0]
    shares = {n: indefinite(("td",), n)["td"] for n in NS}
    texts = ", ".join(f"n = {n}: {x:.1%}" for n, x in shares.items())
    measured = f"two-state, n = 1: A = {least:.3g}; indefinite key matrices of random MDPs {texts}"
    return Finding(bool(least < 0) and all(x > 0 for x in shares.values()), measured)


def fewer_with_n(evidence: Evidence) -> Finding:
    """Instability of n-step TD as n grows."""
    del evidence
    shares = [indefinite(("td",), n)["td"] for n in (1, 2, 3, 4, 5)]
    values = [analyse(problems.two_state(), "td", n).A[0, 0] for n in (1, 2, 3, 4, 5)]
    falling = all(a > b for a, b in itertools.pairwise(shares))
    measured = "indefinite key matrices at n = 1 … 5: " + ", ".join(f"{x:.1%}" for x in shares)
    return Finding(falling, measured + "; A in two-state: " + ", ".join(f"{x:.2f}" for x in values))


def printed_key(gamma: float) -> Callable[[Evidence], Finding]:
    """The matrix printed for two states at n = 2, and ΦᵀKΦ at the paper's Φ = (1, 2)ᵀ."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        m = problems.two_state()
        found = analyse(dataclasses.replace(m, discount=np.full_like(m.discount, gamma)), "td", 2)
        printed = np.array([[0.5, -(gamma**2) / 2], [0.0, (1 - gamma**2) / 2]])
        apart, below = float(np.abs(found.key - printed).max()), float(found.A[0, 0])
        measured = f"ΦᵀKΦ = {below:.3g}; largest difference from the matrix printed {size(apart)}"
        return Finding(apart < EQUAL and below < 0, measured)

    return check


def sometimes_indefinite(name: str, n: int) -> Callable[[Evidence], Finding]:
    """Some random MDP has a key matrix that is not positive definite."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        share = indefinite((name,), n)[name]
        return Finding(share > 0, f"indefinite, of {COUNT} random MDPs: {share:.1%}")

    return check


def printed_matrix(kinds: tuple[str, ...]) -> Callable[[Evidence], Finding]:
    """Dμ (I - Pⁿ Γⁿ) against the expected update, by kind of discount."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        rng = np.random.default_rng(0)
        apart = dict.fromkeys(kinds, 0.0)
        for _ in range(50):
            base = _random(rng)
            discounts = {"constant": np.full(4, 0.9), "by state": rng.uniform(0.3, 1.0, 4)}
            for kind, n in itertools.product(kinds, NS):
                gamma = discounts[kind]
                full = np.broadcast_to(gamma, base.transition.shape)
                found = analyse(dataclasses.replace(base, discount=full), "td", n)
                step = np.linalg.matrix_power(base.chain(base.target), n)
                printed = found.d_mu[:, None] * (np.eye(4) - step * gamma**n)
                apart[kind] = max(apart[kind], float(np.abs(printed - found.key).max()))
        texts = {kind: f"largest error {size(x)}" for kind, x in apart.items()}
        readings = tuple(Reading(f"{x} γ", apart[x] < EQUAL, texts[x]) for x in kinds)
        holds = max(apart.values()) < EQUAL
        measured = ", ".join(f"{kind} γ: {text}" for kind, text in texts.items())
        return Finding(holds, measured, readings, not holds)

    return check


def _random(rng: np.random.Generator) -> mdp.MDP:
    """Four states, two actions, tabular."""
    shape = (4, 2, 4)
    return mdp.MDP(
        name="random",
        transition=rng.dirichlet(np.ones(4), (4, 2)),
        reward=np.zeros(shape),
        discount=np.full(shape, 0.9),
        target=rng.dirichlet(np.ones(2), 4),
        behaviour=rng.dirichlet(np.ones(2), 4),
        features=np.eye(4),
        initial_weights=np.zeros(4),
    )


def always_definite(names: tuple[str, ...], ns: tuple[int, ...]) -> Callable[[Evidence], Finding]:
    """No random MDP has an indefinite key matrix."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        shares = {n: indefinite(names, n) for n in ns}
        texts = [f"{x} n = {n} {share:.1%}" for n in ns for x, share in shares[n].items()]
        worst = max(share for found in shares.values() for share in found.values())
        measured = f"indefinite, of {COUNT} random MDPs: " + ", ".join(texts)
        return Finding(worst == 0, measured, (), worst > 0)

    return check


def approximate_key(ns: tuple[int, ...]) -> Callable[[Evidence], Finding]:
    """F (I - Nⁿ Pⁿ Γⁿ) with the printed F, of random MDPs and of a ring, with one discount."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        printed = {n: _indefinite_approximations(n, transposed=False) for n in ns}
        right = {n: _indefinite_approximations(n, transposed=True) for n in ns}
        exact = {n: indefinite(("nevtrace",), n)["nevtrace"] for n in ns}
        least = {n: _least(_approximation(ring(n), n, transposed=False)) for n in ns}
        mended = {n: _least(_approximation(ring(n), n, transposed=True)) for n in ns}
        transposed = "F from the matrix transposed as a whole, (Nⁿ Pⁿ Γⁿ)ᵀ, for Nⁿ (Pᵀ)ⁿ Γⁿ"
        readings = (
            Reading("random MDPs alone", max(printed.values()) == 0, _shares(printed)),
            Reading(
                transposed,
                max(right.values()) == 0 and min(mended.values()) > 0,
                f"{_shares(right)}; on the ring least eigenvalue {_by_n(mended)}",
            ),
            Reading("the key matrix itself", max(exact.values()) == 0, _shares(exact)),
        )
        holds = max(printed.values()) == 0 and min(least.values()) > 0
        measured = f"least eigenvalue of the symmetric part on the ring {_by_n(least)}"
        measured += f"; random MDPs, {_shares(printed)}"
        return Finding(holds, measured, readings, not holds)

    return check


def ring(n: int) -> mdp.MDP:
    """2n + 1 states in a ring, on which the printed F gives the last one too little.

    π goes round. So does μ but for staying in state 0, 19 times in 20; and in state 2n, from
    where both of two actions lead on, it takes π's one time in 20. Most of d_μ lies on
    state 0, whose F goes to state n; there ν = 1, and F is large. State n bootstraps from
    state 2n, which must weigh about as much. With Nⁿ on the left of (Pᵀ)ⁿ what reaches it is
    multiplied by its own νⁿ = 20⁻ⁿ instead of that of state n.
    """
    states = 2 * n + 1
    transition = np.repeat(np.roll(np.eye(states), 1, axis=1)[:, None], 2, axis=1)
    transition[0, 1] = np.eye(states)[0]
    behaviour = np.array([[1.0, 0.0]] * states)
    behaviour[[0, -1]] = 1 / 20, 19 / 20
    return mdp.MDP(
        name="ring",
        transition=transition,
        reward=np.zeros_like(transition),
        discount=np.full_like(transition, 0.9),
        target=np.array([[1.0, 0.0]] * states),
        behaviour=behaviour,
        features=np.eye(states),
        initial_weights=np.zeros(states),
    )


def _by_n(values: dict[int, float]) -> str:
    return ", ".join(f"n = {n} {x:.2g}" for n, x in values.items())


def _shares(by_n: dict[int, float]) -> str:
    return "indefinite: " + ", ".join(f"n = {n} {x:.1%}" for n, x in by_n.items())


def _indefinite_approximations(n: int, *, transposed: bool) -> float:
    """Share of random MDPs, γ = 0.9, whose approximate key matrix is not positive definite."""
    found = 0
    for batch in census.random_mdps(np.random.default_rng(0), COUNT):
        m = dataclasses.replace(batch, discount=np.full_like(batch.discount, 0.9))
        found += int((_symmetric(_approximation(m, n, transposed=transposed)) <= 0).sum())
    return found / COUNT


def _approximation(m: mdp.MDP, n: int, *, transposed: bool) -> np.ndarray:
    """F (I - Nⁿ Pⁿ γⁿ), γ = 0.9, with F = (I - Nⁿ (Pᵀ)ⁿ γⁿ)⁻¹ d_μ, or of (Nⁿ Pⁿ)ᵀ."""
    power = np.linalg.matrix_power(m.chain(vtrace_policy(m)), n)
    kernel = (m.nu() ** n)[..., None] * power * 0.9**n
    back = np.swapaxes(kernel, -1, -2)
    if not transposed:
        back = (m.nu() ** n)[..., None] * np.swapaxes(power, -1, -2) * 0.9**n
    one = np.eye(m.num_states)
    d_mu = chains.stationary(m.chain(m.behaviour))
    return np.linalg.solve(one - back, d_mu[..., None]) * (one - kernel)


def _symmetric(key: np.ndarray) -> np.ndarray:
    """Least eigenvalues of the symmetric parts."""
    return np.linalg.eigvalsh((key + np.swapaxes(key, -1, -2)) / 2)[..., 0]


def _least(key: np.ndarray) -> float:
    return float(_symmetric(key))


def printed_emphasis(
    make: Callable[[np.random.Generator], mdp.MDP],
) -> Callable[[Evidence], Finding]:
    """f of NEVtrace as printed, (I - Nⁿ (Pᵀ)ⁿ Γⁿ)⁻¹ d_μ, against that of the trace defined."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        rng = np.random.default_rng(0)
        apart = np.max([_emphases_apart(make(rng), n) for _ in range(20) for n in NS], axis=0)
        names = ("of ρᵛ, without N", "of min(ρ̄, ρ), Clip-NETD's, with N inside the powers")
        readings = tuple(
            Reading(name, x < EQUAL, f"largest relative difference {size(x)}")
            for name, x in zip(names, apart[1:].tolist(), strict=True)
        )
        holds = bool(apart[0] < EQUAL)
        measured = f"largest relative difference from f of the trace {size(float(apart[0]))}"
        return Finding(holds, measured, readings, not holds)

    return check


def _emphases_apart(m: mdp.MDP, n: int) -> tuple[float, float, float]:
    """Of a printed or repaired f from the f of a trace; γ = 0.9."""
    d_mu, one = chains.stationary(m.chain(m.behaviour)), np.eye(m.num_states)
    back, nu = m.chain(vtrace_policy(m)).T, np.diag(m.nu())
    power = np.linalg.matrix_power
    printed, plain, clipped = (
        np.linalg.solve(one - 0.9**n * x, d_mu)
        for x in (power(nu, n) @ power(back, n), power(back, n), power(back @ nu, n))
    )
    nevtrace, clip_netd = (expectation(m, x, n).emphasis[0] for x in ("nevtrace", "clip-netd"))
    pairs = ((printed, nevtrace), (plain, nevtrace), (clipped, clip_netd))
    a, b, c = (float(np.abs(f / of_trace - 1).max()) for f, of_trace in pairs)
    return a, b, c


def recovers(name: str, *, as_printed: bool = True) -> Callable[[Evidence], Finding]:
    """The appendix's sum over all later errors, weighed by λ, against the mixed target.

    Gₜ = V(Sₜ) + Σᵢ (∏ⱼ₌ₜⁱ⁻¹ ρⱼ γⱼ₊₁ λⱼ) λᵢ ρᵢ δᵢ,   λₜ = 0 at t mod n = 0
    """

    def check(evidence: Evidence) -> Finding:
        del evidence
        n, steps = 4, 40
        rng = np.random.default_rng(0)
        rho, gamma = rng.uniform(0.2, 2.0, steps), rng.uniform(0.5, 1.0, steps)
        reward, v = rng.normal(size=steps), rng.normal(size=steps + 1)
        inputs = [jnp.asarray(x, jnp.float32) for x in (v[:-1], v[1:], reward, gamma, rho)]
        wanted = np.asarray(algorithms.build(name, n).target(*inputs).value_tm1) - v[:-1]
        delta = reward + gamma * v[1:] - v[:-1]
        inside = np.minimum(1.0, rho) / rho if "vtrace" in name else np.ones(steps)
        lambda_ = np.where(np.arange(steps) % n == 0, 0.0, inside)
        printed = _lambda_sums(rho, gamma, delta, lambda_, lambda_)
        cut_before = _lambda_sums(rho, gamma, delta, inside, lambda_)
        ends = Reading(
            "λ = 0 ends the sums that begin before it, not its own", *_same(cut_before, wanted)
        )
        holds, measured = _same(printed, wanted) if as_printed else _same(cut_before, wanted)
        idle = int((printed[::n] == 0).sum())
        measured += f"; as printed {idle} of {steps // n} first states of a window are not updated"
        return Finding(holds, measured, (ends,), not holds)

    return check


def _same(found: np.ndarray, wanted: np.ndarray) -> tuple[bool, str]:
    """Equal in float32, which targets are computed in?"""
    apart = float(np.abs(found - wanted).max())
    said = "less than 1e-4" if apart < 1e-4 else f"{apart:.2g}"
    return apart < 1e-4, f"largest difference from the mixed target {said}"


def _lambda_sums(rho, gamma, delta, own: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Σᵢ of the errors from t on; λ is `own[t]` for the step of the state itself."""
    out = np.zeros(len(rho))
    for t in range(len(rho)):
        product = 1.0
        for i in range(t, len(rho)):
            lambda_ = own[i] if i == t else later[i]
            out[t] += product * lambda_ * rho[i] * delta[i]
            product *= rho[i] * gamma[i] * lambda_
    return out


def uniform_lambda(ns: tuple[int, ...]) -> Callable[[Evidence], Finding]:
    """A of WETD against A of ETD with λ = 1 - 1/n, on the two-state MDP."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        m = problems.two_state()
        texts, apart = [], []
        for n in ns:
            found = analyse(m, "wetd", n)
            other = _etd(m, 1 - 1 / n, found.d_mu)
            apart.append(abs(found.A[0, 0] / other - 1))
            texts.append(f"n = {n}: WETD {found.A[0, 0]:.3g}, ETD(λ) {other:.3g}")
        holds = max(apart) <= 0.01
        return Finding(holds, "A in two-state, " + "; ".join(texts), (), not holds)

    return check


def _etd(m: mdp.MDP, lambda_: float, d_mu: np.ndarray) -> float:
    """A = Φᵀ M (I - λ P Γ)⁻¹ (I - P Γ) Φ with m = λ d + (1 - λ) f, one feature."""
    step, one = m.discounted(m.rho), np.eye(m.num_states)
    f = np.linalg.solve(one - step.T, d_mu)
    weight = lambda_ * d_mu + (1 - lambda_) * f
    key = weight[:, None] * np.linalg.solve(one - lambda_ * step, one - step)
    return float((m.features.T @ key @ m.features)[0, 0])


def safe_near_target(evidence: Evidence) -> Finding:
    """How far from π towards μ n-step TD stays definite, n = 1 … 5."""
    del evidence
    found = {n: safety_region(_ergodic_two_state(), "td", n).epsilon for n in NS}
    measured = "definite for μ_ε up to ε = " + ", ".join(
        f"{x:.2f} (n = {n})" for n, x in found.items()
    )
    return Finding(all(x > 0 for x in found.values()), measured)


def _ergodic_two_state() -> mdp.MDP:
    """Two-state with π right in nine of ten, so that d_π covers both states."""
    return dataclasses.replace(problems.two_state(), target=np.array([[0.1, 0.9]] * 2))


def safety_step(ns: tuple[int, ...]) -> Callable[[Evidence], Finding]:
    """d_π (I - Pⁿ Γⁿ) against d_π (I - Γ), constant γ."""

    def check(evidence: Evidence) -> Finding:
        del evidence
        m = _ergodic_two_state()
        step = m.chain(m.target)
        d_pi = np.linalg.matrix_power(step, 200)[0]
        left = {n: d_pi @ (np.eye(2) - np.linalg.matrix_power(0.9 * step, n)) for n in ns}
        apart = {n: float(np.abs(x - 0.1 * d_pi).max()) for n, x in left.items()}
        powers = {n: float(np.abs(x - (1 - 0.9**n) * d_pi).max()) for n, x in left.items()}
        with_power = Reading("with Γⁿ on the right", max(powers.values()) < EQUAL, _sizes(powers))
        holds = max(apart.values()) < EQUAL
        return Finding(holds, _sizes(apart), (with_power,), not holds)

    return check


def _sizes(apart: dict[int, float]) -> str:
    return "largest difference: " + ", ".join(f"n = {n} {size(x)}" for n, x in apart.items())


def vtrace_fixed_point(evidence: Evidence) -> Finding:
    """Tabular V-trace: its fixed point under other clips."""
    del evidence
    m = dataclasses.replace(_random(np.random.default_rng(0)))
    m = dataclasses.replace(m, reward=np.random.default_rng(1).normal(size=m.reward.shape))
    point = {
        clips: analyse(m, "vtrace", 3, clip_rho=clips[0], clip_c=clips[1]).theta
        for clips in ((1.0, 1.0), (1.0, 0.3), (0.5, 0.3))
    }
    values = [np.asarray(theta) for theta in point.values()]
    by_c, by_rho = (float(np.abs(values[i] - values[i + 1]).max()) for i in (0, 1))
    # Rounding is another on another machine: what is below the test's threshold is not printed.
    by_c_said = "less than 1e-9" if by_c < 1e-9 else f"{by_c:.1g}"
    measured = (
        f"fixed point moves by {by_c_said} with c̄ from 1 to 0.3, by {by_rho:.2g} with ρ̄ 1 to 0.5"
    )
    return Finding(by_c < 1e-9 < 1e-3 < by_rho, measured)


CENSUS = f"{COUNT} random MDPs with state-dependent ν and discounts: no key matrix indefinite"

CLAIMS = (
    Claim(
        "theory-td-unstable",
        "app:unstable_tdn",
        "the resulting matrix A ... is not necessarily positive definite since the key matrix ... "
        "can be non-positive definite",
        "negative A on the two-state MDP; indefinite key matrices among random MDPs at each n",
        unstable_td,
    ),
    Claim(
        "theory-printed-key",
        "app:unstable_tdn",
        "It is not a positive definite matrix through checking multiplication on both sides by "
        "setting Φ=(1,2)ᵀ [the key matrix printed for two states, n = 2, γ = 0.99]",
        "TD's key matrix there is the one printed, to 1e-9, and ΦᵀKΦ is negative",
        printed_key(0.99),
        note=ADDED,
    ),
    Claim(
        "theory-small-n",
        "Two-state MDP",
        "Empirically and theoretically, smaller bootstrap lengths n are more likely to induce "
        "divergence in learning",
        "share of indefinite key matrices of TD falls with every n from 1 to 5",
        fewer_with_n,
    ),
    Claim(
        "theory-power",
        "eq:A_lim",
        "A = ... = Φᵀ D_μ [I - P_πⁿ Γⁿ] Φ",
        "equal to the expected update on 50 random MDPs, n = 1, 2, 3, 5",
        printed_matrix(("constant", "by state")),
    ),
    Claim(
        "theory-netd",
        "sec:netd",
        "NETD guarantees asymptotic stability in off-policy learning with linear value function "
        "approximation by ensuring that the asymptotic update matrix is positive definite",
        CENSUS,
        always_definite(("netd",), NS),
    ),
    Claim(
        "theory-wetd",
        "sec:wetd",
        "WETD inherits the stability of ETD(λ), to whose λ = 1 - 1/n its expected updates are "
        "said to be equivalent",
        CENSUS,
        always_definite(("wetd",), NS),
        quoted=False,
    ),
    Claim(
        "theory-vtrace-indefinite",
        "app:nevtrace_derivation",
        "the V-trace steady state key matrix is N D_μ [I - P_π_ρ̄ Γ], which is not necessarily "
        "positive definite",
        f"some of {COUNT} random MDPs has an indefinite key matrix, n = 1",
        sometimes_indefinite("vtrace", 1),
        note=ADDED,
    ),
    Claim(
        "theory-wevtrace",
        "app:nevtrace_derivation",
        "Let's check that the key matrix N Fᵛ [I - P_π_ρ̄ Γ] is positive definite. ... Hence Fᵛ_t "
        "stabilized learning [n = 1]",
        CENSUS,
        always_definite(("wevtrace",), (1,)),
    ),
    Claim(
        "theory-nevtrace",
        "app:nevtrace_derivation",
        "this F⁽ⁿ⁾ᵛ makes the approximate key matrix F⁽ⁿ⁾ᵛ (I - Nⁿ P_π_ρ̄ⁿ Γⁿ) positive definite",
        f"definite on {COUNT} random MDPs with state-dependent ν and on a ring of 2n + 1 states "
        "with most of d_μ on the first and ν = 1/20 in the last; γ = 0.9, F⁽ⁿ⁾ᵛ as printed",
        approximate_key(NS),
        note="first tested on the key matrix itself, which the paper does not claim here; that is "
        "now a reading, and theory-correct. The random MDPs came next, and none is indefinite; the "
        "ring was then found by search",
    ),
    Claim(
        "theory-nevtrace-f",
        "app:nevtrace_derivation",
        "F⁽ⁿ⁾ᵛ = (I - Nⁿ (P_π_ρ̄ᵀ)ⁿ Γⁿ)⁻¹ D_μ",
        "equal to d_μ(s) E[F⁽ⁿ⁾ᵛ|s] of the trace defined there, on 20 random MDPs, γ = 0.9, "
        "n = 1, 2, 3, 5",
        printed_emphasis(_random),
        note=ADDED,
    ),
    Claim(
        "theory-correct",
        "sec:variants",
        "they are the correct emphatic traces w.r.t. to the V-trace target [NEVtrace, WEVtrace]",
        CENSUS,
        always_definite(("nevtrace", "wevtrace"), NS),
        note=ADDED,
    ),
    Claim(
        "theory-lambda",
        "sec:wetd",
        "the expected updates are asymptotically equivalent to using a uniform λ = ... 1 - 1/n",
        "A of WETD and of ETD(1 - 1/n) agree to 1% on the two-state MDP, n = 2, 3, 5",
        uniform_lambda((2, 3, 5)),
    ),
    Claim(
        "theory-lambda-td",
        "app:lambda_tdn",
        "we recover the mixed n-step update where each sample V(S_t+k) in the trajectory is "
        "updated with (n-k)-step TD error [from λ_t = 0 at t mod n = 0, else 1]",
        "the sum printed equals the library's mixed n-step TD target on 40 random steps, n = 4",
        recovers("td-mixed"),
        note=ADDED,
    ),
    Claim(
        "theory-lambda-vtrace",
        "app:lambda_vtrace",
        "if we set λ_j = ρ̄_j/ρ_j ..., we recover the mixed V-trace target",
        "the sum printed, with λᵛ = 0 at t mod n = 0, equals the library's mixed V-trace target "
        "on 40 random steps, n = 4",
        recovers("vtrace-mixed"),
        note=ADDED,
    ),
    Claim(
        "theory-safe",
        "app:safety_region",
        "for a distribution D_μ that is close enough to D_π the key matrix is still positive "
        "definite",
        "definite for (1 - ε)π + εμ with some ε > 0; two-state with π right in 9 of 10",
        safe_near_target,
    ),
    Claim(
        "theory-safe-step",
        "app:safety_region",
        "d_πᵀ[I - P_πⁿ Γⁿ] = d_πᵀ(I - Γ)",
        "equal on the same MDP, n = 1, 2, 5",
        safety_step((1, 2, 5)),
    ),
    Claim(
        "theory-vtrace",
        "eq:vtrace_fp",
        "Modifying c̄ does not change the fixed point of the (tabular) V-trace update ... "
        "Modifying ρ̄ does change the fixed point",
        "tabular fixed points of a random MDP under three pairs of clips",
        vtrace_fixed_point,
    ),
)
