"""Reports of a day and of a year, and in intervals, from totals and summed over the entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import connection

from allocator_service.core.intervals import intervals_reached, seconds_inside
from allocator_service.ledger.models import Kind
from allocator_service.ledger.reporting.lending import lending_report
from allocator_service.ledger.reporting.periods import MAX_INTERVALS, Period
from allocator_service.ledger.reporting.sharing_degree import sharing_degree_report
from allocator_service.ledger.reporting.utilization import utilization_report
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from benchmarks.ledger.world import END, RESOURCES, TENANTS, YEAR, best_of, filled_pools
from benchmarks.measurement import Row

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
# A microsecond aside: the entries around every edge are read too.
AT = END - timedelta(minutes=7, microseconds=1)

_PLAIN = f"""
SELECT interval_number - 1, e.server_owner_id, e.tenant_id, COALESCE(corrected.kind, e.kind), e.resource,
       sum(e.quantity * {seconds_inside("e.start", 'e."end"')})
FROM ledger_entry e
LEFT JOIN ledger_entry corrected
       ON e.corrects IS NOT NULL AND corrected.id = e.corrects AND corrected.start = e.start
CROSS JOIN {intervals_reached("e.start", 'e."end"')}
WHERE e.pool_id = %(pool)s AND e.start < %(end)s AND e."end" > %(start)s AND e.start >= %(earliest)s
  AND NOT EXISTS (SELECT FROM ledger_pending p WHERE p.entry_id = e.id)
GROUP BY 1, 2, 3, 4, 5
"""
LONGEST = timedelta(days=366)

Amounts = Mapping[tuple[Any, ...], Decimal]
"""Amounts of a report that are not 0, by interval, names of tenants, kind and resource."""


@dataclass(frozen=True)
class Report:
    """A report, its stated amounts, and the key under which plain sums have the same amounts."""

    name: str
    run: Callable[[Pool, Period], Any]
    stated: Callable[[Any], Amounts]
    key: Callable[[str | None, str, str], tuple[str | None, ...] | None]


def measure(*, quick: bool) -> list[Row]:
    """Measure reports of a day, of all entries and of hours, at one rate for days and for a year."""
    pools = filled_pools(10**6 if quick else 10**7)
    rows = []
    for entries, pool in pools.items():
        for name, period in _periods(entries, max(pools)).items():
            rows += [_row(report, name, entries, pool, period) for report in REPORTS]
    return rows


def _periods(entries: int, most: int) -> dict[str, Period]:
    first = END - entries * (YEAR / most)
    begins = {
        "a day": AT - DAY,
        "a year" if entries == most else "all of it": max(first, AT - YEAR),
    }
    periods = {name: Period([begin, AT]) for name, begin in begins.items()}
    hours = int((AT - first) / HOUR)
    for count in {min(hours, 7 * 24), min(hours, MAX_INTERVALS)}:
        whole, cut = (Period([end - n * HOUR for n in range(count, -1, -1)]) for end in (END, AT))
        periods |= {f"{count} whole hours": whole, f"{count} hours until now": cut}
    return periods


def _row(report: Report, name: str, entries: int, pool: Pool, period: Period) -> Row:
    ours, stated = best_of(partial(report.run, pool, period), repeat=5)
    # Fewer repetitions, as the plain sum reads every entry.
    plain, sums = best_of(partial(_plain, pool, period), repeat=2)
    return Row(
        name=f"{report.name}, {name}",
        sizes=f"{entries} entries, {TENANTS} tenants, {len(RESOURCES)} resources",
        our_value=ours,
        peer="plain SUM",
        peer_value=plain,
        agreement=_difference(report.stated(stated), _amounts_by_name(report, sums)),
        goal=None,
        notes="the peer is the statement alone",
    )


def _plain(pool: Pool, period: Period) -> list[tuple[Any, ...]]:
    parameters: dict[str, Any] = {
        "pool": pool.pk,
        "edges": list(period.edges),
        "intervals": len(period.intervals),
        "start": period.start,
        "end": period.end,
        # No entry is longer, so that PostgreSQL need not read older partitions.
        "earliest": period.start - LONGEST,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PLAIN, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _amounts_by_name(report: Report, rows: Sequence[tuple[Any, ...]]) -> Amounts:
    slugs = dict(Tenant.objects.values_list("pk", "slug"))
    sums: dict[tuple[Any, ...], Decimal] = {}
    for interval, owner, tenant, kind, resource, amount in rows:
        names = report.key(owner and slugs[owner], slugs[tenant], kind)
        if names is not None:
            key = (interval, *names, resource)
            sums[key] = sums.get(key, Decimal(0)) + amount
    return sums


def _difference(stated: Amounts, plain: Amounts) -> float:
    """Return the largest relative difference, which is 0 if all digits agree."""
    if stated.keys() != plain.keys():
        return float("inf")
    return max(float(abs(stated[key] - plain[key]) / plain[key]) for key in plain)


def _lending(report: Any) -> Amounts:
    return {
        (interval, flow.owner, flow.tenant, resource.name): amount
        for flow in report.flows
        for interval, amounts in enumerate(flow.series)
        for resource, amount in zip(report.resources, amounts, strict=True)
        if amount
    }


def _sharing(report: Any) -> Amounts:
    return {
        (interval, each.tenant, kind.value, resource.name): amount
        for each in report.tenants
        for interval, degree in enumerate(each.series)
        for kind, amounts in ((Kind.USAGE, degree.used), (Kind.ALONE, degree.alone))
        for resource, amount in zip(report.resources, amounts, strict=True)
        if amount
    }


def _utilization(report: Any) -> Amounts:
    return {
        (interval, resource.name): use.used
        for resource, uses in zip(report.resources, report.uses, strict=True)
        for interval, use in enumerate(uses)
        if use.used
    }


REPORTS = [
    Report(
        "lending",
        lambda pool, period: lending_report(pool=pool, period=period),
        _lending,
        lambda owner, tenant, kind: (owner, tenant) if kind == Kind.USAGE else None,
    ),
    Report(
        "sharing degree",
        lambda pool, period: sharing_degree_report(pool=pool, period=period),
        _sharing,
        lambda _, tenant, kind: (tenant, kind),
    ),
    Report(
        "utilization",
        lambda pool, period: utilization_report(pool=pool, period=period),
        _utilization,
        lambda _, __, kind: () if kind == Kind.USAGE else None,
    ),
]
