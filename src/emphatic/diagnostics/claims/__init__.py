"""Every claim of the paper about traces, theory and diagnostics, put to the test.

A claim is an entry with its place in the paper, an operational test with thresholds that
were fixed beforehand (`base`), what was measured and a verdict. Where the paper leaves
something open, the same test runs under the other readings too.
"""

import json
import pathlib
from collections import Counter
from typing import NamedTuple

from rich import box
from rich.table import Table

from emphatic.diagnostics.claims import baird, base, collision, theory, traces, two_state

CHAPTERS = {
    "Traces": traces.CLAIMS,
    "Theory": theory.CLAIMS,
    "Two-state MDP": two_state.CLAIMS,
    "Collision": collision.CLAIMS,
    "Baird's counterexample": baird.CLAIMS,
}

OPEN = {
    "Two-state MDP": (
        "The start weight, which the paper does not give, cannot matter: with one weight and no "
        "reward the error is the initial one times factors that do not depend on it, and every "
        "test compares errors with the initial one or with each other. (But for the 10¹⁰ at "
        "which a run counts as diverged.)"
    ),
    "Baird's counterexample": (
        "Start weights are those of Sutton and Barto, (1, 1, 1, 1, 1, 1, 10, 1); the paper gives "
        "none. There is no reward, so scaling them scales every error alike; their direction "
        "matters to how large errors are on the way, and so to which α is best and who is ahead. "
        "Other directions were not run."
    ),
}
"""What is said at the head of a chapter of readings that its claims are not tried under."""

VERDICTS = ("reproduced", "only under a stated reading", "not reproduced", "false as printed")


class Verdict(NamedTuple):
    """A claim and what came of it."""

    chapter: str
    claim: base.Claim
    finding: base.Finding


def judge(evidence: base.Evidence) -> list[Verdict]:
    """Runs every test."""
    return [
        Verdict(chapter, claim, claim.check(evidence))
        for chapter, entries in CHAPTERS.items()
        for claim in entries
    ]


def write(verdicts: list[Verdict], folder: pathlib.Path) -> None:
    """claims.md for people, claims.json for programs."""
    (folder / "claims.json").write_text(
        json.dumps([_record(v) for v in verdicts], indent=1, ensure_ascii=False) + "\n"
    )
    (folder / "claims.md").write_text(markdown(verdicts))


def _record(v: Verdict) -> dict:
    return {
        "key": v.claim.key,
        "chapter": v.chapter,
        "place": v.claim.place,
        "says": v.claim.says,
        "quoted": v.claim.quoted,
        "test": v.claim.test,
        "note": v.claim.note,
        "verdict": v.finding.verdict,
        "measured": v.finding.measured,
        "readings": [
            {"reading": r.name, "holds": r.holds, "measured": r.measured}
            for r in v.finding.readings
        ],
    }


def markdown(verdicts: list[Verdict]) -> str:
    """A page: the tally, then each claim with its measurement and readings."""
    counts = Counter(v.finding.verdict for v in verdicts)
    lines = [
        "# The paper's claims, tested",
        "",
        f"Of {len(verdicts)} claims: " + ", ".join(f"{counts[x]} {x}" for x in VERDICTS) + ".",
        "",
        "Quotations are the paper's words, ... where some are left out, with ours in [brackets].",
        "Places are labels of its source. Thresholds and their reasons:",
        "`src/emphatic/diagnostics/claims/base.py`. Every test must hold in every seed.",
    ]
    for chapter in CHAPTERS:
        lines += ["", f"## {chapter}"]
        lines += ["", OPEN[chapter]] if chapter in OPEN else []
        for v in verdicts:
            if v.chapter == chapter:
                lines += _entry(v)
    return "\n".join(lines) + "\n"


def _entry(v: Verdict) -> list[str]:
    says, place = v.claim.says, v.claim.place
    lines = [
        "",
        f"### {v.claim.key}: {v.finding.verdict}",
        "",
        f'> "{says}" ({place})' if v.claim.quoted else f"In our words: {says} ({place}).",
        "",
        f"- Test: {v.claim.test}.",
        f"- Measured: {v.finding.measured}.",
    ]
    if v.claim.note:
        lines.append(f"- Note: {v.claim.note}.")
    for r in v.finding.readings:
        lines.append(
            f"- Reading, {r.name}: {'holds' if r.holds else 'does not hold'}; {r.measured}."
        )
    return lines


def table(verdicts: list[Verdict]) -> Table:
    """One line for each claim."""
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("claim", "the paper says", "verdict"):
        out.add_column(header, no_wrap=header == "claim")
    for v in verdicts:
        out.add_row(v.claim.key, v.claim.says, v.finding.verdict)
    return out
