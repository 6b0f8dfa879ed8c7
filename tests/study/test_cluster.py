"""Ray: what is said when it is not there, and a real cluster of two nodes with kills."""

import subprocess
import sys
from pathlib import Path

import pytest

from emphatic import cli
from emphatic.errors import UserError
from emphatic.study import cluster, spec
from emphatic.study.spec import Study

STUDY = Study(environments=("catch",), agents={"surreal": 1}, steps=640)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec.create(tmp_path / "studies" / "toy", STUDY)
    return tmp_path


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", "nobody answers at 127.0.0.1:1"),
        ("[::1]:1", "nobody answers at [::1]:1"),
        ("127.0.0.1:99999", "nobody answers at"),
        ("somewhere", "must be auto, local or HOST:PORT, not 'somewhere'"),
        ("http://127.0.0.1:1", "must be auto, local or HOST:PORT"),
    ],
)
def test_an_address_where_nothing_is_gets_one_sentence_at_once(address, sentence, toy, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["study", "run", "toy", "--ray", address])
    assert stop.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("emphatic: ray: ")
    assert sentence in error
    assert "\n" not in error
    assert [file.name for file in (toy / "studies" / "toy").iterdir()] == ["study.json"]


def test_without_ray_the_extra_is_named(toy, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["study", "run", "toy", "--ray", "auto"])
    assert stop.value.code == 2
    assert "pip install 'emphatic[cluster]'" in capsys.readouterr().err


def test_processes_are_for_this_machine(toy, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["study", "run", "toy", "--ray", "auto", "--processes", "2"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("emphatic: processes: ")


def test_a_node_that_does_not_see_the_folder_says_so(tmp_path):
    with pytest.raises(UserError, match="must be shared by all nodes"):
        cluster.task(str(tmp_path / "nowhere"), "catch-surreal-seed0", "")


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(1500)
def test_two_nodes_a_killed_worker_and_a_killed_node(tmp_path):
    """See `two_nodes.py`; its log is kept in results/study/two-nodes.log."""
    script = Path(__file__).with_name("two_nodes.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal those of the undisturbed study" in done.stdout
