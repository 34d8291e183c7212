"""Statements as pages to send, from the same document as every other format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string

from allocator_service.billing.statements.names import SLUGS_ALONE, Names, named
from allocator_service.core.display import instant_text, money_text, month_text

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


SECTIONS = (
    ("Charges", "Sum of charges", "charge", "charges"),
    ("Credits for servers that others used", "Sum of credits", "credit", "credits"),
)
EMPTY = "There are no charges or credits in this month."


@dataclass(frozen=True)
class Section:
    """Lines of a statement that are added up together."""

    title: str
    sum_title: str
    rows: Sequence[Mapping[str, Any]]
    sum: str


def hours_units(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the unit of hours, such as core-hours, of each resource that the lines name."""
    return {
        line["resource"]: hours_unit(line["unit"])
        for line in document.get("lines") or ()
        if line["resource"]
    }


def hours_unit(unit: str | None) -> str:
    """Return the unit of hours of a resource, which may have no unit of its own."""
    return f"{unit or 'unit'}-hours"


def cluster_rows(document: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the hours used on each cluster, with their unit and their resource, as texts."""
    units = hours_units(document)
    return [
        (
            "Not known" if row["cluster"] is None else row["cluster"],
            [
                (hours, units.get(name, hours_unit("")), name)
                for name, hours in row["hours"].items()
            ],
        )
        for row in document.get("clusters") or ()
    ]


def lost_rows(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the resources of which less was used than alone, with the hours and their unit."""
    units = hours_units(document)
    lost = document["savings"].get("lost_hours") or {}
    return [(name, hours, units.get(name, hours_unit(""))) for name, hours in lost.items()]


def line_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of a statement's document in words, by the pool's clocks."""
    zone = document["timezone"]
    return [_row(line, zone) for line in document["lines"]]


def line_sections(document: Mapping[str, Any]) -> list[Section]:
    """Return the lines of a statement's document in words, as charges and credits."""
    rows = line_rows(document)
    sections = [
        Section(
            title,
            sum_title,
            [row for row in rows if row["role"] == role],
            document["totals"][total],
        )
        for title, sum_title, role, total in SECTIONS
    ]
    return [section for section in sections if section.rows]


def statement_page(
    document: Mapping[str, Any],
    *,
    names: Names = SLUGS_ALONE,
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of a statement's document, as a file that loads nothing else.

    Args:
        document: the statement as the reader may see it.
        names: names for people of the pool and the tenant.
        links: addresses and texts of links above the statement, which are not printed.
    """
    zone = document["timezone"]
    return render_to_string(
        "billing/statement.html",
        {
            "document": {**named(document, names), **local_instants(document, zone)},
            "sections": line_sections(document),
            "clusters": cluster_rows(document),
            "lost": lost_rows(document),
            "empty": EMPTY,
            "links": links,
        },
    )


def group_statement_page(
    document: Mapping[str, Any],
    *,
    names: Names = SLUGS_ALONE,
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of a group's statement, as a file that loads nothing else."""
    shown = {
        **named(document, names),
        **local_instants(document, document["timezone"]),
        "counted": group_note(document),
    }
    of_page = {"document": shown, "clusters": cluster_rows(document), "links": links}
    return render_to_string("billing/group_statement.html", of_page)


def group_note(document: Mapping[str, Any]) -> str:
    """Return which tenants count on a group's statement, with the instant in words."""
    at = instant_text(datetime.fromisoformat(document["tree_at"]), document["timezone"])
    return (
        f"A tenant's statement counts as a whole for its group at {at}. A tenant that had left by then"
        " counts for its last group. What tenants of the group charge each other is in charges and in"
        " credits."
    )


def _row(line: Mapping[str, Any], zone: str) -> dict[str, Any]:
    unit = hours_unit(line["unit"]) if line["hours"] else ""
    texts = {"what": _what(line), "sum_of": _sum_of(line), "hours_unit": unit}
    return {**line, **local_instants(line, zone), **texts}


def _sum_of(line: Mapping[str, Any]) -> str:
    """Return the sum of hours and prices that is the charge of a line, as text, if it has parts."""
    parts = line.get("parts") or ()
    each = [f"{money_text(part['hours'])} × {money_text(part['price'])}" for part in parts]
    return f"charged {' + '.join(each)}" if each else ""


def local_instants(of: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """Return instants by the pool's clocks. A template cannot use the name `from`."""
    named = {"from_": of["from"], "to": of["to"], "closed_at": of.get("closed_at")}
    return {
        name: text and instant_text(datetime.fromisoformat(text), zone)
        for name, text in named.items()
    }


def _what(line: Mapping[str, Any]) -> str:
    """Return a line as text."""
    parts = [KINDS[line["kind"]]]
    # Statements of earlier releases lack the field.
    if line.get("adjusted_kind") not in (None, "usage"):
        parts.append(KINDS[line["adjusted_kind"]].lower())
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
        parts.append(f"of {month_text(line['adjusts'])}")
    return ", ".join(parts)
