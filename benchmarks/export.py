"""The ledger over HTTP in one stream, beside Django REST framework's serializer row by row."""

from __future__ import annotations

import csv
import http.client
import io
import time
from typing import Any

from benchmarks.http.service import Service
from benchmarks.measurement import Row

CSV_GOAL, NDJSON_GOAL = 8.0, 4.0
PAGE_SECONDS = 0.100
MORE_MEMORY_MIB = 100
PIECE = 1 << 20
GROUPS = 20

_ENTRIES = """
INSERT INTO ledger_entry (id, pool_id, tenant_id, server_owner_id, resource, unit, quantity, start,
                          "end", amount, kind, reason, source, event_id, recorded_at)
SELECT (lpad(to_hex(1767225600000 + n), 12, '0') || '7' || left(md5(n::text), 3) || '8'
        || substr(md5(n::text), 4, 15))::uuid,
       pool.id, groups.ids[1 + n %% %(groups)s], CASE n %% 3 WHEN 0 THEN groups.ids[1 + n %% 7] END,
       CASE n %% 2 WHEN 0 THEN 'cpu' ELSE 'memory' END, CASE n %% 2 WHEN 0 THEN 'core' ELSE 'GiB' END,
       n %% 977 / 8.0, start, start + interval '60 seconds', n %% 977 / 8.0 * 60, 'usage', '',
       'node-agent', 'node-' || n, start + interval '61.234567 seconds'
FROM pool, (SELECT array_agg(id ORDER BY id) AS ids FROM tenant) AS groups,
     generate_series(1, %(entries)s) AS n,
     LATERAL (SELECT timestamptz '2026-01-01Z' + n * (interval '150 days' / %(entries)s)) AS x (start)
WHERE pool.slug = 'bench'
"""
# The pool's own entries may be sealed already, or be sealed later.
_SEALS = """
INSERT INTO ledger_seal (sequence, entry_id, start, pool_id, tenant_id, block)
SELECT (SELECT coalesce(max(sequence), 0) FROM ledger_seal) + row_number() OVER (ORDER BY id),
       id, start, pool_id, tenant_id,
       (SELECT coalesce(max(block), 0) FROM ledger_seal)
           + 1 + (row_number() OVER (ORDER BY id) - 1) / 1000
FROM ledger_entry WHERE source = 'node-agent'
"""
_BLOCKS = """
INSERT INTO ledger_block (pool_id, number, first_sequence, last_sequence, entries, digest, sealed_at)
SELECT pool_id, block, min(sequence), max(sequence), count(*), sha256(block::text::bytea), now()
FROM ledger_seal AS seal
WHERE NOT EXISTS (SELECT FROM ledger_block
                  WHERE ledger_block.pool_id = seal.pool_id AND number = seal.block)
GROUP BY pool_id, block
"""


def measure(*, quick: bool = False) -> list[Row]:
    """Measure the export of a million entries as CSV and NDJSON, its memory, and a page of 1,000."""
    entries = 100_000 if quick else 1_000_000
    service = Service(1)
    try:
        service.fill(1)
        _fill(entries)
        plain = _serializer_seconds(entries)
        _page_seconds(service)  # both sides have their code and caches in place
        before = service.web_memory_mib()
        sizes = f"{entries:,} entries"
        rows = [
            _row(service, name, sizes, goal, entries, plain, before)
            for name, goal in (("csv", CSV_GOAL), ("ndjson", NDJSON_GOAL))
        ]
        page = min(_page_seconds(service) for _ in range(5))
    finally:
        service.stop()
    limit = f"at most {PAGE_SECONDS * 1e3:.0f} ms"
    return [*rows, Row("ledger, a page of 1,000", sizes, page, limit, PAGE_SECONDS, 0.0, 1.0)]


def _fill(entries: int) -> None:
    """Insert entries of five months, sealed in blocks of a thousand."""
    import django

    django.setup()
    from django.db import connection, transaction

    with connection.cursor() as cursor:
        for month in range(1, 7):
            cursor.execute("SELECT ledger_partition(%s)", [f"2026-{month:02d}-01"])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE ledger_seal IN EXCLUSIVE MODE")  # the service seals as well
        cursor.execute(_ENTRIES, {"entries": entries, "groups": GROUPS})
        cursor.execute(_SEALS)
        cursor.execute(_BLOCKS)
    with connection.cursor() as cursor:
        # Queries are planned by statistics, which know nothing of rows that have just come.
        cursor.execute("ANALYZE")


def _serializer_seconds(entries: int) -> float:
    """Return the seconds of the usual way without HTTP, a serializer for pages of 1,000 rows."""
    from rest_framework import serializers

    from allocator_service.ledger.selectors import BEGINNING, Place, entries_after

    names = ("pool", "tenant", "server_owner", "resource", "unit", "kind", "reason", "source",
             "event_id", "digest")  # fmt: skip
    fields: dict[str, Any] = {
        "sequence": serializers.IntegerField(),
        **{name: serializers.UUIDField() for name in ("id", "workload", "corrects", "run")},
        **{name: serializers.CharField() for name in names},
        "quantity": serializers.DecimalField(36, 12),
        "amount": serializers.DecimalField(48, 18),
        **{name: serializers.DateTimeField() for name in ("start", "end", "recorded_at")},
    }
    serializer = type("EntrySerializer", (serializers.Serializer,), fields)()
    begin, written, place = time.perf_counter(), 0, BEGINNING
    while rows := entries_after(place, caller=None, limit=1_000):
        written += _written([serializer.to_representation(row) for row in rows])
        place = Place(rows[-1]["sequence"], rows[-1]["pool_id"])
    if written < entries:  # the pool meters itself meanwhile
        raise RuntimeError(f"the serializer wrote {written} of {entries} entries")
    return time.perf_counter() - begin


def _written(batch: list[dict[str, Any]]) -> int:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows(row.values() for row in batch)
    text.getvalue().encode()
    return len(batch)


def _row(
    service: Service, name: str, sizes: str, goal: float, entries: int, plain: float, before: float
) -> Row:
    seconds, lines = _export(service, name)
    if lines < entries:
        raise RuntimeError(f"the {name} has {lines} lines")
    more = service.web_memory_mib() - before
    return Row(
        name=f"ledger over HTTP, {name}",
        sizes=sizes,
        our_value=seconds,
        peer="DRF serializer, without HTTP",
        peer_value=plain,
        agreement=None,
        goal=goal if more <= MORE_MEMORY_MIB else float("inf"),
        notes=f"{entries / seconds:,.0f} entries/s, {more:.0f} MiB more memory",
    )


def _export(service: Service, name: str) -> tuple[float, int]:
    """Return the seconds from the request to the last byte, and the number of lines."""
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=600)
    path = f"/api/v1/ledger-entries/export/?format={name}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {service.key}"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {answer.read()[:200]!r}")
    lines = 0
    # In pieces, so that a client that keeps a whole export is not what is measured.
    while piece := answer.read(PIECE):
        lines += piece.count(b"\n")
    connection.close()
    return time.perf_counter() - begin, lines


def _page_seconds(service: Service) -> float:
    begin = time.perf_counter()
    page = service.client.get("/api/v1/ledger-entries/?limit=1000").body["results"]
    if len(page) != 1000:
        raise RuntimeError(f"the page has {len(page)} entries")
    return time.perf_counter() - begin
