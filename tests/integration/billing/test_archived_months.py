"""Documents and late usage of closed months whose entries are archived."""

import dataclasses
from datetime import date
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from allocator_service.billing.auditing.verification import statements_verify
from allocator_service.billing.models import Posting
from allocator_service.billing.rating.late import reason_to_keep
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.watching import manifests_write
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.archive.archiving import archive_restore
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Archive, Entry, Seal
from allocator_service.tenants.models import ApiKey
from tests.integration.billing.conftest import APRIL_2, MAY_2, month, used
from tests.integration.billing.conftest import at as of_berlin
from tests.integration.billing.conftest import seal as entries_seal
from tests.ledgers import archive

pytestmark = pytest.mark.django_db(transaction=True)

FORMATS = ("", "?format=csv", "?format=pdf")


@pytest.fixture
def reader(billing, settings, tmp_path_factory):
    """A client with a billing key on the 2nd of May."""
    ApiKey.objects.update(expires_at=of_berlin(1, year=2030))
    file = tmp_path_factory.mktemp("clock") / "clock"
    file.write_text(MAY_2.isoformat())
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, clock_file=str(file))
    return billing


def ledger_seal(now):
    entries_seal(now)
    while totals_advance():
        pass


def documents(client, pool, *months):
    """Return the bytes of everything that closed months consist of."""
    urls = [
        f"/api/v1/pools/{pool.slug}/{of}"
        for month in months
        for of in (
            *(f"statements/{month}/{slug}/{form}" for slug in "ab" for form in FORMATS),
            f"months/{month}/",
            f"months/{month}/manifest/",
            *(f"months/{month}/entries/?format={form}" for form in ("csv", "ndjson")),
            *(f"months/{month}/focus/?format={form}" for form in ("csv", "parquet")),
        )
    ]
    found = {}
    for url in urls:
        answer = client.get(url)
        assert answer.status_code == 200, (url, b"".join(answer))
        found[url] = b"".join(answer) if answer.streaming else answer.content
    return found


def test_documents_of_closed_months_are_the_same_bytes_after_archiving(
    worked, archives, tenant, reader
):
    """March is closed, then corrected and posted to. April closes with both. Then both leave."""
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    lent = Entry.objects.get(start=of_berlin(15), end=of_berlin(20))
    entry_correct(entry=lent, quantity=Decimal("2.5"), reason="half", now=APRIL_2)
    used(worked, tenant("a"), tenant("b"), 1, of_berlin(7), of_berlin(8))
    used(worked, tenant("a"), tenant("b"), 3, of_berlin(5, 4), of_berlin(20, 4))
    ledger_seal(MAY_2)
    late = "late entries of pool lab are in no closed month yet"
    reasons = archive(MAY_2, obstacle=reason_to_keep, now=MAY_2)
    # No entry ends in April but those of the month's last day: they have no closed month, either.
    assert reasons["2027-03"] == late
    assert Archive.objects.count() == 0 or "2027-03" not in {
        f"{each.month:%Y-%m}" for each in Archive.objects.all()
    }
    month_close(pool=worked, month=month("2027-04", worked), now=MAY_2)
    manifests_write()
    ledger_seal(MAY_2)
    before = documents(reader, worked, "2027-03", "2027-04")
    reasons = archive(MAY_2, obstacle=reason_to_keep, now=MAY_2)
    assert set(reasons.values()) == {""}
    assert Entry.objects.count() == 0
    # The correction is with its entry, in the file of the month in which both began.
    of_march = Archive.objects.get(month=date(2027, 3, 1))
    kinds = pq.read_table(archives / of_march.name, columns=["id", "kind", "corrects"]).to_pylist()
    (correction,) = [row for row in kinds if row["kind"] == "correction"]
    assert correction["corrects"] == str(lent.pk)
    assert str(lent.pk) in {row["id"] for row in kinds}
    assert documents(reader, worked, "2027-03", "2027-04") == before
    assert [check for check in statements_verify() if not check.holds] == []
    assert [check for check in ledger_verify(now=MAY_2) if not check.holds] == []


def test_late_usage_of_an_archived_month_is_billed_once_and_archived_once(
    worked, archives, tenant, reader
):
    """The month's partition is made again. Its second file and the first have each entry once."""
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    manifests_write()
    ledger_seal(APRIL_2)
    assert archive(APRIL_2, obstacle=reason_to_keep, now=APRIL_2)["2027-03"] == ""
    march = documents(reader, worked, "2027-03")
    late = used(worked, tenant("a"), tenant("b"), 2, of_berlin(7), of_berlin(8))
    ledger_seal(APRIL_2)
    assert list(Entry.objects.values_list("pk", flat=True)) == [late]
    # It can be corrected, because it is in the database.
    entry_correct(entry=Entry.objects.get(pk=late), quantity=Decimal(1), reason="one", now=APRIL_2)
    ledger_seal(APRIL_2)
    reasons = archive(APRIL_2, obstacle=reason_to_keep, now=APRIL_2)
    assert reasons == {"2027-03": "late entries of pool lab are in no closed month yet"}
    month_close(pool=worked, month=month("2027-04", worked), now=MAY_2)
    manifests_write()
    ledger_seal(MAY_2)
    # A core of b's for a day at 0.04, as if it had been in time.
    charge = sum(
        row.tenant_amount
        for row in Posting.objects.filter(pool=worked, month=date(2027, 4, 1), kind="adjustment")
        if row.tenant.slug == "a"
    )
    assert charge == Decimal("0.96")
    april = documents(reader, worked, "2027-04")
    assert archive(MAY_2, obstacle=reason_to_keep, now=MAY_2) == {"2027-03": ""}
    files_of_march = Archive.objects.filter(month=date(2027, 3, 1)).order_by("pk")
    assert [each.entries for each in files_of_march][1:] == [2]
    ids = [
        id_
        for each in Archive.objects.all()
        for id_ in pq.read_table(archives / each.name, columns=["id"])["id"].to_pylist()
    ]
    assert len(ids) == len(set(ids)) == Seal.objects.count()
    assert documents(reader, worked, "2027-03") == march
    assert documents(reader, worked, "2027-04") == april
    assert all(check.holds for check in [*statements_verify(), *ledger_verify(now=MAY_2)])
    # Back in any order: the first file beside the entries of the second, or the other way round.
    for each in files_of_march.reverse():
        archive_restore(name=each.name)
        assert documents(reader, worked, "2027-03") == march
    # Archived again, they are in one file.
    assert archive(MAY_2, obstacle=reason_to_keep, now=MAY_2)["2027-03"] == ""
    assert Archive.objects.filter(month=date(2027, 3, 1)).count() == 1
    assert documents(reader, worked, "2027-03") == march
    assert all(check.holds for check in [*statements_verify(), *ledger_verify(now=MAY_2)])
