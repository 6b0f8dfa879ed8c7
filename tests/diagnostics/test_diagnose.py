"""`emphatic diagnose` as a user types it."""

import json

import pytest

from emphatic import cli
from emphatic.commands import diagnose
from emphatic.diagnostics import problems
from emphatic.mdp import to_json

SMALL = ("--runs", "3", "--steps", "200", "--n", "1", "--seeds", "0", "--alphas", "2^-6:2^-4")


def run(*argv):
    cli.main(["diagnose", *map(str, argv)])


def failure(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        run(*argv)
    assert stop.value.code == 2
    return capsys.readouterr().err.strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's own MDP, run once."""
    path = tmp_path_factory.mktemp("own")
    (path / "mine.json").write_text(to_json(problems.two_state()))
    names = ("--algorithms", "td", "clip-netd")
    run(path / "mine.json", *names, *SMALL, "--out", path / "out")
    return path


def test_a_run_leaves_config_summary_table_and_figures(folder):
    config = json.loads((folder / "out" / "config.json").read_text())
    assert config["experiment"]["mine"]["alphas"] == [2.0**-6, 2.0**-5, 2.0**-4]
    assert set(config["versions"]) == {"emphatic", "jax", "numpy"}
    assert len(json.loads((folder / "out" / "mine" / "table.json").read_text())) == 2
    assert (folder / "out" / "figures" / "mine-step-sizes.svg").exists()


def test_the_same_command_again_computes_nothing(folder, monkeypatch, capsys):
    monkeypatch.setattr(diagnose.sweeps, "compute", None)
    names = ("--algorithms", "td", "clip-netd")
    run(folder / "mine.json", *names, *SMALL, "--out", folder / "out")
    assert "results in" in capsys.readouterr().out


def test_redraw_needs_no_units(folder, monkeypatch):
    monkeypatch.setattr(diagnose.sweeps, "run", None)
    figure = folder / "out" / "figures" / "mine-step-sizes.svg"
    before = figure.read_bytes()
    figure.unlink()
    names = ("--algorithms", "td", "clip-netd")
    run(folder / "mine.json", *names, *SMALL, "--redraw", "--out", folder / "out")
    assert figure.read_bytes() == before


def test_mistakes_are_one_line(folder, capsys, tmp_path):
    out = ("--out", tmp_path / "out")
    assert "choose from" in failure(capsys, "three-state", *out)
    assert "choose from" in failure(capsys, "baird", "--algorithms", "tdd", *out)
    assert failure(capsys, "baird", "--n", "0", *out).startswith("emphatic: n: must be")
    for text in ("2^-3:2", "1:2:3", "x", "2^-99:2^-2", "0", "nan"):
        assert failure(capsys, "baird", "--alphas", text, *out).startswith("emphatic: alphas:")
    assert "no such file" in failure(capsys, tmp_path / "none.json", *out)
    assert "holds no summary" in failure(capsys, "baird", "--redraw", *out)
    assert "name a problem" in failure(capsys, "all", "--quick", *out)
    other = failure(capsys, "two-state", *SMALL, "--out", folder / "out")
    assert "another experiment" in other
    assert "in use" in failure(capsys, "two-state", *SMALL, "--out", folder)
    assert not (tmp_path / "out").exists()


def test_step_sizes():
    assert diagnose.parse_alphas(("2^-2:2^-4", "0.1")) == (0.0625, 0.1, 0.125, 0.25)
