"""Usage in batches of 1,000 events, over HTTP, by the service alone, and the naive way.

The verification of all entries is measured afterwards.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.core.management import call_command
from django.db import transaction

from allocator_service.core.ids import new_id
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.entries import amount_of
from allocator_service.ledger.intake.sealing import entries_seal, entries_seal_all
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry, Identity, PendingEntry, Seal
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.models import Pool
from benchmarks.http.load import Connection, request_bytes
from benchmarks.http.service import Service
from benchmarks.ledger.world import open_pool, some_tenants
from benchmarks.measurement import Row

BATCH = 1_000
TENANTS = 20
START = datetime(2025, 11, 3, tzinfo=UTC)
NOW = START + timedelta(days=30)
GOAL = 10_000.0
VERIFIED = 50_000.0
WEB_WORKERS = 2
CONNECTIONS = 2


def measure(*, quick: bool) -> list[Row]:
    """Measure the entries per second.

    Every event makes one entry. All events are new, which both sides check.
    """
    call_command("migrate", verbosity=0)
    batches = 10 if quick else 50
    return [_beside_naive(batches), _over_http(batches), _verification_row(4 * batches)]


def _events(batch: int) -> list[UsageEvent]:
    tenants = some_tenants(TENANTS)
    return [
        UsageEvent(
            source="bench",
            event_id=f"{batch}/{number}",
            tenant=tenants[number % TENANTS],
            workload=None,
            vector=[Decimal("1.25") + number % 7],
            start=START + timedelta(seconds=number),
            end=START + timedelta(seconds=number, minutes=5),
        )
        for number in range(BATCH)
    ]


def _beside_naive(batches: int) -> Row:
    events = [_events(number) for number in range(batches)]
    entries = batches * BATCH
    pools = {name: open_pool(f"{name}-{new_id().hex[-8:]}", ["cpu"]) for name in ("ours", "naive")}
    begin = time.perf_counter()
    for batch in events:
        usage_record(pool=pools["ours"], events=batch, now=NOW, members_only=False)
    ours = time.perf_counter() - begin
    # A query per event is slow, and a tenth of the batches is enough to measure it.
    few = events[: max(1, batches // 10)]
    begin = time.perf_counter()
    for batch in few:
        _naive(pools["naive"], batch)
    naive = time.perf_counter() - begin
    naive_entries = len(few) * BATCH
    # Measured apart, because no post waits for seals.
    begin = time.perf_counter()
    while entries_seal(now=NOW):
        pass
    sealing = time.perf_counter() - begin
    stored = Entry.objects.filter(pool=pools["ours"]).count()
    return Row(
        name="append",
        sizes=f"{entries} entries in batches of {BATCH}, {naive_entries} the naive way; per entry",
        our_value=ours / entries,
        peer="look-then-create, bulk_create",
        peer_value=naive / naive_entries,
        agreement=float(stored != entries),
        goal=5.0,
        notes=f"{entries / ours:.0f}/s beside {naive_entries / naive:.0f}/s, sealed at "
        f"{(entries + naive_entries) / sealing:.0f}/s",
    )


@transaction.atomic
def _naive(pool: Pool, events: Sequence[UsageEvent]) -> None:
    """Append events after one query per event for earlier posts.

    Two concurrent calls post an event twice.
    """
    fresh = []
    for event in events:
        identity = Identity.objects.filter(pool=pool, source=event.source, event_id=event.event_id)
        if not identity.exists():
            fresh.append(event)
    Identity.objects.bulk_create(
        Identity(pool=pool, source=e.source, event_id=e.event_id, digest=e.digest) for e in fresh
    )
    entries = [
        Entry(
            pool=pool,
            tenant=event.tenant,
            resource="cpu",
            unit="",
            quantity=event.vector[0],
            start=event.start,
            end=event.end,
            amount=amount_of(event.vector[0], event.start, event.end),
            kind="usage",
            source=event.source,
            event_id=event.event_id,
            recorded_at=NOW,
        )
        for event in fresh
    ]
    Entry.objects.bulk_create(entries)
    PendingEntry.objects.bulk_create(
        PendingEntry(entry_id=entry.pk, start=entry.start) for entry in entries
    )


def _over_http(batches: int) -> Row:
    service = Service(WEB_WORKERS)
    try:
        pool = open_pool(f"http-{new_id().hex[-8:]}", ["cpu"])
        members = some_tenants(TENANTS)
        with transaction.atomic():
            members_admit(pool=pool, tenants=members, now=START)
        tenants = [tenant.slug for tenant in members]
        headers = {
            "Authorization": f"Bearer {service.key}",
            "Accept": "application/json",
        }
        path = f"/api/v1/pools/{pool.slug}/usage/"
        requests = [
            request_bytes("POST", path, headers, json.dumps(_body(number, tenants)).encode())
            # Negative numbers are first requests of the connections, which are not timed.
            for number in range(-CONNECTIONS, batches)
        ]
        _send(service.port, requests[:CONNECTIONS])
        seconds = _send(service.port, requests[CONNECTIONS:])
        entries = batches * BATCH
        begin = time.perf_counter()
        while Seal.objects.filter(pool=pool).count() < entries + CONNECTIONS * BATCH:
            time.sleep(0.02)
            if time.perf_counter() - begin > 60:
                raise RuntimeError("entries were not sealed within a minute")
        visible = time.perf_counter() - begin
    finally:
        service.stop()
    return Row(
        name="POST usage",
        sizes=f"{entries} entries in batches of {BATCH}, {CONNECTIONS} connections, "
        f"{WEB_WORKERS} web processes",
        our_value=seconds / entries,
        peer=f"none: {GOAL:.0f} entries/s",
        peer_value=1 / GOAL,
        agreement=None,
        goal=1.0,
        notes=f"{entries / seconds:.0f}/s, the last sealed {visible:.2f} s later",
    )


def _verification_row(batches: int) -> Row:
    """Measure `verify` of the whole ledger, which checks order, chain, sums, totals and windows."""
    pool = open_pool(f"verified-{new_id().hex[-8:]}", ["cpu"])
    for number in range(batches):
        usage_record(pool=pool, events=_events(number), now=NOW, members_only=False)
    entries_seal_all(now=NOW)
    while totals_advance():
        pass
    entries = Entry.objects.count()
    begin = time.perf_counter()
    checks = ledger_verify(now=NOW)
    seconds = time.perf_counter() - begin
    return Row(
        name="verify",
        sizes=f"{entries} entries",
        our_value=seconds / entries,
        peer=f"{VERIFIED:.0f} entries/s",
        peer_value=1 / VERIFIED,
        agreement=float(not all(check.holds for check in checks)),
        goal=1.0,
        notes=f"{entries / seconds:.0f}/s, {len(checks)} checks",
    )


def _body(batch: int, tenants: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "source": "bench",
            "id": f"{batch}/{number}",
            "tenant": tenants[number % TENANTS],
            "resources": {"cpu": "1.25"},
            "start": f"2025-11-03T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
            "end": f"2025-11-03T{number // 3600 + 1:02d}:00:00Z",
        }
        for number in range(BATCH)
    ]


def _send(port: int, requests: Sequence[bytes]) -> float:
    """Send all requests over the connections, and return the seconds.

    Raises `RuntimeError` if a request is refused.
    """
    # Reversed, as pop takes the last one.
    waiting, lock = list(reversed(requests)), threading.Lock()
    refused: list[bytes] = []

    def post() -> None:
        connection = Connection("127.0.0.1", port)
        while True:
            with lock:
                if not waiting:
                    break
                request = waiting.pop()
            status, body = connection.send(request)
            if status != 200:
                refused.append(body)
        connection.close()

    threads = [threading.Thread(target=post) for _ in range(CONNECTIONS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if refused:
        raise RuntimeError(f"{len(refused)} requests were refused: {refused[0][:300]!r}")
    return seconds
