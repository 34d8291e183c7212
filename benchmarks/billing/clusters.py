"""The closing of a month in a pool with clusters, beside the same month without clusters."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.core.management import call_command
from django.db import connection, transaction

from allocator_service.billing.models import Statement
from allocator_service.billing.months import Month, month_of
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.documents import document_of
from allocator_service.ledger.models import UsageSource
from allocator_service.pools.models import Pool
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from benchmarks.billing.months import APRIL, MARCH, TENANTS, fill_pool
from benchmarks.measurement import Row

REPEAT = 3
LOCK_GOAL = 1 / 1.3


def measure_closing(*, quick: bool) -> list[Row]:
    """Measure how long a closing lasts, and for how long it keeps entries from being numbered."""
    call_command("migrate", verbosity=0)
    rows = []
    for entries in (10**5,) if quick else (10**5, 10**6):
        pool, _ = fill_pool(entries)
        month = month_of(MARCH, pool.timezone)
        sizes = f"{entries} entries, {TENANTS} tenants"
        plain, plain_lock, _ = _closed(pool, month)
        _divide(pool)
        seconds, lock, hours = _closed(pool, month)
        difference = float(abs(hours - _used(pool)) / _used(pool))
        rows += [
            Row("numbering waits for a closing with clusters", sizes, lock, "ours, without clusters",
                plain_lock, None, LOCK_GOAL, "goal: at most 1.3 × as long"),
            Row("closing a month with clusters", sizes, seconds, "ours, without clusters", plain,
                difference, None, "all entries of the month are read once, while others are numbered"),
        ]  # fmt: skip
    return rows


def _divide(pool: Pool) -> None:
    """Give the pool two clusters, and the source of its entries to one of them."""
    drafts = [
        ServerDraft(name, [Decimal(64), Decimal(64)], labels={"cluster": name})
        for name in ("east", "west")
    ]
    servers_contribute(pool=pool, drafts=drafts, now=MARCH - timedelta(days=1))
    UsageSource.objects.create(pool=pool, source="bench", cluster="east")


def _closed(pool: Pool, month: Month) -> tuple[float, float, Decimal]:
    """Return the seconds of a closing and of its lock, and the hours on clusters."""
    best, held, hours = float("inf"), float("inf"), Decimal(0)
    for _ in range(REPEAT):
        lock = _LockTime()
        with transaction.atomic():
            begin = time.perf_counter()
            with connection.execute_wrapper(lock):
                month_close(pool=pool, month=month, now=APRIL)
            best = min(best, time.perf_counter() - begin)
            held = min(held, lock.seconds)
            hours = _hours(pool)
            # A month can be closed only once.
            transaction.set_rollback(True)
    return best, held, hours


class _LockTime:
    """The seconds between the statements that take and release the sealer's lock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        if "pg_advisory_lock(" in sql:
            self.seconds -= time.perf_counter()
        elif "pg_advisory_unlock(" in sql:
            self.seconds += time.perf_counter()
        return execute(sql, params, many, context)


def _hours(pool: Pool) -> Decimal:
    """Return the unit-hours on all clusters in the statements."""
    stored = Statement.objects.filter(closing__pool=pool).values_list("document", flat=True)
    return sum(
        (
            Decimal(hours)
            for content in stored
            for row in document_of(bytes(content)).get("clusters", ())
            for hours in row["hours"].values()
        ),
        Decimal(0),
    )


def _used(pool: Pool) -> Decimal:
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(amount) FROM ledger_entry WHERE pool_id = %s", [pool.pk])
        return Decimal(cursor.fetchall()[0][0]) / 3600
