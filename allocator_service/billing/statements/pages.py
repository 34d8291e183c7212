"""A statement as a page that one would send: from the same document as every other format."""

from collections.abc import Mapping
from typing import Any

from django.template.loader import render_to_string

KINDS = {
    "usage": "Usage",
    "commitment": "Commitment",
    "commitment_unused": "Commitment, unused",
    "upfront": "Upfront",
    "fixed": "Fixed cost",
    "adjustment": "Adjustment",
    "reversal": "Reversal",
    "rerated": "Rerated",
    "credit_note": "Credit note",
}


def statement_page(document: Mapping[str, Any]) -> str:
    """The page of a statement's document: one file, nothing to load, made to be printed."""
    sections = [
        ("Charges", [_row(line) for line in document["lines"] if line["role"] == "charge"]),
        (
            "Credits for servers that others used",
            [_row(line) for line in document["lines"] if line["role"] == "credit"],
        ),
    ]
    return render_to_string(
        "billing/statement.html",
        {
            # A template has no way to say `from`.
            "document": {**document, "from_": document["from"]},
            "sections": [(title, rows) for title, rows in sections if rows],
        },
    )


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "from_": line["from"], "what": _what(line)}


def _what(line: Mapping[str, Any]) -> str:
    """A line in words."""
    parts = [KINDS[line["kind"]]]
    if line["resource"]:
        parts.append(line["resource"])
    if line["role"] == "credit":
        parts.append(f"used by {line['user']}")
    elif line["server_owner"] == line["user"]:
        parts.append("on own servers")
    elif line["server_owner"]:
        parts.append(f"on servers of {line['server_owner']}")
    elif line["kind"] == "usage":
        parts.append("on the pool's servers")
    if line["adjusts"]:
        parts.append(f"of {line['adjusts']}")
    return ", ".join(parts)
