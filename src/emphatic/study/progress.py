"""A study under way, shown: a table on a terminal, else lines."""

import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from emphatic.study import status
from emphatic.study.runner import Pool, Runner, Summary
from emphatic.study.spec import Study

_WORDS = {
    "started": "started",
    "done": "done",
    "failed": "failed",
    "again": "again",
    "kept": "kept back",
    "elsewhere": "elsewhere",
}


def shown(folder: Path, study: Study, pool: Pool, console: Console) -> Summary:
    """Run a study through a pool, with its progress."""
    reader = status.Reader(folder, study)
    if not console.is_terminal:
        lines = _Lines(folder, study, reader, console)
        return Runner(folder, study, pool, lines.say).run(lines.tick)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        table = _Table(folder, study, reader, live)
        return Runner(folder, study, pool, table.say).run(table.tick)


class _Table:
    """Progress as a live table; what failed stays above it."""

    def __init__(self, folder: Path, study: Study, reader: status.Reader, live: Live):
        self._name, self._study, self._reader, self._live = folder.name, study, reader, live
        self._last = 0.0

    def say(self, event: str, sentence: str) -> None:
        if event in ("failed", "again", "kept"):
            self._live.console.print(f"{_WORDS[event]} {sentence}")

    def tick(self) -> None:
        if time.monotonic() - self._last > 2.0:
            self._last = time.monotonic()
            rows = self._live.console.height
            self._live.update(
                status.shown(self._name, self._study, self._reader(), rows), refresh=True
            )


class _Lines:
    """Progress as lines: each start and end, and the whole once a minute."""

    def __init__(self, folder: Path, study: Study, reader: status.Reader, console: Console):
        self._name, self._study, self._reader = folder.name, study, reader
        self._console, self._last = console, time.monotonic()

    def say(self, event: str, sentence: str) -> None:
        self._console.print(f"{_WORDS[event]:<10} {sentence}", soft_wrap=True)

    def tick(self) -> None:
        if time.monotonic() - self._last > 60.0:
            self._last = time.monotonic()
            line = status.headline(self._name, self._study, self._reader())
            self._console.print(line, soft_wrap=True)
