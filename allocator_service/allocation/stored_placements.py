"""Placements of decisions in the database.

A decision of whole tasks on many servers has tens of thousands of ranges and placements, most of which
differ from those of the decision before. They are one compressed document, because a row for each
would write many times as much (docs/adr/0019).
"""

import math
import zlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
from django.conf import settings

from allocator_service.allocation.documents import stored_document, unreadable
from allocator_service.allocation.models import Allocation, PlacementDocument, Run, ServerClass
from allocator_service.allocation.placement_rows import placement_rows_read, placement_rows_store
from allocator_service.allocation.placements import DecidedPlacements, ServerRange, Traits
from allocator_service.core.quantities import decimal_text


def placements_store(run: Run, placements: DecidedPlacements) -> None:
    """Store the placements of a run.

    Properties that many ranges have in common are written once. A range of one server has one name and
    one id.
    """
    if _writes_rows():
        placement_rows_store(run, placements)
        return
    # In order of appearance, so that a decision is stored as the same bytes by every process.
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
    content = zlib.compress(orjson.dumps(document), 1)
    PlacementDocument.objects.create(run=run, document=content)


def owners_replaced(content: bytes, keys: Mapping[int, int]) -> bytes:
    """Return a stored document with other primary keys of the servers' owners."""
    document = orjson.loads(zlib.decompress(content))
    for traits in document["traits"]:
        if traits[2] is not None:
            traits[2] = keys[traits[2]]
    return zlib.compress(orjson.dumps(document), 1)


def _writes_rows() -> bool:
    """Return whether processes of the release before may read the decision.

    A database with rows was theirs. The operator sets when the last of them has ended.
    """
    chosen = settings.ENVIRONMENT.placement_rows
    return ServerClass.objects.exists() if chosen is None else bool(chosen)


def stored_placements(run: Run) -> DecidedPlacements:
    """Return the placements of a run, none for a policy that sees the pool as one server.

    Raises `Conflict` if they cannot be read.
    """
    stored = PlacementDocument.objects.filter(run=run).first()
    try:
        if stored is None:
            return placement_rows_read(run)
        placements = _read(stored_document(stored.document))
        _check(placements, Allocation.objects.filter(run=run).count())
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise unreadable(f"/placements: {error!r}") from error
    return placements


def _read(document: Mapping[str, Any]) -> DecidedPlacements:
    traits = [
        Traits(
            [Decimal(amount) for amount in capacity],
            {str(name): str(value) for name, value in labels.items()},
            None if owner is None else int(owner),
            bool(shared),
        )
        for capacity, labels, owner, shared in document["traits"]
    ]
    ranges = []
    for number, count, first, first_server, *last in document["ranges"]:
        last_name, last_server = last or (first, first_server)
        ranges.append(
            ServerRange(count, traits[number], first, last_name, first_server, last_server)
        )
    columns = [document[name] for name in ("workload", "kind", "range", "tasks")]
    return DecidedPlacements(ranges, *columns)


def _check(placements: DecidedPlacements, workloads: int) -> None:
    """Raise `ValueError` for invalid numbers or ones out of range, as a database would for rows."""
    names = {type(name) for each in placements.ranges for name in (each.first, each.last)}
    ids = {type(id_) for each in placements.ranges for id_ in (each.first_server, each.last_server)}
    if not names <= {str} or not ids <= {str, type(None)}:
        raise ValueError("servers without names or ids")
    counts = [each.count for each in placements.ranges]
    tasks = np.array(placements.tasks)
    if tasks.dtype.kind not in "if" or not (np.isfinite(tasks) & (tasks > 0)).all():
        raise ValueError("the numbers of tasks must be positive")
    for column, least, limit in (
        (counts, 1, math.inf),
        (placements.workload, 0, workloads),
        # A task has pieces of two kinds at most.
        (placements.kind, 0, 2),
        (placements.range_of, 0, len(placements.ranges)),
    ):
        # An empty list would become an array of floats.
        numbers = np.array(column, dtype=None if column else np.int64)
        if numbers.dtype.kind != "i" or not ((least <= numbers) & (numbers < limit)).all():
            raise ValueError("numbers out of range")
        if column is not counts and len(numbers) != len(tasks):
            raise ValueError("columns of unequal length")
