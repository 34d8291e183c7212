"""Importing usage: exactly once, whoever imports the file and however often."""

import gzip
from datetime import UTC, datetime

import pytest

from allocator_service.ledger.models import Entry, Identity
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.services import pool_create
from allocator_service.tenants.services import tenant_retire
from tests.data import trace
from tests.integration.conftest import NOON, settings
from tests.unit.imports.test_usage_formats import NASA

pytestmark = pytest.mark.django_db

HEADER = "id,tenant,start,end,resources.cpu,resources.memory\n"
HOUR = "2026-10-05T10:00:00Z,2026-10-05T11:00:00Z"
TWO = f"{HEADER}j1,u1,{HOUR},2,4Gi\nj2,u1,{HOUR},0.5,1\n"


@pytest.fixture
def reported(db, tenant):
    pool = pool_create(slug="lab", settings=settings(metering="reported"), now=NOON)
    members_admit(pool=pool, tenants=[tenant("u1")], now=NOON)
    return pool


def told():
    return sorted(Entry.objects.values_list("event_id", "resource", "amount"))


def test_a_file_is_posted_once_and_then_changes_nothing(reported, command):
    first = command("import_usage", TWO)
    assert first.lines[-1].startswith("2 added, 0 changed, 0 unchanged, 0 refused, 0 skipped")
    assert told() == [
        ("j1", "cpu", 7200),
        ("j1", "memory", 14400),
        ("j2", "cpu", 1800),
        ("j2", "memory", 3600),
    ]
    second = command("import_usage", TWO)
    assert second.lines[-1].startswith("0 added, 0 changed, 2 unchanged, 0 refused")
    assert (Entry.objects.count(), Identity.objects.count()) == (4, 2)
    other = command("import_usage", TWO, "--source", "another site")
    assert other.lines[-1].startswith("2 added")


def test_a_dry_run_tells_every_row_and_writes_none(reported, command):
    command("import_usage", TWO)
    bad = (
        f"{TWO.replace(',0.5,', ',0.75,')}j3,u1,{HOUR},1,1\nj3,u1,{HOUR},1,1\n"
        f"j4,nobody,{HOUR},1,1\nj5,u1,2026-10-05T10:00:00Z,2026-10-05T10:00:00Z,1,1\n"
    )
    ran = command("import_usage", bad, "--dry-run")
    assert [line.split("\t")[:2] for line in ran.lines[:-1]] == [
        ["line 2", "unchanged"],
        ["line 3", "refused"],
        ["line 4", "added"],
        ["line 5", "refused"],
        ["line 6", "refused"],
        ["line 7", "refused"],
    ]
    codes = [
        line.split("\t")[3].split()[0].rstrip(":") for line in ran.lines if "refused\t" in line
    ]
    assert codes == ["usage.conflict", "row.duplicate", "tenant.unknown", "usage.interval"]
    assert (ran.code, Entry.objects.count()) == (1, 4)


def test_one_refused_row_keeps_all_others_out_unless_it_is_skipped(reported, command):
    bad = f"{TWO}j3,u1,{HOUR},-1,1\n"
    assert (command("import_usage", bad).code, Entry.objects.count()) == (1, 0)
    assert command("import_usage", bad, "--skip-refused").code == 0
    assert Identity.objects.count() == 2


def test_tenants_are_registered_when_that_is_asked(reported, command):
    jobs = (
        "JobIDRaw|Account|Start|End|AllocTRES\n"
        "1|Bio_Lab|2026-10-05T10:00:00|2026-10-05T11:00:00|cpu=4,mem=8G\n"
    )
    assert command("import_usage", jobs, "--format", "sacct").code == 1
    ran = command("import_usage", jobs, "--format", "sacct", "--register-tenants")
    assert "tenants registered: bio-lab" in ran.lines
    assert told()[0] == ("1@2026-10-05T10:00:00Z", "cpu", 14400)
    again = command("import_usage", jobs, "--format", "sacct")
    assert again.lines[-1].startswith("0 added, 0 changed, 1 unchanged")


def test_usage_of_a_retired_tenant_is_posted_for_the_time_before(reported, tenant, command):
    tenant_retire(tenant=tenant("u1"), version=None, now=datetime(2026, 10, 5, 11, tzinfo=UTC))
    late = f"{HEADER}j3,u1,2026-10-05T10:00:00Z,2026-10-05T11:00:01Z,1,1\n"
    assert command("import_usage", TWO).lines[-1].startswith("2 added")
    ran = command("import_usage", late)
    assert (ran.code, any("tenant.retired" in line for line in ran.lines)) == (1, True), ran
    assert Entry.objects.count() == 4


def test_a_pool_that_meters_itself_takes_none(pool, command):
    ran = command("import_usage", TWO, "--dry-run")
    assert (ran.code, ran.error) == (
        2,
        "This pool meters itself from its decisions and does not accept reported usage.",
    )


@pytest.mark.data
def test_a_published_trace_is_in_the_ledger_to_the_second(reported, command):
    """NASA's iPSC/860, three months of 1993 as if they began in January 2026."""
    jobs = gzip.decompress(trace(*NASA).read_bytes())
    options = ("--format", "swf", "--register-tenants", "--begin", "2026-01-01T00:00:00Z")
    ran = command("import_usage", jobs, *options)
    assert ran.code == 0, ran.error
    processor_seconds = sum(
        int(fields[3]) * int(fields[4])
        for line in jobs.decode().splitlines()
        if not line.startswith(";") and int((fields := line.split())[3]) > 0
    )
    assert sum(Entry.objects.values_list("amount", flat=True)) == processor_seconds
    assert command("import_usage", jobs, *options).lines[-1].startswith("0 added")
