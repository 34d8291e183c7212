"""Appending of entries and decisions to the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from allocator_service.core.copying import copy_rows
from allocator_service.core.ids import new_ids
from allocator_service.core.snapshots import LEDGER_LOCK
from allocator_service.ledger.models import Entry, PendingDecision, PendingEntry
from allocator_service.pools.models import Pool

_MICROSECOND = timedelta(microseconds=1)
# A quantity has up to 36 digits, and the microseconds of a year have 14.
_EXACT = Context(prec=60)


@transaction.atomic(savepoint=False)
def entries_append(rows: Sequence[Mapping[str, Any]]) -> Sequence[UUID]:
    """Append entries within the open transaction and return their ids.

    `rows` have all columns but `id` and `amount`.
    """
    if not rows:
        return []
    # Ids ascend, and the sealer numbers by them: the entries of a request keep their order.
    ids = new_ids(len(rows))
    # A month that is being archived loses its partition: wait for that, or let it wait.
    with connection.cursor() as cursor:
        cursor.execute(LEDGER_LOCK)
    # The partition is created first: COPY into a month without one fails.
    days = {row["start"].astimezone(UTC).date() for row in rows}
    partitions_make({day.replace(day=1) for day in days})
    columns = list(rows[0])
    copy_rows(
        Entry,
        ["id", "amount", *columns],
        (
            (id_, amount_of(row["quantity"], row["start"], row["end"]), *row.values())
            for id_, row in zip(ids, rows, strict=True)
        ),
    )
    copy_rows(
        PendingEntry,
        ["entry_id", "start"],
        ((id_, row["start"]) for id_, row in zip(ids, rows, strict=True)),
    )
    return ids


def decision_chain(
    *,
    pool: Pool,
    run_id: UUID,
    generation: int,
    effective_from: datetime,
    digests: Mapping[str, str],
) -> None:
    """Queue a decision for its pool's chain, within the transaction that publishes it.

    `digests` are those of its proof's `input` and `answer`, in hexadecimal.
    """
    PendingDecision.objects.create(
        pool=pool,
        run_id=run_id,
        generation=generation,
        effective_from=effective_from,
        input=bytes.fromhex(digests["input"]),
        answer=bytes.fromhex(digests["answer"]),
    )


def amount_of(quantity: Decimal, start: datetime, end: datetime) -> Decimal:
    """Return quantity × seconds, exactly.

    A quantity has 12 fractional digits and microseconds have 6, which are the 18 of the amount.
    """
    microseconds = (end - start) // _MICROSECOND
    return _EXACT.multiply(quantity, Decimal(microseconds).scaleb(-6))


def partitions_make_ahead(*, now: datetime) -> None:
    """Create the partitions of this month and the next two, before requests need them."""
    first = now.astimezone(UTC).date().replace(day=1)
    months = [first]
    for _ in range(2):
        # 32 days after the first of a month is always in the next one.
        months.append((months[-1] + timedelta(days=32)).replace(day=1))
    partitions_make(months)


def partitions_make(months: Iterable[date]) -> None:
    """Create the partitions of months that have none."""
    with connection.cursor() as cursor:
        # In one order: two processes that create the same partitions cannot deadlock.
        for month in sorted(months):
            cursor.execute("SELECT ledger_partition(%s)", [month])
