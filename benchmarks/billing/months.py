"""A month of many entries, rated by set-based SQL, by a loop row by row, and only summed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Sum

from allocator_service.billing.models import Posting
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.plans.services import (
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.plans.timeline import Timeline, timeline
from allocator_service.billing.rating.amounts import Use, used_between, used_by_now
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.drafting import month_draft
from allocator_service.billing.statements.selectors import statement_content
from allocator_service.core.ids import new_id
from allocator_service.core.money import rounded
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from benchmarks.billing.budgets import budget_rows
from benchmarks.ledger.world import best_of, open_pool, some_tenants
from benchmarks.measurement import Row

TENANTS = 200
MARCH = datetime(2027, 3, 1, tzinfo=UTC)
APRIL = datetime(2027, 4, 1, tzinfo=UTC)
AT_ONCE = 1_000_000
LOOP_GOAL, SUM_GOAL = 20.0, 0.25
MONTH_GOAL_SECONDS = 0.150

# Each tenant uses its own servers, the pool's and those of one other; two resources; five minutes each.
_FILL = """
INSERT INTO ledger_entry (id, pool_id, tenant_id, server_owner_id, resource, unit, quantity,
                          start, "end", amount, kind, reason, source, event_id, recorded_at)
SELECT (%(prefix)s || lpad(to_hex(i), 12, '0'))::uuid, %(pool)s,
       (%(tenants)s::bigint[])[1 + i %% %(n)s],
       CASE i / %(n)s %% 3 WHEN 0 THEN (%(tenants)s::bigint[])[1 + i %% %(n)s]
                           WHEN 1 THEN (%(tenants)s::bigint[])[1 + (i + 1) %% %(n)s] END,
       CASE i / %(n)s %% 2 WHEN 0 THEN 'cpu' ELSE 'memory' END, '',
       1 + i %% 7, at, at + interval '5 minutes', (1 + i %% 7) * 300, 'usage', '', 'bench', NULL, at
FROM (SELECT i, %(begin)s::timestamptz + i * %(apart)s::interval AS at
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i) AS instants
"""
_SEAL = """
INSERT INTO ledger_seal (sequence, entry_id, start, pool_id, tenant_id, block)
SELECT (SELECT COALESCE(max(sequence), 0) FROM ledger_seal) + row_number() OVER (ORDER BY id),
       id, start, pool_id, tenant_id, 1
FROM ledger_entry WHERE pool_id = %(pool)s
"""
_SUM = """
SELECT sum(amount) FROM ledger_entry WHERE pool_id = %s AND start >= %s AND start < %s
"""
_ROWS = """
SELECT tenant_id, server_owner_id, resource, quantity, start, "end" FROM ledger_entry
WHERE pool_id = %s AND start < %s AND "end" > %s AND start >= %s
"""


def measure(*, quick: bool) -> list[Row]:
    """Measure rating, closing and one tenant's month, beside other ways to read the same rows."""
    call_command("migrate", verbosity=0)
    entries = 10**6 if quick else 10**7
    pool, tenants = fill_pool(entries)
    month = month_of(MARCH, pool.timezone)
    sizes = f"{entries} entries, {TENANTS} tenants"
    sum_seconds, total = best_of(lambda: _sum(pool), repeat=3)
    rating_seconds, draft = best_of(lambda: month_draft(pool=pool, month=month), repeat=3)
    # Both sides rate the same tenth of the month: a loop over all of it would take many minutes.
    part = MARCH + timedelta(seconds=(APRIL - MARCH).total_seconds() / 10)
    loop_seconds, looped = best_of(lambda: _charges_by_loop(pool, month, part), repeat=1)
    totals_seconds, ours = best_of(lambda: _charges(_by_totals(pool, month, part)), repeat=1)
    entries_seconds, summed = best_of(lambda: _charges(_by_entries(pool, month, part)), repeat=1)
    rated = sum((line.amount for line in draft.lines), Decimal(0))
    closing_seconds, posted = _closing(pool, month)
    tenth, loop = f"a tenth of {sizes}", "a loop row by row"
    rows = [
        Row("rating", tenth, totals_seconds, loop, loop_seconds, _apart(looped, ours), LOOP_GOAL),
        Row("rating over entries, as for increments", tenth, entries_seconds, loop, loop_seconds,
            _apart(looped, summed), None),
        Row("rating a month", sizes, rating_seconds, "SUM(amount)", sum_seconds,
            float(abs(rated - total)), SUM_GOAL, f"{len(draft.lines)} lines; goal: at most 4 × the sum"),
        Row("closing a month", sizes, closing_seconds, "SUM(amount)", sum_seconds,
            float(abs(posted - total)), SUM_GOAL,
            "postings and statements too, rolled back; goal: at most 4 × the sum"),
    ]  # fmt: skip
    rows += budget_rows(pool, tenants, sizes, start=MARCH, at=APRIL - timedelta(seconds=1))
    open_seconds = _p95(pool, month, tenants)
    month_close(pool=pool, month=month, now=APRIL)
    for name, seconds in (("open", open_seconds), ("closed", _p95(pool, month, tenants))):
        rows.append(
            Row(
                f"one tenant's {name} month, p95",
                sizes,
                seconds,
                "none: 150 ms",
                MONTH_GOAL_SECONDS,
                None,
                1.0,
            )
        )
    return rows


def fill_pool(entries: int) -> tuple[Pool, list[Tenant]]:
    """Create a pool with prices and sealed entries of one month, all of them in its totals."""
    pool = open_pool(f"billed-{entries}-{new_id().hex[-8:]}", ("cpu", "memory"))
    tenants = some_tenants(TENANTS)
    for start in (MARCH, datetime(2027, 3, 20, tzinfo=UTC)):
        rates = [
            RateDraft(name, None, Decimal("0.01"), Decimal("0.04"), Decimal("0.03"))
            for name in ("cpu", "memory")
        ]
        draft = PlanDraft(f"from {start:%d}", start, fee=Decimal("0.1"), rates=rates)
        plan = plan_create(pool=pool, draft=draft, now=start)
        plan_publish(plan=plan, version=None, now=start)
    parameters: dict[str, Any] = {
        "prefix": f"{pool.pk:08x}-0000-7000-8000-",
        "pool": pool.pk,
        "tenants": [tenant.pk for tenant in tenants],
        "n": TENANTS,
        "begin": MARCH,
        "apart": (APRIL - MARCH - timedelta(minutes=5)) / entries,
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT ledger_partition(%s)", [MARCH.date()])
        for first in range(0, entries, AT_ONCE):
            span = {"first": first, "last": min(first + AT_ONCE, entries) - 1}
            cursor.execute(_FILL, parameters | span)
        cursor.execute(_SEAL, {"pool": pool.pk})
        # Autovacuum would have come by then; index-only scans need the visibility map that it
        # writes.
        cursor.execute("VACUUM ANALYZE ledger_entry, ledger_seal")
    while totals_advance():  # as the relay does, while entries come in
        pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE ledger_total, ledger_owner_total")
    return pool, tenants


def _sum(pool: Pool) -> Decimal:
    with connection.cursor() as cursor:
        cursor.execute(_SUM, [pool.pk, MARCH, APRIL])
        return Decimal(cursor.fetchall()[0][0])


def _prices(pool: Pool, month: Month, end: datetime) -> Timeline:
    return timeline(pool=pool, start=month.start, end=end)


def _charges_by_loop(pool: Pool, month: Month, end: datetime) -> dict[Any, Decimal]:
    """Return the charges by tenant, owner, resource and plan, from a loop over entries in Python.

    Each entry is fetched, cut at the edges of prices, and priced.
    """
    prices = _prices(pool, month, end)
    sums: dict[Any, Fraction] = {}
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(_ROWS, [pool.pk, end, month.start, month.start])
        for tenant, owner, resource, quantity, start, until in cursor:
            for number, segment in enumerate(prices.segments):
                since, to = max(start, segment.start), min(until, segment.end)
                price = prices.price(number, resource, tenant, owner)
                if since < to and price is not None and segment.plan is not None:
                    # Exact: total_seconds() is a float.
                    seconds = Decimal((to - since) // timedelta(microseconds=1)).scaleb(-6)
                    key = (tenant, owner, resource, segment.plan.pk)
                    sums[key] = sums.get(key, Fraction(0)) + Fraction(quantity * seconds * price)
    # Once per line and not per entry, as in the service, or rounding would add up.
    return {key: rounded(priced / 3600, 2) for key, priced in sums.items()}


def _by_totals(pool: Pool, month: Month, end: datetime) -> tuple[Timeline, Iterable[Use]]:
    prices = _prices(pool, month, end)
    return prices, used_by_now(pool=pool, edges=prices.edges)


def _by_entries(pool: Pool, month: Month, end: datetime) -> tuple[Timeline, Iterable[Use]]:
    prices = _prices(pool, month, end)
    uses = used_between(pool=pool, edges=prices.edges, increments=prices.increments, through=None)
    return prices, uses


def _apart(one: dict[Any, Decimal], other: dict[Any, Decimal]) -> float:
    """Return the largest difference between two sets of charges."""
    zero = Decimal(0)
    return max(float(abs(one.get(key, zero) - other.get(key, zero))) for key in one | other)


def _charges(rated: tuple[Timeline, Iterable[Use]]) -> dict[Any, Decimal]:
    """Return the charges by tenant, owner, resource and plan, from set-based sums."""
    prices, uses = rated
    sums: dict[Any, Fraction] = {}
    for use in uses:
        price = prices.price(use.segment, use.resource, use.tenant, use.owner)
        plan = prices.segments[use.segment].plan
        if price is not None and plan is not None:
            key = (use.tenant, use.owner, use.resource, plan.pk)
            sums[key] = sums.get(key, Fraction(0)) + Fraction(use.counted) * Fraction(price)
    return {key: rounded(priced / 3600, 2) for key, priced in sums.items()}


def _closing(pool: Pool, month: Month) -> tuple[float, Decimal]:
    """Return the seconds of a closing, and the sum of its postings."""
    best, posted = float("inf"), Decimal(0)
    for _ in range(2):
        with transaction.atomic():
            begin = time.perf_counter()
            month_close(pool=pool, month=month, now=APRIL)
            best = min(best, time.perf_counter() - begin)
            posted = Posting.objects.filter(pool=pool).aggregate(sum=Sum("amount"))["sum"]
            # A month can be closed only once.
            transaction.set_rollback(True)
    return best, posted


def _p95(pool: Pool, month: Month, tenants: list[Tenant]) -> float:
    times = []
    for tenant in tenants[::10]:
        begin = time.perf_counter()
        statement_content(pool=pool, month=month, tenant=tenant)
        times.append(time.perf_counter() - begin)
    return sorted(times)[int(len(times) * 0.95)]
