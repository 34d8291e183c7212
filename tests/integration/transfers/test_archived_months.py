"""Pools that move from and to installations with archived months of the ledger."""

import dataclasses
from collections import Counter
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from allocator_service.billing.rating.late import reason_to_keep
from allocator_service.core.clock import utc_now
from allocator_service.core.ids import new_id
from allocator_service.ledger.archive.archiving import archive_restore, months_archive
from allocator_service.ledger.archive.files import file_write
from allocator_service.ledger.models import Archive, ArchivedPool, Entry, OpenUse, Seal
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from tests import factories
from tests.emptying import empty
from tests.integration.transfers.conftest import filled, seal, this_month, used
from tests.integration.transfers.test_moving import another_installation, exported, manage, picture
from tests.ledgers import Ledger, at, read_by_routes, read_by_services, verified

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def directory(tmp_path, settings):
    """A directory of archives, of the source or the target."""
    folder = tmp_path / "archives"
    folder.mkdir()
    use(settings, folder)
    return folder


def use(settings, folder):
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, ledger_archive_dir=str(folder))


def archive(before, obstacle=lambda *_: ""):
    """Archive the months before an instant, and return the reasons of those that stay."""
    found = months_archive(before=before, now=utc_now(), obstacle=obstacle)
    return {f"{outcome.month:%Y-%m}": outcome.reason for outcome in found}


def ledger_of(*slugs, seed=1, directory=None):
    """Months of usage of pools, whose tenants may be here already."""
    pools = [factories.pool(slug, metering="reported") for slug in slugs]
    tenants = [
        Tenant.objects.filter(slug=slug).first() or factories.tenant(slug)
        for slug in ("ada", "bob", "eve")
    ]
    return Ledger(pools, tenants, directory, seed=seed)


def everything(*slugs):
    """The answers of all readers about pools, and the feed of all pools in small pages."""
    billing = factories.client("billing")
    found = [read_by_services(Pool.objects.get(slug=slug)) for slug in slugs]
    return [*found, *(read_by_routes(billing, slug) for slug in slugs), feed(), verified()]


def feed(limit=7):
    billing = factories.client("billing")
    rows, after = [], ""
    while page := billing.get(f"/api/v1/ledger-entries/?limit={limit}{after}").json():
        rows += page["results"]
        after = f"&after={page['next_cursor']}"
        if not page["results"]:
            return rows
    raise AssertionError("a page is a document")


def export_of(slug):
    billing = factories.client("billing")
    return b"".join(billing.get(f"/api/v1/ledger-entries/export/?pool={slug}&format=ndjson"))


def test_archived_entries_of_a_pool_move_as_rows(tmp_path, directory, settings):
    pool = filled()
    moment = utc_now()
    before = picture(moment)
    entries = Entry.objects.filter(pool=pool).count()
    month = f"{this_month() - timedelta(days=1):%Y-%m}"
    assert archive(this_month()) == {month: ""}
    assert Entry.objects.filter(pool=pool).count() < entries
    file, wrote = exported(tmp_path)
    # The target has no archives, and no directory for any.
    another_installation()
    use(settings, "")

    assert wrote.splitlines()[:3] == manage("import_pool", "lab", str(file)).splitlines()[:3]
    assert "FAILS" not in manage("verify")
    assert Entry.objects.filter(pool__slug="lab").count() == entries
    assert ArchivedPool.objects.count() == 0
    after = picture(moment)
    assert {key for key in before if before[key] != after.get(key)} == set()


def test_a_large_archived_pool_moves_in_parts_without_its_neighbours(
    tmp_path, directory, monkeypatch
):
    """A group has 16 rows of two pools, and corrections of entries in other groups."""
    monkeypatch.setitem(file_write.__kwdefaults__, "rows_in_group", 16)
    ledger = ledger_of("lab", "other", directory=directory)
    ledger.fill(months=3)
    lines = export_of("lab")
    rows = set(Entry.objects.filter(pool__slug="lab").values_list("pk", "amount", "reason"))
    assert set(archive(at(4)).values()) == {""}
    assert Archive.objects.filter(month=at(2).date()).get().entries > 3 * 16
    assert Entry.objects.count() == 0
    file, _ = exported(tmp_path)
    assert export_of("lab") == lines
    empty()
    manage("import_pool", "lab", str(file))
    assert set(Entry.objects.values_list("pk", "amount", "reason")) == rows
    assert Seal.objects.count() == len(rows)
    assert export_of("lab") == lines
    assert "FAILS" not in manage("verify")


@pytest.mark.parametrize("damage", ["missing", "altered", "no directory"])
def test_a_pool_whose_archived_entries_cannot_be_read_stays_open(
    tmp_path, directory, settings, damage
):
    pool = filled()
    archive(this_month())
    (file,) = directory.iterdir()
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "altered":
        file.write_bytes(content[:-9] + bytes(9))
    else:
        use(settings, "")
    with pytest.raises(CommandError, match=r"Archived entries of the ledger cannot be read"):
        exported(tmp_path)
    assert list(tmp_path.glob("*.pool*")) == []
    assert Pool.objects.get(pk=pool.pk).moved_at is None
    used(pool, Tenant.objects.get(slug="bob"), "on", 1, utc_now() - timedelta(hours=1))


def test_months_with_an_imported_pool_are_archived_although_numbers_repeat(tmp_path, directory):
    ledger_of("lab", directory=directory).fill(months=3, entries=12)
    lines = export_of("lab")
    file, _ = exported(tmp_path)
    empty()
    target = ledger_of("grid", seed=2, directory=directory)
    target.fill(months=3, entries=12)
    same = [option for slug in ("ada", "bob", "eve") for option in ("--same-tenant", slug)]
    manage("import_pool", "lab", str(file), *same)
    counts = Counter(Seal.objects.values_list("sequence", flat=True))
    assert max(counts.values()) == 2
    assert export_of("lab") == lines
    # Entries of both pools after the import, late ones among them.
    both = Ledger(list(Pool.objects.order_by("slug")), target.tenants, directory, seed=3)
    both.append(1, 2, 3, 3, 3)
    # The numbers that the import skipped are of no entry.
    assert Seal.objects.filter(sequence__gt=max(counts)).count() == 5
    before = everything("grid", "lab")
    assert all(holds for _, holds, _ in before[-1])
    ids = [row["id"] for row in before[-2]]
    assert len(ids) == len(set(ids)) == Entry.objects.count()

    assert archive(at(3, 10)) == {"2026-01": "", "2026-02": ""}
    assert everything("grid", "lab") == before
    assert feed(limit=1) == before[-2]
    for each in Archive.objects.all():
        archive_restore(name=each.name)
    assert everything("grid", "lab") == before


def test_a_pool_is_imported_into_months_that_are_archived(tmp_path, directory):
    ledger_of("lab", directory=directory).fill(months=3, entries=12)
    lines = export_of("lab")
    file, _ = exported(tmp_path)
    empty()
    ledger_of("grid", seed=2, directory=directory).fill(months=3, entries=12)
    archive(at(4))
    others = export_of("grid")
    same = [option for slug in ("ada", "bob", "eve") for option in ("--same-tenant", slug)]
    manage("import_pool", "lab", str(file), *same)
    before = everything("grid", "lab")
    assert all(holds for _, holds, _ in before[-1])
    assert (export_of("lab"), export_of("grid")) == (lines, others)
    # A second file for each month, as for late entries.
    assert set(archive(at(4)).values()) == {""}
    assert Archive.objects.count() == 6
    assert Entry.objects.count() == 0
    assert everything("grid", "lab") == before


def test_a_pool_that_moved_keeps_no_month_in_the_database(tmp_path, directory):
    """Its month is closed, and its open use ends, in the other installation."""
    pool = filled()
    used(pool, Tenant.objects.get(slug="ada"), "old", 1, this_month() - timedelta(hours=30), 2)
    seal()
    bob = Tenant.objects.get(slug="bob")
    start = this_month() - timedelta(hours=20)
    OpenUse.objects.create(
        pool=pool, tenant=bob, start=start, run_id=new_id(), workloads=[None], owners=[None],
        resources=["cpu"], units=[""], kinds=["usage"], quantities=[1],
    )  # fmt: skip
    ((month, reason),) = archive(this_month(), reason_to_keep).items()
    assert "has been open since before its end" in reason
    OpenUse.objects.all().delete()
    assert "late entries of pool lab" in archive(this_month(), reason_to_keep)[month]
    exported(tmp_path)
    moment = utc_now()
    before = picture(moment)

    assert archive(this_month(), reason_to_keep) == {month: ""}
    assert picture(moment) == before
    assert "FAILS" not in manage("verify")
    # The move is cancelled after all: the open month is rated with archived late entries.
    call_command("export_pool", "lab", "--cancel", stdout=StringIO())
    draft = f"/api/v1/pools/lab/statements/{this_month():%Y-%m}/"
    operator = factories.client("operator")
    late = operator.get(f"{draft}ada/")
    assert late.status_code == 200
    archive_restore(name=Archive.objects.get().name)
    assert operator.get(f"{draft}ada/").json()["totals"] == late.json()["totals"]
