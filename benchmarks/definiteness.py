"""Indefinite key matrices in random MDPs: ours beside the paper's algorithms.

    python benchmarks/definiteness.py [number of MDPs]

Every algorithm at n = 1, 2, 5, 10; those that clip, at all of `census.CLIPS`. A key matrix
that is not positive definite is unstable with some features.
"""

import sys
import time

import numpy as np

from emphatic import algorithms
from emphatic.theory import census

LENGTHS = (1, 2, 5, 10)


def count(names: tuple[str, ...], mdps: int, seed: int = 0) -> dict[str, tuple[list[int], int]]:
    """Indefinite matrices by n, and out of how many, for each algorithm."""
    batches = list(census.random_mdps(np.random.default_rng(seed), mdps))
    table = {}
    for name in names:
        clips = census.CLIPS if algorithms.row(name).target == "vtrace" else ({},)
        bad = [
            sum(census.indefinite(batch, name, n, **clip) for batch in batches for clip in clips)
            for n in LENGTHS
        ]
        table[name] = (bad, mdps * len(clips))
    return table


def render(table: dict[str, tuple[list[int], int]]) -> str:
    lines = [f"{'indefinite at n =':<20}" + "".join(f"{n:>8}" for n in LENGTHS) + f"{'of':>10}"]
    for name, (bad, total) in table.items():
        lines.append(f"{name:<20}" + "".join(f"{x:>8}" for x in bad) + f"{total:>10}")
    return "\n".join(lines)


def main() -> None:
    mdps = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    start = time.perf_counter()
    table = count(algorithms.NAMES, mdps)
    print(render(table))
    print(f"{mdps} random MDPs in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
