"""Amounts in windows of the past, from one pass over the sealed entries.

The entries of a pool come in their sealed order. Each window counts the entries that were known
when it was read and no others, so that late entries and corrections count from then on. Neither
totals nor buckets are read, since this checks them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from allocator_service.core.planning import indexes_only
from allocator_service.ledger.amounts.open_uses import IS_METERED, OPEN_ENTRIES
from allocator_service.ledger.amounts.totals import COUNTS_AS, EPOCH
from allocator_service.ledger.archive.reading import ENTRIES, entries_with_archived
from allocator_service.ledger.archive.selections import Selection
from allocator_service.ledger.audit.moving_windows import (
    MICROSECOND,
    SECOND,
    UNITS,
    Amount,
    CountedEntry,
    DecayingWindow,
    ExactWindow,
    Key,
    MovingWindow,
    microseconds,
)
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.ledger.windows import Known
from allocator_service.pools.windows import Past

_ROWS_AT_ONCE = 5_000

_ENTRIES = """
entries AS (
    SELECT e.tenant_id, e.resource, {counts_as} AS kind,
           e.quantity * %(units)s AS quantity, extract(epoch FROM e.start) * %(second)s AS start,
           extract(epoch FROM e."end") * %(second)s AS "end"
    FROM ({named}) AS s, {entry} AS e)
""".replace("{counts_as}", COUNTS_AS).replace("{entry}", entry_lookup("s.entry_id", "s.start"))

_BETWEEN = """
SELECT entry_id, start FROM ledger_seal
WHERE pool_id = %(pool)s AND sequence > %(after)s AND sequence <= %(through)s
"""
_NAMED = """
SELECT entry_id, start FROM ledger_seal WHERE entry_id = ANY(%(ids)s)
UNION ALL
SELECT entry_id, start FROM ledger_pending WHERE entry_id = ANY(%(ids)s)
"""
# Uses that were open: the entries that they have become, and those that still are. A use that was open
# had begun in the same hour.
_OPEN = """
SELECT e.tenant_id, e.resource, e.kind, e.quantity * %(units)s, extract(epoch FROM e.start) * %(second)s,
       extract(epoch FROM LEAST(e."end", %(metered_until)s)) * %(second)s
FROM (SELECT * FROM ledger_entry e
      WHERE e.pool_id = %(pool)s AND e.start >= %(metered_until)s - interval '2 hours'
        AND e.start < %(metered_until)s AND e."end" >= %(metered_until)s AND {is_metered}
        AND e.id <> ALL(%(unsealed)s)
        AND NOT EXISTS (SELECT FROM ledger_seal s
                        WHERE s.entry_id = e.id AND s.sequence <= %(through)s)
      UNION ALL
      {open_entries} AND o.start < %(metered_until)s) AS e
""".replace("{is_metered}", IS_METERED).replace("{open_entries}", OPEN_ENTRIES)
_READ = """
WITH {entries}
SELECT tenant_id, resource, kind, quantity, start, "end" FROM entries
""".replace("{entries}", _ENTRIES)
_ENTRIES_BETWEEN = _READ.replace("{named}", _BETWEEN)
_ENTRIES_NAMED = _READ.replace("{named}", _NAMED)
# What lies before `floor` is one row for each key.
_CHANGES = """
WITH {entries}
SELECT tenant_id, resource, kind, CASE WHEN instant > %(floor)s THEN instant END,
       sum(rate), sum(rate * instant), min(instant)
FROM (SELECT tenant_id, resource, kind, quantity AS rate, start AS instant FROM entries
      UNION ALL
      SELECT tenant_id, resource, kind, -quantity, "end" FROM entries) AS changes
GROUP BY 1, 2, 3, 4
""".replace("{entries}", _ENTRIES).replace("{named}", _BETWEEN)


@dataclass(frozen=True)
class PastSums:
    """The amounts in a window, by key. A missing key had none.

    `first` is the start of the first entry. `gone` is the number of unsealed entries that are not
    in the ledger.
    """

    amounts: Mapping[Key, Amount]
    first: datetime | None
    gone: int


class RunningSums:
    """The windows of one pool, in the order in which they were read.

    Entries that every later window counts are read once. A window that reaches further back than
    the one before, or decays differently, starts from the beginning.
    """

    def __init__(self, pool_id: int) -> None:
        self._pool = pool_id
        self._asked: tuple[Past, int] | None = None
        self._first: int | None = None
        self._window: MovingWindow = ExactWindow(None)

    def at(self, past: Past, known: Known) -> PastSums:
        """Return the sums of the known entries in an interval."""
        through, after = known.sealed_through, 0
        if self._asked is not None and _goes_on(self._asked, past, through):
            after = self._asked[1]
        elif past.half_life is None:
            self._begin_exact(past, through)
            after = through
        else:
            self._first = None
            self._window = DecayingWindow(past.half_life)
            self._window.advance(past)
        between = Selection(pool=self._pool, after=after, through=through)
        for entry in self._entries(_ENTRIES_BETWEEN, between, after=after, through=through):
            self._window.change(entry.key, entry.start, entry.quantity)
            self._window.change(entry.key, entry.end, -entry.quantity)
            self._first = _earliest(self._first, entry.start)
        self._asked = past, through
        self._window.advance(past)
        named = Selection(pool=self._pool, after=through, ids=known.unsealed)
        unsealed = list(self._entries(_ENTRIES_NAMED, named, ids=list(known.unsealed)))
        more = unsealed + self._open(known)
        first = self._first
        for entry in more:
            first = _earliest(first, entry.start)
        return PastSums(
            self._window.sums(more),
            None if first is None else EPOCH + first * MICROSECOND,
            len(known.unsealed) - len(unsealed),
        )

    def _open(self, known: Known) -> list[CountedEntry]:
        """Return the uses that were open, as far as they were metered."""
        if known.metered_until is None:
            return []
        parameters = {
            "metered_until": known.metered_until,
            "unsealed": list(known.unsealed),
            "through": known.sealed_through,
        }
        around = Selection(
            pool=self._pool, begin=known.metered_until - MICROSECOND, end=known.metered_until
        )
        return list(self._entries(_OPEN, around, **parameters))

    def _begin_exact(self, past: Past, through: int) -> None:
        """Sum all changes before the window and read those within it."""
        self._first = None
        self._window = window = ExactWindow(past.since)
        window.advance(past)
        floor = microseconds(past.since or past.until)
        known = Selection(pool=self._pool, through=through)
        rows = self._rows(_CHANGES, known, after=0, through=through, floor=floor)
        for tenant, resource, kind, instant, rate, moment, first in rows:
            key = (tenant, resource, kind)
            if instant is None:
                window.add(key, int(rate), int(moment))
            else:
                window.change(key, int(instant), int(rate))
            self._first = _earliest(self._first, int(first))

    def _entries(
        self, statement: str, archived: Selection, **parameters: Any
    ) -> Iterator[CountedEntry]:
        for tenant, resource, kind, *amounts in self._rows(statement, archived, **parameters):
            quantity, start, end = map(int, amounts)
            yield CountedEntry((tenant, resource, kind), quantity, start, end)

    def _rows(
        self, statement: str, archived: Selection, **parameters: Any
    ) -> Iterator[tuple[Any, ...]]:
        constants = {"pool": self._pool, "units": UNITS, "second": SECOND}
        with (
            indexes_only(),
            entries_with_archived(archived) as relation,
            connection.chunked_cursor() as cursor,
        ):
            cursor.execute(statement.replace(ENTRIES, relation), {**constants, **parameters})
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield from rows


def _goes_on(asked: tuple[Past, int], past: Past, through: int) -> bool:
    """Return whether a window continues another, whose entries then need not be read again."""
    before, known = asked
    if past.half_life != before.half_life or through < known or past.until < before.until:
        return False
    if past.since is None or before.since is None:
        return past.since is before.since
    return past.since >= before.since


def _earliest(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)
