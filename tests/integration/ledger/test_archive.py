"""Readers of archived months answer as before, and refuse a file that is not whole."""

import json
import runpy
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from allocator_service.core.errors import Unavailable
from allocator_service.ledger.archive.archiving import archive_restore
from allocator_service.ledger.archive.files import METADATA_KEY, file_digest
from allocator_service.ledger.models import (
    Archive,
    ArchivedPool,
    Entry,
    OwnerTotal,
    Total,
    TotalsCursor,
)
from launcher.folders import PROJECT
from tests.examples import thorough
from tests.guides import blocks_of
from tests.ledgers import (
    Ledger,
    archive,
    at,
    everything,
    read_by_services,
    verified,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("seed", range(1, 4 if thorough() else 2))
def test_every_reader_answers_as_before_to_the_last_byte(ledger, world, billing, seed):
    ledger = Ledger(ledger.pools, ledger.tenants, ledger.directory, seed=seed)
    ledger.fill()
    clients = (billing, world.as_ada)
    before = everything(ledger, *clients)
    count = Entry.objects.count()
    assert archive() == {"2026-01": "", "2026-02": "", "2026-03": ""}
    assert Entry.objects.filter(start__lt=at(4)).count() == 0
    assert sum(each.entries for each in Archive.objects.all()) + Entry.objects.count() == count
    assert everything(ledger, *clients) == before
    assert all(holds for _, holds, _ in before[-1])
    # And back.
    for each in Archive.objects.all():
        archive_restore(name=each.name)
    assert (Archive.objects.count(), ArchivedPool.objects.count()) == (0, 0)
    assert Entry.objects.count() == count
    assert everything(ledger, *clients) == before


def test_totals_are_built_again_from_archived_entries(ledger):
    ledger.fill()
    before = read_by_services(ledger.pools[0])
    stored = list(Total.objects.order_by("pk").values_list("pk", "rate", "moment"))
    archive()
    Total.objects.all().delete()
    OwnerTotal.objects.all().delete()
    TotalsCursor.objects.update(through=0, owner_through=0)
    # Without totals, readers add the archived entries up.
    assert read_by_services(ledger.pools[0]) == before
    ledger.seal()
    assert list(Total.objects.order_by("pk").values_list("pk", "rate", "moment")) == stored
    assert all(holds for _, holds, _ in verified())


def test_an_auditor_recomputes_the_chain_from_exports_of_archived_entries(ledger, billing):
    ledger.fill()
    archive()
    recompute = runpy.run_path(str(PROJECT / "docs/examples/recompute_chain.py"))["recompute"]
    url = "/api/v1/ledger-entries/export/?format=ndjson&pool=lab"
    entries = b"".join(billing.get(url).streaming_content).decode().splitlines(keepends=True)
    blocks = json.loads(billing.get("/api/v1/ledger-blocks/?pool=lab&limit=1000").content)
    lines = [json.dumps(block) for block in blocks["results"]]
    assert len(entries) > 100
    assert list(recompute(iter(entries), iter(lines), [])) == []


def test_the_lines_of_the_export_are_made_from_a_file_without_the_service(ledger, billing):
    ledger.fill()
    archive(at(2))
    (stored,) = Archive.objects.all()
    exported = b"".join(
        billing.get("/api/v1/ledger-entries/export/?format=ndjson").streaming_content
    )
    lines = exported.splitlines(keepends=True)
    expected = [line for line in lines if json.loads(line)["start"] < "2026-02"]
    # As docs/chain.md has it, in a shell.
    (block,) = [
        each.text
        for each in blocks_of((PROJECT / "docs/chain.md").read_text())
        if "archive_lines.py" in each.text
    ]
    folder = ledger.directory
    command = block.replace("python docs", f"{sys.executable} {PROJECT}/docs")
    subprocess.run(command, shell=True, cwd=folder, check=True)
    assert (folder / "january.ndjson").read_bytes() == b"".join(expected)
    script = [sys.executable, "docs/examples/archive_lines.py"]
    path = folder / stored.name
    # It finds what was altered.
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    done = subprocess.run([*script, path], cwd=PROJECT, capture_output=True, check=False)
    assert (done.returncode, b"has other lines" in done.stderr) == (1, True)


def test_a_file_describes_itself(ledger):
    ledger.fill()
    archive(at(2))
    (stored,) = Archive.objects.all()
    table = pq.read_table(ledger.directory / stored.name)
    sequences = table["sequence"].to_pylist()
    assert sequences == sorted(sequences)
    assert (sequences[0], sequences[-1]) == (stored.first_sequence, stored.last_sequence)
    types = {name: str(table.schema.field(name).type) for name in ("quantity", "start", "amount")}
    assert types == {
        "quantity": "decimal128(36, 12)", "start": "timestamp[us, tz=UTC]", "amount": "string",
    }  # fmt: skip
    described = json.loads(table.schema.metadata[METADATA_KEY])
    assert described["format"] == 1
    assert described["lines_sha256"] == bytes(stored.lines_sha256).hex()
    assert set(described["blocks"]) == {"lab", "other"}
    sums = {}
    for row in table.to_pylist():
        key = (row["pool_id"], row["resource"], row["kind"])
        sums[key] = sums.get(key, Decimal(0)) + Decimal(row["amount"])
    recorded = {
        (each.pool_id, resource, kind): Decimal(amount)
        for each in stored.pools.all()
        for resource, kinds in each.amounts.items()
        for kind, amount in kinds.items()
    }
    assert recorded == sums


def missing(path):
    path.unlink()


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def altered(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def of_another_month(path):
    other = next(each for each in path.parent.glob("*.parquet") if each != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("harm", [missing, cut, altered, of_another_month])
def test_a_file_that_is_not_whole_is_an_error_that_names_it(ledger, billing, harm):
    ledger.fill()
    archive()
    stored = Archive.objects.first()
    path = ledger.directory / stored.name
    content = path.read_bytes()
    harm(path)
    for url in (
        "/api/v1/ledger-entries/export/?format=csv&pool=lab",
        "/api/v1/ledger-entries/?pool=lab",
        "/api/v1/pools/lab/reports/utilization/?from=2026-01-03T00:07:01Z&to=2026-01-20T05:00:01Z",
    ):
        answer = billing.get(url)
        assert answer.status_code == 503, url
        problem = json.loads(answer.content)
        assert problem["code"] == "ledger.archive_unavailable"
        assert stored.name in problem["detail"]
    checks = {name: (holds, detail) for name, holds, detail in verified()}
    assert not checks["chain"][0]
    assert stored.name in checks["chain"][1]
    with pytest.raises(CommandError, match=r"archives"):
        call_command("verify")
    with pytest.raises(Unavailable):
        archive_restore(name=stored.name)
    # What does not reach into the month is answered.
    later = "from=2026-04-02T00:00:01Z&to=2026-05-02T00:00:00Z"
    answer = billing.get(f"/api/v1/pools/lab/reports/utilization/?{later}")
    assert answer.status_code == 200
    path.write_bytes(content)
    assert all(holds for _, holds, _ in verified())


def test_a_forged_file_that_the_database_was_made_to_accept_breaks_the_chain(ledger):
    ledger.fill()
    archive(at(2))
    (stored,) = Archive.objects.all()
    path = ledger.directory / stored.name
    table = pq.read_table(path)
    quantities = table["quantity"].to_pylist()
    quantities[3] += 1
    place = table.schema.get_field_index("quantity")
    field = table.schema.field("quantity")
    forged = table.set_column(place, field, pa.array(quantities, type=field.type))
    pq.write_table(forged, path)
    digest = file_digest(path)
    Archive.objects.update(sha256=digest, size=path.stat().st_size)
    failed = {name for name, holds, _ in verified() if not holds}
    assert {"chain", "amounts", "totals"} <= failed
