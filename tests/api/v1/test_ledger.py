"""Usage in, ledger out over REST: each event once, each entry once, amounts to the last digit."""

from datetime import timedelta

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry
from allocator_service.pools.member_services import members_admit
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import tenant_retire
from tests import factories
from tests.api.v1.test_conventions import code

pytestmark = pytest.mark.django_db

USAGE = "/api/v1/pools/batch/usage/"
FEED = "/api/v1/ledger-entries/"


@pytest.fixture
def batch():
    pool = factories.pool("batch", metering="reported")
    for slug in ("ada", "bob"):
        tenant = factories.tenant(slug)
        factories.server(pool, f"of-{slug}", 8, 32, tenant)
        factories.workload(pool, "jobs", 0.5, 2, tenant)
    return pool


def event(number, **changes):
    return {
        "source": "slurm",
        "id": f"job-{number}",
        "tenant": "ada",
        "resources": {"cpu": "250m", "memory": "2Gi"},
        "start": "2026-10-01T00:00:00Z",
        "end": "2026-10-01T01:00:00Z",
    } | changes


def seal():
    entries_seal(now=utc_now())


def follow(caller, limit, **filters):
    """Every entry of the feed, page by page."""
    found, cursor = [], None
    while True:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        after = f"&after={cursor}" if cursor else ""
        page = caller.get(f"{FEED}?limit={limit}&{query}{after}").json()
        found += page["results"]
        cursor = page["next_cursor"]
        if not page["results"]:
            return found


def test_usage_is_posted_once_and_read_exactly(batch, operator, billing):
    answer = operator.post(USAGE, [event(1), event(2, id="job-1")])
    assert (answer.status_code, answer.json()) == (200, {"accepted": 1, "duplicates": 1})
    assert operator.post(USAGE, event(1)).json() == {"accepted": 0, "duplicates": 1}
    assert billing.get(FEED).json()["results"] == []  # not sealed yet
    seal()
    cpu, memory = billing.get(FEED).json()["results"]
    assert (cpu["sequence"], cpu["quantity"], cpu["amount"]) == (1, "0.25", "900")
    assert (memory["resource"], memory["unit"], memory["amount"]) == ("memory", "GiB", "7200")
    assert cpu["digest"] == memory["digest"]


def test_tasks_of_a_workload_use_its_demand(batch, operator):
    sent = event(1, workload="jobs", tasks=3)
    del sent["resources"]
    assert operator.post(USAGE, [sent]).status_code == 200
    assert list(Entry.objects.order_by("id").values_list("quantity", flat=True)) == [1.5, 6]


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointer"),
    [
        ({"tasks": 1}, 422, "usage.amount", "/0"),
        ({"resources": None}, 422, "field.type", "/0/resources"),
        ({"resources": {"gpu": 1}}, 422, "resource.unknown", "/0/resources/gpu"),
        ({"resources": {"cpu": -1}}, 422, "quantity.negative", "/0/resources/cpu"),
        ({"tenant": "nobody"}, 422, "tenant.unknown", "/0/tenant"),
        ({"workload": "nothing"}, 422, "workload.unknown", "/0/workload"),
        ({"end": "2026-10-01T00:00:00Z"}, 422, "usage.interval", "/0/end"),
        ({"end": "yesterday"}, 422, "timestamp.syntax", "/0/end"),
        ({"note": "x"}, 400, "field.unknown", "/0/note"),
    ],
)
def test_what_cannot_be_usage_is_refused_whole(batch, operator, changes, status, code, pointer):
    answer = operator.post(USAGE, [event(1, **changes), event(2)])
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not Entry.objects.exists()


def test_another_content_is_a_conflict_with_its_place(batch, operator):
    operator.post(USAGE, [event(1)])
    answer = operator.post(USAGE, [event(2), event(1, resources={"cpu": 9})])
    assert (answer.status_code, answer.json()["code"]) == (409, "usage.conflict")
    assert answer.json()["errors"][0]["pointer"] == "/1"
    assert Entry.objects.count() == 2


def test_a_tenant_reports_for_itself_and_sees_its_own(batch, operator):
    ada, bob = (factories.client("tenant", member.tenant) for member in batch.memberships.all())
    sent = event(1)
    del sent["tenant"]
    assert ada.post(USAGE, [sent]).json() == {"accepted": 1, "duplicates": 0}
    assert ada.post(USAGE, [event(2, tenant="bob")]).json()["code"] == "tenant.unknown"
    assert bob.post(USAGE, [event(1, tenant="bob")]).json()["accepted"] == 1
    assert set(Entry.objects.values_list("source", flat=True)) == {
        "tenant:ada/slurm",
        "tenant:bob/slurm",
    }
    seal()
    mine = follow(ada, 1)
    assert [row["tenant"] for row in mine] == ["ada", "ada"]
    assert not {"sequence", "digest"} & set(mine[0])
    assert follow(ada, 7, tenant="bob") == []
    assert len(follow(operator, 7)) == 4


def test_pages_of_every_size_hold_the_same_entries(batch, operator, billing):
    for number in range(30):
        operator.post(USAGE, [event(number)])
        if number % 4 == 0:
            seal()
    seal()
    pages = {limit: [row["id"] for row in follow(billing, limit)] for limit in (1, 7, 1000)}
    assert pages[1] == pages[7] == pages[1000]
    assert len(set(pages[1])) == 60
    assert len(follow(billing, 9, pool="batch", kind="usage")) == 60
    assert follow(billing, 9, kind="alone") == []


def test_the_feed_as_csv_and_ndjson_has_the_same_rows(batch, operator, billing):
    operator.post(USAGE, [event(1, id="=cmd()")])
    seal()
    rows = billing.get(f"{FEED}?format=csv").content.decode().splitlines()
    assert rows[0].startswith("sequence,id,pool,tenant")
    assert len(rows) == 3
    assert "'=cmd()" in rows[1]
    lines = billing.get(f"{FEED}?format=ndjson")
    assert len(lines.content.splitlines()) == 2
    assert lines.headers["X-Next-Cursor"]


def test_an_operator_corrects_with_a_reason(batch, operator, billing):
    operator.post(USAGE, [event(1)])
    entry = Entry.objects.order_by("id").first()
    path = f"{FEED}{entry.pk}/corrections/"
    answer = operator.post(path, {"quantity": "0.5", "reason": "measured twice"})
    assert answer.status_code == 201
    assert (answer.json()["quantity"], answer.json()["corrects"]) == ("0.25", str(entry.pk))
    refused = operator.post(path, {"quantity": "0.5", "reason": "again"})
    assert refused.json()["code"] == "correction.nothing"
    assert operator.post(f"{FEED}{batch.pk}/corrections/", {}).status_code == 404
    seal()
    assert sum(float(row["amount"]) for row in follow(billing, 9, kind="correction")) == 900


def test_what_was_reported_as_0_or_left_out_can_be_corrected(batch, operator, billing):
    operator.post(USAGE, [event(1, resources={"cpu": 2}), event(2, resources={"cpu": 0})])
    first, zero = Entry.objects.order_by("id")
    assert (zero.event_id, zero.resource, zero.quantity) == ("job-2", "cpu", 0)
    for entry, change in [
        (zero, {"quantity": "250m"}),
        (zero, {"quantity": 3, "resource": "memory"}),
        (first, {"quantity": "2Gi", "resource": "memory"}),
        (first, {"quantity": 1, "resource": "memory"}),
    ]:
        answer = operator.post(f"{FEED}{entry.pk}/corrections/", change | {"reason": "found later"})
        assert answer.status_code == 201, answer.json()
    assert answer.json()["corrects"] == str(first.pk)
    assert (answer.json()["resource"], answer.json()["quantity"]) == ("memory", "-1")
    seal()
    hours = {}
    for row in follow(billing, 9):
        key = (row["source"], row["resource"])
        hours[key] = hours.get(key, 0) + float(row["amount"]) / 3600
    assert hours == {("slurm", "cpu"): 2.25, ("slurm", "memory"): 4}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"resource": "gpu", "quantity": 1}, "correction.resource"),
        ({"resource": "memory", "quantity": 2}, "correction.nothing"),
        ({"resource": "memory", "quantity": -1}, "quantity.negative"),
    ],
)
def test_a_correction_of_another_resource_is_refused_with_its_place(batch, operator, change, code):
    operator.post(USAGE, [event(1)])
    entry = Entry.objects.get(resource="cpu")
    answer = operator.post(f"{FEED}{entry.pk}/corrections/", change | {"reason": "why"})
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert Entry.objects.count() == 2


def test_usage_of_whom_nobody_admitted_is_refused_unless_it_is_asked_for(batch, operator):
    factories.tenant("stranger")
    refused = operator.post(USAGE, [event(1), event(2, tenant="stranger")])
    assert (refused.status_code, refused.json()["code"]) == (422, "usage.not_member")
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/1/tenant"]
    assert Entry.objects.count() == 0
    asked = operator.post(f"{USAGE}?non_members=accept", [event(2, tenant="stranger")])
    assert asked.json() == {"accepted": 1, "duplicates": 0}
    assert operator.post(f"{USAGE}?non_members=perhaps", [event(3)]).status_code == 400


def test_late_usage_of_a_retired_tenant_is_taken_for_the_time_before(batch, operator):
    gone = factories.tenant("gone")
    members_admit(pool=batch, tenants=[gone], now=utc_now())
    tenant_retire(tenant=gone, version=None, now=utc_now())
    late = operator.post(USAGE, [event(1, tenant="gone")])
    assert late.json() == {"accepted": 1, "duplicates": 0}
    after = (utc_now() + timedelta(seconds=60)).isoformat()
    refused = operator.post(USAGE, [event(2, tenant="gone", end=after)])
    assert (refused.status_code, refused.json()["code"]) == (422, "tenant.retired")


@pytest.mark.parametrize("cursor", ["x", "AAAA", "bnVsbA"])
def test_a_cursor_of_something_else_is_refused(batch, operator, cursor):
    answer = operator.get(f"{FEED}?after={cursor}")
    assert (answer.status_code, answer.json()["code"]) == (400, "cursor.invalid")


def test_a_cursor_does_not_tell_whether_another_tenant_has_an_entry(batch, operator):
    assert operator.post(USAGE, [event(1), event(2, tenant="bob")]).status_code in (200, 201)
    seal()
    as_ada = factories.client("tenant", Tenant.objects.get(slug="ada"))
    page = operator.get(f"{FEED}?limit=100").json()
    assert page["results"][-1]["tenant"] == "bob"
    refused = as_ada.get(f"{FEED}?after={page['next_cursor']}")
    assert (refused.status_code, refused.json()["code"]) == (400, "cursor.invalid")
    own = as_ada.get(f"{FEED}?limit=1").json()["next_cursor"]
    assert as_ada.get(f"{FEED}?after={own}").status_code == 200


def test_the_first_event_beyond_what_a_request_takes_is_pointed_at(operator):
    factories.pool("reported", metering="reported")
    refused = operator.post("/api/v1/pools/reported/usage/", [0] * 10_001)
    assert code(refused) == (422, "bulk.too_many")
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/10000"]
