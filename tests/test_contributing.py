"""docs/contributing.md, done: every block put in its place in a copy of the sources, and used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"^```python\n# (\S+): (new|at the end|behind|in place of) ?([^\n]*)\n(.*?)^```$", re.M | re.S
)

USE = """
import numpy as np
import slow_definitions

from emphatic import algorithms, cli, laws, theory
from emphatic.agent import agents
from emphatic.diagnostics import figures, problems
from emphatic.envs import conformance, make

# The trace: laws, definition, theory against samples of finite variance, agents.
fading = algorithms.build("fading-netd", n=2)
laws.check(fading.trace)
stream = laws.random_stream(20, (2,))
found = laws.Case(fading.trace).emphasis(stream)
np.testing.assert_allclose(found, slow_definitions.emphasis(fading, *stream), rtol=1e-5)
plain = laws.Case(algorithms.build("netd", n=2).trace).emphasis(stream)
assert np.all(found <= plain) and np.any(found < plain)

collision = problems.problem("collision-restart").mdp
expected = theory.expectation(collision, "fading-netd", 2)
assert theory.second_moment(collision, "fading-netd", 2) < 1
sampled = theory.sample(collision, 4000, 64, np.random.default_rng(0))
inputs = [np.float32(x) for x in (sampled.rho, sampled.discount)]
_, f = fading.trace.update(fading.trace.init((64,)), *inputs)
late = np.asarray(f)[50:]
for state in range(collision.num_states):
    mean = late[sampled.state[50:-1] == state].mean()
    np.testing.assert_allclose(mean, (expected.emphasis[0] / expected.d_mu)[state], rtol=0.1)
assert {"fading-netd", "fading-netd-ace"} <= set(agents.AGENTS)
assert "fading-netd" in figures.STYLES

# The environment and the network; then everything by name, as typed.
conformance.check(make("walk"))
small = ["--steps", "640", "--num-streams", "4", "--unroll-length", "5", "--n", "5"]
sweep = ["--runs", "2", "--steps", "100", "--seeds", "0", "--n", "1", "--alphas", "2^-8"]
for command in (
    ["algorithms"],
    ["theory", "two-state", "--algorithm", "fading-netd"],
    ["theory", "stairs"],
    ["diagnose", "two-state", "--algorithms", "td", "netd", "fading-netd", *sweep],
    ["diagnose", "stairs", "--quick", *sweep],
    ["train", "--env", "walk", "--network.name", "wide", *small, "--out", "run"],
    ["evaluate", "run", "--episodes", "2"],
):
    print("::", *command)
    cli.main(command)
"""


def placed(folder, file, where, text, code):
    """A block of the page put where its first line says."""
    path = folder / file
    if where == "new":
        assert not path.exists()
        path.write_text(code, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if where == "at the end":
        path.write_text("".join([*lines, "\n\n", code]), encoding="utf-8")
        return
    (at,) = [i for i, line in enumerate(lines) if line.strip().startswith(text)]
    lines[at : at + 1] = [code] if where == "in place of" else [lines[at], code]
    path.write_text("".join(lines), encoding="utf-8")


def test_every_block_that_names_a_file_has_a_place():
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == len(re.findall(r"^```python$", PAGE, re.M))
    parts = {"traces.py", "problems.py", "walk.py", "networks.py"}
    assert parts <= {Path(file).name for file, *_ in blocks}


@pytest.mark.slow
def test_what_the_page_adds_works(tmp_path):
    """A trace, a problem, an environment and a network that nobody knew of before."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "slow_definitions.py", tmp_path / "tests")
    for block in BLOCK.findall(PAGE):
        placed(tmp_path, *block)
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path / "tests")]),
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # Nearly all of it is compiling.
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = dict(re.findall(r"^:: (\S+).*\n((?:(?!::).*\n?)*)", done.stdout, re.M))
    assert re.search(r"^fading-netd .*fading NETD", said["algorithms"], re.M)
    assert "stairs" in said["diagnose"]
    assert "netd-ace on walk" in said["train"]
    assert "2 episodes" in said["evaluate"]
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--config", ROOT / "pyproject.toml", "src"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert formatted.returncode == 0, formatted.stdout
