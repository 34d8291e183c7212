"""Metering of a pool that decides each minute and changes one workload each time.

Ours keeps unchanged uses open. The other side appends every use at the end of every interval, as the
service did before. Both meter the same decisions of two hours, and their amounts are compared first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from django.core.management import call_command
from django.db import connection

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.ids import new_id
from allocator_service.pools.models import Pool
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from benchmarks.database import processor_seconds
from benchmarks.ledger.world import NOW, RESOURCES, open_pool, some_tenants
from benchmarks.measurement import Row
from tests.references.ledger import metered_entries
from tests.references.metering import meter_by_interval

MINUTE = timedelta(minutes=1)
MINUTES = 120
GOAL = 20.0  # fewer rows


def measure(*, quick: bool = False) -> list[Row]:
    """Measure rows and processor time if one tenant in a hundred changes each minute."""
    call_command("migrate", verbosity=0)
    tenants = 20 if quick else 200
    ours, plain = _pool("metered", tenants), _pool("plain", tenants)
    our_seconds, our_rows = _measure_metering(
        ours, lambda now: pool_meter_all(pool_id=ours.pk, now=now) and None
    )
    plain_seconds, plain_rows = _measure_metering(plain, lambda now: meter_by_interval(plain, now))
    if _amounts(ours) != _amounts(plain):
        raise AssertionError("the two ways meter different amounts")
    sizes = f"{tenants} tenants, {MINUTES} decisions, 1 change each"
    fewer = plain_rows / our_rows
    goal = "" if quick else f" (goal {GOAL:g}x, {'met' if fewer >= GOAL else 'missed'})"
    return [
        Row(
            "metering of unchanged uses",
            sizes,
            our_seconds,
            "an entry per interval",
            plain_seconds,
            0.0,
            None,
            f"{our_rows:,} rows for {plain_rows:,}, {fewer:.1f}x fewer{goal}",
        )
    ]


def _pool(slug: str, tenants: int) -> Pool:
    pool = open_pool(f"{slug}-{new_id().hex[-8:]}", RESOURCES)
    Pool.objects.filter(pk=pool.pk).update(metering="allocation")
    pool = Pool.objects.get(pk=pool.pk)
    size = [Decimal(100 * tenants), Decimal(400 * tenants)]
    servers_contribute(pool=pool, drafts=[ServerDraft("s", size)], now=NOW)
    drafts = [
        WorkloadDraft(tenant, "work", [Decimal(1), Decimal(2)], tasks=10)
        for tenant in some_tenants(tenants)
    ]
    workloads_submit(pool=pool, drafts=drafts, now=NOW)
    return pool


def _measure_metering(pool: Pool, meter: Callable[[datetime], Any]) -> tuple[float, int]:
    """Decide and meter each minute. Return the processor seconds of metering and the rows written."""
    ids = list(Workload.objects.filter(pool=pool).order_by("id").values_list("pk", flat=True))
    seconds, before = 0.0, _rows_written()
    for minute in range(MINUTES + 1):
        now = NOW + minute * MINUTE
        begin = processor_seconds()
        meter(now)
        seconds += processor_seconds() - begin
        Workload.objects.filter(pk=ids[minute % len(ids)]).update(tasks=5 + minute % 7)
        decision_request(pool, now=now)
        recompute_pool(
            pool_id=pool.pk, clock=partial(datetime.fromtimestamp, now.timestamp(), UTC), early=True
        )
    return seconds, _rows_written() - before


def _rows_written() -> int:
    """Return how many rows of entries, of their places in the queue, and of open uses were written."""
    with connection.cursor() as cursor:
        # A session reports its counts with a delay, and reads a snapshot of the others'.
        cursor.execute("SELECT pg_stat_clear_snapshot(), pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT COALESCE(sum(n_tup_ins + n_tup_upd), 0) FROM pg_stat_user_tables"
            " WHERE relname LIKE 'ledger_entry%' OR relname IN ('ledger_pending', 'ledger_open_use')"
        )
        return int(cursor.fetchall()[0][0])


def _amounts(pool: Pool) -> dict[tuple[Any, ...], Decimal]:
    found: dict[tuple[Any, ...], Decimal] = defaultdict(Decimal)
    for each in metered_entries(pool):
        seconds = int((each.end - each.start).total_seconds())
        found[each.tenant, each.resource, each.kind] += each.quantity * seconds
    return found
