"""A finite MDP with a target policy, a behaviour policy and features."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class MDP:
    """What off-policy prediction needs to know; float64 NumPy arrays throughout."""

    name: str
    transition: np.ndarray
    """p(s'|s, a), `[S, A, S]`; rows sum to 1."""
    reward: np.ndarray
    """r(s, a, s'), `[S, A, S]`."""
    discount: np.ndarray
    """γ on arrival in s' from (s, a), `[S, A, S]`, in [0, 1]; 0 ends an episode."""
    target: np.ndarray
    """π(a|s), `[S, A]`."""
    behaviour: np.ndarray
    """μ(a|s), `[S, A]`; positive wherever π is."""
    features: np.ndarray
    """φ(s), `[S, d]`."""
    initial_weights: np.ndarray
    """Where learning starts, `[d]`."""

    @property
    def num_states(self) -> int:
        """S."""
        return self.transition.shape[0]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.transition.shape[1]

    @property
    def num_features(self) -> int:
        """d."""
        return self.features.shape[1]

    @property
    def rho(self) -> np.ndarray:
        """π/μ, `[S, A]`; 0 where neither acts."""
        never = self.target == 0
        return np.where(never, 0.0, self.target / np.where(never, 1.0, self.behaviour))

    def nu(self, clip_rho: float = 1.0) -> np.ndarray:
        """ν(s) = Σₐ min(ρ̄ μ(a|s), π(a|s)), `[S]`."""
        if np.isinf(clip_rho):
            return self.target.sum(1)
        return np.minimum(clip_rho * self.behaviour, self.target).sum(1)

    def discounted(self, weight: np.ndarray) -> np.ndarray:
        """M(s, s') = Σₐ μ(a|s) w(s, a) p(s'|s, a) γ(s, a, s'): one step of the sampled process."""
        return np.einsum(
            "sa,sa,sax,sax->sx", self.behaviour, weight, self.transition, self.discount
        )
