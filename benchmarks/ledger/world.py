"""Pools with reported usage, tenants, and a year of entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

from django.core.management import call_command
from django.db import connection

from allocator_service.allocation.policies import policy_choose
from allocator_service.core.ids import new_id
from allocator_service.core.quantities import Resource
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.services import PoolSettings, pool_create
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import tenant_create

NOW = END = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
TENANTS = 20
RESOURCES = ("cpu", "memory")
INSERTED_AT_ONCE = 500_000
REPEAT = 7
T = TypeVar("T")

_FILL = """
INSERT INTO ledger_entry (id, pool_id, tenant_id, server_owner_id, resource, unit, quantity,
                          start, "end", amount, kind, reason, source, event_id, recorded_at)
SELECT (%(prefix)s || lpad(to_hex(i), 12, '0'))::uuid, %(pool)s,
       (%(tenants)s::bigint[])[1 + i %% %(n)s],
       CASE i %% 3 WHEN 1 THEN (%(tenants)s::bigint[])[1 + i / 3 %% %(n)s] END,
       (%(resources)s::text[])[1 + i / %(n)s %% 2], '',
       1 + i %% 7, at, at + interval '5 minutes', (1 + i %% 7) * 300,
       CASE WHEN i %% 3 = 0 THEN 'alone' ELSE 'usage' END, '', 'bench', i::text, at
FROM (SELECT i, %(begin)s::timestamptz + i * %(apart)s::interval AS at
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i) AS instants
"""
_SEAL = """
INSERT INTO ledger_seal (sequence, entry_id, start, pool_id, tenant_id, block)
SELECT (SELECT COALESCE(max(sequence), 0) FROM ledger_seal) + row_number() OVER (ORDER BY id),
       id, start, pool_id, tenant_id, 1
FROM ledger_entry
WHERE pool_id = %(pool)s AND start >= %(since)s AND start < %(until)s
"""


def open_pool(slug: str, resources: Sequence[str]) -> Pool:
    """Create a pool whose usage is reported."""
    chosen = PoolSettings(
        name=slug,
        resources=[Resource(name, "") for name in resources],
        policy=policy_choose("drf", None, {}),
        window=Window("unbounded", NOW),
        weights="explicit",
        own_servers=False,
        count="total",
        decision_interval="PT1M",
        metering="reported",
        currency="EUR",
        timezone="UTC",
        transparent=False,
    )
    return pool_create(slug=slug, settings=chosen, now=NOW)


def some_tenants(count: int) -> list[Tenant]:
    """Return tenants of the benchmark, the same for every pool."""
    slugs = [f"ledger-bench-{number}" for number in range(count)]
    present = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in=slugs)}
    return [present.get(slug) or tenant_create(slug=slug, name=slug, now=NOW) for slug in slugs]


@cache
def filled_pools(most: int) -> dict[int, Pool]:
    """Return a pool of 10^5 entries and one of a year, with the same interval between entries.

    The totals include all entries.
    """
    call_command("migrate", verbosity=0)
    return {entries: _fill_pool(entries, YEAR / most) for entries in (10**5, most)}


def _fill_pool(entries: int, apart: timedelta) -> Pool:
    pool = open_pool(f"bench-{entries}-{new_id().hex[-8:]}", RESOURCES)
    # Totals carry what a window that decays needs; the others read the same rows.
    Pool.objects.filter(pk=pool.pk).update(window_kind="decay", window_half_life="P7D")
    begin = END - entries * apart
    parameters: dict[str, Any] = {
        "prefix": f"{pool.pk:08x}-0000-7000-8000-",
        "pool": pool.pk,
        "tenants": [tenant.pk for tenant in some_tenants(TENANTS)],
        "n": TENANTS,
        "resources": list(RESOURCES),
        "begin": begin,
        "apart": apart,
    }
    with connection.cursor() as cursor:
        month = begin.date().replace(day=1)
        while month <= END.date():
            cursor.execute("SELECT ledger_partition(%s)", [month])
            month = (month + timedelta(days=32)).replace(day=1)
        for first in range(0, entries, INSERTED_AT_ONCE):
            last = min(first + INSERTED_AT_ONCE, entries)
            span = {"first": first, "last": last - 1}
            cursor.execute(_FILL, parameters | span)
            times = {"since": begin + first * apart, "until": begin + last * apart}
            cursor.execute(_SEAL, {"pool": pool.pk, **times})
        # Without statistics the totals that follow would be planned for empty tables.
        cursor.execute("ANALYZE ledger_entry, ledger_seal")
    while totals_advance():
        pass
    with connection.cursor() as cursor:
        # Here and not by autovacuum in the middle of a measurement.
        cursor.execute("VACUUM ANALYZE ledger_total, ledger_entry, ledger_seal")
    return pool


def best_of(run: Callable[[], T], repeat: int = REPEAT) -> tuple[float, T]:
    """Return the least wall time and the last result.

    It is wall time because the database works in processes of its own.
    """
    best = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - begin)
    return best, result
