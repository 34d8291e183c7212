"""Members that left the scheduler of their agent, which end after thirty days."""

from datetime import datetime, timedelta

import pytest
from django.db import OperationalError

from allocator_service.core.clock import utc_now
from allocator_service.core.selecting import missing
from allocator_service.enforcement import absence, tasks
from allocator_service.enforcement.absence import absent_members_end
from allocator_service.enforcement.models import Agent
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Server
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.enforcement_reports import PATH, report

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


def absent_report(run, at, *, who=("ada",), agent="slurm-lab", interval="PT24H"):
    body = report(run, agent=agent, interval=interval, reported_at=at.isoformat())
    for row in body["tenants"]:
        if row["tenant"] in who:
            row["absent"] = True
    return body


def members(operator):
    return {row["tenant"] for row in operator.get("/api/v1/pools/lab/members/").json()["results"]}


def admitted(world, *tenants, agent="slurm-lab"):
    """End the demand and servers of tenants that an agent admitted."""
    Server.objects.filter(contributed_by__in=tenants).update(state="retired")
    Workload.objects.filter(tenant__in=tenants).update(state="withdrawn")
    for tenant in tenants:
        factories.workload(world.lab, f"{agent}/admission", 1, 0, tenant, tasks=0)
    Workload.objects.filter(tenant__in=tenants).update(state="withdrawn")


def absent_since(operator):
    since = operator.get(PATH).json()["tenants"][0]["absent_since"]
    return since and datetime.fromisoformat(since)


def test_members_that_left_the_scheduler_end_after_thirty_days(decided, world, operator):
    """The absence begins with the first report of it, by this clock, and ends with one of the tenant."""
    admitted(world, world.ada)
    now = utc_now()
    # The clock of the agent is behind.
    operator.put(PATH, absent_report(decided, now - timedelta(days=31)))
    assert absent_since(operator) >= now
    operator.put(PATH, absent_report(decided, now - timedelta(days=20), who=()))
    assert absent_since(operator) is None
    operator.put(PATH, absent_report(decided, now - timedelta(days=10)))
    since = absent_since(operator)
    operator.put(PATH, absent_report(decided, now - timedelta(days=1)))
    assert absent_since(operator) == since
    end = since + timedelta(days=30)
    Agent.objects.update(received_at=end)
    assert absent_members_end(pool=world.lab, now=end - timedelta(hours=1)) == []
    assert absent_members_end(pool=world.lab, now=end) == ["ada"]
    assert members(operator) == {"bob"}
    assert absent_members_end(pool=world.lab, now=end) == []
    # The tenant returns as a member once it is in the scheduler again.
    rows = "tenant,name,tasks,demand.cpu\nada,slurm-lab/admission,0,1\n"
    operator.post("/api/v1/pools/lab/imports/workloads/", {"content": rows})
    assert members(operator) == {"ada", "bob"}


@pytest.mark.parametrize(
    ("interval", "days", "is_new"),
    [("PT24H", 4, True), ("PT24H", 2, False), ("PT15S", 3, True), ("PT15S", 1, False)],
)
def test_an_absence_begins_anew_after_a_long_silence(decided, operator, interval, days, is_new):
    """An agent's tenants may have been present meanwhile."""
    now = utc_now()
    operator.put(PATH, absent_report(decided, now, interval=interval))
    first = absent_since(operator)
    Agent.objects.update(received_at=now - timedelta(days=days))
    operator.put(PATH, absent_report(decided, now + timedelta(seconds=1), interval=interval))
    assert (absent_since(operator) > first) == is_new


@pytest.mark.parametrize("why", ["not admitted", "workloads", "silent", "present elsewhere"])
def test_members_stay_that_an_agent_may_not_end(decided, world, operator, why):
    now = utc_now()
    if why != "not admitted":
        admitted(world, world.ada)
    if why == "workloads":
        factories.workload(world.lab, "own", 1, 0, world.ada)
    if why == "present elsewhere":
        operator.put(PATH, absent_report(decided, now, who=(), agent="other"))
    operator.put(PATH, absent_report(decided, now))
    later = utc_now() + timedelta(days=31)
    if why != "silent":
        Agent.objects.update(received_at=later)
    assert absent_members_end(pool=world.lab, now=later) == []
    assert members(operator) == {"ada", "bob"}


@pytest.mark.parametrize("error", [missing("member.not_found"), OperationalError("lock timeout")])
def test_a_pool_whose_members_cannot_end_stops_no_other(
    world, decided, operator, monkeypatch, error
):
    """Members end under the lock of their pool, so that no report comes between."""
    admitted(world, world.ada)
    operator.put(PATH, absent_report(decided, utc_now()))
    later = utc_now() + timedelta(days=31)
    Agent.objects.update(received_at=later)
    monkeypatch.setattr(tasks, "utc_now", lambda: later)
    monkeypatch.setattr(tasks, "pools_enforced", lambda: [refused, world.lab])
    refused, locked = factories.pool("refused"), []

    def end(*, pool, now):
        if pool == refused:
            raise error
        return absent_members_end(pool=pool, now=now)

    monkeypatch.setattr(tasks, "absent_members_end", end)
    monkeypatch.setattr(
        absence, "pool_lock", lambda pool: (locked.append(pool), pool_lock(pool))[1]
    )
    tasks.retention()
    assert (members(operator), locked) == ({"bob"}, [world.lab])
