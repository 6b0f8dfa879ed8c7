"""The paper's algorithms as a reader would type them in: one run, one step size, NumPy loops.

Nothing here is shared with the library: weights θ instead of values, products instead of
recursions, one step after another.
"""

import functools
import math

import numpy as np


class Behaviour:
    """One run's stream and what the learner knows of it."""

    def __init__(self, stream, features, initial_weights, values, weights):
        self.s, self.s_next, self.r, self.gamma, self.chain, self.rho, self.nu = map(
            np.asarray, stream
        )
        self.phi, self.theta = features, initial_weights
        self.v_pi, self.d_mu = values, weights

    def error(self, theta):
        return np.sqrt(np.sum(self.d_mu * (self.phi @ theta - self.v_pi) ** 2))


def follow_on(decay, t):
    """Fₜ = 1 + γₜρₜ₋₁ Fₜ₋₁ written out: 1 + Σₖ of the product of the k decays before t."""
    total = 1.0
    for k in range(1, t + 1):
        product = math.prod(decay[t - k : t])
        if product == 0:
            break
        total += product
    return total


def netd(decay, t, n):
    """Eq. netd, until it reaches one of the first n states."""
    return 1.0 if t < n else math.prod(decay[t - n : t]) * netd(decay, t - n, n) + 1.0


def exact(b, n, interest, mixed):
    """Design of the exact traces, F of all states in turn (ρ̄ = c̄ = 1)."""
    rho = c = np.minimum(1.0, b.rho).tolist()
    gamma, nu, gamma_c = b.chain.tolist(), b.nu.tolist(), (b.chain * c).tolist()
    f, ones = [1.0] * len(rho), [1.0] * len(rho)

    def q(m, t, x):
        total = 0.0
        for k in range(1, min(m, t + 1)):
            path = math.prod(gamma_c[t - k : t - 1])
            total += path * gamma[t - 1] * (rho[t - 1] - c[t - 1] * nu[t]) * x[t - k]
        if m <= t:
            total += math.prod(gamma_c[t - m : t - 1]) * gamma[t - 1] * rho[t - 1] * x[t - m]
        return total

    for t in range(len(f)):
        first = nu[t] if interest == "nu" or mixed else 1.0
        inside = sum(q(m, t, ones) for m in range(1, n)) if mixed else 0.0
        f[t] = (first + inside + q(n, t, f)) / nu[t]
    return np.array(f)


@functools.lru_cache
def emphasis(name, b, n, steps):
    """What weighs the update of each state, by name; once for all step sizes."""
    clipped = np.minimum(1.0, b.rho)
    ratio = b.rho
    if name.startswith("clip-"):
        ratio = clipped
    if name in ("nevtrace", "wevtrace", "wevtrace-literal"):
        ratio = clipped / b.nu
    decay = (b.chain * ratio).tolist()
    starts = np.arange(steps) % n == 0
    if name in ("netd", "clip-netd", "nevtrace"):
        return np.array([netd(decay, t, n) for t in range(steps)])
    if name.startswith("exact-nevtrace"):
        return exact(b, n, "nu" if name.endswith("-nu") else "one", mixed=False)[:steps]
    if name == "exact-wevtrace":
        return np.where(starts, exact(b, n, "nu", mixed=True)[:steps], 1.0)
    if name in ("wetd", "clip-wetd", "wevtrace", "wevtrace-literal"):
        f = np.array([follow_on(decay, t) for t in range(steps)])
        lambda_ = np.ones(steps)
        if name == "wevtrace-literal":
            lambda_ = np.array([1.0 if r == 0 else min(1.0, r) / r for r in b.rho[:steps]])
        lambda_ = np.where(starts, 0.0, lambda_)
        return lambda_ + (1 - lambda_) * f
    return np.ones(steps)


MIXED = {"td-mixed", "wetd", "clip-wetd", "vtrace-mixed", "wevtrace", "wevtrace-literal",
         "clipped-td-mixed", "exact-wevtrace"}  # fmt: skip


def forward(name, b, n, alpha, steps):
    """Algorithms 1 and 2 of the paper; errors before each update and after the last."""
    v_trace = "vtrace" in name
    rho = np.minimum(1.0, b.rho) if v_trace else b.rho
    c = np.minimum(1.0, b.rho) if v_trace or name.startswith("clipped-td") else b.rho
    weights, theta = emphasis(name, b, n, steps), b.theta.copy()
    errors = [b.error(theta)]
    for t in range(steps):
        end = (t // n + 1) * n if name in MIXED else t + n
        target, product = 0.0, 1.0
        for i in range(t, end):
            delta = b.r[i] + b.gamma[i] * theta @ b.phi[b.s_next[i]] - theta @ b.phi[b.s[i]]
            target += product * rho[i] * delta
            product *= b.chain[i] * c[i]
        theta = theta + alpha * weights[t] * target * b.phi[b.s[t]]
        errors.append(b.error(theta))
    return np.array(errors)


def etd(b, lambda_, beta, alpha, steps):
    """ETD(λ) of Sutton et al. 2016, and ETD(λ, β) of Hallak et al. 2016."""
    theta, e, f = b.theta.copy(), np.zeros_like(b.theta), 0.0
    errors = [b.error(theta)]
    for t in range(steps):
        before = b.chain[t - 1] if t else 0.0
        decay = before if beta is None else beta * (before != 0)
        f = decay * b.rho[t - 1] * f + 1.0
        m = lambda_ + (1 - lambda_) * f
        e = b.rho[t] * (before * lambda_ * e + m * b.phi[b.s[t]])
        delta = b.r[t] + b.gamma[t] * theta @ b.phi[b.s_next[t]] - theta @ b.phi[b.s[t]]
        theta = theta + alpha * delta * e
        errors.append(b.error(theta))
    return np.array(errors)


def gradient(name, b, eta, alpha, steps):
    """GTD2, TDC, TDRC: two weight vectors, updated at once."""
    theta, w = b.theta.copy(), np.zeros_like(b.theta)
    errors = [b.error(theta)]
    for t in range(steps):
        phi, phi_next, rho = b.phi[b.s[t]], b.phi[b.s_next[t]], b.rho[t]
        delta = b.r[t] + b.gamma[t] * theta @ phi_next - theta @ phi
        h = w @ phi
        if name == "gtd2":
            step = rho * h * (phi - b.gamma[t] * phi_next)
        else:
            step = rho * (delta * phi - b.gamma[t] * h * phi_next)
        decay = alpha * w if name == "tdrc" else 0.0
        w = w + eta * alpha * (rho * delta - h) * phi - decay
        theta = theta + alpha * step
        errors.append(b.error(theta))
    return np.array(errors)


def errors(name, n, eta, b, alpha, steps):
    """RMSE before each of `steps` updates and after the last, `[steps + 1]`."""
    if name in ("etd", "etd-beta"):
        return etd(b, 1 - 1 / n, 0.35 if name == "etd-beta" else None, alpha, steps)
    if name in ("gtd2", "tdc", "tdrc"):
        return gradient(name, b, eta, alpha, steps)
    return forward(name, b, n, alpha, steps)
