"""The paper's three small problems, and ours on which V-trace's emphases fail.

The paper's are two states, Baird's counterexample and Collision; ours have a ν that is
small in one state (`rare_exit`, `rare_loop`).

An `mdp.MDP` says what is learned and from what behaviour. A `Problem` adds what only a
sampled run has: where episodes start, after how many steps they are cut, how errors are
weighed, and features that are drawn anew for every run.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Literal

import numpy as np

from emphatic import chains, mdp
from emphatic.errors import UserError

Cut = Literal["truncation", "termination"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """An MDP, and how it is run."""

    mdp: mdp.MDP
    start: np.ndarray
    """Distribution of the first state of a stream and of every episode after a cut, `[S]`."""
    limit: int | None = None
    """Steps after which an episode is cut; None: never, episodes end only where γ = 0."""
    cut: Cut = "truncation"
    """A cut episode bootstraps from its last observation, or counts as ended there."""
    draw_features: Callable[[np.random.Generator], np.ndarray] | None = None
    """Features `[S, d]` of one run; None: those of the MDP in every run."""

    @property
    def name(self) -> str:
        """The MDP's."""
        return self.mdp.name

    @functools.cached_property
    def values(self) -> np.ndarray:
        """v_π of the process without the limit: v = r_π + P_πΓ v, `[S]`."""
        m = self.mdp
        kernel, reward = m.discounted(m.rho), m.expected_reward(m.rho)
        return np.linalg.solve(np.eye(m.num_states) - kernel, reward)

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """d_μ, how often each state is acted in, `[S]`: what errors are weighed with.

        Without a limit the stationary distribution; with one the mean of the
        distributions of the episode's first `limit` states.
        """
        step = self.mdp.chain(self.mdp.behaviour)
        if self.limit is None:
            return chains.stationary(step)
        visits = itertools.accumulate(
            range(self.limit - 1), lambda d, _: d @ step, initial=self.start
        )
        return np.mean(list(visits), axis=0)

    def features(self, rng: np.random.Generator) -> np.ndarray:
        """Features of one run, `[S, d]`."""
        return self.mdp.features if self.draw_features is None else self.draw_features(rng)


def two_state() -> mdp.MDP:
    """Two states valued θ and 2θ; π always goes right, μ either way. v_π = 0.

    Jiang et al. 2021, Fig. "2state_mdp"; θ starts at 1, which the paper does not say.
    """
    transition = np.zeros((2, 2, 2))
    transition[:, 0, 0] = transition[:, 1, 1] = 1.0
    return mdp.MDP(
        name="two-state",
        transition=transition,
        reward=np.zeros((2, 2, 2)),
        discount=np.full((2, 2, 2), 0.9),
        target=np.array([[0.0, 1.0]] * 2),
        behaviour=np.full((2, 2), 0.5),
        features=np.array([[1.0], [2.0]]),
        initial_weights=np.ones(1),
    )


def baird() -> mdp.MDP:
    """Baird's counterexample with γ = 0.9: π goes down, μ up six times in seven. v_π = 0.

    Jiang et al. 2021, Fig. "baird_mdp"; initial weights of Sutton & Barto 2018, sec. 11.2.
    """
    transition = np.zeros((7, 2, 7))
    transition[:, 0, :6] = 1 / 6
    transition[:, 1, 6] = 1.0
    features = np.zeros((7, 8))
    features[np.arange(6), np.arange(6)] = 2.0
    features[:6, 7] = 1.0
    features[6, 6:] = 1.0, 2.0
    return mdp.MDP(
        name="baird",
        transition=transition,
        reward=np.zeros((7, 2, 7)),
        discount=np.full((7, 2, 7), 0.9),
        target=np.array([[0.0, 1.0]] * 7),
        behaviour=np.array([[6 / 7, 1 / 7]] * 7),
        features=features,
        initial_weights=np.array([1.0] * 6 + [10.0, 1.0]),
    )


CORRIDOR = 8
"""States of Collision's corridor; the first half is the start area."""


def collision_trap(loop_reward: float = 0.0) -> mdp.MDP:
    """Collision as the paper draws it: S₉ traps, and only S₈ → S₉ pays.

    `loop_reward` is what S₉'s self-loop pays: the paper's "the transition into the last
    state S₉" may be read to include it. Without the limit of 100 steps, which is the
    `Problem`'s, all of the stationary distribution lies on S₉.
    """
    transition = np.zeros((CORRIDOR + 1, 2, CORRIDOR + 1))
    transition[:, 0, :4] = 1 / 4
    transition[np.arange(CORRIDOR), 1, np.arange(CORRIDOR) + 1] = 1.0
    transition[CORRIDOR, :, :] = np.eye(CORRIDOR + 1)[CORRIDOR]
    reward = np.zeros_like(transition)
    reward[CORRIDOR - 1, 1, CORRIDOR] = 1.0
    reward[CORRIDOR, :, CORRIDOR] = loop_reward
    name = "collision-trap-r1" if loop_reward else "collision-trap"
    return _collision(name, transition, reward, np.full_like(transition, 0.9))


def collision_restart() -> mdp.MDP:
    """Collision as first published: eight states; reaching the end pays 1 and starts anew.

    Ghiassian et al. 2018, "Online off-policy prediction".
    """
    transition = np.zeros((CORRIDOR, 2, CORRIDOR))
    transition[:, 0, :4] = 1 / 4
    transition[np.arange(CORRIDOR - 1), 1, np.arange(CORRIDOR - 1) + 1] = 1.0
    transition[CORRIDOR - 1, 1, :4] = 1 / 4
    reward, discount = np.zeros_like(transition), np.full_like(transition, 0.9)
    reward[CORRIDOR - 1, 1] = 1.0
    discount[CORRIDOR - 1, 1] = 0.0
    return _collision("collision-restart", transition, reward, discount)


def _collision(
    name: str, transition: np.ndarray, reward: np.ndarray, discount: np.ndarray
) -> mdp.MDP:
    """Both forms share policies (retreat, forward), features and weights."""
    states = len(transition)
    behaviour = np.array([[0.0, 1.0]] * states)
    behaviour[CORRIDOR // 2 : CORRIDOR] = 0.5
    return mdp.MDP(
        name=name,
        transition=transition,
        reward=reward,
        discount=discount,
        target=np.array([[0.0, 1.0]] * states),
        behaviour=behaviour,
        features=three_of_six(states)(np.random.default_rng(0)),
        initial_weights=np.zeros(6),
    )


def three_of_six(states: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Draws a different one of the 20 codes of three ones in six bits for every state.

    Ghiassian et al. 2018; the paper says only "significant generalization".
    """
    codes = np.array([c for c in itertools.product((0.0, 1.0), repeat=6) if sum(c) == 3])

    def draw(rng: np.random.Generator) -> np.ndarray:
        return rng.choice(codes, size=states, replace=False)

    return draw


RARE = 1 / 20
"""How often μ takes the action that π always takes, in the one state where they differ."""


def rare_exit() -> mdp.MDP:
    """Episodes of two steps; in the second π and μ act differently, and ν = 1/20. v_π = 0.

    Both policies visit both states equally often, so TD is stable; V-trace, NEVtrace and
    WEVtrace at n = 1 are not: docs/state-dependent-nu.md.
    """
    return _corridor("rare-exit", start=[1.0, 0.0], features=[1.0, 3.0])


def rare_exit_3() -> mdp.MDP:
    """The same with three states, begun in the first or second: for every n up to 3, and more.

    Begun in either, windows of any length n meet all states at all places.
    """
    return _corridor("rare-exit-3", start=[0.5, 0.5, 0.0], features=[1.0, 1.0, 3.0])


def _corridor(name: str, start: list[float], features: list[float]) -> mdp.MDP:
    """One state after the other, whatever is done; after the last one γ = 0."""
    states = len(features)
    transition = np.zeros((states, 2, states))
    transition[np.arange(states - 1), :, np.arange(1, states)] = 1.0
    transition[-1] = start
    discount = np.ones_like(transition)
    discount[-1] = 0.0
    return _seldom(name, transition, discount, np.array(features)[:, None])


def rare_loop() -> mdp.MDP:
    """Two states in turn without end, γ = 0.9: as `rare_exit`, but no trace has a variance.

    The states are in `rare_exit`'s order, the last one being where π and μ differ.
    """
    transition = np.zeros((2, 2, 2))
    transition[0, :, 1] = transition[1, :, 0] = 1.0
    return _seldom("rare-loop", transition, np.full((2, 2, 2), 0.9), np.array([[1.0], [3.0]]))


def _seldom(
    name: str, transition: np.ndarray, discount: np.ndarray, features: np.ndarray
) -> mdp.MDP:
    """π always takes action 0; so does μ, except in the last state."""
    states = len(transition)
    behaviour = np.array([[1.0, 0.0]] * states)
    behaviour[-1] = RARE, 1 - RARE
    return mdp.MDP(
        name=name,
        transition=transition,
        reward=np.zeros_like(transition),
        discount=discount,
        target=np.array([[1.0, 0.0]] * states),
        behaviour=behaviour,
        features=features,
        initial_weights=np.ones(features.shape[1]),
    )


def named() -> dict[str, Callable[[], mdp.MDP]]:
    """The MDPs that can be asked for by name."""
    return {
        "two-state": two_state,
        "baird": baird,
        "collision-trap": collision_trap,
        "collision-trap-r1": functools.partial(collision_trap, 1.0),
        "collision-restart": collision_restart,
        "rare-exit": rare_exit,
        "rare-exit-3": rare_exit_3,
        "rare-loop": rare_loop,
    }


def problem(name: str) -> Problem:
    """The problem of that name as the paper runs it.

    `collision` is `collision-trap`; `collision-termination` is the same with γ = 0 at the
    limit, the other reading of "terminates after 100 time steps".
    """
    name = {"collision": "collision-trap"}.get(name, name)
    if name == "collision-termination":
        m = dataclasses.replace(collision_trap(), name=name)
        return _limited(m, limit=100, cut="termination")
    if name not in named():
        names = ", ".join((*named(), "collision-termination"))
        raise UserError("problem", f"none is named {name!r}; choose from {names}")
    m = named()[name]()
    if name.startswith("collision"):
        return _limited(m, limit=None if name == "collision-restart" else 100)
    return of_mdp(m)


def _limited(m: mdp.MDP, *, limit: int | None, cut: Cut = "truncation") -> Problem:
    """Collision: episodes start in the start area, features are drawn for each run."""
    return Problem(
        mdp=m,
        start=np.where(np.arange(m.num_states) < CORRIDOR // 2, 2 / CORRIDOR, 0.0),
        limit=limit,
        cut=cut,
        draw_features=three_of_six(m.num_states),
    )


def of_mdp(m: mdp.MDP) -> Problem:
    """Any other MDP: one stream without a limit, begun in a random state."""
    return Problem(mdp=m, start=np.full(m.num_states, 1 / m.num_states))
