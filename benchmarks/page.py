"""Generator of the tables in docs/benchmarks.md.

``python -m benchmarks.page`` reads docs/benchmarks.json, which ``python -m benchmarks --json
docs/benchmarks.json`` writes, and replaces the generated part of the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measurement import amount

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
MEASURED = DOCS / "benchmarks.json"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def tables(measured: dict[str, Any]) -> str:
    """Return the generated part of the page in Markdown, with a table per benchmark."""
    parts = []
    for name, benchmark in measured.items():
        machine = benchmark["machine"]
        flag = " --quick" if benchmark["quick"] else ""
        where = f"{machine['processors']} processors ({machine['architecture']})"
        parts += [
            f"## {name}",
            "",
            f"`python -m benchmarks{flag} {name}` on {where}, Python {machine['python']}:",
            "",
            "| what | sizes | ours | peer | its time | ratio | goal | answers differ by | notes |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *(_line(row) for row in benchmark["rows"]),
            "",
        ]
    return "\n".join(parts).rstrip()


def _line(row: dict[str, Any]) -> str:
    goal = "–" if row["goal"] is None else f"≥ {row['goal']:g}, {'met' if row['met'] else 'missed'}"
    unit = row.get("unit", "s")
    cells = (
        row["name"],
        row["sizes"],
        amount(row["our_value"], unit),
        row["peer"],
        amount(row["peer_value"], unit),
        f"{row['ratio']:.1f}",
        goal,
        "–" if row["agreement"] is None else f"{row['agreement']:.0e}",
        row["notes"],
    )
    return "| " + " | ".join(cells) + " |"


def page_with(generated: str) -> str:
    """Return the current page with another generated part."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(tables(json.loads(MEASURED.read_text()))))
