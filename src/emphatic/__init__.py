"""Emphatic algorithms for deep reinforcement learning, in JAX.

The library part is a handful of modules that read left to right:

    ratios ─► traces ──┐
       └────► targets ─┴─► losses

`algorithms.build(name, n)` makes any algorithm of the paper out of them; `theory` says
what it does on a finite MDP.
"""

from emphatic import algorithms, laws, losses, mdp, ratios, targets, theory, traces
from emphatic.errors import UserError

__version__ = "0.1.0"

__all__ = [
    "UserError",
    "algorithms",
    "laws",
    "losses",
    "mdp",
    "ratios",
    "targets",
    "theory",
    "traces",
]
