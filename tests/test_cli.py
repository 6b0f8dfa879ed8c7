"""What the user types, and what she reads."""

import re
import subprocess
import sys

import pytest
from rich.cells import cell_len

import emphatic
from emphatic import algorithms, cli
from emphatic.commands.algorithms import LEGEND


def test_help_lists_every_verb(capsys):
    for argv in ([], ["--help"], ["-h"]):
        cli.main(argv)
        out = capsys.readouterr().out
        assert out.startswith("usage: emphatic VERB")
        assert all(f"  {verb} " in out for verb in cli.VERBS)
        assert max(map(len, out.splitlines())) <= 100


def test_version(capsys):
    cli.main(["--version"])
    assert capsys.readouterr().out == f"emphatic {emphatic.__version__}\n"


def test_an_unknown_verb_is_one_line_and_exit_code_2(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["algorithm"])
    captured = capsys.readouterr()
    assert caught.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("emphatic: algorithm: is no verb")
    assert captured.err.count("\n") == 1
    assert "algorithms" in captured.err
    assert "Traceback" not in captured.err


def test_verbs_have_help(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["algorithms", "--help"])
    assert caught.value.code == 0
    assert "emphatic algorithms" in capsys.readouterr().out


def test_an_unknown_option_is_exit_code_2(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["algorithms", "--nonsense"])
    assert caught.value.code == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_algorithms_lists_every_row_in_full(monkeypatch, capsys, columns):
    """Nothing cut short, nothing wrapped, one row a line, within the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    cli.main(["algorithms"])
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert LEGEND in out
    assert max(map(cell_len, lines)) <= columns
    assert not any("…" in line for line in lines)
    by_name = {line.split()[0]: line for line in lines if line.strip()}
    for row in algorithms.ROWS:
        line = by_name[row.name]
        assert row.scheme in line
        assert row.source in line


def test_algorithms_says_what_each_row_is_made_of(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    cli.main(["algorithms"])
    out = capsys.readouterr().out
    line = {name: re.search(rf"^{name} .*$", out, re.M).group() for name in algorithms.NAMES}
    assert "min(ρ̄, ρ)" in line["clip-netd"]
    assert "NETD" in line["clip-netd"]
    assert "ρᵛ" in line["nevtrace"]
    assert "V-trace" in line["nevtrace"]
    assert "exact NETD, ν" in line["exact-nevtrace-nu"]
    assert "exact NETD " in line["exact-nevtrace"]
    assert "NETD" not in line["td"]


def test_output_is_plain_when_piped(capsys):
    cli.main(["algorithms"])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("train", "--help"), ("algorithms",), ("--help",)])
def test_a_reader_that_leaves_is_no_error(arguments):
    """`emphatic … | true`: no traceback, nothing said, and not called a success."""
    command = [sys.executable, "-m", "emphatic", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=60) == 1
    assert said == b""


def test_the_library_imports_quickly():
    """Beyond JAX itself, in CPU seconds: matplotlib, ale-py and the rest wait until needed."""
    code = (
        "import time, jax; start = time.process_time(); import emphatic; "
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", code]
    took = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert took < 1.5
