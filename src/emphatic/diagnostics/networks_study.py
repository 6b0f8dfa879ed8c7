"""Off-policy evaluation with networks: problems x networks x optimisers x seeds.

A unit is a block of seeds of one problem and network; it holds every algorithm, step size
and optimiser on the same streams, so comparisons are paired. Units are kept as they are
completed, and a study that was interrupted goes on where it stopped.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from emphatic import algorithms, theory
from emphatic.diagnostics import garnets, networks, streams, sweeps
from emphatic.diagnostics.problems import Problem, problem
from emphatic.theory.analysis import target_distribution

GARNETS = {
    "garnet-50": (50, 1.0),
    "garnet-100": (100, 1.0),
    "garnet-100-near": (100, 0.2),
}
"""Families of random problems: states, and how far at most μ goes its own way."""
PROBLEMS = ("baird", "collision-trap", *GARNETS)

FIXED = ("td", "vtrace", "netd", "clip-netd", "nevtrace", "exact-nevtrace")
MIXED = ("td-mixed", "vtrace-mixed", "wetd", "wevtrace", "exact-wevtrace")
LANES = tuple(networks.Lane(name, 1) for name in FIXED) + tuple(
    networks.Lane(name, 5) for name in (*FIXED, *MIXED)
)
"""At n = 1 both schemes and both of each pair of traces are one algorithm."""

MODELS = {"linear": (), "mlp": (16, 16)}
"""Hidden layers."""

LARGER = 32.0
"""Factor of the step sizes on problems that are no garnets."""

BLOCK = 5
"""Seeds of a unit."""
CHUNK = 100
"""Updates in one compiled call."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """The whole experiment; `quick` makes a small one."""

    name: str = "networks"
    problems: tuple[str, ...] = PROBLEMS
    models: tuple[str, ...] = tuple(MODELS)
    lanes: tuple[networks.Lane, ...] = LANES
    sgd: tuple[float, ...] = tuple(2.0**i for i in range(-14, 1))
    """Step sizes of plain gradient descent."""
    rmsprop: tuple[float, ...] = tuple(2.0**i for i in range(-12, 0))
    """Learning rates of the agent's optimiser, at the start of its schedule."""
    seeds: int = 100
    """Fifty to choose step sizes on, fifty to judge by, and the reverse: some 26 CPU-minutes."""
    streams: int = 8
    updates: int = 1000
    bins: int = 50
    """Points of a learning curve, each the mean over as many updates."""

    def alphas(self, problem: str, optimiser: str) -> np.ndarray:
        """Step sizes; larger on the paper's problems, whose best ones are."""
        larger = 1.0 if problem in GARNETS else LARGER
        return larger * np.array(getattr(self, optimiser))

    def config(self) -> dict:
        """What the results depend on, for config.json."""
        shape = {"unroll": networks.UNROLL, "limit": networks.LIMIT, "hidden": MODELS}
        shape |= {"larger": LARGER, "garnets": GARNETS}
        return dataclasses.asdict(self) | shape

    @property
    def units(self) -> list["Unit"]:
        """Every problem's first seeds first."""
        blocks = [range(i, min(i + BLOCK, self.seeds)) for i in range(0, self.seeds, BLOCK)]
        return [
            Unit(self, name, model, block)
            for block in blocks
            for name in self.problems
            for model in self.models
        ]


def quick() -> Study:
    """Less than a minute: three problems, the network alone, few seeds and step sizes."""
    return Study(
        problems=("baird", "collision-trap", "garnet-50"),
        models=("mlp",),
        sgd=tuple(2.0**i for i in range(-12, 1, 4)),
        rmsprop=tuple(2.0**i for i in range(-13, 0, 4)),
        seeds=6,
        updates=500,
    )


@dataclasses.dataclass(frozen=True)
class Unit:
    """A block of seeds of one problem and network."""

    study: Study
    problem: str
    model: str
    seeds: range

    @property
    def chunks(self) -> int:
        """Compiled calls it takes."""
        return len(self.seeds) * (self.study.updates // CHUNK)

    def path(self, folder: pathlib.Path) -> pathlib.Path:
        """Where it is kept."""
        seeds = f"{self.seeds.start:03d}-{self.seeds.stop:03d}"
        return folder / "units" / f"{self.problem}-{self.model}-{seeds}.npz"


def member(name: str, seed: int) -> Problem:
    """The problem of one seed: of a garnet family a member of its own."""
    if name in GARNETS:
        return garnets.garnet(np.random.default_rng([seed, 0]), *GARNETS[name])
    return problem(name)


def compute(unit: Unit, tick: Callable[[], None] = lambda: None) -> dict[str, np.ndarray]:
    """Mean RMSE of each bin by optimiser, `[seeds, G, w, L, A]`; what diverged, `[seeds, L, A]`;
    what V-trace cannot avoid (`bias`, `[seeds, w]`), and the error of the network before learning
    (`start`, the same).
    """
    found = [_one_seed(unit, seed, tick) for seed in unit.seeds]
    return {key: np.stack([one[key] for one in found]) for key in found[0]}


def _one_seed(unit: Unit, seed: int, tick: Callable[[], None]) -> dict[str, np.ndarray]:
    study, subject = unit.study, member(unit.problem, seed)
    case = _case(subject, seed)
    params = _params(subject, case, MODELS[unit.model], seed)
    alphas = {
        name: jnp.asarray(study.alphas(unit.problem, name), jnp.float32)
        for name in networks.OPTIMISERS
    }
    learners = networks.start(study.lanes, params, {k: len(a) for k, a in alphas.items()})
    states = networks.trace_states(study.lanes, study.streams)
    errors = []
    for stretch in _stretches(study, subject, seed):
        learners, states, error = networks.advance(
            study.lanes,
            learners,
            states,
            case,
            stretch,
            alphas,
            updates=CHUNK,
            total=study.updates,
        )
        errors.append(jax.tree.map(np.asarray, error))
        tick()
    curves = {
        name: np.concatenate([e[name] for e in errors]).astype(np.float32)
        for name in networks.OPTIMISERS
    }
    out = {name: _binned(curve, study.bins) for name, curve in curves.items()}
    for name in networks.OPTIMISERS:
        out[f"{name}_diverged"] = np.asarray(networks.diverged(learners[name], case))
    return out | {"bias": _bias(subject, case), "start": curves["sgd"][0, :, 0, 0]}


def _params(
    subject: Problem, case: networks.Case, hidden: tuple[int, ...], seed: int
) -> networks.Params:
    """A random network; a linear one begins where the problem's linear learners do."""
    if not hidden:
        return networks.linear(jnp.asarray(subject.mdp.initial_weights, jnp.float32))
    return networks.init(jax.random.key(seed), (case.inputs.shape[1], *hidden, 1))


def _case(subject: Problem, seed: int) -> networks.Case:
    """Features are drawn from the seed; errors are weighed by d_μ and by d_π."""
    d_pi = target_distribution(subject.mdp)
    assert d_pi is not None
    features = subject.features(np.random.default_rng([seed, 1]))
    weights = np.stack([subject.weights, d_pi])
    return networks.Case(
        *(jnp.asarray(x, jnp.float32) for x in (features, subject.values, weights))
    )


def _stretches(study: Study, subject: Problem, seed: int) -> Iterator[streams.Stream]:
    """Transitions of `CHUNK` updates each, and those that the last targets look ahead to."""
    ahead = max(lane.n for lane in study.lanes) - 1
    learned = CHUNK * networks.UNROLL
    steps = study.updates * networks.UNROLL + ahead
    whole = continuous(streams.sample(seed, range(study.streams), subject, steps), steps)
    for begin in range(0, study.updates * networks.UNROLL, learned):
        yield streams.Stream(*(x[begin : begin + learned + ahead] for x in whole))


def continuous(stream: streams.Stream, steps: int) -> streams.Stream:
    """The first `steps` transitions as the library's targets and traces want them.

    They know one discount, so a cut needs the pseudo-step that environments make: from where the
    episode was cut, with discount 0 and ratio 0. Its own error is 0; the step before it bootstraps
    from the value there, and nothing leaks across.
    """
    arrays = {name: np.asarray(x) for name, x in stream._asdict().items()}
    paused = [
        _paused({name: x[:, b] for name, x in arrays.items()}, steps)
        for b in range(arrays["rho_tm1"].shape[1])
    ]
    whole = {name: np.stack([one[name] for one in paused], 1) for name in arrays}
    return streams.Stream(**jax.tree.map(jnp.asarray, whole))


def _paused(one: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """One stream with a pseudo-step behind each cut."""
    cut = (one["chain_t"] == 0) & (one["discount_t"] != 0)
    place = np.sort(np.concatenate([np.arange(len(cut)), np.flatnonzero(cut) + 0.5]))[:steps]
    pseudo = place % 1 > 0
    x = {name: values[place.astype(int)] for name, values in one.items()}
    instead = {
        "state_tm1": x["state_t"],
        "reward_t": 0,
        "discount_t": 0,
        "chain_t": 0,
        "rho_tm1": 0,
        "nu_tm1": 1,
    }
    changed = {name: np.where(pseudo, value, x[name]) for name, value in instead.items()}
    # Products end at a cut as they do where an episode ends.
    changed["chain_t"] = changed["discount_t"]
    return x | changed


def _binned(curve: np.ndarray, bins: int) -> np.ndarray:
    """Means over equal stretches of updates, `[u, ...] -> [G, ...]`."""
    return curve.reshape(bins, len(curve) // bins, *curve.shape[1:]).mean(1)


def _bias(subject: Problem, case: networks.Case) -> np.ndarray:
    """RMSE of the values that V-trace's target leaves alone, those of π_ρ̄, `[w]`."""
    settled = theory.state_values(subject.mdp, algorithms.row("vtrace"), algorithms.Settings())
    off = np.square(settled - subject.values)
    return np.sqrt(np.asarray(case.weights) @ off).astype(np.float32)


def work(study: Study, folder: pathlib.Path) -> tuple[int, int]:
    """All the work there is and how much of it is done, in compiled calls."""
    sizes = [(unit.chunks, unit.path(folder).exists()) for unit in study.units]
    return sum(size for size, _ in sizes), sum(size for size, done in sizes if done)


def run(study: Study, folder: pathlib.Path, tick: Callable[[], None] = lambda: None) -> None:
    """Computes every unit that the folder does not hold yet."""
    for unit in study.units:
        if not unit.path(folder).exists():
            sweeps.write_arrays(unit.path(folder), compute(unit, tick))
