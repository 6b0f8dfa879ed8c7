"""Emphatic TD in forty lines of NumPy, beside the TD that it repairs.

Two states valued θ and 2θ, no reward, so that θ = 0 is right. π always goes right, to the
second state; μ goes either way. TD diverges at every step size; weighed by F it converges.

    python examples/emphatic_td_in_forty_lines.py
"""

import numpy as np

FEATURES = np.array([1.0, 2.0])
GAMMA, STEP_SIZE, STEPS, RUNS = 0.9, 2.0**-7, 4000, 50


def learn(emphatic: bool, every: int) -> list[float]:
    """The median over runs of |θ|, at every so many steps."""
    rng = np.random.default_rng(0)
    theta, followon = np.ones(RUNS), np.ones(RUNS)
    state, seen = np.zeros(RUNS, int), []
    for step in range(STEPS + 1):
        if step % every == 0:
            seen.append(float(np.median(abs(theta))))
        right = rng.random(RUNS) < 0.5
        rho, after = np.where(right, 2.0, 0.0), right.astype(int)  # ρ = π/μ
        error = GAMMA * theta * FEATURES[after] - theta * FEATURES[state]
        emphasis = followon if emphatic else 1.0
        theta = theta + STEP_SIZE * emphasis * rho * error * FEATURES[state]
        followon = GAMMA * rho * followon + 1  # Fₜ₊₁ = γ ρₜ Fₜ + 1
        state = after
    return seen


def main() -> None:
    """Print both side by side."""
    every = STEPS // 8
    columns = learn(emphatic=False, every=every), learn(emphatic=True, every=every)
    print(f"{'steps':>6}{'TD':>12}{'emphatic TD':>14}")
    for row, (td, emphatic_td) in enumerate(zip(*columns, strict=True)):
        print(f"{row * every:>6}{td:>12.3g}{emphatic_td:>14.3g}")


if __name__ == "__main__":
    main()
