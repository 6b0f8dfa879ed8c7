"""Write a trace of your own and apply the whole battery of laws to it.

The trace: NETD with an interest that fades during an episode,

    Fₜ = ∏ᵢ₌₁ⁿ (γₜ₋ᵢ₊₁ ρₜ₋ᵢ) Fₜ₋ₙ + κᵃ,   a = steps since the episode started

so that what matters is to be right about the states near the start (κ = 1 is NETD, κ = 0
leaves only what the start states depend on). Its state is the n sums under way, oldest first,
each already multiplied by the decays it has met, and the interest of the next state.

A second version forgets that an episode may end: the battery says so.

    python examples/your_own_trace.py
"""

import jax
import jax.numpy as jnp

from emphatic import laws, traces


def fading(n: int, fade: float, forgets_ends: bool = False) -> traces.Trace:
    """NETD with interest `fade` to the power of the episode's age."""

    def init(batch_shape, dtype=jnp.float32):
        return jnp.zeros((n, *batch_shape), dtype), jnp.ones(batch_shape, dtype)

    def step(state, transition):
        under_way, interest = state
        rho, discount = transition
        followon = under_way[0] + interest
        under_way = jnp.concatenate([under_way[1:], followon[None]]) * (discount * rho)[None]
        older = fade * interest
        interest = older if forgets_ends else jnp.where(discount == 0, 1.0, older)
        return (under_way, interest), followon

    def update(state, rho_tm1, discount_t, nu_tm1=None):
        inputs = jax.lax.stop_gradient((rho_tm1, discount_t))
        return jax.lax.scan(step, state, inputs)

    return traces.Trace(init, update)


def main() -> None:
    """Run the battery on both versions."""
    laws.check(fading(n=3, fade=0.8))
    print(f"fading(n=3, fade=0.8) obeys all {len(laws.LAWS)} laws")
    for law in laws.LAWS:
        print(f"  {law.__name__:<24} {law.__doc__.splitlines()[0]}")
    try:
        laws.check(fading(n=3, fade=0.8, forgets_ends=True))
    except laws.LawError as broken:
        print(f"without ends, broken: {broken}")


if __name__ == "__main__":
    main()
