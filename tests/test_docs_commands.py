"""Every command that README and docs print runs, and what runs write is explained."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import docs_commands
import pytest

ROOT = Path(__file__).parent.parent
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


QUICKLY = "--xla_backend_optimization_level=0"
"""Nearly all of the time is XLA's, for programs that run for a moment."""


def documented(section):
    """The names in the first column of a section's tables."""
    text = re.search(rf"^## `{re.escape(section)}`$(.*?)(?=^## |\Z)", METRICS, re.M | re.S)[1]
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.M)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def written(path):
    """The keys in a file of a run."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    return {key for line in lines for key in json.loads(line)}


@pytest.mark.slow
def test_every_command_runs_and_every_key_it_writes_is_explained(tmp_path):
    """In one process, as each costs a start and a compilation otherwise; the notebook too."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "docs_commands.py", tmp_path],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg", "XLA_FLAGS": QUICKLY},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "netd-ace with n = 5 on 32 streams" in done.stdout
    tenths = done.stdout.split("each tenth of the episodes: ")[1].splitlines()[0].split()
    assert float(tenths[-1]) > float(tenths[0]) + 0.5

    catch, cartpole = tmp_path / "runs" / "catch", tmp_path / "runs" / "cartpole"
    assert written(cartpole / "metrics.jsonl") == documented("metrics.jsonl")
    assert written(catch / "metrics.jsonl") == documented("metrics.jsonl") - {"actor_restarts"}
    for file in ("timing.jsonl", "episodes.jsonl", "evaluation.json"):
        assert written(catch / file) == documented(file), file


def test_a_new_command_has_to_be_thought_of():
    page = (
        "Do this:\n\n    emphatic fly --high    it does\n\nor `emphatic fly low`, `emphatic fly`.\n"
    )
    found = list(docs_commands.in_text(page))
    assert found == ["emphatic fly --high", "emphatic fly low", "emphatic fly --help"]
    with pytest.raises(docs_commands.Wrong, match="is new"):
        docs_commands.planned("emphatic fly --high")


def test_every_command_of_the_docs_is_known():
    texts = {command.text for command in docs_commands.commands()}
    assert {"make run", "emphatic diagnose two-state --quick"} <= texts
    for text in texts:
        docs_commands.planned(text)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("    $ emphatic algorithms", "emphatic algorithms"),
        ("    emphatic watch runs/NAME     an animation", "emphatic watch runs/NAME"),
        ("    JAX_PLATFORMS=cpu make run  # sets up", "make run"),
        ("    emphatic train \\\n        --env catch", "emphatic train --env catch"),
        ("    emphatically not", None),
    ],
)
def test_commands_are_told_from_what_stands_beside_them(line, command):
    assert list(docs_commands.in_text(f"x\n\n{line}\n")) == [command] * (command is not None)


def test_an_option_that_does_not_exist_is_found_without_computing():
    docs_commands.parsed("emphatic diagnose all --out x")
    with pytest.raises(docs_commands.Wrong, match="exit code 2"):
        docs_commands.parsed("emphatic diagnose all --outfolder x")
