"""Placements of decisions in the database.

A decision of whole tasks on many servers has ten thousands of ranges and placements, most of which
differ from those of the decision before. They are one compressed document, because a row for each
would write fifty times as much.
"""

import zlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson
from django.conf import settings

from allocator_service.allocation.documents import stored_document, unreadable
from allocator_service.allocation.models import Placements, Run
from allocator_service.allocation.placement_rows import placement_rows_read, placement_rows_store
from allocator_service.allocation.placements import DecidedPlacements, ServerRange, Traits
from allocator_service.core.quantities import decimal_text


def placements_store(run: Run, placements: DecidedPlacements) -> None:
    """Store the placements of a run, as one document or for the release before.

    What many ranges have in common is written once. A range of one server has one name and one id.
    """
    if settings.ENVIRONMENT.placement_rows:
        placement_rows_store(run, placements)
        return
    number = {each: position for position, each in enumerate(dict.fromkeys(placements.traits))}
    document = {
        "traits": [
            [list(map(decimal_text, each.capacity)), each.labels, each.owner, each.shared]
            for each in number
        ],
        "ranges": [
            [number[each.traits], each.count, each.first, each.first_server]
            + ([each.last, each.last_server] if each.count > 1 else [])
            for each in placements.ranges
        ],
        "workload": placements.workload,
        "kind": placements.kind,
        "range": placements.range_of,
        "tasks": placements.tasks,
    }
    Placements.objects.create(run=run, document=zlib.compress(orjson.dumps(document), 1))


def stored_placements(run: Run) -> DecidedPlacements:
    """Return the placements of a run, none for a policy that sees the pool as one server.

    Raises `Conflict` for what cannot be read.
    """
    stored = Placements.objects.filter(run=run).first()
    if stored is None:
        return placement_rows_read(run)
    document = stored_document(stored.document)
    try:
        return _read(document)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise unreadable(f"/placements: {type(error).__name__}") from error


def _read(document: Mapping[str, Any]) -> DecidedPlacements:
    traits = [
        Traits([Decimal(amount) for amount in capacity], labels, owner, shared)
        for capacity, labels, owner, shared in document["traits"]
    ]
    ranges = []
    for number, count, first, first_server, *last in document["ranges"]:
        last_name, last_server = last or (first, first_server)
        ranges.append(
            ServerRange(count, traits[number], first, last_name, first_server, last_server)
        )
    columns = [document[name] for name in ("workload", "kind", "range", "tasks")]
    if len({len(column) for column in columns}) > 1:
        raise ValueError("columns of unequal length")
    if columns[2] and not 0 <= min(columns[2]) <= max(columns[2]) < len(ranges):
        raise ValueError("no such range")
    return DecidedPlacements(ranges, *columns)
