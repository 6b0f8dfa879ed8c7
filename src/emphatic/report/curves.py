"""The learning curve of a run, with the health of its auxiliary heads."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from emphatic.errors import UserError
from emphatic.runtime import runs

_HEAD_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw(path: Path, out: Path) -> None:
    """Return, emphasis, clipped ratio and entropy of the run at `path`, over its steps."""
    lines = runs.read_metrics(path)
    if not lines:
        raise UserError("run", f"{path} has no metrics yet")
    config = runs.read_config(path)["config"]
    steps = np.array([line["steps"] for line in lines]) / 1e6
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, layout="constrained")
    figure.suptitle(f"{config['learner']['agent']} on {config['env']}, seed {config['seed']}")
    _returns(axes[0, 0], steps, lines)
    _per_head(axes[0, 1], steps, lines, "emphasis", "mean emphasis F")
    _per_head(axes[1, 0], steps, lines, "clipped_rho", "mean min(1, ρ)")
    _per_head(axes[1, 1], steps, lines, "entropy", "entropy of the policy (nats)")
    for axis in axes[1]:
        axis.set_xlabel("environment steps (millions)")
    heads = len(lines[0]["entropy"])
    if heads > 1:
        axes[0, 1].legend(frameon=False, fontsize="small")
    figure.savefig(out, dpi=140, metadata={"Software": None})
    plt.close(figure)


def _returns(axis, steps, lines):
    """Each line's mean return, and a running mean over a twentieth of the run."""
    values = np.array([np.nan if x["return"] is None else x["return"] for x in lines], float)
    axis.plot(steps, values, color="0.75", linewidth=0.8)
    width = max(1, len(values) // 20)
    smooth = [
        np.nanmean(values[max(0, i - width + 1) : i + 1])
        if np.isfinite(values[max(0, i - width + 1) : i + 1]).any()
        else np.nan
        for i in range(len(values))
    ]
    axis.plot(steps, smooth, color="black", linewidth=1.6)
    axis.set_ylabel("episode return")
    _plain(axis)


def _per_head(axis, steps, lines, name, label):
    values = np.array([line[name] for line in lines], float)
    for head in range(values.shape[1]):
        who = "main head" if head == 0 else f"auxiliary {head}"
        axis.plot(steps, values[:, head], color=_HEAD_COLOURS[head % 6], linewidth=1.2, label=who)
    axis.set_ylabel(label)
    _plain(axis)


def _plain(axis):
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, linewidth=0.6)
