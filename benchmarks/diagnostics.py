"""Speed of `emphatic diagnose`: updates per CPU-second against a plain NumPy loop, one run.

    python benchmarks/diagnostics.py

An update is one learner (algorithm, n, step size, run) moved by one transition, its RMSE
recorded. The baseline is what one types first: a Python loop over steps, NumPy vectors, the
same MDP, algorithm, n = 1 and error measure, the transitions sampled beforehand. Ours is timed
as the sweep runs it, sampling, traces, errors and curves included, compilation not.

What a step needs. In value space an n-step update of a lane is n + 1 multiply-adds for the
error, S for the rank-one update, 3 S and a square root for the RMSE: about 45 operations for
S = 8, n = 5. A core here does about 16 float64 operations a cycle at 3 GHz, so 1 ns is the
floor; the sweep as a whole comes to 5 to 10 ns. Of that, about 3.5 ns is the step itself, of
which the weighted sum of rows, whose coefficients are broadcast over the step sizes, is more
than half. Random numbers are next to nothing: three per step and run, shared by all lanes.

What was tried. Lanes = runs x step sizes, each with a state of its own: gathers or one-hot
products dominate, 3 to 5 times slower. Lanes = algorithms x step sizes of one run, where the
state is one index for all: rows are read in place. Left alone, XLA fuses the weighted sum into
each of the S rows it updates and works it out S times (20 ns; an optimisation barrier is
removed before fusion): the update is therefore carried to the next step and applied where it
is read (4 ns). Unrolling the scan copies the curve on every step (60 ns). float32 gains a
quarter over float64, so everything is float64. Two threads run two units; XLA's own threads
only get in each other's way on arrays this small.

What it gave on a two-core x86-64 CPU (AMD EPYC) that did nothing else: NETD alone 2,338 times the
NumPy loop on Collision and 2,834 times on Baird, all algorithms, n and step sizes together 693 and
690 times (asked for: 300 and 200). With a load of over 20: 1,433, 1,841, 446 and 529 times.
"""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import time

import numpy as np

from emphatic.diagnostics import problems, streams, sweeps

TARGETS = {"collision-trap": 300, "baird": 200}
"""What is asked for, times the NumPy loop."""

ALGORITHM = "netd"
NUMPY_STEPS = 20_000


def plain_numpy(problem: problems.Problem, steps: int) -> float:
    """CPU-seconds per update of NETD at n = 1, one run, one step size."""
    stream = streams.Stream(
        *(np.asarray(x)[:, 0] for x in streams.sample(0, range(1), problem, steps))
    )
    phi = problem.features(np.random.default_rng(0))
    theta, alpha, decayed = problem.mdp.initial_weights.copy(), 2.0**-12, 0.0
    rmse = np.zeros(steps)
    begin = time.process_time()
    for t in range(steps):
        s, s_next, rho = stream.state_tm1[t], stream.state_t[t], stream.rho_tm1[t]
        emphasis = decayed + 1.0
        decayed = stream.chain_t[t] * rho * emphasis
        delta = stream.reward_t[t] + stream.discount_t[t] * theta @ phi[s_next] - theta @ phi[s]
        theta = theta + alpha * emphasis * rho * delta * phi[s]
        rmse[t] = np.sqrt(problem.weights @ (phi @ theta - problem.values) ** 2)
    return (time.process_time() - begin) / steps


def ours(problem: problems.Problem, **settings) -> float:
    """CPU-seconds per update of a sweep over one unit of runs, after compilation."""
    sweep = sweeps.Sweep(name="bench", problem=problem, runs=50, steps=4999, **settings)
    (unit,) = sweep.units
    sweeps.compute(unit)
    begin = time.process_time()
    sweeps.compute(unit)
    updates = sweep.runs * sweep.steps * len(sweep.plan) * len(sweep.alphas)
    return (time.process_time() - begin) / updates


def main() -> None:
    titles = ("NumPy", "NETD alone", "ratio", "all", "ratio", "asked")
    cells = (title.rjust(width) for title, width in zip(titles, (10, 12, 8, 10, 8, 8), strict=True))
    print("problem".ljust(16) + "".join(cells))
    for name, target in TARGETS.items():
        problem = problems.problem(name)
        slow = plain_numpy(problem, NUMPY_STEPS)
        # The same algorithm and n, on a finer grid of step sizes, to fill the lanes.
        grid = tuple(2.0 ** np.linspace(-14, -2, 1248))
        alone = ours(problem, algorithms=(ALGORITHM,), ns=(1,), alphas=grid, bins=20)
        whole = ours(problem)
        print(
            f"{name:<16}{slow * 1e9:>7.0f} ns{alone * 1e9:>9.2f} ns{slow / alone:>8.0f}"
            f"{whole * 1e9:>7.2f} ns{slow / whole:>8.0f}{target:>8}"
        )


if __name__ == "__main__":
    main()
