"""Events of drifts, of blocked tenants and of silent agents, each recorded once."""

from datetime import timedelta

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.models import Event
from allocator_service.enforcement.models import Agent, Blockage, Drift
from allocator_service.enforcement.services import agent_retire
from allocator_service.enforcement.watching import enforcement_watch
from tests import factories
from tests.api.v1.enforcement_reports import PATH, drifts, kinds, report

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


def test_a_drift_that_lasts_is_told_once_and_once_that_it_settled(world, decided, operator):
    operator.put(PATH, report(decided, ada=(1, 10)))
    start = utc_now()
    pool = world.lab
    for seconds in (0, 20, 44):
        enforcement_watch(pool=pool, now=start + timedelta(seconds=seconds))
    assert drifts() == []
    for seconds in (46, 60, 600):
        enforcement_watch(pool=pool, now=start + timedelta(seconds=seconds))
    assert drifts() == [("enforcement.drift", "ada")]
    event = Event.objects.get(kind="enforcement.drift")
    assert event.payload["enforced"] == {"cpu": "1", "memory": "10"}
    assert event.payload["generation"] == decided.generation
    operator.put(PATH, report(decided))
    for seconds in (601, 602):
        enforcement_watch(pool=pool, now=start + timedelta(seconds=seconds))
    assert drifts() == [("enforcement.drift", "ada"), ("enforcement.settled", "ada")]
    assert not Drift.objects.exists()


def test_a_drift_that_passes_is_not_told(world, decided, operator):
    operator.put(PATH, report(decided, ada=(1, 10)))
    start = utc_now()
    enforcement_watch(pool=world.lab, now=start)
    operator.put(PATH, report(decided))
    for seconds in (5, 60, 120):
        enforcement_watch(pool=world.lab, now=start + timedelta(seconds=seconds))
    assert drifts() == []


def test_a_decision_that_a_silent_agent_does_not_apply_becomes_a_drift(world, decided, operator):
    operator.put(PATH, report(decided))
    start = utc_now()
    enforcement_watch(pool=world.lab, now=start)
    factories.workload(world.lab, "more", 1, 1, world.bob)
    factories.server(world.lab, "third", 40, 40, None)
    new = factories.decision(world.lab)
    assert operator.get(PATH).json()["agents"][0]["behind"] == new.generation - decided.generation
    for seconds in (10, 60):
        enforcement_watch(pool=world.lab, now=start + timedelta(seconds=seconds))
    assert {kind for kind, _ in drifts()} == {"enforcement.drift"}


def test_two_watchers_tell_once(world, decided, operator):
    operator.put(PATH, report(decided, ada=(1, 10)))
    start = utc_now()
    for _ in range(2):
        enforcement_watch(pool=world.lab, now=start)
    for _ in range(2):
        enforcement_watch(pool=world.lab, now=start + timedelta(seconds=60))
    assert drifts() == [("enforcement.drift", "ada")]


def waiting(run, **changes):
    """A report in which ada uses 1 of 2 CPUs while a job of 1 CPU waits."""
    body = report(run)
    body["tenants"][0] |= {
        "pending_tasks": 3, "pending_reason": "AssocGrpCpuLimit", "pending_demand": {"cpu": 1},
        **changes,
    }  # fmt: skip
    return body


def watched(operator, pool, bodies, *, every=15):
    """PUT reports at an interval of the service's clock, looking at the pool after each."""
    start = utc_now()
    for number, body in enumerate(bodies):
        at = start + timedelta(seconds=every * number)
        dated = body | {"reported_at": (utc_now() + timedelta(microseconds=number)).isoformat()}
        answer = operator.put(PATH, dated)
        assert answer.status_code == 200, answer.content
        Agent.objects.update(received_at=at)
        enforcement_watch(pool=pool, now=at)
    return start + timedelta(seconds=every * (len(bodies) - 1))


def test_jobs_that_wait_under_an_unused_decision_are_an_event_once_and_once_when_they_start(
    world, decided, operator
):
    at = watched(operator, world.lab, [waiting(decided)] * 4)
    assert kinds() == []  # three intervals, not more
    for seconds in (1, 2, 20):
        enforcement_watch(pool=world.lab, now=at + timedelta(seconds=seconds))
    assert kinds() == [("enforcement.blocked", "ada")]
    event = Event.objects.get(kind="enforcement.blocked")
    assert (event.payload["pending_tasks"], event.payload["reason"]) == (3, "AssocGrpCpuLimit")
    assert (event.payload["used"], event.payload["generation"]) == (
        {"cpu": "1", "memory": "0"}, decided.generation,
    )  # fmt: skip
    row = operator.get(PATH).json()["tenants"][0]
    assert (row["pending_reason"], row["blocked_since"] is None) == ("AssocGrpCpuLimit", False)
    mine = f"/api/v1/runs/{decided.pk}/explanation/ada/"
    assert world.as_ada.get(mine).json()["blocked"] == {
        "since": row["blocked_since"], "pending_tasks": 3, "reason": "AssocGrpCpuLimit",
    }  # fmt: skip
    assert operator.get(mine.replace("/ada/", "/bob/")).json()["blocked"] is None
    assert "allocation_enforcement_blocked 1.0" in operator.get("/metrics").content.decode()
    watched(operator, world.lab, [report(decided)])
    assert kinds() == [("enforcement.blocked", "ada"), ("enforcement.unblocked", "ada")]
    assert operator.get(PATH).json()["tenants"][0]["blocked_since"] is None
    assert world.as_ada.get(mine).json()["blocked"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"pending_tasks": 0},
        {"pending_demand": {"cpu": 2}},  # it fits beside nothing
        {"pending_demand": None},  # an agent that does not say
        {"used": {"cpu": 2, "memory": 3}},
    ],
)
def test_jobs_beyond_the_decision_wait_without_an_event(world, decided, operator, changes):
    at = watched(operator, world.lab, [waiting(decided, **changes)] * 8)
    enforcement_watch(pool=world.lab, now=at + timedelta(seconds=10))
    assert kinds() == []


def test_a_tenant_whose_jobs_start_is_not_blocked(world, decided, operator):
    part = [waiting(decided, used={"cpu": number / 10}) for number in range(1, 9)]
    at = watched(operator, world.lab, part)
    enforcement_watch(pool=world.lab, now=at + timedelta(seconds=10))
    assert kinds() == []


def test_a_silent_agent_is_an_event_once_and_once_when_it_returns(world, decided, operator):
    at = watched(operator, world.lab, [waiting(decided)])
    for seconds in (10, 45, 46, 60, 600):
        enforcement_watch(pool=world.lab, now=at + timedelta(seconds=seconds))
        count = int(seconds > 45)
        assert kinds() == [("enforcement.silent", None)] * count  # and nothing is called blocked
    event = Event.objects.get(kind="enforcement.silent")
    assert (event.pool, event.payload["agent"]) == ("lab", "slurm-lab")
    watched(operator, world.lab, [report(decided)] * 2)
    assert kinds() == [("enforcement.silent", None), ("enforcement.returned", None)]


def test_drifts_and_blockages_end_with_the_last_agent(world, decided, operator):
    """Metrics and the board would count them for ever."""
    operator.put(PATH, report(decided, ada=(0, 0)))
    operator.put(PATH, report(decided, ada=(0, 0), agent="other"))
    enforcement_watch(pool=world.lab, now=utc_now())
    later = utc_now() + timedelta(minutes=2)
    enforcement_watch(pool=world.lab, now=later)
    Blockage.objects.create(
        pool=world.lab, tenant=world.bob, since=later, told_at=later, payload={"used": {}}
    )
    first, last = Agent.objects.order_by("pk")
    agent_retire(agent=first, now=later)
    assert (Drift.objects.count(), Blockage.objects.count()) == (1, 1)
    agent_retire(agent=last, now=later)
    assert (Drift.objects.count(), Blockage.objects.count()) == (0, 0)
    assert drifts() == [
        ("enforcement.drift", "ada"),
        ("enforcement.settled", "ada"),
        ("enforcement.unblocked", "bob"),
    ]
