"""Usage, corrections and statements of months that are archived."""

import json

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.core.errors import Conflict
from allocator_service.core.standby import reading_standby
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.archive.archiving import archive_restore
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.exporting import entries_export
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.intake.usage import Recorded
from allocator_service.ledger.models import (
    Archive,
    Entry,
    Seal,
)
from allocator_service.ledger.selectors import BEGINNING, COLUMNS, entries_after
from allocator_service.settings.databases import STANDBY
from tests.integration.conftest import NOON
from tests.integration.ledger.conftest import report, usage
from tests.ledgers import (
    archive,
    at,
    everything,
    verified,
)

pytestmark = pytest.mark.django_db(transaction=True)


def ledger_seal(now=NOON):
    entries_seal_all(now=now)
    while totals_advance():
        pass


def test_late_entries_of_an_archived_month_are_archived_in_a_second_file(ledger, world, billing):
    ledger.fill()
    archive()
    ledger.append(1, 1, 2, 5)
    assert archive(at(3)) == {"2026-01": "", "2026-02": ""}
    assert [each.month.month for each in Archive.objects.all()] == [1, 1, 2, 2, 3]
    after = everything(ledger, billing)
    for each in Archive.objects.all():
        archive_restore(name=each.name)
    assert everything(ledger, billing) == after
    assert all(holds for _, holds, _ in after[-1])


def test_a_correction_of_an_archived_entry_is_refused_until_it_is_restored(ledger, operator):
    ledger.fill()
    entry = Entry.objects.filter(start__lt=at(2)).exclude(kind="correction").first()
    archive()
    url = f"/api/v1/ledger-entries/{entry.pk}/corrections/"
    count = Seal.objects.count()
    answer = operator.post(url, {"quantity": "1", "reason": "mistyped"})
    assert (answer.status_code, json.loads(answer.content)["code"]) == (409, "entry.archived")
    # One that was loaded before the month was archived, too.
    with pytest.raises(Conflict, match="archived with 2026-01"):
        ledger.correct(entry)
    ledger.seal()
    assert Seal.objects.count() == count
    archive_restore(name=Archive.objects.get(month=at(1).date()).name)
    ledger.correct(entry)
    ledger.seal()
    assert all(holds for _, holds, _ in verified())


def test_an_event_of_an_archived_month_is_recognised_and_its_conflict_refused(
    reported, archives, tenant
):
    ada = tenant("ada")
    sent = usage(ada, "job-1", 2, 4)
    report(reported, sent)
    ledger_seal()
    assert archive(at(12), now=at(12, 2)) == {"2026-11": ""}
    count = Seal.objects.count()
    assert report(reported, sent) == Recorded(0, 1)
    with pytest.raises(Conflict) as refused:
        report(reported, usage(ada, "job-2", 1, 1), usage(ada, "job-1", 2, 5))
    assert refused.value.code == "usage.conflict"
    ledger_seal()
    # Not even the new event of the refused request.
    assert (Seal.objects.count(), Entry.objects.count()) == (count, 0)
    assert report(reported, sent, usage(ada, "job-2", 1, 1)) == Recorded(1, 1)
    ledger_seal()
    assert all(check.holds for check in ledger_verify(now=at(12, 2)))


def test_the_admin_states_which_months_its_list_does_not_have(ledger, admin_client):
    ledger.fill(months=2)
    url = reverse("admin:ledger_entry_changelist")
    archived = Entry.objects.filter(start__lt=at(2)).exclude(kind="correction").first()
    assert "archived months" not in admin_client.get(url).content.decode()
    archive()
    page = admin_client.get(url).content.decode()
    assert "January 2026, February 2026" in page
    # A page that was open before answers that the entry is not there, and writes nothing.
    count = Seal.objects.count()
    form = {"quantity": "1", "reason": "mistyped"}
    path = reverse("admin:ledger_entry_correct", args=[archived.pk])
    assert admin_client.post(path, form).status_code == 404
    ledger.seal()
    assert Seal.objects.count() == count


def test_an_export_reads_the_archives_of_its_own_snapshot_not_those_of_a_standby(ledger):
    """A standby that lags does not know yet that a month is archived."""
    ledger.fill(months=2)

    def export():
        stream = entries_export(
            BEGINNING, file_format="csv", columns=list(COLUMNS), caller=None, owners={}, pool="lab"
        ).stream
        return b"".join(stream)

    before = export()
    # A snapshot from before is what lags. Django's tests open connections of known aliases only.
    standby = connection.copy()
    connections.settings[STANDBY] = standby.settings_dict
    connections[STANDBY] = standby
    try:
        with standby.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            assert archive() == {"2026-01": "", "2026-02": ""}
            with reading_standby():
                assert Archive.objects.count() == 0
                assert export() == before
    finally:
        standby.close()
        del connections[STANDBY], connections.settings[STANDBY]


def test_a_report_of_a_thousand_intervals_reads_archived_entries(ledger, billing):
    ledger.fill(months=2)
    span = "from=2026-01-03T00:07:01Z&to=2026-02-13T16:07:01Z&step=PT1H"
    url = f"/api/v1/pools/lab/reports/utilization/?{span}"
    before = billing.get(url)
    assert before.status_code == 200, before.content
    archive(at(3))
    assert billing.get(url).content == before.content


def test_nothing_archived_costs_a_page_one_look(ledger, billing):
    ledger.fill(months=2)
    with CaptureQueriesContext(connection) as queries:
        assert entries_after(BEGINNING, caller=None, limit=10, pool="lab", tenant="ada")
    statements = [query["sql"].split()[0] for query in queries if "SAVEPOINT" not in query["sql"]]
    # Settings around it, the ledger's lock, the archives, and the page.
    assert statements == ["BEGIN", "SET", "LOCK", "SELECT", "SELECT", "SET", "COMMIT"]
