"""The `emphatic` command in processes of its own, and what a run must be whatever befell it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


def process(cache, *arguments):
    """The `emphatic` command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "emphatic", *map(str, arguments)],
        env={**os.environ, "EMPHATIC_CACHE": cache, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(cache, *arguments):
    """Run to its end; exit code and output."""
    started = process(cache, *arguments)
    output, _ = started.communicate(timeout=300)
    return started.returncode, output


def wait_for_lines(path: Path, count: int, running: subprocess.Popen) -> None:
    """Until that many lines of metrics are there, or the process ended."""
    file = path / "metrics.jsonl"
    for _ in range(3000):
        lines = file.read_bytes().count(b"\n") if file.exists() else 0
        if lines >= count or running.poll() is not None:
            return
        time.sleep(0.02)
    pytest.fail("no metrics within a minute")


def deterministic(path: Path) -> dict[str, bytes]:
    """Everything of a run that must not depend on when it was interrupted."""
    last = max((path / "checkpoints").iterdir())
    files = [path / "metrics.jsonl", path / "episodes.jsonl", last / "arrays.bin"]
    return {file.name: file.read_bytes() for file in files} | {"last": last.name.encode()}
