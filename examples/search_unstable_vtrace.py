"""Search for MDPs on which V-trace and the paper's emphases of it diverge.

    python examples/search_unstable_vtrace.py [number of MDPs] [seed]

Draws MDPs of round numbers and prints the simplest ones where V-trace, NEVtrace and
WEVtrace all have A < 0 while the exact traces have a finite variance. The problems
`rare-exit` and `rare-exit-3` of `emphatic diagnose` were chosen from what this prints.
"""

import sys

import numpy as np

from emphatic import theory
from emphatic.theory import census

PAPER = ("vtrace", "nevtrace", "wevtrace")
EXACT = ("exact-nevtrace", "exact-wevtrace")
SHOWN = 3


def describe(found: census.Found, n: int) -> str:
    """One MDP: where steps lead, which end an episode (!), what π does rarely, A of each."""
    m = found.mdp
    lines = []
    for s in range(m.num_states):
        steps = []
        for a in range(2):
            to = " or ".join(str(x) for x in np.flatnonzero(m.transition[s, a]))
            steps.append(to + ("!" if m.discount[s, a, 0] == 0 else ""))
        lines.append(f"  {s}: φ = {m.features[s, 0]:.0f}, ν = {m.nu()[s]:g}, π to {steps[0]}")
        lines[-1] += f", else to {steps[1]}" if m.nu()[s] < 1 else ""
    values = [f"{x} {theory.analyse(m, x, n).A[0, 0]:.2f}" for x in (*PAPER, *EXACT)]
    return "\n".join([*lines, "  A: " + ", ".join(values)])


def main(count: int = 20_000, seed: int = 0) -> None:
    for n, states in ((1, 2), (2, 3)):
        found, of = census.unstable(np.random.default_rng(seed), count, states, PAPER, n)
        print(f"n = {n}, {states} states: {len(found)} different problems in {of} sound MDPs")
        for f in found[:SHOWN]:
            print(describe(f, n), end="\n\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
