"""What a sweep found: errors, the step size each algorithm is judged by, its curves.

The paper selects step sizes by the RMSE "over all time steps ... averaging results over
many independent replications". A mean over runs is carried by rare spikes where F has no
variance, so everything here is given under two rules, by the mean and by the median over
runs, and for every seed of the whole experiment.
"""

import dataclasses
import json
import pathlib
from typing import Literal

import numpy as np

from emphatic.diagnostics import learners, sweeps
from emphatic.errors import UserError

Rule = Literal["mean", "median"]
RULES: tuple[Rule, ...] = ("mean", "median")
QUANTILES = (0.25, 0.5, 0.75)
NINE = (
    ("wetd", "netd", "td"),
    ("clip-wetd", "clip-netd", "clipped-td"),
    ("wevtrace", "nevtrace", "vtrace"),
)
"""The appendix's nine panels: emphatic, clipped, V-trace; the baselines on the right."""

SHOWN = {learners.Lane(name, n) for n in (1, 5) for row in NINE for name in row}
"""Lanes whose individual runs are kept: those panels at n of 1 and 5."""


SINGLED_OUT = ("two-state", "baird")
"""Problems whose figures show individual runs; of the others only statistics are kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """A sweep's outcome. Axes: h horizons, s seeds, R runs, A step sizes, L lanes, r rules."""

    name: str
    lanes: tuple[learners.Lane, ...]
    alphas: np.ndarray
    edges: np.ndarray
    """Last step of each bin, `[G]`."""
    horizons: np.ndarray
    """Numbers of steps summed over, `[h]`; the last one is all."""
    mean: np.ndarray
    """Mean over runs of the mean RMSE over steps, `[h, s, A, L]`; inf if a run diverged."""
    median: np.ndarray
    """Median over runs of the same, `[h, s, A, L]`."""
    diverged: np.ndarray
    """Runs that diverged, `[s, A, L]`."""
    best: np.ndarray
    """Index of the step size that each rule selects, `[r, s, L]`."""
    total: np.ndarray
    """Mean RMSE over steps of each run at that step size, `[r, s, R, L]`; inf: diverged."""
    final: np.ndarray
    """Mean RMSE over the last bin, `[r, s, R, L]`."""
    late: np.ndarray
    """Largest mean RMSE of a bin in the second half, `[r, s, R, L]`."""
    curve: np.ndarray
    """Mean and `QUANTILES` over the first seed's runs, `[r, 1 + q, G + 1, L]`."""
    runs: np.ndarray
    """log₁₀ of the first seed's curves by the mean rule, float16, `[R, G + 1, shown]`."""

    def lane(self, name: str, n: int = 1, eta: float = 1.0) -> int:
        """Its place on the L axis."""
        try:
            return self.lanes.index(learners.Lane(name, n, eta))
        except ValueError:
            raise UserError("algorithms", f"{name} at n = {n} is not in this sweep") from None

    @property
    def shown(self) -> list[int]:
        """Lanes whose individual runs are kept."""
        return _shown(self.name, self.lanes)

    @property
    def steps(self) -> np.ndarray:
        """Step at the middle of each bin, geometrically; 0.5 stands for "before", `[G + 1]`."""
        first = np.concatenate([[1], self.edges[:-1] + 1])
        return np.concatenate([[0.5], np.sqrt(first * self.edges)])


def _shown(name: str, lanes: tuple[learners.Lane, ...]) -> list[int]:
    return [i for i, lane in enumerate(lanes) if name in SINGLED_OUT and lane in SHOWN]


def summarise(sweep: sweeps.Sweep, folder: pathlib.Path) -> Summary:
    """Reads a complete sweep's units."""
    seeds = [_one_seed(sweep, folder, seed, first=seed == sweep.seeds[0]) for seed in sweep.seeds]
    stacked = {
        key: np.stack([seed[key] for seed in seeds], axis)
        for key, axis in [("mean", 1), ("median", 1), ("diverged", 0), ("best", 1)]
        + [(key, 1) for key in ("total", "final", "late")]
    }
    return Summary(
        name=sweep.name,
        lanes=sweep.plan,
        alphas=np.array(sweep.alphas),
        edges=sweep.edges,
        horizons=np.array(sweep.horizons),
        curve=seeds[0]["curve"],
        runs=seeds[0]["runs"],
        **stacked,
    )


def _one_seed(
    sweep: sweeps.Sweep, folder: pathlib.Path, seed: int, *, first: bool
) -> dict[str, np.ndarray]:
    """Everything of one seed; curves of the first one only."""
    units = [sweeps.read_arrays(u.path(folder)) for u in sweep.units if u.seed == seed]
    curve = np.concatenate([u["curve"] for u in units])
    diverged = np.concatenate([u["diverged"] for u in units])
    totals = np.stack([_total(sweep, curve, diverged, h) for h in sweep.horizons])
    mean, median = totals.mean(1), np.median(totals, 1)
    best = np.stack([select(mean[-1], median[-1]), select(median[-1], mean[-1])])
    chosen = [np.take_along_axis(curve, b[None, None, None], 2)[:, :, 0] for b in best]
    out = {
        "mean": mean,
        "median": median,
        "diverged": diverged.sum(0),
        "best": best,
        "total": np.stack([np.take_along_axis(totals[-1], b[None, None], 1)[:, 0] for b in best]),
        "final": np.stack([c[:, -1] for c in chosen]),
        "late": np.stack([c[:, _bin(sweep, sweep.horizons[1]) + 1 :].max(1) for c in chosen]),
    }
    out = {k: v if k in ("best", "diverged") else v.astype(np.float32) for k, v in out.items()}
    if first:
        shown = _shown(sweep.name, sweep.plan)
        out["curve"] = np.stack([_statistics(c) for c in chosen])
        out["runs"] = np.log10(np.maximum(chosen[0][:, :, shown], 1e-30)).astype(np.float16)
    return out


def _bin(sweep: sweeps.Sweep, step: int) -> int:
    """Bin that ends at a step."""
    return int(np.searchsorted(sweep.edges, step)) + 1


def _total(
    sweep: sweeps.Sweep, curve: np.ndarray, diverged: np.ndarray, horizon: int
) -> np.ndarray:
    """Mean RMSE over the first `horizon` steps, `[R, A, L]`; inf where a run diverged."""
    last = _bin(sweep, horizon) + 1
    width = sweep.widths[1:last].astype(np.float64)
    mean = np.einsum("rgal,g->ral", curve[:, 1:last], width) / width.sum()
    return np.where(diverged, np.inf, mean)


def _statistics(curve: np.ndarray) -> np.ndarray:
    """Mean and quantiles over runs, `[1 + q, G + 1, L]`."""
    return np.concatenate([curve.mean(0)[None], np.quantile(curve, QUANTILES, axis=0)]).astype(
        np.float32
    )


def select(score: np.ndarray, then: np.ndarray) -> np.ndarray:
    """The step size of least score, `[A, L] -> [L]`; where all diverged the other rule's.

    Where both have nothing finite, the smallest step size index stands in; its errors
    are infinite, so nothing is ever won with it.
    """
    fallback = np.where(np.isfinite(then).any(0), _argmin(then), 0)
    return np.where(np.isfinite(score).any(0), _argmin(score), fallback)


def _argmin(score: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(score), score, np.inf).argmin(0)


def save(summary: Summary, folder: pathlib.Path) -> None:
    """Two files: arrays compressed, and what they are about."""
    arrays = {k: _rounded(v) for k, v in vars(summary).items() if isinstance(v, np.ndarray)}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "summary.npz.part").open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    (folder / "summary.npz.part").replace(folder / "summary.npz")
    about = {"name": summary.name, "lanes": [list(lane) for lane in summary.lanes]}
    (folder / "summary.json").write_text(json.dumps(about, indent=1) + "\n")


def _rounded(x: np.ndarray) -> np.ndarray:
    """float32 to 12 significant bits, a relative 2.5e-4: the zeros that follow compress away."""
    if x.dtype != np.float32:
        return x
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = ((bits + np.uint32(0x800)) & np.uint32(0xFFFFF000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def load(folder: pathlib.Path) -> Summary:
    """What `save` wrote."""
    if not (folder / "summary.json").exists():
        raise UserError("out", f"{folder} holds no summary; run without --redraw first")
    about = json.loads((folder / "summary.json").read_text())
    lanes = tuple(learners.Lane(*lane) for lane in about["lanes"])
    return Summary(name=about["name"], lanes=lanes, **sweeps.read_arrays(folder / "summary.npz"))


def rows(summary: Summary) -> list[dict]:
    """The table: a line for each lane, over the runs of all seeds, at the α of either rule."""
    return [
        {
            "algorithm": lane.name,
            "n": lane.n,
            "eta": lane.eta,
            "runs": int(summary.total[0, :, :, i].size),
            **{f"by_{rule}": _at_best(summary, r, i) for r, rule in enumerate(RULES)},
        }
        for i, lane in enumerate(summary.lanes)
    ]


def _at_best(summary: Summary, rule: int, i: int) -> dict:
    """Errors of a lane's runs, those of each seed at the step size that the rule selects there."""
    total, final = summary.total[rule, :, :, i], summary.final[rule, :, :, i]
    return {
        "alphas": [float(summary.alphas[best]) for best in summary.best[rule, :, i]],
        "mean": float(total.mean()),
        "median": float(np.median(total)),
        "quartiles": [_quantile(total, q) for q in (0.25, 0.75)],
        "final_median": float(np.median(final)),
        "diverged": int(np.isinf(total).sum()),
    }


def _quantile(x: np.ndarray, q: float) -> float:
    """A quantile that is infinite where the run it falls on diverged."""
    return float(np.quantile(x, q, method="higher" if q > 0.5 else "lower"))
