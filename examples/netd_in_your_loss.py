"""Add NETD to the V-trace loss of an agent of your own: the lines marked `# +`.

Everything else stands for code that you already have: arrays as rlax names and shapes them,
time first, `[T]` under `vmap` or `[T, B]` as here; a loss; an optimiser.

The problem is the paper's two-state MDP, with a behaviour only 15% away from the target
policy: one weight θ, values θ and 2θ, no reward, so that θ = 0 is right. The target
policy always goes right. V-trace alone diverges; weighed by Clip-NETD it converges, and
by its exact emphatic trace faster still.

    python examples/netd_in_your_loss.py
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from emphatic import ratios, targets, traces  # +

T, B, N, GAMMA, STEP_SIZE, UPDATES = 20, 32, 2, 0.99, 0.1, 1500
FEATURES = jnp.array([1.0, 2.0])
TARGET = jnp.array([0.0, 1.0])
BEHAVIOUR = jnp.array([0.15, 0.85])


def behave(num_steps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """States `[num_steps + 1, B]` and actions `[num_steps, B]`: an action leads to its state."""
    rng = np.random.default_rng(seed)
    action = (rng.random((num_steps, B)) < BEHAVIOUR[1]).astype(int)
    return np.concatenate([np.ones((1, B), int), action]), action


def loss(theta, trace_state, state, action, trace):
    """Your loss: T + n - 1 transitions come in, of which the T oldest are learned."""
    v = theta * FEATURES[state]
    v_tm1, v_t, r_t = v[:-1], v[1:], jnp.zeros(action.shape)
    discount_t = jnp.full(action.shape, GAMMA)
    pi, mu = jnp.broadcast_to(TARGET, (*action.shape, 2)), BEHAVIOUR[None, None]

    ratio = ratios.from_probabilities(pi, jnp.broadcast_to(mu, pi.shape), action)  # +
    target = targets.vtrace(v_tm1, v_t, r_t, discount_t, ratio.rho_tm1, n=N, scheme="fixed")  # +
    once = (ratio.rho_tm1[:T], discount_t[:T], ratio.nu_tm1[:T])  # +
    trace_state, emphasis_tm1 = trace.update(trace_state, *once)  # +

    error = target.value_tm1[:T] - v_tm1[:T]
    return (emphasis_tm1 * 0.5 * error**2).mean(), trace_state  # + emphasis_tm1, trace_state


@functools.partial(jax.jit, static_argnames="trace")
def update(theta, trace_state, state, action, trace):
    """Your learner: the trace's state is carried like an optimiser's."""
    gradient, trace_state = jax.grad(loss, has_aux=True)(theta, trace_state, state, action, trace)
    return theta - STEP_SIZE * gradient, trace_state


def learn(trace: traces.Trace, every: int) -> list[float]:
    """θ at every so many updates."""
    state, action = behave(UPDATES * T + N)
    theta, trace_state, seen = jnp.array(1.0), trace.init((B,)), []  # + trace.init
    for number in range(UPDATES + 1):
        if number % every == 0:
            seen.append(float(theta))
        first, last = number * T, number * T + T + N - 1
        inputs = jnp.asarray(state[first : last + 1]), jnp.asarray(action[first:last])
        theta, trace_state = update(theta, trace_state, *inputs, trace)
    return seen


def main() -> None:
    """Learn three times and print the weight side by side."""
    every = UPDATES // 5
    clip_netd = traces.fed_with(ratios.clipped(1.0), traces.nstep(N))  # +
    columns = {
        "V-trace": learn(traces.uniform(), every),
        "with Clip-NETD": learn(clip_netd, every),
        "with exact NEVtrace": learn(traces.exact_nstep(N), every),
    }
    print("θ, which should become 0")
    print(f"{'updates':>8}" + "".join(f"{name:>21}" for name in columns))
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        print(f"{row * every:>8}" + "".join(f"{round(theta, 9) + 0.0:>21.3g}" for theta in values))


if __name__ == "__main__":
    main()
