"""NETD in a plain JAX actor-critic that learns CartPole: the lines marked `# +`.

Everything else is what anyone would write: Gymnasium, a small network, optax. The behaviour
takes a random action now and then, so what is learned is learned off-policy, with V-trace
targets of n steps. The trace weighs the losses of policy and value (NETD-ACE); the entropy
bonus is left alone.

    python examples/netd_actor_critic_cartpole.py [steps]
"""

import itertools
import sys
from collections import deque
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

from emphatic import algorithms, losses, ratios  # +

T, B, N, GAMMA, EXPLORATION = 8, 16, 5, 0.99, 0.1
NETD = algorithms.build("clip-netd", n=N)._replace(  # + the trace of Clip-NETD,
    target=algorithms.build("vtrace", n=N).target  # + on V-trace's target
)
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(4e-3))


class Step(NamedTuple):
    """A transition of every stream; `[T, B]` when stacked."""

    observation: np.ndarray
    action: np.ndarray
    mu: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    weight: np.ndarray
    """0 on the step after an end, whose action Gymnasium ignores."""


def init(key):
    """Two hidden layers, a policy and a value."""
    sizes = [(4, 64), (64, 64), (64, 3)]
    keys = jax.random.split(key, len(sizes))
    scales = [1.0, 1.0, 0.01]
    return [
        (scale * jax.random.normal(k, size) / np.sqrt(size[0]), jnp.zeros(size[1]))
        for k, size, scale in zip(keys, sizes, scales, strict=True)
    ]


def network(params, x):
    """Logits and value."""
    *hidden, (w, b) = params
    for weight, bias in hidden:
        x = jnp.tanh(x @ weight + bias.reshape(*[1] * (x.ndim - 1), -1))
    x = x @ w + b.reshape(*[1] * (x.ndim - 1), -1)
    return x[..., :2], x[..., 2]


@jax.jit
def act(params, observation, key):
    """An action of the exploring policy, and its probabilities."""
    logits, _ = network(params, observation)
    mu = (1 - EXPLORATION) * jax.nn.softmax(logits) + EXPLORATION / 2
    return jax.random.categorical(key, jnp.log(mu)), mu


def loss(params, trace_state, steps, last):
    """Of T + n - 1 transitions, which the T oldest learn from."""
    logits, v = network(params, jnp.concatenate([steps.observation, last[None]]))
    logits, v_tm1, v_t = logits[:-1], v[:-1], v[1:]
    rho, _ = ratios.from_probabilities(jax.nn.softmax(logits), steps.mu, steps.action)
    rho_tm1 = rho * steps.weight
    discount_t = GAMMA * steps.discount
    target = NETD.target(v_tm1, v_t, steps.reward, discount_t, rho_tm1)
    trace_state, emphasis = NETD.trace.update(trace_state, rho_tm1[:T], discount_t[:T])  # +

    policy = losses.policy_gradient(
        losses.log_probability(logits, steps.action), target.advantage_tm1
    )
    value = losses.value(target.value_tm1, v_tm1)
    per_step = emphasis * (policy + 0.5 * value)[:T] - 0.01 * losses.entropy(logits)[:T]  # +
    return (steps.weight[:T] * per_step).mean(), trace_state


@jax.jit
def update(params, optimiser, trace_state, steps, last):
    """One step; the trace's state is carried like the optimiser's."""
    gradient, trace_state = jax.grad(loss, has_aux=True)(params, trace_state, steps, last)
    change, optimiser = OPTIMISER.update(gradient, optimiser)
    return optax.apply_updates(params, change), optimiser, trace_state


def play(environments, act_now):
    """Steps without end, each with the observation it led to and the returns that ended."""
    observation, _ = environments.reset(seed=0)
    total, ended = np.zeros(B), np.zeros(B, bool)
    while True:
        action, mu = act_now(observation)
        after, reward, terminated, truncated, _ = environments.step(action)
        pseudo, ended = ended, terminated | truncated
        real = (~pseudo).astype(np.float32)
        # A truncation keeps its discount: the step bootstraps from where it was cut.
        discount = real * ~terminated
        step = Step(observation, action, mu, real * np.float32(reward), discount, real)
        total = total + step.reward
        yield step, after, total[ended]
        total, observation = np.where(ended, 0.0, total), after


def train(steps: int) -> list[float]:
    """Mean return in each tenth of the run."""
    environments = gymnasium.make_vec("CartPole-v1", B, vectorization_mode="sync")
    key = jax.random.key(0)
    params = init(key)
    optimiser, trace_state = OPTIMISER.init(params), NETD.trace.init((B,))  # + NETD.trace.init
    experience, returns, curve = deque(maxlen=T + N - 1), [], []

    def act_now(observation):
        nonlocal key
        key, act_key = jax.random.split(key)
        return jax.tree.map(np.asarray, act(params, observation, act_key))

    played = itertools.islice(play(environments, act_now), steps // B)
    for number, (step, after, ended) in enumerate(played, 1):
        experience.append(step)
        returns += ended.tolist()
        if number % T == 0 and len(experience) == T + N - 1:
            batch = jax.tree.map(lambda *x: np.stack(x), *experience)
            params, optimiser, trace_state = update(params, optimiser, trace_state, batch, after)
        if number * B >= (len(curve) + 1) * (steps // B * B) / 10:
            curve.append(float(np.mean(returns)))
            print(f"{number * B:>8,} steps, mean return {curve[-1]:6.1f}", flush=True)
            returns = []
    environments.close()
    return curve


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
