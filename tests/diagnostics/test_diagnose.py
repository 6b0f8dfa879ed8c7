"""`emphatic diagnose` as a user types it."""

import json

import pytest

from emphatic import UserError, cli
from emphatic.commands import diagnose, experiments
from emphatic.diagnostics import figures, problems, sweeps
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


def test_redraw_takes_nothing_that_would_change_the_run(folder, capsys):
    """Nothing given is fine; what is given must be what was run."""
    draw = (folder / "mine.json", "--redraw", "--out", folder / "out")
    run(*draw)
    for option, value in (("alphas", "2^-3"), ("runs", "4"), ("algorithms", "td"), ("n", "2")):
        said = failure(capsys, *draw, f"--{option}", value)
        assert said.startswith("emphatic: redraw: computes nothing")
        assert f"with other {option};" in said
    assert "other algorithms" in failure(capsys, *draw, "--quick")


def test_a_run_goes_on_with_its_own_versions_only(tmp_path):
    """Half done by another JAX: refused. Nothing done yet, or all of it: no mixture."""
    sweep = sweeps.Sweep(name="two-state", problem=problems.problem("two-state"), runs=60)
    experiments.claim([sweep], tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    now = config["versions"]["jax"]
    config["versions"]["jax"] = "0.0.1"
    path.write_text(json.dumps(config))
    first, second = (unit.path(tmp_path) for unit in sweep.units)
    sweeps.write_arrays(first, {})
    with pytest.raises(UserError, match=f"jax 0.0.1, now {now}"):
        experiments.claim([sweep], tmp_path)
    sweeps.write_arrays(second, {})
    experiments.claim([sweep], tmp_path)
    assert json.loads(path.read_text()) == config
    first.unlink()
    second.unlink()
    experiments.claim([sweep], tmp_path)
    assert json.loads(path.read_text())["versions"]["jax"] == now


def test_a_file_is_what_is_in_it_and_not_what_it_is_called(tmp_path):
    """A user's baird.json has neither the size nor the figures of the paper's Baird."""
    path = tmp_path / "baird.json"
    path.write_text(to_json(problems.two_state()))
    sweep = diagnose._sweep(str(path), {})
    assert sweep.name == "baird-json"
    assert (sweep.steps, sweep.runs, sweep.seeds) == (20_000, 50, (0,))
    assert sweep.name not in figures.PAPER
    folders = [diagnose._default_folder(x, False).name for x in (str(path), "baird", "all.json")]
    assert folders == ["diagnose-baird-json", "diagnose-baird", "diagnose-all-json"]


def test_quick_has_a_folder_of_its_own():
    assert diagnose._default_folder("baird", True).name == "diagnose-baird-quick"


def test_mistakes_are_one_line(folder, capsys, tmp_path):
    out = ("--out", tmp_path / "out")
    assert "choose from" in failure(capsys, "three-state", *out)
    assert "choose from" in failure(capsys, "baird", "--algorithms", "tdd", *out)
    assert failure(capsys, "baird", "--n", "0", *out).startswith("emphatic: n: must be")
    for text in ("2^-3:2", "1:2:3", "x", "2^-99:2^-2", "0", "nan"):
        assert failure(capsys, "baird", "--alphas", text, *out).startswith("emphatic: alphas:")
    assert "no such file" in failure(capsys, tmp_path / "none.json", *out)
    assert "holds no summary" in failure(capsys, "baird", "--redraw", *out)
    for option in (("--quick",), ("--runs", "3"), ("--alphas", "2^-3")):
        for whole in ("all", "claims"):
            assert "name a problem" in failure(capsys, whole, *option, *out)
    other = failure(capsys, "two-state", *SMALL, "--out", folder / "out")
    assert "another experiment" in other
    assert "in use" in failure(capsys, "two-state", *SMALL, "--out", folder)
    assert not (tmp_path / "out").exists()


def test_step_sizes():
    assert diagnose.parse_alphas(("2^-2:2^-4", "0.1")) == (0.0625, 0.1, 0.125, 0.25)
