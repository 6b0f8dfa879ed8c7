"""Emphasis and V-trace against rlax under `vmap`, as ratios measured in one run.

    python benchmarks/traces.py

Every row computes a V-trace actor-critic loss and its gradient inside a scan over many
batches, as a learner on an accelerator or Anakin does, so that no dispatch is timed.

- `rlax`: `rlax.vtrace_td_error_and_advantage` under `vmap`, no emphasis.
- `rlax + trace`: the same, and NETD's trace in the manner of rlax, one stream under
  `vmap`, a scan of T steps: what a user of rlax would write.
- `V-trace`: `targets.vtrace` over the whole unroll, no emphasis.
- `NETD`, `WETD`, `exact`: the same with the emphasis of that trace on the loss.

"from ratios" starts from ρ, "from logits" from the logits of π and μ (18 actions),
which is what a learner has; its emphasis is a smaller share of a larger whole.

What was tried, and what it gave on two shared cores (XLA's CPU backend), [1000, 64]:

- V-trace's recurrence is a plain scan. `unroll` of 4 or 16 made it 1.1 to 2.5 times
  slower (the unrolled results are concatenated), chunks as lanes (three scans of √T) no
  faster, Hillis-Steele doubling 3 to 5 times slower.
- NETD by a scan of T steps that multiplies all n traces under way: +320% on V-trace
  alone. In blocks of n steps with cumulative products around each place: +80% to +230%.
  As now, sliding products by `reduce_window` and T/n blocks: +25% to +40%. The rest is the
  memory traffic of a few passes over [T, B]: the loss alone, without any recurrence, is
  already 0.3 of rlax, half of it in the two reductions to a mean.

What it gave on a two-core x86-64 CPU (AMD EPYC) that did nothing else, shapes in the order above:

- NETD and V-trace from ratios take 0.11, 0.46, 0.44 of `rlax + trace` (0.88, 0.39, 0.60 of rlax
  without any trace); from logits, where the softmaxes rule, 0.50, 0.82, 0.80. 0.5 was asked for.
- NETD adds 1%, 2%, 1% to V-trace alone from logits, WETD none, 1%, none; from ratios, where nothing
  else is computed, 33 to 50%, 48 to 65%, 35 to 43% in three runs. 15% was asked for.
- That a ratio which is no number shows in NETD's emphasis is one more pass: some 5% of V-trace
  alone from ratios.
"""

import functools
import os
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")

import warnings

warnings.filterwarnings("ignore")

import jax
import jax.numpy as jnp
import numpy as np
import rlax

from emphatic import losses, ratios, targets, traces

SHAPES = ((20, 32, 200), (40, 1024, 10), (1000, 64, 10))
NUM_ACTIONS = 18
N = 10
REPEATS = 15


def batch(steps, streams, *, logits):
    """One batch; a fiftieth of the steps end an episode."""
    rng = np.random.default_rng(0)

    def array(x):
        return jnp.asarray(x, jnp.float32)

    x = {
        "reward": array(rng.normal(size=(steps, streams))),
        "discount": array(0.99 * (rng.random((steps, streams)) > 0.02)),
        "value": array(rng.normal(size=(steps + 1, streams))),
        "action": jnp.asarray(rng.integers(0, NUM_ACTIONS, (steps, streams))),
    }
    if logits:
        x["behaviour"] = array(rng.normal(size=(steps, streams, NUM_ACTIONS)))
        x["policy"] = x["behaviour"] + array(0.3 * rng.normal(size=x["behaviour"].shape))
    else:
        x["rho"] = array(rng.gamma(1.0, 1.0, (steps, streams)))
        x["nu"] = array(rng.uniform(0.4, 1.0, (steps, streams)))
        x["policy"] = array(-rng.random((steps, streams)))
    return x


def zeros(xs):
    """A gradient of the right shape: the loop carries the whole of each, so none is skipped."""
    return jnp.zeros_like(xs["value"][0]), jnp.zeros_like(xs["policy"][0])


def policy_terms(x, policy):
    """log π(a), ρ, ν: from logits, or as they are given."""
    if "rho" in x:
        return policy, x["rho"], x["nu"]
    found = ratios.from_logits(policy, x["behaviour"], x["action"])
    return losses.log_probability(policy, x["action"]), *found


def ours(trace):
    """The library's loss and gradient, weighed by `trace`."""

    def loss(differentiated, x, state):
        value, policy = differentiated
        log_pi_a, rho, nu = policy_terms(x, policy)
        state, emphasis = trace.update(state, rho, x["discount"], nu)
        target = targets.vtrace(
            value[:-1], value[1:], x["reward"], x["discount"], rho, n=len(rho), scheme="mixed"
        )
        policy_loss = losses.policy_gradient(log_pi_a, target.advantage_tm1)
        value_loss = losses.value(target.value_tm1, value[:-1])
        return (emphasis * (policy_loss + 0.5 * value_loss)).mean(), state

    def step(carry, x):
        gradient, state = jax.grad(loss, has_aux=True)((x["value"], x["policy"]), x, carry[1])
        return (gradient, state), None

    return lambda xs: jax.lax.scan(step, (zeros(xs), trace.init(xs["reward"].shape[2:])), xs)


def rlax_trace(rho, discount):
    """NETD's trace of one stream, one step at a time."""

    def step(under_way, decay):
        followon = under_way[0] + 1.0
        return decay * jnp.append(under_way[1:], followon), followon

    return jax.lax.scan(step, jnp.zeros(N), discount * jnp.minimum(1.0, rho))[1]


def theirs(*, with_trace):
    """The same loss out of rlax's parts, each stream under `vmap`."""
    vtrace = jax.vmap(rlax.vtrace_td_error_and_advantage, in_axes=1, out_axes=1)
    trace = jax.vmap(rlax_trace, in_axes=1, out_axes=1)

    def loss(differentiated, x):
        value, policy = differentiated
        if "rho" in x:
            log_pi_a, rho = policy, x["rho"]
        else:
            rho = rlax.categorical_importance_sampling_ratios(policy, x["behaviour"], x["action"])
            log_pi_a = losses.log_probability(policy, x["action"])
        out = vtrace(value[:-1], value[1:], x["reward"], x["discount"], jax.lax.stop_gradient(rho))
        advantage = jax.lax.stop_gradient(out.pg_advantage)
        per_step = -log_pi_a * advantage + 0.25 * jnp.square(out.errors)
        if with_trace:
            per_step *= jax.lax.stop_gradient(trace(rho, x["discount"]))
        return per_step.mean()

    def step(_, x):
        return jax.grad(loss)((x["value"], x["policy"]), x), None

    return lambda xs: jax.lax.scan(step, zeros(xs), xs)


def rows():
    """Name and function, the baselines first."""
    clip = functools.partial(traces.fed_with, ratios.clipped(1.0))
    return {
        "rlax": theirs(with_trace=False),
        "rlax + trace": theirs(with_trace=True),
        "V-trace": ours(traces.uniform()),
        "NETD": ours(clip(traces.nstep(N))),
        "WETD": ours(clip(traces.windowed(N))),
        "exact": ours(traces.exact_nstep(N)),
    }


def seconds(functions, xs):
    """CPU seconds of each function, interleaved: one list of repeats per name."""
    compiled = {name: jax.jit(f) for name, f in functions.items()}
    for f in compiled.values():
        jax.block_until_ready(f(xs))
    taken = {name: [] for name in compiled}
    for _ in range(REPEATS):
        for name, f in compiled.items():
            start = time.process_time()
            jax.block_until_ready(f(xs))
            taken[name].append(time.process_time() - start)
    return {name: np.array(t) for name, t in taken.items()}


def ratio(taken, name, baseline):
    """Median over the repeats of the paired ratio."""
    return np.median(taken[name] / taken[baseline])


def main():
    print(f"n = {N}; ratios of CPU time, median of {REPEATS} paired repeats")
    header = f"{'':<14}{'shape':<12}{'row':<14}{'µs':>8}{'/rlax':>8}{'/rlax + trace':>15}"
    print(header + f"{'/V-trace':>10}")
    for logits in (False, True):
        for steps, streams, count in SHAPES:
            count = max(2, count // (8 if logits else 1))
            x = batch(steps, streams, logits=logits)
            xs = jax.tree.map(lambda a, count=count: jnp.stack([a] * count), x)
            taken = seconds(rows(), xs)
            for name, t in taken.items():
                start = f"{'from logits' if logits else 'from ratios':<14}[{steps}, {streams}]"
                print(
                    f"{start:<26}{name:<14}{1e6 * np.median(t) / count:8.1f}"
                    f"{ratio(taken, name, 'rlax'):8.2f}{ratio(taken, name, 'rlax + trace'):15.2f}"
                    f"{ratio(taken, name, 'V-trace'):10.2f}"
                )


if __name__ == "__main__":
    main()
