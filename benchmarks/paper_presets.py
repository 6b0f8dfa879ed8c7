"""The paper's presets at full size: time and memory of an update, against the cost model.

    python benchmarks/paper_presets.py [fixed] [mixed] [--updates 2]

Observations are random bytes of 210 x 160 x 12 (RGB, four frames stacked). The ratio printed is the
floating-point rate of the update, by the cost model's count of its operations, over that of
a plain matrix product measured in the same run.
"""

import argparse
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.agent import learner as learners
from emphatic.agent import presets
from emphatic.agent.learner import Trajectory
from emphatic.agent.surreal import Transitions

SHAPE, NUM_ACTIONS = (210, 160, 12), 6
FORWARD = 8.119e9
"""Floating-point operations of one observation forward: docs/cost-model.md."""


def trajectory(config, seed):
    """T random transitions of every stream."""
    rng = np.random.default_rng(seed)
    shape = (config.unroll_length, config.num_streams)
    pixels = rng.integers(0, 256, (shape[0] + 1, shape[1], *SHAPE), np.uint8)
    return Trajectory(
        jnp.asarray(pixels),
        Transitions(
            jnp.asarray(rng.integers(0, NUM_ACTIONS, shape), jnp.int32),
            jnp.asarray(rng.normal(size=shape), jnp.float32),
            jnp.asarray(rng.random(shape) > 0.01, jnp.float32),
            jnp.ones(shape),
            jnp.zeros((*shape, NUM_ACTIONS)),
        ),
    )


def operations(config):
    """Of an update: learned states forward and backward, the rest forward only.

    On a CPU the backward pass repeats the forward pass, for lack of memory.
    """
    recompute = config.network.recompute
    if recompute is None:
        recompute = jax.default_backend() == "cpu" and config.network.architecture.recompute
    learned = config.unroll_length * config.num_streams
    beyond = (config.lookahead + 1) * config.num_streams
    return FORWARD * ((4 if recompute else 3) * learned + beyond)


def product_rate(size=4096):
    """Operations per second of a plain float32 matrix product."""
    a = jnp.ones((size, size))
    multiply = jax.jit(lambda a: a @ a)
    jax.block_until_ready(multiply(a))
    start = time.perf_counter()
    for _ in range(5):
        out = multiply(a)
    jax.block_until_ready(out)
    return 5 * 2 * size**3 / (time.perf_counter() - start)


def measure(name, updates):
    """Print what a preset costs."""
    config = {"fixed": presets.paper_fixed, "mixed": presets.paper_mixed}[name]()
    learner = learners.build(
        config,
        num_actions=NUM_ACTIONS,
        observation_shape=SHAPE,
        observation_dtype=np.uint8,
        num_updates=1000,
    )
    state = jax.jit(learner.init)(jax.random.key(0))
    count = sum(x.size for x in jax.tree.leaves(state.params))
    update, act = jax.jit(learner.update, donate_argnums=0), jax.jit(learner.act)
    seen = trajectory(config, 0).observation[0]
    jax.block_until_ready(act(state.params, seen, jax.random.key(1)))
    seconds = []
    for k in range(updates + 1):
        batch = trajectory(config, k)
        start = time.perf_counter()
        state, metrics = update(state, batch)
        norm = float(metrics["gradient_norm"])
        seconds.append(time.perf_counter() - start)
        assert np.isfinite(norm)
    best = min(seconds[1:])
    rate = operations(config) / best
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{config.agent}, {name}: {count:,} parameters, {best:.2f} s per update "
        f"({config.steps_per_update / best:.1f} agent steps/s; first {seconds[0]:.1f} s with "
        f"compilation), {rate / 1e9:,.0f} GFLOP/s = {rate / product_rate():.2f} of a matrix "
        f"product, peak host memory {memory:.1f} GiB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", default=["fixed", "mixed"])
    parser.add_argument("--updates", type=int, default=2)
    arguments = parser.parse_args()
    print(jax.devices()[0].device_kind, jax.__version__)
    for name in arguments.presets:
        measure(name, arguments.updates)


if __name__ == "__main__":
    main()
