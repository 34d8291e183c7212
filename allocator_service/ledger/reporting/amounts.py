"""Sums over the ledger within a period: exact, and the same as a reader of the feed would get.

An entry counts with the part of it that lies in the period: quantity × the seconds of the overlap. A
quantity has 12 fractional digits and seconds have 6, so the product has at most the 18 that amounts
have: nothing is rounded. A correction counts over the interval of the entry that it corrects, as
what that entry was (`usage` or `alone`). Entries that are not sealed yet are in no feed and count in
no report.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import TypeVar

from django.db import connection

from allocator_service.core.durations import parse_duration
from allocator_service.core.pieces import pieces_of, seconds_inside
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.limits import in_time
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.services import LONGEST
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

EXACT_DIGITS = 120
K = TypeVar("K")


@dataclass(frozen=True)
class Amount:
    """Resource × seconds of one tenant in one piece of a period; `owner` contributed the servers.

    `piece` counts from 0; `owner` is None for the pool's own servers, and where it is not known or
    was not asked for.
    """

    piece: int
    tenant: int
    owner: int | None
    kind: str
    resource: str
    amount: Decimal


# An entry mostly lies in one piece; one that reaches into more is there once for each.
_AMOUNTS = """
SELECT piece - 1, e.tenant_id, {owner}, COALESCE(corrected.kind, e.kind), e.resource,
       sum(e.quantity * {seconds})
FROM ledger_entry e
LEFT JOIN ledger_entry corrected
       ON e.corrects IS NOT NULL AND corrected.id = e.corrects AND corrected.start = e.start
CROSS JOIN {pieces}
WHERE e.pool_id = %(pool)s AND e.start < %(end)s AND e."end" > %(start)s AND e.start >= %(earliest)s
  AND COALESCE(corrected.kind, e.kind) = ANY(%(kinds)s)
  AND (%(tenant)s::bigint IS NULL OR e.tenant_id = %(tenant)s OR {lent})
  AND NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)
GROUP BY 1, 2, 3, 4, 5
"""


def amounts_within(
    *,
    pool: Pool,
    period: Period,
    tenant: Tenant | None = None,
    kinds: Sequence[Kind] = (Kind.USAGE, Kind.ALONE),
    by_owner: bool = False,
) -> list[Amount]:
    """The sums of the pool's sealed entries in every piece of a period.

    `tenant` limits them to what it used, and with `by_owner` to what others used of its servers too.
    Raises `Unacceptable` where there are too many to be added up while somebody waits.
    """
    statement = _AMOUNTS.format(
        owner="e.server_owner_id" if by_owner else "NULL::bigint",
        lent="e.server_owner_id = %(tenant)s" if by_owner else "FALSE",
        seconds=seconds_inside("e.start", 'e."end"'),
        pieces=pieces_of("e.start", 'e."end"'),
    )
    with in_time(), connection.cursor() as cursor:
        cursor.execute(
            statement,
            {
                "pool": pool.pk,
                "edges": list(period.edges),
                "pieces": len(period.edges) - 1,
                "start": period.start,
                "end": period.end,
                "earliest": _earliest(pool, period),
                "kinds": [kind.value for kind in kinds],
                "tenant": None if tenant is None else tenant.pk,
            },
        )
        return [Amount(*row) for row in cursor.fetchall()]


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """The sum to the last digit, however many there are."""
    with localcontext(prec=EXACT_DIGITS):
        return sum(amounts, Decimal(0))


def exact_sums(parts: Iterable[tuple[K, Decimal]]) -> dict[K, Decimal]:
    """The sums by key, to the last digit."""
    sums: dict[K, Decimal] = {}
    with localcontext(prec=EXACT_DIGITS):
        for key, amount in parts:
            sums[key] = sums.get(key, Decimal(0)) + amount
    return sums


def ratio(part: Decimal, whole: Decimal) -> float:
    """The quotient as the nearest double; `whole` is not 0."""
    with localcontext(prec=EXACT_DIGITS):
        return float(part / whole)


def _earliest(pool: Pool, period: Period) -> datetime:
    """An entry that starts before this does not reach into the period: none lasts so long."""
    interval = parse_duration(pool.decision_interval)
    about = timedelta(days=31 * interval.months + interval.days, seconds=interval.seconds)
    return period.start - max(LONGEST, about + timedelta(days=1))
