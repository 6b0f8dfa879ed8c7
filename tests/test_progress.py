"""How a run shows that it goes on: speed, time left, as a bar or as lines."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from emphatic.agent import presets
from emphatic.commands import progress
from emphatic.runtime.settings import TrainConfig

CONFIG = TrainConfig(env="catch", learner=presets.catch(), steps=10_000)


class Clock:
    """A time that passes when it is told to."""

    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def told(show, clock, *lines):
    """`show` is told of lines: seconds, steps, return."""
    for seconds, steps, result in lines:
        clock.now = seconds
        show({"steps": steps, "return": result}, float(seconds))


def test_a_rate_is_of_the_last_ten_seconds_or_since_the_line_before(clock):
    rate = progress.Rate()
    found = []
    for clock.now, steps in ((0, 0), (5, 500), (12, 2600), (60, 7400), (60, 7400)):
        found.append(rate(steps))
    assert found == [None, 100.0, 300.0, 100.0, None]


def test_lines_are_ten_seconds_apart_and_say_what_is_left(clock):
    out = io.StringIO()
    show = progress.Lines(CONFIG, Console(file=out, width=40))
    lines = [(1, 100, None), (4, 400, 0.1), (11, 1100, 0.25), (12, 1200, 0.3), (13, 10_240, 1.0)]
    told(show, clock, *lines)
    assert [line.strip() for line in out.getvalue().splitlines()] == [
        "100 steps, return -",
        "1,100 steps, return 0.25, 100 steps/s, 0:01:29 left",
        "10,240 steps, return 1.00, 1,093 steps/s, 0:00:00 left",
    ]


def test_a_bar_knows_how_far_and_how_fast(clock):
    with Progress(console=Console(file=io.StringIO(), force_terminal=True)) as bar:
        show = progress.Bar(CONFIG, bar)
        (task,) = bar.tasks
        assert task.fields["steps"] == "compiling"
        told(show, clock, (0, 100, None), (2, 5000, 0.5))
        assert (task.completed, task.total, task.percentage) == (5000, 10_000, 50.0)
        assert task.fields["steps"] == "5,000 steps"
        assert task.fields["result"] == "0.50"
        assert task.fields["speed"] == "2,450 steps/s"


@pytest.mark.parametrize(("terminal", "kind"), [(True, progress.Bar), (False, progress.Lines)])
def test_a_terminal_gets_a_bar_and_a_file_gets_lines(terminal, kind, monkeypatch):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False)
    monkeypatch.setattr(progress, "plain_console", lambda: console)

    def run(progress, say):
        assert isinstance(progress, kind)
        progress({"steps": 320, "return": 0.5}, 0.0)
        say("said")
        return "outcome"

    assert progress.shown(CONFIG, run) == "outcome"
    text = out.getvalue()
    assert "netd-ace on catch: 10,000 steps, seed 0" in text
    assert "said" in text
    assert "320 steps" in text
