"""The ten promises of docs/reliability.md, and how often each is put to the test.

A promise has parts, a part has cases, and a case is a number: the quick count is the first few
of the cases of the full count. `EMPHATIC_FAULTS=full` runs all of them and notes each that was
kept in a ledger, so that what was interrupted goes on there; `quick` notes the quick ones.
Without it the quick ones run and nothing is noted. A ledger holds for one state of `src`.
"""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MODE = os.environ.get("EMPHATIC_FAULTS", "")
LEDGER = Path(os.environ.get("EMPHATIC_FAULTS_LEDGER", ROOT / "runs" / "faults.jsonl"))


class Count(NamedTuple):
    """Cases of a part."""

    quick: int
    full: int


class Promise(NamedTuple):
    name: str
    parts: dict[str, Count]


PROMISES = {
    1: Promise("kill -9", {"Anakin": Count(1, 30), "ALE": Count(1, 20)}),
    2: Promise("crash inside a save", {"operation": Count(108, 108)}),
    3: Promise("corruption", {"damage": Count(80, 1000), "all of them": Count(16, 100)}),
    4: Promise("full or read-only disk", {"full": Count(4, 40), "read-only": Count(2, 10)}),
    5: Promise("NaN and infinity", {"update": Count(54, 543), "run": Count(2, 8)}),
    6: Promise("hostile input", {"options": Count(40, 400), "documents": Count(60, 700)}),
    7: Promise("actors", {"fault": Count(6, 60)}),
    8: Promise("signals", {"moment": Count(2, 40), "twice": Count(1, 8)}),
    9: Promise("determinism", {"agent": Count(1, 23), "Sebulba": Count(1, 9)}),
    10: Promise(
        "endurance",
        {
            "Catch, 1,000,000 updates": Count(0, 1),
            "Catch, 5,000 updates": Count(1, 1),
            "ALE, 20,000 updates": Count(0, 1),
            "ALE, 200 updates": Count(1, 1),
        },
    ),
}


class Tally:
    """Cases of the test under way, counted."""

    def __init__(self):
        self.counts: dict[tuple[int, str], list[int]] = {}

    def cases(self, promise: int, part: str, *, of: list[int] | None = None) -> Iterator[int]:
        """Each case that is still to do; one that comes back without an error was kept.

        `of` chooses among the part's cases, where several tests share them.
        """
        count = PROMISES[promise].parts[part]
        numbers = range(count.full if MODE == "full" else count.quick)
        chosen = [n for n in numbers if of is None or n in of]
        tally = self.counts.setdefault((promise, part), [0, 0])
        tally[1] += len(chosen)
        kept = done(promise, part) if MODE else {}
        for number in chosen:
            if number not in kept:
                start = time.perf_counter()
                yield number
                _note(promise, part, number, time.perf_counter() - start)
            tally[0] += 1


def done(promise: int, part: str, source: str | None = None) -> dict[int, dict]:
    """What the ledger has of a part, of this state of the sources or of another."""
    source = source or sources()
    found = (entry for entry in ledger() if entry["source"] == source)
    return {e["case"]: e for e in found if (e["promise"], e["part"]) == (promise, part)}


def ledger() -> list[dict]:
    """Every case that was noted, in the order of time."""
    if not LEDGER.exists():
        return []
    lines = LEDGER.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]


def sources() -> str:
    """Which `src` this is: a digest of every file in it."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".py", ".json"):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str:
    """The commit, with a + where the sources are not those of it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return git("rev-parse", "--short=10", "HEAD") + "+" * bool(git("status", "--short", "src"))


def _note(promise: int, part: str, case: int, seconds: float) -> None:
    if not MODE:
        return
    entry = {"promise": promise, "part": part, "case": case, "seconds": round(seconds, 3)}
    entry |= {"source": sources(), "commit": commit()}
    LEDGER.parent.mkdir(parents=True, exist_ok=True)
    with LEDGER.open("ab", buffering=0) as file:
        file.write((json.dumps(entry) + "\n").encode())
