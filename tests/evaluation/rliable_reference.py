"""Writes rliable_reference.json, rliable's numbers for made-up scores, with which ours must agree.

rliable does not import under pandas 3, so it runs in an environment of its own:

    python -m venv rliable-venv
    rliable-venv/bin/pip install rliable==1.2.0 "pandas<3" "numpy<2.3"
    rliable-venv/bin/python tests/evaluation/rliable_reference.py

Its bootstrap ignores the seed it is given, so the ends of its intervals differ a little from one
time to the next; with 20,000 draws by less than a hundredth.
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

THRESHOLDS = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0]
DRAWS = 20_000


def scores(seed, runs, games, scale):
    """Skewed, and rounded so that there are ties."""
    generator = np.random.default_rng(seed)
    return np.round(generator.lognormal(np.log(scale), 0.8, size=(runs, games)), 1)


def interval(func, data):
    found = library.get_interval_estimates({"": data}, func, reps=DRAWS)[1][""]
    return np.asarray(found).T.tolist()


def main():
    x, y = scores(0, 5, 7, 1.0), scores(1, 4, 7, 0.7)
    summed = {
        "mean": metrics.aggregate_mean,
        "median": metrics.aggregate_median,
        "iqm": metrics.aggregate_iqm,
        "optimality_gap": metrics.aggregate_optimality_gap,
    }

    def better(a, b):
        return np.array([metrics.probability_of_improvement(a, b)])

    found = {
        name: {
            "value": float(of(x)),
            "interval": interval(lambda data, of=of: np.array([of(data)]), x)[0],
        }
        for name, of in summed.items()
    }
    found["improvement"] = {
        "value": float(better(x, y)[0]),
        "interval": interval(better, [x, y])[0],
    }
    profiles, ends = library.create_performance_profile({"": x}, np.array(THRESHOLDS), reps=DRAWS)
    found["profile"] = {"value": profiles[""].tolist(), "interval": ends[""].T.tolist()}
    document = {"x": x.tolist(), "y": y.tolist(), "thresholds": THRESHOLDS, "found": found}
    file = Path(__file__).with_suffix(".json")
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
