"""What an algorithm does on a finite MDP: in expectation, and how its samples scatter.

    expected   kernels, expected emphasis, key matrix, A and b
    analysis   stability, fixed point, errors: `analyse(mdp, "netd", n)`
    sampled    finite variance of the trace, Lyapunov exponent of the sampled update
    census     how often key matrices are indefinite, over random MDPs
    safety     how far μ may move from π before definiteness is lost

NumPy in float64; docs/theory.md has the derivations. Everything stands on the kernel
M_w(s, s') = Σₐ μ(a|s) w(s, a) p(s'|s, a) γ(s, a, s') of one sampled step weighed by w, which
holds the discount: with γ depending on the state, (P Γ)ⁿ is not Pⁿ Γⁿ.
"""

from emphatic.theory.analysis import (
    Analysis,
    Definiteness,
    analyse,
    definiteness,
    fixed_point,
    largest_step_size,
    learned_subspace,
    spectral_radius,
)
from emphatic.theory.expected import (
    Expectation,
    TargetKernels,
    expectation,
    setting,
    state_values,
    target_kernels,
    trace_kernel,
)
from emphatic.theory.safety import Safety, safety_region
from emphatic.theory.sampled import Exponent, Stream, lyapunov, sample, second_moment

__all__ = [
    "Analysis",
    "Definiteness",
    "Expectation",
    "Exponent",
    "Safety",
    "Stream",
    "TargetKernels",
    "analyse",
    "definiteness",
    "expectation",
    "fixed_point",
    "largest_step_size",
    "learned_subspace",
    "lyapunov",
    "safety_region",
    "sample",
    "second_moment",
    "setting",
    "spectral_radius",
    "state_values",
    "target_kernels",
    "trace_kernel",
]
