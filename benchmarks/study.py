"""A study of eight short equal runs on this machine: are the cores kept busy?

    python benchmarks/study.py [--quick]

The ratio is wall time over the CPU seconds of all processes divided by the number of cores, with
one process for each core: 1 is every core busy all the time, with nothing left over. It is
measured twice: with an empty cache of compiled programs, and with the one that leaves. On a
machine that does other things too, wall time is theirs as well: the load is printed.

What it gave (`--quick`) on a two-core x86-64 CPU (AMD EPYC) that did nothing else: 1.03 with an
empty cache (57 CPU-seconds), 1.04 with a full one (36). At most 1.15 was asked for.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from emphatic.study import local

RUNS = 8
STEPS = 200_000 if "--quick" in sys.argv else 1_500_000
BOUND = 1.15


def emphatic(*arguments, cache):
    """The command; wall seconds and CPU seconds of it and of all its children."""
    flags = {n: v for n, v in os.environ.items() if n != "XLA_FLAGS"} | {"EMPHATIC_CACHE": cache}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "emphatic", "study", *map(str, arguments)]
    subprocess.run(command, env=flags, check=True, stdout=subprocess.DEVNULL)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return wall, sum(after[:2]) - sum(before[:2])


def main():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    cores = len(local.cores())
    with tempfile.TemporaryDirectory() as home:
        for name in ("cold", "warm"):
            folder, cache = Path(home) / name, str(Path(home) / "cache")
            arguments = ["--envs", "catch", "--agents", "surreal", "--seeds", RUNS]
            emphatic("new", folder, *arguments, "--steps", STEPS, "--episodes", 20, cache=cache)
            load = os.getloadavg()[0]
            wall, cpu = emphatic("run", folder, cache=cache)
            ratio = wall / (cpu / cores)
            print(
                f"{name} cache: {RUNS} runs on {cores} cores: wall {wall:.1f} s, CPU {cpu:.1f} s; "
                f"wall / (CPU / {cores}) = {ratio:.2f} (at most {BOUND} on a machine "
                f"that does nothing else; load when it began: {load:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
