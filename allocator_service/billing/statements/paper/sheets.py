"""Texts of a statement's PDF file, from the document of every other format."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Any

from allocator_service.billing.statements.pages import (
    EMPTY,
    Section,
    cluster_rows,
    group_note,
    line_sections,
    local_instants,
    lost_rows,
)
from allocator_service.billing.statements.paper.characters import REPLACEMENT, printable
from allocator_service.billing.statements.paper.typesetting import refuse_long, typeset
from allocator_service.core.display import money_text, month_text
from allocator_service.core.documents import json_bytes

Rows = Sequence[tuple[str, str]]
LONG_ROW = 1_000
# Millimetres of a page between its margins, and of numbers in its font.
PAGE_WIDTH, LEAST_NAME_WIDTH = 180, 48
DIGIT_WIDTH, MARK_WIDTH, PADDING = 1.7, 1.1, 2.3
REPLACED = f"{REPLACEMENT} stands for a character without a font. The other formats have it."


def statement_pdf(document: Mapping[str, Any]) -> bytes:
    """Return the PDF file of a statement's document, which is as the reader may see it.

    Raises `TooLarge` for more lines than a file may have, and as `typeset`.
    """
    refuse_long(len(document["lines"]))
    return _file(document, _statement_sheet(document))


def group_statement_pdf(document: Mapping[str, Any]) -> bytes:
    """Return the PDF file of a group's statement. Raises as `statement_pdf`."""
    refuse_long(len(document["groups"]) + len(document["tenants"]))
    return _file(document, _group_sheet(document))


def _file(document: Mapping[str, Any], sheet: Mapping[str, Any]) -> bytes:
    written = _printable(sheet)
    if REPLACEMENT in str(written):
        written["notes"] = [*written["notes"], REPLACED]
    written["verification"] = {
        "text": "SHA-256 of this statement as JSON, as the API returns it to the same key:",
        "digest": hashlib.sha256(json_bytes(document)).hexdigest(),
    }
    # No clock: an open statement has no date, a closed one that of its closing.
    closed_at = document["closed_at"]
    written["dated"] = closed_at is not None
    return typeset(
        written, timestamp=int(datetime.fromisoformat(closed_at or document["from"]).timestamp())
    )


def _printable(value: Any) -> Any:
    """Return a sheet with printable texts."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {name: _printable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    return value


def _statement_sheet(document: Mapping[str, Any]) -> dict[str, Any]:
    totals, currency = document["totals"], document["currency"]
    sections = line_sections(document)
    return {
        **_head(document, "Tenant", document["tenant"]),
        "tables": _line_tables(sections, currency),
        "empty": [] if sections else [EMPTY],
        "total": ("Total", money_text(totals["billed"], currency)),
        "blocks": [
            {
                "title": None,
                "facts": [
                    ("Charges", money_text(totals["charges"])),
                    ("Credits", money_text(totals["credits"])),
                    (
                        "Effective cost",
                        f"{money_text(totals['effective'])} (what is paid upfront spread over its term)",
                    ),
                ],
                "notes": [],
            },
            *_clusters(document),
            _savings(document, currency),
        ],
        "notes": document["notes"],
    }


def _head(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Return the title, the first facts and the foot of a sheet."""
    local = local_instants(document, document["timezone"])
    title = f"Statement of {month_text(document['month'])}"
    facts = [
        (kind, name),
        ("Pool", document["pool"]),
        ("State", document["state"]),
        ("Period", f"{local['from_']} to {local['to']}"),
        ("Time zone", document["timezone"]),
        ("Currency", f"{document['currency']}, net"),
    ]
    if local["closed_at"]:
        facts.append(("Closed", local["closed_at"]))
    return {"title": title, "footer": f"{title} · {document['pool']} · {name}", "facts": facts}


def _line_tables(sections: Sequence[Section], currency: str) -> list[dict[str, Any]]:
    """Return the tables of lines, whose columns have the widths that their numbers need."""
    rows = [row for section in sections for row in section.rows]
    sums = [section.sum for section in sections]
    number = 10
    hours = _width([_hours_text(row) for row in rows], 20, 40)
    price = _width([_price_text(row) for row in rows], 14, 27)
    billed = _width([*(money_text(row["billed"]) for row in rows), *map(money_text, sums)], 18, 32)
    left = PAGE_WIDTH - number - hours - price - billed
    columns = [
        _column("No.", number),
        _column("What"),
        # An instant has one line where the name keeps enough room, otherwise two.
        _column("Period", 47 if left - 47 >= LEAST_NAME_WIDTH else 38),
        _number("Hours", hours),
        _number("Price", price),
        _number(currency, billed),
    ]
    return [
        _table(
            section.title,
            columns,
            [_row(*_line_cells(row)) for row in section.rows],
            ["", section.sum_title, "", "", "", money_text(section.sum)],
        )
        for section in sections
    ]


def _width(numbers: Sequence[str], least: int, most: int) -> int:
    """Return the millimetres of a column of numbers, at most `most`, beyond which they break."""
    needed = max(
        (sum(DIGIT_WIDTH if each.isdigit() else MARK_WIDTH for each in text) for text in numbers),
        default=0.0,
    )
    return min(max(ceil(needed + PADDING), least), most)


def _table(
    title: str,
    columns: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    sums: Sequence[str] | None = None,
) -> dict[str, Any]:
    return {"title": title, "columns": columns, "rows": rows, "sum": sums}


def _column(title: str, width: int | None = None) -> dict[str, Any]:
    """Return a column of texts. The width is in millimetres, or None for the rest of the page."""
    return {"title": title, "width": width, "numeric": False}


def _number(title: str, width: int) -> dict[str, Any]:
    return {**_column(title, width), "numeric": True}


def _row(*cells: Any) -> dict[str, Any]:
    """Return a row, which continues on the next page only if its texts are long."""
    return {"cells": cells, "breakable": len(str(cells)) > LONG_ROW}


def _line_cells(row: Mapping[str, Any]) -> list[Any]:
    notes = [
        *([f"plan {row['plan']}"] if row["plan"] else []),
        *([row["note"]] if row["note"] else []),
        *([row["sum_of"]] if row["sum_of"] else []),
        *([f"entry {row['entry']}"] if row["entry"] else []),
    ]
    unit = [row["hours_unit"]] if row["hours_unit"] else []
    return [
        f"{row['number']:,}",
        {"text": row["what"], "notes": notes},
        {"text": row["from_"], "notes": [f"to {row['to']}"]},
        {"text": _hours_text(row), "notes": unit},
        _price_text(row),
        money_text(row["billed"]),
    ]


def _hours_text(row: Mapping[str, Any]) -> str:
    return money_text(row["hours"]) if row["hours"] else ""


def _price_text(row: Mapping[str, Any]) -> str:
    """Return the price of a line, and nothing for a line without hours."""
    if row["price"]:
        return money_text(row["price"])
    return "several" if row["hours"] else ""


def _clusters(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the block of use by cluster, none without use or clusters."""
    facts = [
        (cluster, "; ".join(f"{money_text(hours)} {unit} of {name}" for hours, unit, name in rows))
        for cluster, rows in cluster_rows(document)
    ]
    return [{"title": "Use by cluster", "facts": facts, "notes": []}] if facts else []


def _savings(document: Mapping[str, Any], currency: str) -> dict[str, Any]:
    savings = document["savings"]
    facts: Rows = []
    if savings["saved"] is None:
        notes = [f"Not known: {savings['why']}"]
    else:
        notes = [savings["definition"]]
        facts = [
            ("Alone", money_text(savings["alone_cost"])),
            ("Beyond, elsewhere", money_text(savings["outside_cost"])),
            ("Paid here", money_text(savings["paid"])),
            ("Saved", money_text(savings["saved"], currency)),
        ]
    lost = [
        f"Less {name} than alone: {money_text(hours)} {unit}."
        for name, hours, unit in lost_rows(document)
    ]
    return {"title": "What sharing saved", "facts": facts, "notes": [*lost, *notes]}


def _group_sheet(document: Mapping[str, Any]) -> dict[str, Any]:
    totals, currency = document["totals"], document["currency"]
    money = [_number(title, 30) for title in ("Charges", "Credits", currency)]
    tables: list[dict[str, Any]] = []
    if document["groups"]:
        rows = [
            _row(row["group"], f"{row['tenants']:,}", *_sums(row)) for row in document["groups"]
        ]
        columns = [_column("Group"), _number("Tenants", 20), *money]
        tables.append(_table("Groups", columns, rows))
    rows = [_row(row["tenant"], row["group"], *_sums(row)) for row in document["tenants"]]
    columns = [_column("Tenant"), _column("Group", 40), *money]
    tables.append(_table("Tenants", columns, rows, ["Sum", "", *_sums(totals)]))
    return {
        **_head(document, "Group", document["group"]),
        "tables": tables,
        "empty": [],
        "total": ("Billed", money_text(totals["billed"], currency)),
        "blocks": _clusters(document),
        "notes": [group_note(document)],
    }


def _sums(row: Mapping[str, str]) -> list[str]:
    return [money_text(row[name]) for name in ("charges", "credits", "billed")]
