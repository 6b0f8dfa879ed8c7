"""The paper's Algorithm 3 for every agent name, written slowly from the formulas.

NumPy, float64, one stream, one state, one head at a time. What each name means is read anew
here: nothing comes from the package. A transition's ratios are taken once, when it arrives.
Emphases are sums over paths through the whole past of a stream, targets are sums over the
future, and gradients are central differences of the loss, in which targets, advantages and
emphases are numbers. The network is `forward(params, observation [N, ...])`, which returns
logits `[N, H, A]` and values `[N, H]`; `params` is a list of arrays.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

MIXED = ("wetd", "wevtrace", "wevtrace-literal", "exact-wevtrace")


class Meaning(NamedTuple):
    """What an agent's name says."""

    trace: str
    """The name of the trace, or how else the auxiliary heads are weighed."""
    ace: bool
    mixed: bool


def meaning(name: str) -> Meaning:
    """What the name says: the trace (or none), `-ace`, `-mixed`."""
    ace, mixed = name.endswith("-ace"), name.endswith("-mixed")
    trace = name.removesuffix("-ace").removesuffix("-mixed")
    return Meaning(trace, ace or trace == "surreal-constant", mixed or trace in MIXED)


class Step(NamedTuple):
    """One transition of one stream, and what each head said of it on arrival."""

    observation: np.ndarray
    action: int
    reward: float
    discount: float
    weight: float
    mu: np.ndarray
    rho: np.ndarray
    nu: np.ndarray


class Lesson(NamedTuple):
    """What one head learns in one state."""

    observation: np.ndarray
    action: int
    head: int
    weight: float
    target: float
    advantage: float
    emphasis: float


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ratios(config, pi, step_mu, action, weight):
    """ρ of the action taken (0 on a pseudo-step) and ν of the state, for one head."""
    rho = weight * pi[action] / step_mu[action]
    return rho, sum(min(config.clip_rho * m, p) for m, p in zip(step_mu, pi, strict=True))


# Emphases: of the last of these steps, from ρ, ν and γ of all steps of the stream.


def products_before(decay, t):
    """∏ of the k decays before t, for k = 1, 2, …, t."""
    return np.cumprod(decay[:t][::-1])


def nstep(ratio, discount, t, n):
    """1 plus the products of n, 2n, 3n … decays before t."""
    return 1.0 + products_before(discount * ratio, t)[n - 1 :: n].sum()


def followon(ratio, discount, t, beta=None, bound=None):
    """1 plus the products of 1, 2, 3 … decays before t.

    With a bound B at every step, the least of what the sum would be had it been at B
    k steps ago, over all k.
    """
    gamma = discount if beta is None else beta * (discount > 0)
    products = np.concatenate([[1.0], products_before(gamma * ratio, t)])
    at_bound = (
        [] if bound is None else [products[:k].sum() + products[k] * bound for k in range(t + 1)]
    )
    return min([products.sum(), *at_bound])


def sent_on(rho, c, discount, nu, t, m):
    """What Qₘ at t takes from t-1, …, t-m: pairs (source, weight)."""
    for k in range(1, min(m, t) + 1):
        between = np.prod([discount[j] * c[j] for j in range(t - k, t - 1)])
        kept = rho[t - 1] if k == m else rho[t - 1] - c[t - 1] * nu[t]
        yield t - k, between * discount[t - 1] * kept


def exact(config, rho, discount, nu, t, interest):
    """F of the exact traces, solved as the linear equations F = x + Qₙ(F)/ν of all states.

    `interest` is "one" or "nu" (fixed scheme), or "windows" (mixed).
    """
    clipped, c = np.minimum(config.clip_rho, rho), config.lambda_ * np.minimum(config.clip_c, rho)
    matrix, x = np.eye(t + 1), np.ones(t + 1)
    for i in range(t + 1):
        if interest == "one":
            x[i] = 1.0 / nu[i]
        if interest == "windows":
            for m in range(1, config.n):
                x[i] += sum(w for _, w in sent_on(clipped, c, discount, nu, i, m)) / nu[i]
        for source, weight in sent_on(clipped, c, discount, nu, i, config.n):
            matrix[i, source] -= weight / nu[i]
    return np.linalg.solve(matrix, x)[t]


def emphasis(config, trace, rho, nu, discount):
    """Of the last of the steps given."""
    t, n = len(rho) - 1, config.n
    starts = t % n == 0
    clipped = np.minimum(config.clip_trace, rho)
    of_vtrace = np.minimum(config.clip_rho, rho) / nu
    if trace == "netd":
        used = nstep(clipped, discount, t, n)
    elif trace == "nevtrace":
        used = nstep(of_vtrace, discount, t, n)
    elif trace == "exact-nevtrace":
        used = exact(config, rho, discount, nu, t, "one")
    elif trace == "exact-nevtrace-nu":
        used = exact(config, rho, discount, nu, t, "nu")
    elif trace == "exact-wevtrace":
        used = exact(config, rho, discount, nu, t, "windows") if starts else 1.0
    elif trace in ("wetd", "wevtrace"):
        ratio = clipped if trace == "wetd" else of_vtrace
        f = followon(ratio, discount, t, config.beta, config.bound_recursion)
        used = 1.0 - config.eta + config.eta * f if starts else 1.0
    elif trace == "wevtrace-literal":
        lambda_v = 0.0 if starts else min(config.clip_rho, rho[t]) / rho[t] if rho[t] else 1.0
        used = lambda_v + (1.0 - lambda_v) * followon(of_vtrace, discount, t)
    elif trace == "surreal-constant":
        return config.constant
    else:
        assert trace in ("surreal", "main-only"), trace
        return 1.0
    return used if config.bound is None else min(config.bound, used)


def target(config, steps, gamma, values, rho, i, end):
    """Gᵢ of V-trace, bootstrapping from the value at `end`."""
    g = values[i]
    for k in range(i, end):
        product = 1.0
        for j in range(i, k):
            product *= config.lambda_ * min(config.clip_c, rho[j]) * gamma * steps[j].discount
        reward = learned_reward(config, steps[k].reward)
        delta = reward + gamma * steps[k].discount * values[k + 1] - values[k]
        g += product * min(config.clip_rho, rho[k]) * delta
    return g


def learned_reward(config, reward):
    return min(1.0, max(-1.0, reward)) if config.reward == "clip" else reward


def differences(loss, params, h=1e-5):
    """The gradient of `loss` at `params`, by central differences."""
    gradient = [np.zeros_like(p) for p in params]
    for p, g in zip(params, gradient, strict=True):
        for place in np.ndindex(p.shape):
            kept = p[place]
            p[place] = kept + h
            above = loss(params)
            p[place] = kept - h
            g[place] = (above - loss(params)) / (2 * h)
            p[place] = kept
    return gradient


class RMSProp:
    """Clip by the global norm, divide by the root of the mean square, fall linearly."""

    def __init__(self, config, num_updates: int, params: Sequence[np.ndarray]):
        self.config, self.num_updates, self.count = config, num_updates, 0
        self.square = [np.zeros_like(p) for p in params]
        self.velocity = [np.zeros_like(p) for p in params]

    def step(self, params, gradient):
        c = self.config
        norm = np.sqrt(sum((g**2).sum() for g in gradient))
        if norm > c.max_gradient_norm:
            gradient = [g * c.max_gradient_norm / norm for g in gradient]
        left = max(0.0, 1.0 - self.count / self.num_updates)
        rate = c.end_learning_rate + left * (c.learning_rate - c.end_learning_rate)
        self.count += 1
        self.square = [
            c.decay * s + (1 - c.decay) * g**2 for s, g in zip(self.square, gradient, strict=True)
        ]
        root = [
            np.sqrt(s + c.epsilon) if c.epsilon_inside_root else np.sqrt(s) + c.epsilon
            for s in self.square
        ]
        self.velocity = [
            c.momentum * v - rate * g / r
            for v, g, r in zip(self.velocity, gradient, root, strict=True)
        ]
        return [p + v for p, v in zip(params, self.velocity, strict=True)], norm


@dataclasses.dataclass
class Agent:
    """An agent that learns slowly; `update` takes one unroll of all streams."""

    config: Any
    forward: Callable
    params: list[np.ndarray]
    num_updates: int

    def __post_init__(self):
        self.meaning = meaning(self.config.agent)
        self.heads = 1 if self.meaning.trace == "impala" else len(self.config.discounts)
        self.past: list[list[Step]] = [[] for _ in range(self.config.num_streams)]
        self.optimiser = RMSProp(self.config.optimiser, self.num_updates, self.params)
        self.lessons: list[Lesson] = []

    def update(self, observation, action, reward, discount, weight, behaviour_logits):
        """One update from T transitions of B streams; returns loss and gradient norm."""
        for b, past in enumerate(self.past):
            for t in range(len(action)):
                arrived = [x[t, b] for x in (observation, action, reward, discount, weight)]
                past.append(self._arrive(*arrived, softmax(behaviour_logits[t, b])))
        self.lessons = [
            lesson
            for b, past in enumerate(self.past)
            for lesson in self._lessons(past, observation[-1, b])
        ]
        loss = self._loss_of(self.lessons)
        total = loss(self.params)
        gradient = differences(loss, self.params)
        self.params, norm = self.optimiser.step(self.params, gradient)
        return total, norm

    def _arrive(self, observation, action, reward, discount, weight, mu) -> Step:
        logits, _ = self.forward(self.params, observation[None])
        said = [ratios(self.config, softmax(head), mu, action, weight) for head in logits[0]]
        rho, nu = np.array(said).T
        return Step(observation, action, reward, discount, weight, mu, rho, nu)

    def _lessons(self, steps: list[Step], last_observation) -> list[Lesson]:
        """Of one stream: what its T newest states teach (mixed), or those n-1 before (fixed)."""
        c = self.config
        lag = 0 if self.meaning.mixed else c.n - 1
        first, stop = max(0, len(steps) - c.unroll_length - lag), len(steps) - lag
        seen = np.stack([*(s.observation for s in steps[first:]), last_observation])
        logits, said = self.forward(self.params, seen)
        # Nobody may look at what lies before the first state learned.
        values = np.full((len(steps) + 1, self.heads), np.nan)
        rho = np.full((len(steps), self.heads), np.nan)
        values[first:] = said
        for i, s in enumerate(steps[first:]):
            for h, head in enumerate(logits[i]):
                rho[first + i, h], _ = ratios(c, softmax(head), s.mu, s.action, s.weight)
        return [
            self._lesson(steps, values[:, h], rho[:, h], i, h)
            for i in range(first, stop)
            for h in range(self.heads)
        ]

    def _lesson(self, steps, values, rho, i, h) -> Lesson:
        c, gamma, step = self.config, self.config.discounts[h], steps[i]
        end = (i // c.n + 1) * c.n if self.meaning.mixed else i + c.n
        g = target(c, steps, gamma, values, rho, i, end)
        g_next = target(c, steps, gamma, values, rho, i + 1, end)
        td = learned_reward(c, step.reward) + gamma * step.discount * g_next - values[i]
        f = 1.0
        if h > 0:
            arrived = [(s.rho[h], s.nu[h], gamma * s.discount) for s in steps[: i + 1]]
            f = emphasis(c, self.meaning.trace, *np.array(arrived).T)
        advantage = min(c.clip_pg_rho, rho[i]) * td
        return Lesson(step.observation, step.action, h, step.weight, g, advantage, f)

    def _loss_of(self, lessons: list[Lesson]):
        """Σ F (c_π ℒ_π + c_V ℒ_V) - c_H H over lessons, over 3M and T; F on ℒ_V alone sans ACE."""
        c = self.config
        if not lessons:  # All that arrived so far has to wait.
            return lambda params: 0.0
        observation, action, head, weight, g, advantage, f = (
            np.array(x) for x in zip(*lessons, strict=True)
        )
        learned = (head == 0) | (self.meaning.trace != "main-only")
        per_head = c.unroll_length * c.num_streams if c.reduction == "mean" else 1

        def loss(params):
            logits, values = self.forward(params, observation)
            each = np.arange(len(lessons))
            pi, v = softmax(logits[each, head]), values[each, head]
            policy = -np.log(pi[each, action]) * advantage
            value = 0.5 * (g - v) ** 2
            entropy = -(pi * np.log(pi)).sum(-1)
            on_policy = f if self.meaning.ace else 1.0
            terms = on_policy * c.policy_cost * policy + f * c.value_cost * value
            return (learned * weight * (terms - c.entropy_cost * entropy)).sum() / (
                per_head * self.heads
            )

        return loss
