"""Slow definitions of every trace and target: sums of products, straight from the formulas.

NumPy, float64, one stream `[T]` at a time, written from the paper's equations and, for the exact
traces, from docs/theory.md. No running state and no recursion: each number is computed from
the whole past (or future) of its step, so nothing here can share a mistake with a scan.
`over_streams` lifts them to `[T, *B]`; `emphasis` and `target` follow a row of the table.
"""

import numpy as np


def over_streams(definition, *arrays):
    """`definition` on every stream of arrays `[T, *B]`."""
    arrays = [np.asarray(x, np.float64) for x in arrays]
    steps, batch = len(arrays[0]), arrays[0].shape[1:]
    flat = [x.reshape(steps, -1) for x in arrays]
    columns = [definition(*(x[:, b] for x in flat)) for b in range(flat[0].shape[1])]
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *batch)


def nstep(ratio, discount, n):
    """Fₜ = Σₖ of the product of the kn decays before t, over all k that fit."""
    decay = discount * ratio
    return np.array(
        [sum(decay[t - k * n : t].prod() for k in range(t // n + 1)) for t in range(len(decay))]
    )


def followon(ratio, discount, beta=None, bound=None):
    """Fₜ = Σₖ of the product of the k decays before t.

    A bound B in the recursion cuts the sum: Fₜ = minₖ (Σᵢ₌₀ᵏ⁻¹ ∏ᵢ + ∏ₖ B), with ∏ₖ the
    product of the k decays before t, because x -> min(B, d x + 1) is increasing.
    """
    if beta is not None:
        discount = np.where(discount == 0, 0.0, beta)
    decay = discount * ratio
    result = []
    for t in range(len(decay)):
        products = np.array([decay[t - k : t].prod() for k in range(t + 1)])
        sums = np.cumsum(products)
        cut_short = [] if bound is None else sums - products + products * bound
        result.append(min([sums[-1], *cut_short]))
    return np.array(result)


def at_window_starts(f, n):
    """F at t mod n = 0, and 1 inside a window."""
    return np.where(np.arange(len(f)) % n == 0, f, 1.0)


def windowed(ratio, discount, n, eta=1.0, beta=None, bound=None):
    """Mₜ = 1 - η(1 - λₜ) + η(1 - λₜ) Fₜ with λₜ = 0 at window starts, else 1."""
    lambda_ = (np.arange(len(ratio)) % n != 0).astype(float)
    f = followon(ratio, discount, beta, bound)
    return 1.0 - eta * (1.0 - lambda_) + eta * (1.0 - lambda_) * f


def wevtrace_literal(rho, discount, nu, n, clip_rho):
    """Mₜ = λᵛₜ + (1 - λᵛₜ) Fᵛₜ with λᵛₜ = 0 at window starts, else min(ρ̄, ρₜ)/ρₜ."""
    clipped = np.minimum(clip_rho, rho)
    ratio_of_clipping = np.array(
        [c / r if r > 0 else 1.0 for c, r in zip(clipped, rho, strict=True)]
    )
    lambda_v = np.where(np.arange(len(rho)) % n == 0, 0.0, ratio_of_clipping)
    return lambda_v + (1.0 - lambda_v) * followon(clipped / nu, discount)


def sent_on(rho_bar, c, discount, nu, n):
    """What Qₙ takes from each state: matrix `[t, t - k]`, docs/theory.md."""
    weights = np.zeros((len(nu), len(nu)))
    for t in range(len(nu)):
        for k in range(1, min(n, t) + 1):
            between = (discount * c)[t - k : t - 1].prod()
            kept = rho_bar[t - 1] if k == n else rho_bar[t - 1] - c[t - 1] * nu[t]
            weights[t, t - k] = between * discount[t - 1] * kept
    return weights


def exact(rho, discount, nu, n, clip_rho, clip_c, lambda_, interest="one", mixed=False):
    """The exact traces: F = (I - Q/ν)⁻¹ x as a Neumann series (Q is nilpotent)."""
    rho_bar, c = np.minimum(clip_rho, rho), lambda_ * np.minimum(clip_c, rho)
    weights = sent_on(rho_bar, c, discount, nu, n) / nu[:, None]
    start = 1.0 / nu if interest == "one" else np.ones_like(nu)
    if mixed:
        start = np.ones_like(nu)
        for m in range(1, n):
            start = start + sent_on(rho_bar, c, discount, nu, m).sum(1) / nu
    term, total = start, start
    for _ in nu:
        term = weights @ term
        total = total + term
    return at_window_starts(total, n) if mixed else total


def eligibility(rho, discount, emphasis, features, lambda_):
    """eₜ = Σₖ [∏ⱼ₌ₖ₊₁ᵗ ρⱼ γⱼ λ] ρₖ Mₖ φₖ, `[T, d]`."""
    steps = len(rho)
    carried = np.concatenate([[0.0], discount[:-1]]) * lambda_ * rho
    return np.array(
        [
            sum(
                carried[k + 1 : t + 1].prod() * rho[k] * emphasis[k] * features[k]
                for k in range(t + 1)
            )
            for t in range(steps)
        ]
    )


def multistep(v_tm1, v_t, r_t, discount, rho, c, pg_rho, n, scheme):
    """Gₜ and the advantage, `[T, 2]`: the sums at the top of `targets`, term by term."""
    steps = len(r_t)
    td = r_t + discount * v_t - v_tm1
    result = np.zeros((steps, 2))
    for t in range(steps):
        end = min(t + n if scheme == "fixed" else (t // n + 1) * n, steps)

        def correction(first, end=end):
            return sum((c * discount)[first:i].prod() * rho[i] * td[i] for i in range(first, end))

        result[t, 0] = v_tm1[t] + correction(t)
        result[t, 1] = pg_rho[t] * (r_t[t] + discount[t] * (v_t[t] + correction(t + 1)) - v_tm1[t])
    return result


def emphasis(algorithm, rho, discount, nu):
    """The emphasis `[T, *B]` that a row of the table asks for, at its n and settings."""
    row, n, s = algorithm.row, algorithm.n, algorithm.settings

    def one_stream(rho, discount, nu):
        fed = {"rho": rho, "clipped": np.minimum(s.clip_trace, rho)}
        fed["vtrace"] = np.minimum(s.clip_rho, rho) / nu
        ratio = fed[row.ratio]
        clips = (s.clip_rho, s.clip_c, s.lambda_)
        f = {
            "none": lambda: np.ones_like(rho),
            "netd": lambda: nstep(ratio, discount, n),
            "wetd": lambda: windowed(ratio, discount, n, s.eta, s.beta, s.bound_recursion),
            "wetd-literal": lambda: wevtrace_literal(rho, discount, nu, n, s.clip_rho),
            "exact-netd": lambda: exact(rho, discount, nu, n, *clips, row.interest),
            "exact-wetd": lambda: exact(rho, discount, nu, n, *clips, mixed=True),
        }[row.trace]()
        return f if s.bound is None else np.minimum(s.bound, f)

    return over_streams(one_stream, rho, discount, nu)


def target(algorithm, v_tm1, v_t, r_t, discount, rho):
    """Value target and advantage, `[T, 2, *B]`, that a row of the table asks for."""
    row, n, s = algorithm.row, algorithm.n, algorithm.settings

    def one_stream(v_tm1, v_t, r_t, discount, rho):
        on_error, in_products = {
            "td": (rho, rho),
            "clipped-td": (rho, np.minimum(s.clip_c, rho)),
            "vtrace": (np.minimum(s.clip_rho, rho), s.lambda_ * np.minimum(s.clip_c, rho)),
        }[row.target]
        pg_rho = np.minimum(s.clip_pg_rho, rho)
        return multistep(v_tm1, v_t, r_t, discount, on_error, in_products, pg_rho, n, row.scheme)

    return over_streams(one_stream, v_tm1, v_t, r_t, discount, rho)
