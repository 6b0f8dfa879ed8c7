"""What the study with networks found: errors at step sizes that were chosen elsewhere.

Step sizes are chosen by the median over seeds of the error by d_μ, averaged over the run,
a diverged one counting as `networks.LIMIT`. So that no seed is judged at a step size it
helped to choose, seeds are halved: each half runs at the other half's choice.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator

import numpy as np

from emphatic import algorithms
from emphatic.diagnostics import networks, sweeps
from emphatic.diagnostics.networks_study import Study
from emphatic.errors import UserError

QUANTILES = (0.25, 0.5, 0.75)
BASELINES = {"td": "td", "clipped-td": "td", "vtrace": "vtrace"}
"""What an algorithm is compared with, by its target."""
RESAMPLES = 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """One problem and model. Axes: s seeds, w weights, G bins, L lanes, A step sizes."""

    problem: str
    model: str
    optimiser: str
    lanes: tuple[networks.Lane, ...]
    alphas: np.ndarray
    score: np.ndarray
    """Quartiles over seeds of the error by d_μ averaged over the run, `[3, L, A]`."""
    diverged_at: np.ndarray
    """Seeds that diverged, `[L, A]`."""
    chosen: np.ndarray
    """Index of the step size of the even and of the odd seeds, `[2, L]`."""
    curve: np.ndarray
    """Quartiles over seeds at the chosen step sizes, by d_μ, `[3, G, L]`."""
    run: np.ndarray
    """Error averaged over the run, at the chosen step sizes, `[s, w, L]`."""
    final: np.ndarray
    """The same over the last tenth of it."""
    start: np.ndarray
    """Error before learning, `[s, w]`."""
    bias: np.ndarray
    """Error of the values that V-trace's target leaves alone, `[s, w]`."""

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.problem}-{self.model}-{self.optimiser}"


def summarise(study: Study, folder: pathlib.Path) -> list[Summary]:
    """A summary for every problem, model and optimiser, from the units in the folder."""
    return list(_summaries(study, folder))


def _summaries(study: Study, folder: pathlib.Path) -> Iterator[Summary]:
    for problem in study.problems:
        for model in study.models:
            here = [u for u in study.units if (u.problem, u.model) == (problem, model)]
            units = [sweeps.read_arrays(unit.path(folder)) for unit in here]
            arrays = {k: np.concatenate([unit[k] for unit in units]) for k in units[0]}
            for optimiser in networks.OPTIMISERS:
                yield _summary(study, problem, model, optimiser, arrays)


def _summary(
    study: Study, problem: str, model: str, optimiser: str, arrays: dict[str, np.ndarray]
) -> Summary:
    """From errors `[s, G, w, L, A]`."""
    errors = arrays[optimiser]
    by_alpha = errors[:, :, 0].mean(1)
    chosen = choose(by_alpha)
    # A seed's step size is the choice of the other half.
    own = chosen[np.arange(len(errors)) % 2]
    at = np.take_along_axis(errors, own[:, None, None, :, None], 4)[..., 0]
    return Summary(
        problem=problem,
        model=model,
        optimiser=optimiser,
        lanes=study.lanes,
        alphas=study.alphas(problem, optimiser),
        score=_quartiles(by_alpha),
        diverged_at=(errors[:, -1, 0] >= networks.LIMIT).sum(0),
        chosen=chosen,
        curve=_quartiles(at[:, :, 0]),
        run=at.mean(1),
        final=at[:, -max(1, study.bins // 10) :].mean(1),
        start=arrays["start"],
        bias=arrays["bias"],
    )


def _quartiles(x: np.ndarray) -> np.ndarray:
    return np.quantile(x, QUANTILES, axis=0).astype(np.float32)


def choose(by_alpha: np.ndarray) -> np.ndarray:
    """Step sizes of the even and of the odd seeds, `[s, L, A] -> [2, L]`: the others' best."""
    even, odd = by_alpha[::2], by_alpha[1::2]
    return np.stack([np.median(half, axis=0).argmin(-1) for half in (odd, even)])


def save(summaries: list[Summary], folder: pathlib.Path) -> None:
    """Arrays of each, and one file that says what they are about."""
    folder.mkdir(parents=True, exist_ok=True)
    for summary in summaries:
        arrays = {k: v for k, v in vars(summary).items() if isinstance(v, np.ndarray)}
        with (folder / f"{summary.name}.npz").open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    about = [{k: v for k, v in vars(s).items() if not isinstance(v, np.ndarray)} for s in summaries]
    (folder / "summaries.json").write_text(json.dumps(about, indent=1) + "\n")


def load(folder: pathlib.Path) -> list[Summary]:
    """What `save` wrote."""
    if not (folder / "summaries.json").exists():
        raise UserError("out", f"{folder} holds no summary; run without --redraw first")
    out = []
    for about in json.loads((folder / "summaries.json").read_text()):
        lanes = tuple(networks.Lane(*lane) for lane in about.pop("lanes"))
        name = f"{about['problem']}-{about['model']}-{about['optimiser']}"
        about |= sweeps.read_arrays(folder / f"{name}.npz")
        out.append(Summary(lanes=lanes, **about))
    return out


def rows(summary: Summary) -> list[dict]:
    """The table: a line for each algorithm and n."""
    return [_row(summary, i) for i in range(len(summary.lanes))]


def _row(summary: Summary, i: int) -> dict:
    """Errors by d_μ unless said otherwise; wins are of the run's error over the baseline's."""
    lane, run, final = summary.lanes[i], summary.run[:, 0, i], summary.final[:, 0, i]
    rival = networks.Lane(BASELINES[algorithms.row(lane.name).target], lane.n)
    wins = int((run < summary.run[:, 0, summary.lanes.index(rival)]).sum())
    return {
        "problem": summary.problem,
        "model": summary.model,
        "optimiser": summary.optimiser,
        "algorithm": lane.name,
        "n": lane.n,
        "alphas": [float(summary.alphas[k]) for k in summary.chosen[:, i]],
        "run": _median(run),
        "run_interval": interval(run),
        "run_by_d_pi": _median(summary.run[:, 1, i]),
        "final": _median(final),
        "final_interval": interval(final),
        "start": _median(summary.start[:, 0]),
        "vtrace_bias": _median(summary.bias[:, 0]),
        "diverged": int((final >= networks.LIMIT).sum()),
        "worse_than_at_start": int((final > summary.start[:, 0]).sum()),
        "seeds": len(run),
        "baseline": rival.name,
        "wins": None if rival == lane else wins,
        "p": None if rival == lane else _rounded(sign_test(wins, len(run))),
    }


def _median(x: np.ndarray) -> float:
    return _rounded(np.median(x))


def _rounded(x: float | np.floating) -> float:
    """Four digits."""
    return float(f"{x:.4g}")


def interval(x: np.ndarray) -> list[float]:
    """95% bootstrap interval of the median over seeds."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(x, (RESAMPLES, len(x))), axis=1)
    return [_rounded(q) for q in np.quantile(medians, (0.025, 0.975))]


def sign_test(wins: int, trials: int) -> float:
    """Two-sided exact p that this many of the trials, or as far from half, are won."""
    extreme = max(wins, trials - wins)
    tail = sum(math.comb(trials, k) for k in range(extreme, trials + 1))
    return min(1.0, 2.0 * tail / 2.0**trials)
