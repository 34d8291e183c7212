"""The ledger in one stream: the bytes of the pages, one snapshot, a few at a time."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO

import pyarrow.parquet as pq
import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.streams import MAX_STREAMS, SnapshotConnection
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

FEED = "/api/v1/ledger-entries/"
EXPORT = f"{FEED}export/"
START = datetime(2026, 10, 5, tzinfo=UTC)
ODD = ["plain", "=1+1", "-5", "-5x", "a,b", 'say "so"', "tab\there", "größe ☃", "\\.", "{}", "@"]
ODD += ["＝1+1", "＋1", "－1", "＠a"]


def add(pool, tenant, source="meter", owner=None, microseconds=0, quantity="0.25"):
    start = START + timedelta(microseconds=microseconds)
    entries_append(
        [
            {
                "pool_id": pool.pk,
                "tenant_id": tenant.pk,
                "server_owner_id": owner and owner.pk,
                "workload_id": None,
                "resource": "cpu",
                "unit": "",
                "quantity": Decimal(quantity),
                "start": start,
                "end": start + timedelta(hours=1),
                "kind": "usage",
                "corrects": None,
                "reason": "",
                "source": source,
                "event_id": source,
                "run_id": None,
                "recorded_at": utc_now(),
            }
        ]
    )


def seal():
    entries_seal(now=utc_now())


@pytest.fixture
def filled(world):
    """Entries in which every part of the format is tried: texts, instants, decimals, negatives."""
    for number, text in enumerate(ODD):
        add(world.lab, world.ada, text, world.bob, microseconds=number * 100_000)
        add(world.other, world.eve, text, quantity=f"{number}.000000000001")
    seal()
    entry = Entry.objects.filter(tenant=world.ada).order_by("id")[0]
    entry_correct(entry=entry, quantity=Decimal(0), reason="=cmd()", now=utc_now())
    seal()
    return world


def body(response):
    return b"".join(response.streaming_content) if response.streaming else response.content


def test_a_parquet_file_has_the_rows_of_the_lines_with_exact_decimals(filled, billing):
    for caller in (billing, filled.as_ada):
        lines = body(caller.get(f"{EXPORT}?format=ndjson")).splitlines()
        answer = caller.get(f"{EXPORT}?format=parquet")
        assert answer.headers["Content-Type"] == "application/vnd.apache.parquet"
        assert answer.headers["X-Next-Cursor"]
        rows = pq.read_table(BytesIO(body(answer))).to_pylist()
        told = [json.loads(line) for line in lines]
        assert len(rows) == len(told) > 10
        for row, line in zip(rows, told, strict=True):
            assert list(row) == list(line)
            for name, value in line.items():
                if name in ("quantity", "amount"):
                    assert row[name] == Decimal(value)
                elif name in ("start", "end", "recorded_at"):
                    assert row[name] == datetime.fromisoformat(value)
                else:
                    assert row[name] == value
    for _ in range(MAX_STREAMS + 2):  # what is not read is closed all the same
        caller.get(f"{EXPORT}?format=parquet").close()


@pytest.mark.parametrize("chosen", ["csv", "ndjson"])
def test_the_stream_has_the_bytes_of_the_pages(filled, billing, chosen):
    for caller in (billing, filled.as_ada, filled.as_eve):
        page = caller.get(f"{FEED}?format={chosen}&limit=1000")
        answer = caller.get(f"{EXPORT}?format={chosen}")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == page.headers["Content-Type"]
        assert body(answer) == page.content
        assert len(page.content.splitlines()) > 10


def test_filters_and_cursors_are_those_of_the_feed(filled, billing):
    for query in (
        "pool=lab",
        "tenant=eve",
        "kind=correction",
        "pool=nowhere",
        "pool=lab&tenant=eve",
    ):
        page = billing.get(f"{FEED}?format=ndjson&limit=1000&{query}").content
        assert body(billing.get(f"{EXPORT}?format=ndjson&{query}")) == page
    answer = billing.get(f"{EXPORT}?format=ndjson&kind=correction")
    assert len(body(answer).splitlines()) == 1
    cursor = answer.headers["X-Next-Cursor"]
    assert body(billing.get(f"{EXPORT}?format=ndjson&after={cursor}")) == b""
    add(filled.lab, filled.ada, "later")
    seal()
    rest = body(billing.get(f"{EXPORT}?format=ndjson&after={cursor}"))
    assert len(rest.splitlines()) == 1
    assert b'"later"' in rest


def test_it_is_one_snapshot(filled, billing):
    before = billing.get(f"{FEED}?format=csv&limit=1000").content
    answer = billing.get(EXPORT)
    add(filled.lab, filled.ada, "while it is read")
    seal()
    assert body(answer) == before


def test_a_tenant_sees_its_own_and_the_owners_under_pseudonyms(filled):
    for path in (f"{FEED}?limit=1000", f"{EXPORT}?format=ndjson"):
        content = body(filled.as_ada.get(path))
        assert b"bob" not in content
        assert b"member-" in content
        assert b"sequence" not in content


def test_a_fifth_stream_waits_until_one_has_ended(filled, operator):
    held = [SnapshotConnection() for _ in range(MAX_STREAMS)]
    refused = operator.get(EXPORT)
    assert (refused.status_code, refused.json()["code"]) == (503, "export.busy")
    assert refused.headers["Retry-After"] == "10"
    held.pop().close()
    assert body(operator.get(EXPORT)).startswith(b"sequence,id,pool")
    abandoned = operator.get(EXPORT)
    abandoned.close()  # a client that went away
    assert body(operator.get(EXPORT)) != b""
    for snapshot in held:
        snapshot.close()


def test_an_empty_ledger_is_a_header(operator):
    factories.pool("lab")
    answer = operator.get(EXPORT)
    assert body(answer).startswith(b"sequence,id,pool,tenant")
    assert "X-Next-Cursor" not in answer.headers
    assert body(operator.get(f"{EXPORT}?format=ndjson")) == b""
    assert operator.get(f"{EXPORT}?format=json").status_code == 406
