"""On an accelerator: agreement with the CPU, and Anakin's throughput over the number of streams.

    python benchmarks/accelerator.py

- Every algorithm of the table on one batch, on this device and on the CPU: the worst
  relative difference of emphasis, target and advantage.
- MinAtar Breakout with the MinAtar preset: agent steps per second for 32 streams (the
  preset) and more, each as a ratio to 32 streams of `surreal`, and to `surreal` at the
  same number.
"""

import dataclasses
import time

import jax
import numpy as np

from emphatic import algorithms
from emphatic.agent import presets
from emphatic.runtime import training
from emphatic.runtime.settings import TrainConfig

STREAMS = (32, 1024, 8192)
AGENTS = ("surreal", "netd-ace", "exact-nevtrace-ace")
UPDATES = 50


def worst_difference():
    """Over every algorithm and n in 1, 5, 10; relative to the value, or to 0.001."""
    rng = np.random.default_rng(0)
    shape = (203, 64)
    numbers = (
        rng.gamma(1.0, 1.0, shape),
        0.97 * (rng.random(shape) > 0.03),
        rng.uniform(0.4, 1.0, shape),
        rng.normal(size=(shape[0] + 1, shape[1])),
        rng.normal(size=shape),
    )
    numbers = tuple(x.astype(np.float32) for x in numbers)
    worst = 0.0
    for n in (1, 5, 10):
        for algorithm in algorithms.table(n).values():

            def compute(rho, discount, nu, value, reward, algorithm=algorithm):
                start = algorithm.trace.init(rho.shape[1:])
                _, emphasis = algorithm.trace.update(start, rho, discount, nu)
                return emphasis, *algorithm.target(value[:-1], value[1:], reward, discount, rho)

            here, there = (
                jax.tree.map(np.asarray, jax.jit(compute)(*jax.device_put(numbers, device)))
                for device in (jax.devices()[0], jax.devices("cpu")[0])
            )
            for a, b in zip(here, there, strict=True):
                worst = max(worst, float((np.abs(a - b) / (1e-3 + np.abs(b))).max()))
    return worst


def steps_per_second(agent, streams):
    """Of the whole loop, the best of four calls."""
    learner = dataclasses.replace(presets.minatar(agent), num_streams=streams)
    config = TrainConfig(env="minatar/breakout", learner=learner, steps=10**9)
    runtime = training.runtime_of(config, training.parts(config), print)
    state = runtime.init(jax.random.key(0))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        state, report = runtime.run(state, UPDATES)
        jax.block_until_ready(report)
        seconds.append(time.perf_counter() - start)
    return UPDATES * config.learner.steps_per_update / min(seconds[1:])


def main():
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    print(f"worst relative difference from the CPU: {worst_difference():.1e}")
    surreal = {}
    for streams in STREAMS:
        for agent in AGENTS:
            rate = steps_per_second(agent, streams)
            surreal.setdefault(streams, rate)
            print(
                f"{agent:<20}{streams:>6} streams{rate:>14,.0f} agent steps/s"
                f"{rate / surreal[STREAMS[0]]:>8.1f} x surreal at {STREAMS[0]}"
                f"{rate / surreal[streams]:>7.3f} x surreal",
                flush=True,
            )


if __name__ == "__main__":
    main()
