"""A pool whose time is divided: slots on the clock, one answer for every instant."""

import copy
import zlib
from datetime import timedelta

import orjson
import pytest

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import Schedule
from allocator_service.tenants.models import Tenant
from tests.factories import client, decision, pool, server, tenant, workload

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def divided():
    """The thesis' example, 15,15 with 5,2 and 3,3.5, in periods of 4,100 seconds."""
    lab = pool(policy="tda", options={"period_seconds": 4100})
    ada, bob = tenant("ada"), tenant("bob")
    server(lab, "s1", 15, 15, ada)
    workload(lab, "wide", 5, 2, ada)
    workload(lab, "tall", 3, 3.5, bob)
    return decision(lab)


def test_the_schedule_is_the_optimum_and_proven_from_what_is_stored(divided):
    document = client().get(f"/api/v1/runs/{divided.pk}/schedule/").json()
    assert document["objective"] == pytest.approx(21 / 41, rel=1e-9)
    assert document["gap"] <= 1e-9
    assert document["bound"] == pytest.approx(7 / 13, rel=1e-9)
    assert len(document["slots"]) == 2
    assert [row["end"] for row in document["timetable"]][-1] == 4100
    verification = run_verify(divided)
    assert verification["valid"] is True, verification


@pytest.mark.usefixtures("falsifiable")
def test_a_stored_schedule_that_cannot_be_read_is_a_verdict(divided):
    """A row of 99 tasks before the right one, a part of a task, and members that nobody wrote."""
    schedule = Schedule.objects.get(run=divided)
    for forge in (
        lambda slot: slot["allocations"].insert(0, slot["allocations"][0] | {"tasks": 99}),
        lambda slot: slot["allocations"][0].update(tasks=3.9),
        lambda slot: slot.update(start=0),
    ):
        plan = copy.deepcopy(schedule.plan)
        forge(plan["slots"][0])
        document = zlib.compress(orjson.dumps(plan))
        Schedule.objects.filter(run=divided).update(document=document)
        answer = client().post(f"/api/v1/runs/{divided.pk}/verify/")
        assert answer.status_code == 200
        assert answer.json()["valid"] is False
        (check,) = answer.json()["checks"]
        assert check["name"] == "readable"
        assert "/schedule/slots/0" in check["detail"]
        proof = client().get(f"/api/v1/runs/{divided.pk}/proof/")
        assert proof.status_code == 409, proof.content
        assert proof.json()["code"] == "run.unreadable"
        assert "/schedule/slots/0" in proof.json()["detail"]


def test_every_instant_has_one_slot(divided):
    start = divided.effective_from
    seen = []
    for seconds in (0, 1500, 4000, 4100, 5600, 4100 * 7 + 4099):
        at = (start + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
        answer = client().get(f"/api/v1/pools/lab/decision/?at={at}")
        assert answer.status_code == 200
        slot = answer.json()["slot"]
        assert slot["start"] <= answer.json()["at"] < slot["end"]
        seen.append(tuple(row["tasks"] for row in slot["allocations"]))
    assert seen[0] == seen[3]
    assert seen[1] == seen[4]
    assert set(seen) == {seen[0], seen[2]}


def test_a_tenant_sees_its_own_tasks_in_the_slots(divided):
    mine = client("tenant", Tenant.objects.get(slug="ada")).get(
        f"/api/v1/runs/{divided.pk}/schedule/"
    )
    assert mine.status_code == 200
    names = {row["tenant"] for slot in mine.json()["slots"] for row in slot["allocations"]}
    assert names == {"ada"}
    assert mine.json()["objective"] is None
    assert "bob" not in mine.content.decode()
    slot = (
        client("tenant", Tenant.objects.get(slug="ada"))
        .get("/api/v1/pools/lab/decision/")
        .json()["slot"]
    )
    assert {row["tenant"] for row in slot["allocations"]} <= {"ada"}


def test_other_policies_plan_no_slots(world):
    run = decision(world.lab)
    answer = client().get(f"/api/v1/runs/{run.pk}/schedule/")
    assert (answer.status_code, answer.json()["code"]) == (404, "schedule.none")
    assert client().get("/api/v1/pools/lab/decision/").json()["slot"] is None


@pytest.fixture
def packed():
    """Identical servers of two names and one twice as large, and servers of one name by two tenants."""
    lab = pool(policy="tda", options={"period_seconds": 600, "pack": True})
    ada, bob = tenant("ada"), tenant("bob")
    for name, cpu, memory, owner in (
        ("node-7", 8, 8, None),
        ("big", 16, 16, None),
        ("node-9", 8, 8, None),
        ("box", 2, 2, ada),
        ("box", 2, 2, bob),
    ):
        server(lab, name, cpu, memory, owner)
    workload(lab, "wide", 2, 2, ada, tasks=18)
    workload(lab, "tall", 2, 2, bob, tasks=1)
    return decision(lab)


def _servers(caller, run):
    """Servers by tenant, which the schedule and the slot in force must name alike."""
    slots = caller.get(f"/api/v1/runs/{run.pk}/schedule/").json()["slots"]
    slot = caller.get("/api/v1/pools/lab/decision/").json()["slot"]
    assert slot["allocations"] in [each["allocations"] for each in slots]
    named = {}
    for each in slots:
        for row in each["allocations"]:
            assert sum(item["tasks"] for item in row["servers"]) == row["tasks"]
            names = [item["server"] for item in row["servers"]]
            named.setdefault(row["tenant"], set()).update(names)
    return named


def test_packed_slots_name_the_servers_of_the_pool(packed):
    named = _servers(client(), packed)
    assert set().union(*named.values()) == {"node-7", "node-9", "big", "box"}
    verification = run_verify(packed)
    assert verification["valid"] is True, verification


@pytest.mark.usefixtures("falsifiable")
def test_a_tenant_reads_no_names_of_servers_of_others_in_its_slots(packed):
    ada = client("tenant", Tenant.objects.get(slug="ada"))
    (names,) = _servers(ada, packed).values()
    others = names - {"node-7", "node-9", "big", "box"}
    assert len(names) == 5
    assert [name.startswith("server-") for name in others] == [True]
    # Schedules of the release before do not know whose servers they name.
    Schedule.objects.filter(run=packed).update(servers={})
    assert "node-7-0002" in _servers(client(), packed)["ada"]
    (names,) = _servers(ada, packed).values()
    assert all(name.startswith("server-") for name in names)
