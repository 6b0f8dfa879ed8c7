"""Sweeps: every algorithm, n and step size over many runs, in units that survive a kill.

A unit is a block of runs of one seed. All algorithms and step sizes of a unit see the same
behaviour, so comparisons are paired. A unit is written when it is complete, under a name
of its own, so a sweep that was interrupted goes on where it stopped.
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import os
import pathlib
import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.diagnostics import learners, problems, streams
from emphatic.errors import UserError

PAPER_ALPHAS = tuple(2.0**i for i in range(-14, -1))
PAPER_NS = (1, 2, 3, 4, 5)
CHUNK = 1000
"""Steps in one compiled call: its coefficients fit the cache, and a break is heard soon."""
BLOCK = 50
"""Runs of a unit."""
WORKERS = min(2, os.cpu_count() or 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """One problem's part of an experiment."""

    name: str
    """Of the problem, and of its folder."""
    problem: problems.Problem
    algorithms: tuple[str, ...] = tuple(learners.LABELS)
    ns: tuple[int, ...] = PAPER_NS
    alphas: tuple[float, ...] = PAPER_ALPHAS
    runs: int = 50
    steps: int = 20_000
    seeds: tuple[int, ...] = (0,)
    bins: int = 100
    """Points of a learning curve, spaced evenly in log t."""

    def __post_init__(self):
        for field in ("algorithms", "ns", "alphas", "seeds"):
            if not getattr(self, field):
                raise UserError(field, "needs at least one entry")
        for field in ("runs", "steps", "bins"):
            if getattr(self, field) < 1:
                raise UserError(field, f"must be at least 1, not {getattr(self, field)}")
        for alpha in self.alphas:
            if not 0 < alpha < np.inf:
                raise UserError("alphas", f"must be positive and finite, not {alpha}")
        if min(self.seeds) < 0:
            raise UserError("seeds", f"must not be negative, not {min(self.seeds)}")
        _ = self.plan

    @functools.cached_property
    def plan(self) -> tuple[learners.Lane, ...]:
        """The lanes, in the order of all arrays."""
        return learners.lanes(self.algorithms, self.ns)

    @functools.cached_property
    def edges(self) -> np.ndarray:
        """Last step of each bin of a curve; a tenth and a half of the steps are among them."""
        grid = np.geomspace(1, self.steps, self.bins).round()
        return np.unique([*grid, *self.horizons]).astype(int)

    @property
    def widths(self) -> np.ndarray:
        """Errors in each bin; bin 0 is the error before learning."""
        return np.diff(self.edges, prepend=(-1, 0))

    @property
    def horizons(self) -> tuple[int, ...]:
        """Numbers of steps after which errors are summed up."""
        return tuple(max(1, self.steps // k) for k in (10, 2, 1))

    @property
    def units(self) -> list["Unit"]:
        """Blocks of runs, every seed's first ones first."""
        blocks = [range(i, min(i + BLOCK, self.runs)) for i in range(0, self.runs, BLOCK)]
        return [Unit(self, seed, block) for seed in self.seeds for block in blocks]

    def config(self) -> dict:
        """What the results depend on, for config.json."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return fields | {"problem": fingerprint(self.problem)}


@dataclasses.dataclass(frozen=True)
class Unit:
    """A block of runs of one seed."""

    sweep: Sweep
    seed: int
    runs: range

    @property
    def chunks(self) -> int:
        """Compiled calls it takes; one step more than is learned, to see the last error."""
        return -(-(self.sweep.steps + 1) // CHUNK)

    def path(self, folder: pathlib.Path) -> pathlib.Path:
        """Where it is kept."""
        runs = f"{self.runs.start:04d}-{self.runs.stop:04d}"
        return folder / self.sweep.name / "units" / f"seed{self.seed}-runs{runs}.npz"


def fingerprint(problem: problems.Problem) -> str:
    """Hash of everything that a problem consists of, but for its features per run."""
    m = problem.mdp
    arrays = (m.transition, m.reward, m.discount, m.target, m.behaviour, m.features)
    digest = hashlib.sha256()
    for array in (*arrays, m.initial_weights, problem.start):
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    digest.update(f"{problem.limit} {problem.cut} {problem.draw_features is None}".encode())
    return digest.hexdigest()[:16]


def compute(unit: Unit, tick: Callable[[], None] = lambda: None) -> dict[str, np.ndarray]:
    """Mean RMSE over each bin, `curve [runs, G + 1, A, L]`, and which lanes diverged.

    Bin 0 is the error before learning. `tick` is called after each chunk, and may raise.
    """
    with jax.enable_x64(True):
        return _compute(unit, tick)


def _compute(unit: Unit, tick: Callable[[], None]) -> dict[str, np.ndarray]:
    sweep, problem = unit.sweep, unit.sweep.problem
    plan, count = sweep.plan, len(unit.runs)
    total, ahead = unit.chunks * CHUNK, max(lane.n for lane in plan) - 1
    stream = streams.sample(unit.seed, unit.runs, problem, total + ahead)
    case, initial = _cases(unit)
    bins = len(sweep.edges) + 2
    state = jax.vmap(lambda v: learners.start(v, plan, len(sweep.alphas), bins))(initial)
    traces = learners.trace_states(plan, count, problem.mdp.num_states)
    slots = jnp.asarray(_slots(sweep.edges, total), jnp.int32)
    for begin in range(0, total, CHUNK):
        window = slice(begin, begin + CHUNK + ahead)
        state, traces = learners.advance(
            plan,
            state,
            traces,
            case,
            streams.Stream(*(x[window] for x in stream)),
            slots[begin : begin + CHUNK],
            jnp.asarray(sweep.alphas),
            jnp.asarray(begin),
            jnp.asarray(sweep.steps),
            steps=CHUNK,
        )
        jax.block_until_ready(state)
        tick()
    kinds = dict.fromkeys(lane.kind for lane in plan)
    curve = np.concatenate([np.asarray(state[kind].curve) for kind in kinds], -1)[:, :-1]
    error = np.concatenate([np.asarray(state[kind].error) for kind in kinds], -1)
    curve = curve / sweep.widths[None, :, None, None]
    return {"curve": curve.astype(np.float32), "diverged": error >= learners.LIMIT}


def _cases(unit: Unit) -> tuple[learners.Case, jax.Array]:
    """Each run's features, drawn from the seed and the run's number alone."""
    problem = unit.sweep.problem
    draws = [problem.features(np.random.default_rng([unit.seed, run])) for run in unit.runs]
    features = np.stack(draws)
    gram = jnp.asarray(features @ features.transpose(0, 2, 1))
    case = learners.Case(gram, jnp.asarray(problem.values), jnp.asarray(problem.weights))
    return case, jnp.asarray(features @ problem.mdp.initial_weights)


def _slots(edges: np.ndarray, total: int) -> np.ndarray:
    """Bin of each step: 0 before learning, the last one for what comes after the end."""
    steps = np.arange(total)
    return np.where(steps == 0, 0, np.searchsorted(edges, steps) + 1)


class InterruptedSweepError(Exception):
    """The user asked to stop; what was complete is kept."""


def run(
    sweeps: list[Sweep], folder: pathlib.Path, tick: Callable[[int], None] = lambda chunks: None
) -> None:
    """Computes every unit that the folder does not hold yet, on `WORKERS` threads.

    `tick(chunks)` hears of every bit of work done, in chunks of one run's steps.
    """
    units = [u for sweep in sweeps for u in sweep.units if not u.path(folder).exists()]
    stop = threading.Event()

    def one(unit):
        def heard():
            tick(len(unit.runs))
            if stop.is_set():
                raise InterruptedSweepError

        write_arrays(unit.path(folder), compute(unit, heard))

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(one, unit) for unit in units]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def work(sweeps: list[Sweep], folder: pathlib.Path) -> tuple[int, int]:
    """All the work there is and how much of it is done, in chunks of one run's steps."""
    units = [u for sweep in sweeps for u in sweep.units]
    sizes = [(u.chunks * len(u.runs), u.path(folder).exists()) for u in units]
    return sum(size for size, _ in sizes), sum(size for size, done in sizes if done)


def write_arrays(path: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes aside and renames, so that a file under its name is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    with aside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    aside.replace(path)


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
