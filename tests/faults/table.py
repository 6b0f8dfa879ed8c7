"""Writes what the ledger holds into results/reliability.json and docs/reliability.md.

    python tests/faults/table.py          both, from the ledger
    python tests/faults/table.py --check  whether the page says what results/reliability.json does

A part counts for the state of the sources it was measured on last; the commit is that state's.
"""

import json
import sys

from promises import PROMISES, ROOT, ledger

RESULTS, PAGE = ROOT / "results" / "reliability.json", ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- measured: make faults -->", "<!-- end -->"


def measured() -> list[dict]:
    """A row for each part of each promise."""
    entries, rows = ledger(), []
    for number, promise in PROMISES.items():
        for part, count in promise.parts.items():
            own = [e for e in entries if (e["promise"], e["part"]) == (number, part)]
            last = [e for e in own if e["source"] == own[-1]["source"]]
            kept = {e["case"]: e["seconds"] for e in last if e["case"] < count.full}
            row = {"promise": number, "name": promise.name, "part": part, "kept": len(kept)}
            row |= {"full": count.full, "quick": count.quick, "seconds": round(sum(kept.values()))}
            rows.append(row | {"commit": last[-1]["commit"] if last else None})
    return rows


def extent(row: dict) -> str:
    """How much of the full count it was."""
    if row["kept"] == row["full"]:
        return "full count"
    if row["kept"] == 0:
        return "not run"
    return "quick count" if row["kept"] == row["quick"] else "part of it"


def table(rows: list[dict]) -> str:
    """The rows as Markdown."""
    lines = ["| | promise | part | kept | of full count | this was | commit |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row["promise"], row["name"], row["part"], row["kept"], row["full"]]
        cells += [extent(row), f"`{row['commit']}`" if row["commit"] else ""]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def page(rows: list[dict]) -> str:
    """The page with the table in its place."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(page(json.loads(RESULTS.read_text())) != PAGE.read_text())
    rows = measured()
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(page(rows))
    print(table(rows))
