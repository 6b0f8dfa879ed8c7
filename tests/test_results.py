"""What stands in results/ is what its commands make of what lies beside it."""

import shutil
from pathlib import Path

import pytest

from emphatic import cli
from emphatic.report import figures

RESULTS = Path(__file__).parent.parent / "results"
WITH_SUMMARIES = sorted(folder.parent for folder in RESULTS.glob("*/summaries/") if folder.is_dir())
OF_RUNS = [f for f in WITH_SUMMARIES if not (f / "summaries" / "summaries.json").exists()]


def test_there_are_some():
    assert "minatar-breakout" in {folder.name for folder in OF_RUNS}


@pytest.mark.parametrize("folder", OF_RUNS, ids=lambda folder: folder.name)
def test_a_report_is_made_again_from_its_summaries_to_the_byte(folder, tmp_path, monkeypatch):
    """`emphatic report results/X` writes the numbers of results/X/report."""
    copy = tmp_path / folder.name
    shutil.copytree(folder / "summaries", copy / "summaries")
    monkeypatch.setattr(figures, "write", lambda *_: [])
    cli.main(["report", str(copy)])
    made, kept = copy / "report" / "data", folder / "report" / "data"
    names = sorted(file.name for file in kept.iterdir())
    assert names == sorted(file.name for file in made.iterdir())
    for name in names:
        assert (made / name).read_bytes() == (kept / name).read_bytes(), name
