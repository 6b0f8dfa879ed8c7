"""`emphatic report`, from the command line to its files."""

import json

import made_runs
import pytest
import synthetic

from emphatic import cli
from emphatic.report import figures


@pytest.fixture
def undrawn(monkeypatch):
    """The page without its PNG and SVG, which cost seconds and are tested with the page."""
    monkeypatch.setattr(figures, "write", lambda *_: [])


def made(tmp_path, agents=("netd-ace", "surreal"), seeds=(0, 1)):
    """A folder of runs, all evaluated."""
    for agent in agents:
        for seed in seeds:
            level = 1.0 if agent == "netd-ace" else 0.5
            folder = tmp_path / "runs" / f"{agent}-{seed}"
            made_runs.make(folder, agent=agent, seed=seed, updates=20, evaluated=level + seed / 10)
    return tmp_path / "runs"


def report(*words):
    cli.main(["report", *map(str, words)])


def complaint(capsys, *words):
    """The sentence with which the command line refuses."""
    with pytest.raises(SystemExit) as stop:
        report(*words)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def files(folder):
    return {f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_a_report_and_its_summaries_make_the_same_numbers(tmp_path, capsys):
    """And the same report twice is the same bytes."""
    runs = made(tmp_path)
    report(runs, "--summaries", tmp_path / "kept" / "summaries")
    said = capsys.readouterr().out
    assert f"page: {runs / 'report' / 'index.html'}" in said
    assert "Mean return, catch" in said
    assert "netd-ace" in said
    before = files(runs / "report")
    report(runs)
    assert files(runs / "report") == before
    report(tmp_path / "kept", "--out", tmp_path / "again", "--title", "runs")
    again = files(tmp_path / "again")
    numbers = [name for name in before if name.suffix in (".csv", ".json")]
    assert len(numbers) >= 6
    assert {name: again[name] for name in numbers} == {name: before[name] for name in numbers}


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_how_it_was_made_but_not_where(tmp_path, capsys):
    runs = made(tmp_path, seeds=(0,))
    report(runs, "--out", tmp_path / "place", "--baseline", "netd-ace")
    page = (tmp_path / "place" / "index.html").read_text()
    assert "--baseline netd-ace" in page
    assert "--out" not in page
    assert "against netd-ace" in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
def test_two_agents_in_words(tmp_path, capsys):
    """The others are not on the page, but may still be what scores are relative to."""
    runs = made(tmp_path, agents=("netd-ace", "surreal", "impala"))
    report(runs, "--compare", "netd-ace", "impala", "--reference", "surreal")
    said = " ".join(capsys.readouterr().out.split())
    assert "netd-ace is better than impala on 2 of 2 pairs of seeds on catch: sign test" in said
    assert "2 pairs of seeds are too few for this test" in said
    analysis = json.loads((runs / "report" / "data" / "analysis.json").read_bytes())
    assert analysis["reference"]["name"] == "relative to surreal"
    assert {entry["agent"] for entry in analysis["returns"]} == {"netd-ace", "impala"}
    assert 'data-agent="2"' not in (runs / "report" / "index.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_what_is_wrong_is_said_and_the_rest_made(tmp_path, capsys, monkeypatch):
    """In one piece, on a terminal narrower than the path of a run."""
    monkeypatch.setenv("COLUMNS", "40")
    runs = made(tmp_path)
    (runs / "surreal-0" / "config.json").unlink()
    report(runs, tmp_path / "nowhere")
    said = " ".join(capsys.readouterr().out.split())
    assert "surreal-0 is half-written: it has no config.json; left out." in said
    assert "nowhere does not exist." in said
    assert (runs / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "report: there is no run to show. Name a run, a study or a folder of them."),
        (["--compare", "netd-ace", "nobody"], "agent: no run is of 'nobody'; there is netd-ace"),
        (["--baseline", "nobody"], "baseline: no run is of 'nobody'; there is netd-ace, surreal"),
        (["--reference", "nobody"], "reference: must be human, raw, one of netd-ace, surreal"),
        (["--score", "luck"], "--score"),
        (["--compare", "netd-ace", "netd-ace"], "compare: needs two agents"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_sentence(tmp_path, capsys, words, sentence):
    given = [made(tmp_path, seeds=(0,)), *words] if words else []
    assert sentence in complaint(capsys, *given)


def test_nothing_to_show_is_refused_in_a_sentence(tmp_path, capsys):
    said = complaint(capsys, tmp_path)
    assert f"report: there is no run to show. {tmp_path}: the folder has no runs." in said


def test_a_place_that_cannot_be_written_is_refused_in_a_sentence(tmp_path, capsys):
    runs = made(tmp_path, seeds=(0,))
    (tmp_path / "file").write_text("")
    assert "file: " in complaint(capsys, runs, "--out", tmp_path / "file")


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_papers_table_on_the_terminal(tmp_path, capsys):
    """All 684 runs, from files."""
    folder = synthetic.write(tmp_path / "summaries")
    report(folder, "--out", tmp_path / "out")
    analysis = json.loads((tmp_path / "out" / "data" / "analysis.json").read_bytes())
    assert sum(len(entry["by_seed"]) for entry in analysis["returns"]) == 684
    said = capsys.readouterr().out.splitlines()
    median = next(line for line in said if "Median " in line).split()
    assert median == ["Median", "427.69", "497.21", "317.50", "403.47"]
    assert any(line.split()[:4] == ["netd-ace", "33", "of", "57"] for line in said)
