"""Counts what the fault battery found, and says so at the end."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "runtime")]

import promises  # noqa: E402


@pytest.fixture
def tally(record_property):
    """`tally.cases(promise, part)`: the cases to go through."""
    made = promises.Tally()
    yield made
    for (promise, part), (kept, of) in made.counts.items():
        record_property("promise", [promise, part, kept, of])


def pytest_terminal_summary(terminalreporter):
    """A line a promise: "promise 1, kill -9: 50 of 50"."""
    totals = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            for name, value in report.user_properties:
                if name == "promise":
                    promise, _, kept, of = value
                    total = totals.setdefault(promise, [0, 0])
                    total[0] += kept
                    total[1] += of
    for promise, (kept, of) in sorted(totals.items()):
        name = promises.PROMISES[promise].name
        terminalreporter.write_line(f"promise {promise}, {name}: {kept} of {of}")
