"""What a window remembers, read from totals and summed over the entries, after a day and a year."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.core.management import call_command
from django.db import connection

from allocator_service.core.ids import new_id
from allocator_service.ledger.models import Kind
from allocator_service.ledger.totals import totals_advance
from allocator_service.ledger.windows import WindowState, amounts_in
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past
from benchmarks.ledger.world import open_pool, some_tenants
from benchmarks.measurement import Row

TENANTS = 20
RESOURCES = ("cpu", "memory")
YEAR = timedelta(days=365)
END = datetime(2026, 1, 1, tzinfo=UTC)
AT = END - timedelta(minutes=7)
DAY = timedelta(days=1)
HALF_LIFE = 7 * 86_400.0
INSERTED_AT_ONCE = 500_000
REPEAT = 7

_FILL = """
INSERT INTO ledger_entry (id, pool_id, tenant_id, resource, unit, quantity, start, "end", amount,
                          kind, reason, source, event_id, recorded_at)
SELECT (%(prefix)s || lpad(to_hex(i), 12, '0'))::uuid, %(pool)s,
       (%(tenants)s::bigint[])[1 + i %% %(n)s], (%(resources)s::text[])[1 + i / %(n)s %% 2], '',
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
_PLAIN = """
SELECT tenant_id, resource, kind, sum(quantity * extract(epoch FROM
           LEAST("end", %(until)s) - GREATEST(start, COALESCE(%(since)s::timestamptz, start))))
FROM ledger_entry
WHERE pool_id = %(pool)s AND start < %(until)s
  AND (%(since)s::timestamptz IS NULL OR "end" > %(since)s)
GROUP BY 1, 2, 3
"""


def measure(*, quick: bool) -> list[Row]:
    """The same rate of entries for days and for a year; a window of a day, and all of the past."""
    call_command("migrate", verbosity=0)
    most = 10**6 if quick else 10**7
    short, long = 10**5, most
    apart = YEAR / most
    pools = {entries: _filled(entries, apart) for entries in (short, long)}
    pasts = {
        "a day": Past(AT - DAY, AT),
        "unbounded": Past(None, AT),
        "half-life of 7 days": Past(None, AT, HALF_LIFE),
    }
    return [row for name, past in pasts.items() for row in _rows(name, past, pools)]


def _filled(entries: int, apart: timedelta) -> Pool:
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
        cursor.execute("ANALYZE ledger_entry, ledger_seal")
    while totals_advance():
        pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE ledger_total, ledger_entry, ledger_seal")
    return pool


def _rows(name: str, past: Past, pools: dict[int, Pool]) -> list[Row]:
    rows, times = [], []
    for entries, pool in pools.items():
        ours, state = _best(partial(amounts_in, pool, past))
        times.append(ours)
        plain, sums = _best(partial(_plain, pool, past), repeat=2)
        weighed = past.half_life is not None
        rows.append(
            Row(
                name=f"window, {name}",
                sizes=f"{entries} entries, {TENANTS} tenants, {len(RESOURCES)} resources",
                ours_seconds=ours,
                peer="plain SUM, undecayed" if weighed else "plain SUM",
                peer_seconds=plain,
                agreement=0.0 if weighed else _difference(state, sums),
                goal=None,
            )
        )
    most = max(pools)
    rows.append(
        Row(
            name=f"window, {name}",
            sizes=f"{most} entries beside {min(pools)}",
            ours_seconds=times[1],
            peer="ours, fewer entries",
            peer_seconds=times[0],
            agreement=0.0,
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
    """0 where both say the same to the last digit."""
    plain = {(kind, tenant, resource): amount for tenant, resource, kind, amount in sums}
    read = {(Kind.USAGE.value, *key): amount for key, amount in state.used.items()}
    read |= {(Kind.ALONE.value, *key): amount for key, amount in state.alone.items()}
    if plain.keys() != read.keys():
        return float("inf")
    return max(float(abs(read[key] - plain[key]) / plain[key]) for key in plain)


def _best(run: Callable[[], Any], repeat: int = REPEAT) -> tuple[float, Any]:
    """The least time on the wall: the database works in processes of its own."""
    best, result = float("inf"), None
    for _ in range(repeat):
        begin = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - begin)
    return best, result
