"""Findings as text, JSON, pictures and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers.finding import Figure, Finding

FORMATS = ("png", "svg")
_INTRODUCTION = """# What the papers print, and what comes out here

`python -m papers NAME` (or `all`) computes a table or figure of a paper again with this
library and prints the paper's number beside ours; this page is what it wrote (`--page`). The same
command gives the same numbers. Where a number differs, the reason stands under the table. What needs a
published trace finds it in the folder that `ALLOCATOR_DATA_DIR` names. `--folder` takes the numbers as
JSON and, with matplotlib (`pip install 'allocation-papers[figures]'`), the curves
as PNG and SVG.

*Reproduced* means that every number and sentence of the paper below came out, on the paper's own input;
*in part*, that half of them did, or all on another input because the paper's is not available; *not
reproduced*, that fewer did. The comparisons are made by the command.

Not here: the appendices of H-MRF (costs; Google's trace), which are not available. DRFH has no third
table; its Table 1 are the servers that its studies draw from. Further examples of the papers are in the
tests of each policy.
"""


def text_of(finding: Finding) -> str:
    """Return a finding as a table of text."""
    head = ("what", "paper", "ours")
    lines = [head, *((row.what, row.paper, row.ours) for row in finding.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    table = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    reasons = [f"- {reason}" for reason in finding.differences]
    return "\n".join(
        [
            f"{finding.name}: {finding.title} ({finding.source})",
            f"{finding.verdict.value}. {finding.setting}",
            "",
            *table,
            "",
            *reasons,
        ]
    )


def write_json(finding: Finding, folder: Path) -> Path:
    """Write ``<name>.json``."""
    path = folder / f"{finding.name}.json"
    # NaN is not JSON, and other readers would refuse the file.
    path.write_text(json.dumps(finding.to_document(), indent=2, allow_nan=False) + "\n")
    return path


def write_page(findings: Sequence[Finding], path: Path) -> None:
    """Write the page of the documentation.

    The same findings give the same bytes.
    """
    parts = [_INTRODUCTION, _overview(findings), *(_section(finding) for finding in findings)]
    path.write_text("\n".join(parts))


def _overview(findings: Sequence[Finding]) -> str:
    rows = [
        f"| [{finding.name}](#{finding.name}) | {finding.title} | {finding.source} | "
        f"{finding.verdict.value} |"
        for finding in findings
    ]
    return "\n".join(["| name | what | source | verdict |", "| --- | --- | --- | --- |", *rows, ""])


def _section(finding: Finding) -> str:
    rows = [f"| {row.what} | {row.paper} | {row.ours} |" for row in finding.rows]
    reasons = [f"* {reason}" for reason in finding.differences]
    return "\n".join(
        [
            f"## {finding.name}",
            "",
            f"{finding.title}: {finding.source}. **{finding.verdict.value.capitalize()}.**",
            "",
            finding.setting,
            "",
            "| what | paper | ours |",
            "| --- | --- | --- |",
            *rows,
            "",
            "Why they differ:",
            "",
            *reasons,
            "",
        ]
    )


def draw(finding: Finding, folder: Path) -> list[Path] | None:
    """Draw the curves as PNG and SVG.

    Return None if matplotlib is not installed.
    """
    # Only the pictures need it: without it the numbers are written all the same.
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ModuleNotFoundError:
        return None
    # The same curves give the same file: no dates, no random names.
    mpl.rcParams["svg.hashsalt"] = finding.name
    paths = []
    for figure in finding.figures:
        canvas = Canvas(figsize=(7, 4), layout="constrained")
        _fill(canvas.subplots(), figure)
        for kind in FORMATS:
            path = folder / f"{figure.name}.{kind}"
            # Without the date of the SVG, as above; PNG files have none.
            canvas.savefig(path, dpi=120, metadata={"Date": None} if kind == "svg" else {})
            paths.append(path)
    return paths


def _fill(axes: Any, figure: Figure) -> None:
    for line in figure.lines:
        style = {"marker": "o", "linestyle": "", "alpha": 0.5} if figure.points else {}
        axes.plot(line.x, line.y, label=line.name, **style)
    if figure.points:
        axes.plot([0, 1], [0, 1], color="grey", linewidth=1, label="equal")
    if figure.logarithmic:
        axes.set_xscale("log")
    # From 0 on, so that curves do not look further apart than they are.
    if not any(value < 0 for line in figure.lines for value in line.y):
        axes.set_ylim(bottom=0)
    axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
