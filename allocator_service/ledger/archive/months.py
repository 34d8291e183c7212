"""Months of the ledger that have a partition, and the reasons for which they stay in it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from allocator_service.core.planning import without_time_limit
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.models import Pool

_PARTITION = re.compile(r"ledger_entry_(\d{4})(\d{2})")

Obstacle = Callable[[Pool, datetime, int], str]
"""Reason, or '', for which entries of a pool must stay, by the end of the last one and its sequence."""


@dataclass
class EntryRange:
    """Ranges of entries that are added one by one."""

    entries: int = 0
    sequences: list[int] = field(default_factory=list)
    starts: list[datetime] = field(default_factory=list)
    ends: list[datetime] = field(default_factory=list)

    def add(self, entries: int, sequences: list[int], start: datetime, end: datetime) -> None:
        self.entries += entries
        self.sequences += sequences
        self.starts.append(start)
        self.ends.append(end)

    def columns(self) -> dict[str, Any]:
        """Return the values of `_ArchivedRange`."""
        return {
            "entries": self.entries,
            "first_sequence": min(self.sequences),
            "last_sequence": max(self.sequences),
            "first_start": min(self.starts),
            "last_end": max(self.ends),
        }


@dataclass(frozen=True)
class MonthContent:
    """The ranges of a month's partition and of its pools, with sums of amounts."""

    month: date
    all: EntryRange
    pools: dict[int, EntryRange]
    amounts: dict[int, dict[str, dict[str, str]]]


def months_present() -> list[date]:
    """Return the months that have a partition, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'ledger_entry'::regclass"
        )
        names = [_PARTITION.fullmatch(name) for (name,) in cursor.fetchall()]
    return sorted(date(int(found[1]), int(found[2]), 1) for found in names if found)


def partition_of(month: date) -> str:
    return f"ledger_entry_{month:%Y%m}"


def next_month(month: date) -> datetime:
    following = (month + timedelta(days=32)).replace(day=1)
    return datetime(following.year, following.month, 1, tzinfo=UTC)


_CONTENT = """
SELECT e.pool_id, e.resource, e.kind, count(*), min(s.sequence), max(s.sequence), min(e.start),
       max(e."end"), sum(e.amount), count(*) FILTER (WHERE s.sequence IS NULL)
FROM {partition} e LEFT JOIN ledger_seal s ON s.entry_id = e.id
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


@transaction.atomic
def month_content(month: date) -> MonthContent:
    """Return what a month holds. Entries that are not sealed have the number -1."""
    content = MonthContent(month, EntryRange(), {}, {})
    without_time_limit()
    with connection.cursor() as cursor:
        cursor.execute(_CONTENT.replace("{partition}", partition_of(month)))
        for pool, resource, kind, *numbers in cursor.fetchall():
            entries, first, last, start, end, amount, unsealed = numbers
            sequences = [-1] * bool(unsealed) + [each for each in (first, last) if each is not None]
            for of in (content.all, content.pools.setdefault(pool, EntryRange())):
                of.add(entries, sequences, start, end)
            sums = content.amounts.setdefault(pool, {}).setdefault(resource, {})
            sums[kind] = decimal_text(Decimal(amount))
    return content


_BEHIND = """
SELECT pool.slug FROM unnest(%(pools)s::bigint[], %(last)s::bigint[]) AS needed (pool_id, last)
JOIN pool ON pool.id = needed.pool_id LEFT JOIN ledger_totals_cursor c ON c.pool_id = pool.id
WHERE COALESCE(LEAST(c.through, c.owner_through), 0) < needed.last ORDER BY pool.slug
"""
_OPEN = """
SELECT pool.slug FROM ledger_open_use o JOIN pool ON pool.id = o.pool_id
WHERE o.start < %(end)s AND pool.moved_at IS NULL ORDER BY pool.slug
"""


def reason_to_stay(content: MonthContent, before: datetime, obstacle: Obstacle) -> str:
    """Return why a month must stay in the database, or an empty text."""
    columns = content.all.columns()
    if columns["first_sequence"] < 0:
        return "entries of it wait for their seal"
    if columns["last_end"] > before:
        return f"an entry of it lasts until {columns['last_end'].astimezone(UTC):%Y-%m-%d %H:%M}"
    lasts = {pool: max(of.sequences) for pool, of in content.pools.items()}
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, {"pools": list(lasts), "last": list(lasts.values())})
        behind = cursor.fetchone()
        cursor.execute(_OPEN, {"end": next_month(content.month)})
        is_open = cursor.fetchone()
    if behind:
        return f"entries of pool {behind[0]} are not in the totals yet"
    if is_open:
        return f"pool {is_open[0]} has a use that has been open since before its end"
    for pool in Pool.objects.filter(pk__in=lasts).order_by("slug"):
        reason = obstacle(pool, max(content.pools[pool.pk].ends), lasts[pool.pk])
        if reason:
            return reason
    return ""
