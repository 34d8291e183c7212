"""Amounts of windows, read from totals and summed over the entries, after a day and a year."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connection

from allocator_service.ledger.models import Kind
from allocator_service.ledger.windows import WindowState, amounts_in
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past
from benchmarks.ledger.world import END, RESOURCES, TENANTS, best_of, filled_pools
from benchmarks.measurement import Row

AT = END - timedelta(minutes=7)
DAY = timedelta(days=1)
HALF_LIFE = 7 * 86_400.0

_PLAIN = """
SELECT tenant_id, resource, kind, sum(quantity * extract(epoch FROM
           LEAST("end", %(until)s) - GREATEST(start, COALESCE(%(since)s::timestamptz, start))))
FROM ledger_entry
WHERE pool_id = %(pool)s AND start < %(until)s
  AND (%(since)s::timestamptz IS NULL OR "end" > %(since)s)
GROUP BY 1, 2, 3
"""


def measure(*, quick: bool) -> list[Row]:
    """Measure windows of a day and of all the past, at one rate of entries for days and for a year."""
    pools = filled_pools(10**6 if quick else 10**7)
    pasts = {
        "a day": Past(AT - DAY, AT),
        "unbounded": Past(None, AT),
        "half-life of 7 days": Past(None, AT, HALF_LIFE),
    }
    return [row for name, past in pasts.items() for row in _rows(name, past, pools)]


def _rows(name: str, past: Past, pools: dict[int, Pool]) -> list[Row]:
    rows, times = [], []
    for entries, pool in pools.items():
        ours, state = best_of(partial(amounts_in, pool, past))
        times.append(ours)
        plain, sums = best_of(partial(_plain, pool, past), repeat=2)
        weighed = past.half_life is not None
        rows.append(
            Row(
                name=f"window, {name}",
                sizes=f"{entries} entries, {TENANTS} tenants, {len(RESOURCES)} resources",
                our_value=ours,
                peer="plain SUM, undecayed" if weighed else "plain SUM",
                peer_value=plain,
                agreement=None if weighed else _difference(state, sums),
                goal=None,
            )
        )
    most = max(pools)
    rows.append(
        Row(
            name=f"window, {name}",
            sizes=f"{most} entries beside {min(pools)}",
            our_value=times[1],
            peer="ours, fewer entries",
            peer_value=times[0],
            agreement=None,
            goal=0.5,
            notes="a year's window costs at most twice that of days",
        )
    )
    return rows


def _plain(pool: Pool, past: Past) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_PLAIN, {"pool": pool.pk, "since": past.since, "until": past.until})
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _difference(state: WindowState, sums: list[tuple[Any, ...]]) -> float:
    """Return the largest relative difference, which is 0 if all digits agree."""
    plain = {(kind, tenant, resource): amount for tenant, resource, kind, amount in sums}
    read = {(Kind.USAGE.value, *key): amount for key, amount in state.used.items()}
    read |= {(Kind.ALONE.value, *key): amount for key, amount in state.alone.items()}
    if plain.keys() != read.keys():
        return float("inf")
    return max(float(abs(read[key] - plain[key]) / plain[key]) for key in plain)
