"""Anakin on MinAtar Breakout, as ratios measured in one run.

    python benchmarks/anakin.py [--quick]

- Whole loop: agent steps per CPU-second of `netd-ace` with the MinAtar preset, and the
  share it reaches of what its parts cost in series when each is timed alone (the learner's
  update, the environment's steps, acting), interleaved with it.
- `netd-ace`'s loop against `surreal`'s: what the emphasis costs.
- The loop's arithmetic against a plain 512 x 512 product's, interleaved: a step forwards one
  observation to act and (T + n)/T = 2 to learn, and goes back at twice a forward, 5 x 0.437
  MFLOP by docs/cost-model.md. A rate per CPU-second falls with what else a machine
  does, this share much less.
- Time from the start of a process to the end of its first call, compilation cached.

What it gave on a two-core x86-64 CPU (AMD EPYC) that did nothing else, where a plain product ran
at 235 GFLOP/s: 56,200 steps per CPU-second, a share of 0.52; the loop at 0.996 of its parts in
series (asked for: 0.9); emphasis 1.0% of an update (3%); 4.0 seconds for a process with a warm
cache (10), 9.4 with a cold one. Asked for were 75,000 steps: not reached. An update alone runs at
83,500, acting at 203,000, the environment at 1.3 million. With both cores, as `make run` has
them, 92,000 steps a second go by on the clock. With a load of over 20 it was 23,000 to 27,000.

Where a step's 37 to 44 microseconds went: acting 7, the environment 1, the forward pass of the
n look-ahead states 6, the gradient of the T learned ones 16; the rest, a fifth to a third,
are targets, traces, RMSProp and what is logged: many small operations.
"""

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")

import subprocess
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

from emphatic import envs
from emphatic.agent import learner as learners
from emphatic.agent import presets
from emphatic.agent.learner import Trajectory
from emphatic.agent.surreal import Transitions
from emphatic.runtime import anakin

UPDATES = 100
STEP = 5 * 0.437e6
"""Floating-point operations of an agent step."""
SIDE, PRODUCTS = 512, 200
QUICK = "--quick" in sys.argv
REPEATS = 3 if QUICK else 9


def build(agent):
    """Learner, environment and runtime of an agent."""
    environment = envs.make("minatar/breakout")
    learner = learners.build(
        presets.minatar(agent),
        num_actions=environment.num_actions,
        observation_shape=environment.observation_shape,
        observation_dtype=environment.observation_dtype,
        num_updates=10_000,
    )
    return learner, environment, anakin.build(learner, environment)


def whole(agent):
    """UPDATES updates of the whole loop."""
    _, _, runtime = build(agent)
    state = [runtime.init(jax.random.key(0))]

    def call():
        state[0], report = runtime.run(state[0], UPDATES)
        jax.block_until_ready(report)

    return call


def update_alone(agent):
    """UPDATES updates on one trajectory, inside one call."""
    learner, environment, _ = build(agent)
    config = learner.config
    shape = (config.unroll_length, config.num_streams)
    rng = np.random.default_rng(0)
    observed = (shape[0] + 1, shape[1], *environment.observation_shape)
    trajectory = Trajectory(
        jnp.asarray(rng.random(observed) < 0.05),
        Transitions(
            jnp.asarray(rng.integers(0, environment.num_actions, shape), jnp.int32),
            jnp.asarray(rng.normal(size=shape), jnp.float32),
            jnp.asarray(rng.random(shape) > 0.05, jnp.float32),
            jnp.ones(shape),
            jnp.asarray(rng.normal(size=(*shape, environment.num_actions)), jnp.float32),
        ),
    )

    @jax.jit
    def run(state, trajectory):
        return jax.lax.scan(lambda s, _: learner.update(s, trajectory), state, length=UPDATES)

    state = jax.jit(learner.init)(jax.random.key(0))
    return lambda: jax.block_until_ready(run(state, trajectory))


def environment_alone(agent):
    """The steps of the environments that UPDATES updates need, with random actions."""
    learner, environment, _ = build(agent)
    streams, steps = learner.config.num_streams, learner.config.unroll_length
    state, _ = jax.vmap(environment.init)(jax.random.split(jax.random.key(0), streams))
    step = jax.vmap(environment.step)

    @jax.jit
    def run(state, key):
        actions = jax.random.randint(key, (UPDATES * steps, streams), 0, environment.num_actions)

        def one(state, action):
            state, seen = step(state, action)
            return state, (seen.reward, seen.observation.sum())

        return jax.lax.scan(one, state, actions)

    return lambda: jax.block_until_ready(run(state, jax.random.key(1)))


def acting_alone(agent):
    """The choices of actions that UPDATES updates need."""
    learner, environment, _ = build(agent)
    streams, steps = learner.config.num_streams, learner.config.unroll_length
    params = learner.init(jax.random.key(0)).params
    rng = np.random.default_rng(0)
    seen = jnp.asarray(rng.random((streams, *environment.observation_shape)) < 0.05)

    @jax.jit
    def run(params, key):
        def one(carry, _):
            key, observation = carry
            key, act_key = jax.random.split(key)
            action, logits = learner.act(params, observation, act_key)
            # The next observation hangs on the action, so that no step can be left out.
            return (key, jnp.roll(observation, action[0], axis=1)), logits[0, 0]

        return jax.lax.scan(one, (key, seen), length=UPDATES * steps)

    return lambda: jax.block_until_ready(run(params, jax.random.key(0)))


def product():
    """A plain product of matrices, PRODUCTS times: 2 SIDE³ operations each."""
    matrix = jnp.asarray(np.random.default_rng(0).normal(size=(SIDE, SIDE)), jnp.float32) / SIDE

    @jax.jit
    def run(matrix):
        return jax.lax.scan(lambda x, _: (x @ matrix, None), matrix, length=PRODUCTS)[0]

    return lambda: jax.block_until_ready(run(matrix))


def cpu_seconds(calls):
    """Of each call, interleaved, `REPEATS` times."""
    for call in calls.values():
        call()
    taken = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            taken[name].append(time.process_time() - start)
    return {name: np.array(t) for name, t in taken.items()}


def first_update():
    """Wall seconds of two processes that train one call each: cold cache, then warm."""
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for run in ("cold", "warm"):
            command = [sys.executable, "-m", "emphatic", "train", "--steps", "32000"]
            command += ["--out", f"{folder}/{run}"]
            environment = {**os.environ, "EMPHATIC_CACHE": f"{folder}/cache"}
            start = time.perf_counter()
            subprocess.run(command, env=environment, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        return times


def main():
    learner, _, _ = build("netd-ace")
    steps = UPDATES * learner.config.steps_per_update
    taken = cpu_seconds(
        {
            "netd-ace": whole("netd-ace"),
            "surreal": whole("surreal"),
            "update": update_alone("netd-ace"),
            "surreal update": update_alone("surreal"),
            "environment": environment_alone("netd-ace"),
            "acting": acting_alone("netd-ace"),
            "product": product(),
        }
    )
    products = taken.pop("product")
    for name, t in taken.items():
        print(f"{name:<16}{steps / np.median(t):>12,.0f} agent steps per CPU-second")
    series = taken["update"] + taken["environment"] + taken["acting"]
    plain = PRODUCTS * 2 * SIDE**3 / products
    share = np.median(steps * STEP / taken["netd-ace"] / plain)
    print(
        f"loop's arithmetic / plain product's  {share:.3f} of {np.median(plain) / 1e9:.0f} GFLOP/s"
    )
    print(f"parts in series / whole loop  {np.median(series / taken['netd-ace']):.3f}")
    print(f"netd-ace / surreal, loop      {np.median(taken['netd-ace'] / taken['surreal']):.3f}")
    ratio = np.median(taken["update"] / taken["surreal update"])
    print(f"netd-ace / surreal, update    {ratio:.3f}")
    if not QUICK:
        cold, warm = first_update()
        print(f"process with 100 updates: cold cache {cold:.1f} s, warm {warm:.1f} s")


if __name__ == "__main__":
    main()
