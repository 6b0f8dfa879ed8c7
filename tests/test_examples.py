"""The examples run, as a reader would run them, and show what they claim to."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from emphatic import laws, mdp, theory, traces

EXAMPLES = Path(__file__).parent.parent / "examples"


def printed(name, capsys):
    """What an example prints when run as a script, without arguments."""
    with mock.patch.object(sys, "argv", [name]):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_netd_in_your_loss(capsys):
    """V-trace alone diverges; weighed by its emphases it converges, the exact one faster."""
    _, header, *rows = printed("netd_in_your_loss.py", capsys).splitlines()
    assert header.split()[:2] == ["updates", "V-trace"]
    updates, plain, clip_netd, exact = np.array([row.split() for row in rows], float).T
    assert updates[-1] > updates[0]
    assert np.all(np.diff(np.abs(plain)) > 0)
    assert abs(plain[-1]) > 100 * abs(plain[0])
    assert np.all(np.diff(np.abs(clip_netd)) < 0)
    assert abs(clip_netd[-1]) < 0.01
    assert abs(exact[1]) < 0.01 * abs(clip_netd[1])


def test_netd_takes_ten_lines_at_most():
    source = (EXAMPLES / "netd_in_your_loss.py").read_text(encoding="utf-8")
    added = [line for line in source.splitlines() if "  # +" in line]
    assert 1 <= len(added) <= 10


def test_your_own_trace(capsys):
    out = printed("your_own_trace.py", capsys)
    assert f"obeys all {len(laws.LAWS)} laws" in out
    assert all(law.__name__ in out for law in laws.LAWS)
    assert "broken: termination_starts_anew: " in out


def test_the_trace_of_the_example_is_netd_where_it_says(capsys):
    """Fade 1 is NETD."""
    fading = runpy.run_path(str(EXAMPLES / "your_own_trace.py"))["fading"]
    stream = laws.random_stream(16, (2,))
    ours = laws.Case(fading(3, fade=1.0)).emphasis(stream)
    np.testing.assert_allclose(ours, laws.Case(traces.nstep(3)).emphasis(stream), rtol=1e-5)


def test_the_mdp_of_the_example_does_what_the_docs_say():
    """TD unstable at n = 1 and 2; Clip-NETD stable there but far off; NETD close at every n."""
    m = mdp.load(EXAMPLES / "my_mdp.json")
    page = (EXAMPLES.parent / "docs" / "problems.md").read_text(encoding="utf-8")
    shown = re.search(r"^```json\n(.*?)^```", page, re.M | re.S)[1]
    assert shown == (EXAMPLES / "my_mdp.json").read_text(encoding="utf-8")

    found = {
        (name, n): theory.analyse(m, name, n)
        for name in ("td", "netd", "clip-netd")
        for n in range(1, 6)
    }
    assert [n for n in range(1, 6) if not found["td", n].stable] == [1, 2]
    assert all(a.stable for (name, _), a in found.items() if name != "td")
    d_mu, v_pi = found["netd", 1].d_mu, found["netd", 1].v_pi
    assert found["clip-netd", 1].value_error > np.sqrt(d_mu @ v_pi**2), "worse than θ = 0"
    assert all(found["netd", n].value_error < 0.22 for n in range(1, 6))


def test_emphatic_td_in_forty_lines(capsys):
    """TD leaves 0 behind and emphatic TD reaches it; in forty lines of code at most."""
    header, *rows = printed("emphatic_td_in_forty_lines.py", capsys).splitlines()
    assert header.split() == ["steps", "TD", "emphatic", "TD"]
    _, td, emphatic_td = np.array([row.split() for row in rows], float).T
    assert np.all(np.diff(td) > 0)
    assert td[-1] > 100
    assert np.all(np.diff(emphatic_td) < 0)
    assert emphatic_td[-1] < 1e-6
    source = (EXAMPLES / "emphatic_td_in_forty_lines.py").read_text(encoding="utf-8")
    code = source.split('"""\n', 1)[1]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 40


def output(script, *arguments, cwd):
    """What a script prints in a process of its own, where nothing checks shapes.

    Most of the time would be XLA's, to make quick what runs for seconds.
    """
    quickly = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "MPLBACKEND": "agg", **quickly},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_netd_actor_critic_cartpole(tmp_path):
    """Learns visibly within a minute."""
    out = output(EXAMPLES / "netd_actor_critic_cartpole.py", 120_000, cwd=tmp_path)
    returns = [float(line.split()[-1]) for line in out.splitlines()]
    assert len(returns) == 10
    assert returns[0] < 50
    assert min(returns[-3:]) > 100


@pytest.mark.slow
def test_your_own_environment(tmp_path):
    out = output(EXAMPLES / "your_own_environment.py", cwd=tmp_path)
    checked, *lines = out.splitlines()
    assert checked == "flag keeps the contract"
    shares = [int(line.split("the flag in ")[1].split("%")[0]) for line in lines]
    assert shares[0] < 90
    assert shares[-1] >= 99


def test_notebooks_are_kept_without_outputs():
    """tests/docs_commands.py runs it."""
    content = json.loads((EXAMPLES / "reading_a_run.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 3
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_search_unstable_vtrace(capsys):
    """It prints the problems that became `rare-exit` and `rare-exit-3`."""
    out = printed("search_unstable_vtrace.py", capsys)
    assert "vtrace -0.77, nevtrace -0.55, wevtrace -0.55, exact-nevtrace 8.00" in out
    assert "vtrace -0.96, nevtrace -0.87, wevtrace -0.84, exact-nevtrace 7.68" in out


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.*")), ids=lambda path: path.name)
def test_every_example_is_tested(example):
    assert example.name in Path(__file__).read_text(encoding="utf-8")
