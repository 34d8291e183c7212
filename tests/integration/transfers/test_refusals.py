"""Archives that were cut, altered or made up, and installations that have a name already."""

import gzip
import hashlib
import io
import json
import tarfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.core.management import call_command
from django.db import connection

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict, DomainError
from allocator_service.core.models import AuditEntry
from allocator_service.ledger.models import Entry
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.services import api_key_create
from allocator_service.transfers.importing import pool_import
from allocator_service.transfers.tables import TABLES
from tests import factories
from tests.emptying import empty
from tests.integration.transfers.conftest import filled, used

pytestmark = pytest.mark.django_db(transaction=True)

_made: dict[str, bytes] = {}


@pytest.fixture
def archive(tmp_path):
    """The archive of a pool, whose installation is gone."""
    if "lab" not in _made:
        filled()
        file = tmp_path / "lab.pool"
        call_command("export_pool", "lab", str(file), stdout=io.StringIO())
        _made["lab"] = file.read_bytes()
        empty()
    return _made["lab"]


def read(content, *, slug="lab", sha256=None, same=()):
    return pool_import(slug=slug, file=io.BytesIO(content), sha256=sha256, same=same, now=utc_now())


def members(content):
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        return {each.name: tar.extractfile(each).read() for each in tar.getmembers()}


def packed(parts):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def forged(content, changes, *, adapted=True):
    """The archive with members changed by functions of their bytes, and its manifest adapted."""
    parts = members(content)
    for name, change in changes.items():
        (found,) = [each for each in parts if each.startswith(name)]
        changed = change(parts[found])
        assert changed != parts[found]
        parts[found] = changed
    if adapted:
        manifest = json.loads(parts["manifest.json"])
        for member in manifest["members"]:
            own = parts[member["name"]]
            member |= {"bytes": len(own), "sha256": hashlib.sha256(own).hexdigest()}
        parts["manifest.json"] = json.dumps(manifest).encode()
    return packed(parts)


def column(table, name, change, *, row=0, having=""):
    """A change of one value in a row of a member, which may have to contain a text."""
    (found,) = [each for each in TABLES if each.name == table]
    place = found.columns.index(name)

    def changed(content):
        lines = content.decode().split("\n")
        chosen = [number for number, line in enumerate(lines) if having in line][row]
        cells = lines[chosen].split("\t")
        cells[place] = change(cells[place])
        lines[chosen] = "\t".join(cells)
        return "\n".join(lines).encode()

    return {f"rows/{table}/": changed}


def counts():
    with connection.cursor() as cursor:
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        found = {}
        for name in names:
            cursor.execute(f"SELECT count(*) FROM {name}")
            found[name] = cursor.fetchall()[0][0]
    return found


def refused(content, code, **options):
    """The detail of the refusal, after which nothing is left behind."""
    before = counts()
    with pytest.raises(DomainError) as refusal:
        read(content, **options)
    assert refusal.value.code == code, refusal.value.detail
    assert counts() == before
    return refusal.value.detail


def test_a_cut_file_is_refused_wherever_it_is_cut(archive):
    for size in (
        0,
        1,
        100,
        len(archive) // 4,
        len(archive) // 2,
        len(archive) - 600,
        len(archive) - 1,
    ):
        refused(archive[:size], "archive.unreadable")
    parts = members(archive)
    del parts["manifest.json"]
    refused(packed(parts), "archive.unreadable")
    read(archive)


def test_a_file_that_goes_on_after_its_end_is_refused(archive):
    parts = members(archive)
    refused(
        packed({**parts, "rows/pool/000002.copy": parts["rows/pool/000001.copy"]}),
        "archive.altered",
    )
    refused(archive + gzip.compress(b"more"), "archive.altered")


def test_foreign_files_are_refused(archive):
    refused(b"PK\x03\x04 no archive", "archive.unreadable")
    refused(packed({"etc/passwd": b"root"}), "archive.unreadable")
    refused(packed({"header.json": b"[]"}), "archive.unreadable")
    refused(packed({"header.json": b'{"format": "other"}'}), "archive.unreadable")
    parts = members(archive)
    for names in (["header.json", "../../evil"], ["header.json", "rows/auth_user/000001.copy"]):
        content = {name: parts.get(name, b"1\n") for name in names}
        refused(packed(content), "archive.altered")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"version": 2}, "archive.version"),
        ({"migrations": {"pools": "0001_initial"}}, "archive.release"),
        ({"pool": "else"}, "archive.pool"),
        ({"closed_at": "2999-01-01T00:00:00Z"}, "archive.clock"),
        ({"months": ["1999-01-01"]}, "archive.altered"),
        ({"months": ["2999-01-01"]}, "archive.altered"),
        ({"months": [7]}, "archive.altered"),
        ({"entries": 1}, "archive.altered"),
        ({"digest": "00"}, "archive.altered"),
        ({"archive": "none"}, "archive.altered"),
    ],
)
def test_a_header_that_is_not_of_these_rows_is_refused(archive, changed, code):
    def change(content):
        return json.dumps({**json.loads(content), **changed}).encode()

    refused(forged(archive, {"header.json": change}), code)


FORGERIES = {
    "an amount": column("ledger_entry", "amount", lambda text: text.replace(".", "9.", 1)),
    "a reason of a correction": column("ledger_entry", "reason", lambda text: text + "x", row=-2),
    "a user of an entry": column("ledger_entry", "source", lambda text: text + "x"),
    "a number": column("ledger_seal", "sequence", lambda text: str(int(text) + 1000)),
    "a digest": column("ledger_block", "digest", lambda text: text[:-1] + str(int(text[-1] == "0"))),
    "a total": column("ledger_total", "rate", lambda text: text.replace(".", "1.", 1)),
    "an end of totals": column("ledger_totals_cursor", "through", lambda text: text + "0"),
    "an end of late entries": column("billing_late_cursor", "through", lambda text: text + "0"),
    "a number of a closed month": column("billing_closing", "sequence", lambda text: text + "0"),
    "a statement": column("billing_statement", "billed", lambda text: "1" + text),
    "a posting": column("billing_posting", "price", lambda text: "1" + text if text != "\\N" else "1"),
    "a price": column("billing_rate", "pooled", lambda _: "9"),
    # One from before the closing, which covers it. Rows have no order.
    "an audit record": column(
        "core_audit_entry", "actor", lambda text: text + "x", having="price_plan.publish"
    ),
    "a member of nothing": column("pool_membership", "tenant_id", lambda _: "987654321"),
    "a workload of others": column(
        "ledger_entry", "workload_id", lambda _: "00000000-0000-0000-0000-000000000001"
    ),
    "another pool's event": column("core_event", "pool", lambda _: "other"),
    "a key of all pools": column("api_key", "pool", lambda _: ""),
    "a key of a tenant": column("api_key", "tenant_id", lambda _: "1"),
    "no number": column("ledger_entry", "quantity", lambda _: "many"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", list(FORGERIES))
def test_a_forged_row_is_refused_also_with_an_adapted_manifest(archive, forgery):
    refused(forged(archive, FORGERIES[forgery], adapted=False), "archive.altered")
    before = counts()
    with pytest.raises(DomainError) as refusal:
        read(forged(archive, FORGERIES[forgery]))
    assert refusal.value.code in ("archive.altered", "archive.conflict")
    assert counts() == before


def test_what_no_digest_covers_is_held_by_that_of_the_file(archive):
    """A changed weight, which no block includes, differs from the digest that the export printed."""
    weight = column("pool_membership_terms", "weight", lambda text: "9" + text)
    content = forged(archive, weight)
    stated = hashlib.sha256(archive).hexdigest()
    assert stated in refused(content, "archive.sha256", sha256=stated)
    read(archive, sha256=stated.upper())


def test_an_archive_is_imported_once(archive):
    imported = read(archive)
    assert "was imported on" in refused(archive, "pool.exists")
    assert Pool.objects.get().slug == imported.content.pool


def test_sixteen_imports_at_once_make_one_pool(archive):
    start = Barrier(16)

    def attempt():
        try:
            start.wait()
            read(archive)
        except Conflict as refusal:
            return refusal.code
        finally:
            connection.close()
        return "imported"

    with ThreadPoolExecutor(16) as threads:
        results = [each.result() for each in [threads.submit(attempt) for _ in range(16)]]
    assert results.count("imported") == 1
    assert set(results) <= {"imported", "pool.importing", "pool.exists"}
    assert Pool.objects.count() == 1
    once = Entry.objects.count()
    assert once == json.loads(members(archive)["header.json"])["entries"]


def test_a_pool_of_this_name_stays_as_it_is(archive):
    pool = factories.pool("lab")
    refused(archive, "pool.exists")
    pool.retired_at = utc_now()
    pool.save()
    refused(archive, "pool.exists")


def test_tenants_of_the_same_name_are_not_taken_for_the_same(archive):
    ada = factories.tenant("ada")
    assert "--same-tenant ada" in refused(archive, "archive.tenant")
    assert "no tenant eva" in refused(archive, "tenant.unknown", same=["eva"])
    imported = read(archive, same=["ada"])
    assert imported.tenants.present == ["ada"]
    assert Entry.objects.filter(tenant=ada).exists()
    assert Tenant.objects.filter(slug="ada").count() == 1


def test_a_key_whose_name_is_taken_gets_another_one(archive):
    parts = members(archive)
    (keys,) = [content for name, content in parts.items() if name.startswith("rows/api_key/")]
    name = keys.decode().split("\t")[1]
    now = utc_now()
    api_key_create(
        scope="operator", name=name, tenant=None, expires_at=now + timedelta(days=1), now=now
    )
    read(archive)
    assert ApiKey.objects.filter(name=name).count() == 1
    assert ApiKey.objects.filter(name=f"{name} (lab)").count() == 1


def test_an_id_that_is_here_is_a_conflict(archive):
    parts = members(archive)
    (rows,) = [
        content for name, content in parts.items() if name.startswith("rows/core_audit_entry/")
    ]
    AuditEntry.objects.create(
        id=rows.decode().split("\t")[0], at=utc_now(), actor="a", action="a", object_type="pool",
        object_id="1", object_name="a", after={},
    )  # fmt: skip
    refused(archive, "archive.conflict")


def test_changes_during_the_export_are_in_it_or_refused(tmp_path):
    pool = filled()
    bob = Tenant.objects.get(slug="bob")
    start, accepted = Barrier(9), []

    def report(worker):
        try:
            start.wait()
            for number in range(200):
                name = f"{worker}/{number}"
                try:
                    used(pool, bob, name, 1, utc_now() - timedelta(hours=2))
                except Conflict as refusal:
                    return refusal.code
                accepted.append(name)
        finally:
            connection.close()
        raise AssertionError("the pool was never closed")

    file = tmp_path / "lab.pool"
    with ThreadPoolExecutor(8) as threads:
        workers = [threads.submit(report, number) for number in range(8)]
        start.wait()
        call_command("export_pool", "lab", str(file), stdout=io.StringIO())
        assert {each.result() for each in workers} == {"pool.moved"}
    empty()
    read(file.read_bytes())
    events = Entry.objects.filter(event_id__in=accepted).values_list("event_id", flat=True)
    assert set(events) == set(accepted)
    assert not Entry.objects.exclude(event_id__in=accepted).filter(event_id__regex=r"^\d/").exists()
