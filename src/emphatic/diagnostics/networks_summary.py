"""What the study with networks found: errors at step sizes that were chosen elsewhere.

Step sizes are chosen by the median over seeds of the error by d_μ, averaged over the run,
a diverged one counting as `networks.LIMIT`. So that no seed is judged at a step size it
helped to choose, seeds are halved: each half runs at the other half's choice.

An algorithm is compared, seed by seed, with the same target and scheme without emphasis, and
an exact trace with the paper's for the same target. A problem has dozens of such
comparisons, so their p-values are adjusted (Holm) within it.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterator

import numpy as np

from emphatic import algorithms
from emphatic.diagnostics import networks, sweeps
from emphatic.diagnostics.networks_study import Study
from emphatic.errors import UserError
from emphatic.evaluation import statistics

QUANTILES = (0.25, 0.5, 0.75)
BASELINES = {
    ("td", "fixed"): "td",
    ("td", "mixed"): "td-mixed",
    ("vtrace", "fixed"): "vtrace",
    ("vtrace", "mixed"): "vtrace-mixed",
}
"""What an algorithm is compared with, by its target and scheme: the same without emphasis."""
PAPERS = {"exact-nevtrace": "nevtrace", "exact-wevtrace": "wevtrace"}
"""The paper's emphases for the targets of ours."""
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
    """Seeds that diverged at any time, `[L, A]`."""
    worse_at: np.ndarray
    """Seeds whose error over the last tenth was larger than before learning, `[L, A]`."""
    chosen: np.ndarray
    """Index of the step size of the even and of the odd seeds, `[2, L]`."""
    curve: np.ndarray
    """Quartiles over seeds at the chosen step sizes, by d_μ, `[3, G, L]`."""
    run: np.ndarray
    """Error averaged over the run, at the chosen step sizes, `[s, w, L]`."""
    final: np.ndarray
    """The same over the last tenth of it."""
    diverged: np.ndarray
    """Whether it diverged at any time, at the chosen step sizes, `[s, L]`."""
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
    errors, diverged = arrays[optimiser], arrays[f"{optimiser}_diverged"]
    by_alpha = errors[:, :, 0].mean(1)
    chosen = choose(by_alpha)
    # A seed's step size is the choice of the other half.
    own = chosen[np.arange(len(errors)) % 2]
    at = np.take_along_axis(errors, own[:, None, None, :, None], 4)[..., 0]
    last = max(1, study.bins // 10)
    worse = errors[:, -last:, 0].mean(1) > arrays["start"][:, :1, None]
    return Summary(
        problem=problem,
        model=model,
        optimiser=optimiser,
        lanes=study.lanes,
        alphas=study.alphas(problem, optimiser),
        score=_quartiles(by_alpha),
        diverged_at=diverged.sum(0),
        worse_at=worse.sum(0),
        chosen=chosen,
        curve=_quartiles(at[:, :, 0]),
        run=at.mean(1),
        final=at[:, -last:].mean(1),
        diverged=np.take_along_axis(diverged, own[..., None], 2)[..., 0],
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


def table(summaries: list[Summary]) -> list[dict]:
    """A line for each algorithm and n of each summary, p-values adjusted within a problem."""
    rows = [_row(summary, i) for summary in summaries for i in range(len(summary.lanes))]
    for problem in dict.fromkeys(row["problem"] for row in rows):
        tests = [test for r in rows if r["problem"] == problem for test in r["against"]]
        for test, p in zip(tests, statistics.holm([test["p"] for test in tests]), strict=True):
            test["p_adjusted"] = _rounded(p)
    return rows


def _row(summary: Summary, i: int) -> dict:
    """Errors by d_μ unless said otherwise."""
    lane, run, final = summary.lanes[i], summary.run[:, 0, i], summary.final[:, 0, i]
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
        "diverged": int(summary.diverged[:, i].sum()),
        "diverged_at": [int(count) for count in summary.diverged_at[i]],
        "safe_alpha": safe(summary.alphas, summary.diverged_at[i]),
        "worse_than_at_start": int((final > summary.start[:, 0]).sum()),
        "worse_at": [int(count) for count in summary.worse_at[i]],
        "seeds": len(run),
        "against": [_against(summary, lane, rival) for rival in rivals(lane, summary.lanes)],
    }


def _against(summary: Summary, lane: networks.Lane, rival: networks.Lane) -> dict:
    """On how many seeds the rival's error over the run was larger, and on how many smaller."""
    own, other = (summary.run[:, 0, summary.lanes.index(x)] for x in (lane, rival))
    test = statistics.sign_test_of(other, own)
    counts = {"wins": test.wins, "losses": test.losses, "p": _rounded(test.two_sided)}
    return {"algorithm": rival.name, **counts}


def rivals(lane: networks.Lane, lanes: tuple[networks.Lane, ...]) -> list[networks.Lane]:
    """What a lane is compared with, of these: its baseline, and the paper's emphasis if ours."""
    names = [baseline(lane).name, PAPERS.get(lane.name, lane.name)]
    found = [networks.Lane(name, lane.n) for name in names if name != lane.name]
    return [rival for rival in found if rival in lanes]


def ordered(lanes: tuple[networks.Lane, ...]) -> list[int]:
    """Places of the lanes by n, each baseline before what is compared with it."""
    names = list(BASELINES.values())
    return sorted(
        range(len(lanes)), key=lambda i: (lanes[i].n, names.index(baseline(lanes[i]).name))
    )


def baseline(lane: networks.Lane) -> networks.Lane:
    """The lane without emphasis that a lane is compared with; its own, where it has none."""
    row = algorithms.row(lane.name)
    return networks.Lane(BASELINES[row.target, row.scheme], lane.n)


def safe(alphas: np.ndarray, diverged_at: np.ndarray) -> float | None:
    """The largest step size up to which no seed diverged; None if one did at the smallest."""
    sound = np.cumsum(diverged_at) == 0
    return float(alphas[sound][-1]) if sound.any() else None


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
