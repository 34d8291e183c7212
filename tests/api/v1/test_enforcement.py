"""What agents report, and decided, enforced and used per tenant, over REST."""

from datetime import datetime, timedelta

import pytest
from django.db import OperationalError

from allocator_service.core.clock import utc_now
from allocator_service.core.models import Event
from allocator_service.core.selecting import missing
from allocator_service.enforcement import absence, tasks
from allocator_service.enforcement.absence import absent_members_end
from allocator_service.enforcement.models import Agent, Blockage, Drift, Report
from allocator_service.enforcement.services import agent_retire, reports_prune
from allocator_service.enforcement.watching import enforcement_watch, pools_enforced
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Server
from allocator_service.pools.services import pool_retire
from allocator_service.tenants.services import tenant_retire
from allocator_service.workloads.models import Workload
from tests import factories
from tests.pages.browser import browser_of

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/pools/lab/enforcement/"


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


UNKNOWN = "01a1fa35-2b84-7418-8537-e4019453fdf6"


def report(run, *, ada=(2, 10), bob=(10, 2), used=1, **changes):
    rows = {"ada": ada, "bob": bob}
    return {
        "agent": "slurm-lab",
        "target": "slurm",
        "run": None if run is None else str(run.pk),
        "generation": None if run is None else run.generation,
        "interval": "PT15S",
        "reported_at": utc_now().isoformat(),
        "tenants": [
            {
                "tenant": tenant,
                "applied": {"cpu": cpu, "memory": str(memory)},
                "used": {"cpu": used},
            }
            for tenant, (cpu, memory) in rows.items()
        ],
        **changes,
    }


def kinds():
    rows = Event.objects.filter(kind__startswith="enforcement.").order_by("pk")
    return list(rows.values_list("kind", "tenant"))


def drifts():
    """The events about tenants: time passes in these tests without another report."""
    return [(kind, tenant) for kind, tenant in kinds() if tenant is not None]


def test_before_any_agent_nothing_is_enforced(world, operator):
    assert operator.get(PATH).json() == {
        "pool": "lab", "run": None, "generation": None, "agents": [], "tenants": [],
        "stale": False, "refused": "",
    }  # fmt: skip


def test_a_report_shows_the_three_numbers_of_each_tenant(decided, operator):
    body = report(decided, ada=(1.0, 10))
    body["tenants"][0] |= {"pending_tasks": 3, "running_tasks": 8, "problems": ["a job above"]}
    body["tenants"][1]["applied"]["memory"] = 2.0009765625
    answer = operator.put(PATH, body)
    assert answer.status_code == 200
    assert answer.json() == body | {
        "class_label": "partition",
        "cluster": None,
        "problems": [],
        "reported_at": body["reported_at"].replace("+00:00", "Z"),
        "tenants": [
            body["tenants"][0]
            | {"applied": {"cpu": "1", "memory": "10"}, "used": {"cpu": "1", "memory": "0"}}
            | {"pending_reason": None, "pending_demand": None, "holds": [], "ending": []}
            | {"absent_since": None},
            {
                "tenant": "bob",
                "applied": {"cpu": "10", "memory": "2.0009765625"},
                "used": {"cpu": "1", "memory": "0"},
                "pending_tasks": None,
                "running_tasks": None,
                "pending_reason": None,
                "pending_demand": None,
                "problems": [],
                "holds": [],
                "ending": [],
                "absent_since": None,
            },
        ],
    }
    document = operator.get(PATH).json()
    (agent,) = document["agents"]
    assert (agent["agent"], agent["interval"], agent["behind"]) == ("slurm-lab", "PT15S", 0)
    assert (agent["stale"], document["stale"]) == (False, False)
    ada, bob = document["tenants"]
    assert ada | {"decided": None} == {
        "tenant": "ada", "decided": None, "rendered": {"cpu": "2", "memory": "10"},
        "enforced": {"cpu": "1", "memory": "10"}, "used": {"cpu": "1", "memory": "0"},
        "drift": {"cpu": "-1"}, "over": False, "pending_tasks": 3, "running_tasks": 8,
        "problems": ["a job above"], "pending_reason": None, "blocked_since": None,
        "holds": [], "ending": [], "absent_since": None, "clusters": [],
    }  # fmt: skip
    assert float(ada["decided"]["cpu"]) == pytest.approx(2)
    assert bob["drift"] == {"memory": "0.0009765625"}


def test_more_in_use_than_decided_is_over(decided, operator):
    operator.put(PATH, report(decided, used=3))
    ada, bob = operator.get(PATH).json()["tenants"]
    assert (ada["over"], bob["over"]) == (True, False)


def test_a_tenant_sees_its_own_row_only(world, decided, operator):
    operator.put(PATH, report(decided, problems=["bob has no account"]))
    document = world.as_ada.get(PATH).json()
    assert [row["tenant"] for row in document["tenants"]] == ["ada"]
    assert document["agents"][0]["problems"] == []
    assert world.as_ada.put(PATH, report(decided)).status_code == 403
    assert world.as_eve.get(PATH).status_code == 404


def test_an_agent_is_stale_after_three_silent_intervals(decided, operator):
    operator.put(PATH, report(decided))
    for seconds, stale in ((45, False), (46, True)):
        at = utc_now() - timedelta(seconds=seconds - 0.5)
        Agent.objects.update(received_at=at)
        document = operator.get(PATH).json()
        assert (document["agents"][0]["stale"], document["stale"]) == (stale, stale), seconds
        # Its limits are shown as they are: nobody took them back.
        assert document["tenants"][0]["enforced"]["cpu"] == "2"


def test_the_same_report_again_changes_nothing_and_an_older_one_is_refused(decided, operator):
    body = report(decided)
    for _ in range(2):
        assert operator.put(PATH, body).status_code == 200
    later = body | {"reported_at": (utc_now() + timedelta(seconds=1)).isoformat()}
    assert operator.put(PATH, later).status_code == 200
    assert Report.objects.count() == 1
    answer = operator.put(PATH, body | {"problems": ["other"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "enforcement.older")
    assert operator.get(PATH).json()["agents"][0]["problems"] == []
    newest = later | {
        "reported_at": (utc_now() + timedelta(seconds=2)).isoformat(), "problems": ["other"]
    }  # fmt: skip
    assert operator.put(PATH, newest).status_code == 200
    assert operator.get(PATH).json()["agents"][0]["problems"] == ["other"]


def test_the_history_has_a_row_of_every_five_minutes(decided, operator):
    start = utc_now() - timedelta(minutes=11)
    for seconds in range(0, 660, 15):
        at = (start + timedelta(seconds=seconds)).isoformat()
        body = report(decided, reported_at=at, problems=[f"round {seconds}"])
        assert operator.put(PATH, body).status_code == 200
    rows = [(row.repeated_at - start).total_seconds() for row in Report.objects.order_by("pk")]
    assert rows == [285, 585, 645]
    assert Report.objects.order_by("pk")[0].document["problems"] == ["round 285"]


def test_an_agent_need_not_say_the_generation(decided, operator):
    body = report(decided)
    del body["generation"]
    assert operator.put(PATH, body).json()["generation"] == decided.generation
    later = report(None) | {"generation": 3}
    assert operator.put(PATH, later).json()["generation"] is None


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"agent": "No Name"}, "/agent", "slug.syntax"),
        ({"target": "mesos"}, "/target", "field.choice"),
        ({"interval": "P2D"}, "/interval", "enforcement.interval"),
        ({"interval": "PT0S"}, "/interval", "duration.zero"),
        ({"reported_at": "2036-01-01T00:00:00Z"}, "/reported_at", "enforcement.clock"),
        ({"run": UNKNOWN}, "/run", "run.unknown"),
        ({"generation": 1}, "/generation", "enforcement.generation"),
        ({"tenants": [{"tenant": "eve", "applied": {}}]}, "/tenants/0/tenant", "tenant.unknown"),
        (
            {"tenants": [{"tenant": "ada", "applied": {}}, {"tenant": "ada", "applied": {}}]},
            "/tenants/1/tenant",
            "tenant.duplicate",
        ),
        (
            {"tenants": [{"tenant": "ada", "applied": {"gpu": 1}}]},
            "/tenants/0/applied/gpu",
            "resource.unknown",
        ),
        (
            {"tenants": [{"tenant": "ada", "applied": {}, "used": {"cpu": -1}}]},
            "/tenants/0/used/cpu",
            "quantity.negative",
        ),
        (
            {"tenants": [{"tenant": "ada", "applied": {"cpu": "0.0000000000001"}}]},
            "/tenants/0/applied/cpu",
            "quantity.precision",
        ),
    ],
)
def test_a_wrong_report_is_refused_where_it_is_wrong(decided, operator, changes, pointer, code):
    answer = operator.put(PATH, report(decided) | changes)
    assert answer.status_code == 422, answer.content
    assert (answer.json()["errors"][0]["pointer"], answer.json()["errors"][0]["code"]) == (
        pointer,
        code,
    )
    assert (Agent.objects.count(), Report.objects.count()) == (0, 0)


def test_a_run_of_another_pool_is_unknown(world, decided, operator):
    other = factories.decision(world.other)
    answer = operator.put(PATH, report(other))
    assert (answer.status_code, answer.json()["code"]) == (422, "run.unknown")


def test_a_retired_pool_takes_no_report(world, decided, operator):
    operator.put(PATH, report(decided))
    for row in (*world.lab.servers.all(),):
        row.state = "retired"
        row.save()
    world.lab.workloads.update(state="withdrawn")
    pool_retire(pool=world.lab, version=None, now=utc_now())
    assert operator.put(PATH, report(decided)).status_code == 404
    assert operator.get(PATH).status_code == 404


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


def test_reports_are_kept_for_a_week_and_the_newest_for_ever(decided, operator):
    for minutes, problem in ((6, "first"), (0, "second")):
        at = (utc_now() - timedelta(minutes=minutes)).isoformat()
        operator.put(PATH, report(decided, problems=[problem], reported_at=at))
    assert reports_prune(now=utc_now() + timedelta(days=6)) == 0
    assert reports_prune(now=utc_now() + timedelta(days=8)) == 1
    assert operator.get(PATH).json()["agents"][0]["problems"] == ["second"]


def test_a_tenants_events_are_its_own(world, decided, operator):
    operator.put(PATH, report(decided, ada=(1, 10), bob=(9, 2)))
    start = utc_now()
    for seconds in (0, 60):
        enforcement_watch(pool=world.lab, now=start + timedelta(seconds=seconds))
    assert sorted(drifts()) == [("enforcement.drift", "ada"), ("enforcement.drift", "bob")]


def test_a_retired_tenant_is_rendered_until_its_limit_is_0(world, decided, operator):
    operator.put(PATH, report(decided))
    world.ada_workload.state = "withdrawn"
    world.ada_workload.save()
    world.lab.servers.filter(contributed_by=world.ada).update(state="retired")
    tenant_retire(tenant=world.ada, version=world.ada.version, now=utc_now())
    factories.workload(world.lab, "more", 1, 1, world.bob)
    last = factories.decision(world.lab)

    def rendered():
        answer = operator.get("/api/v1/pools/lab/decision/renderings/slurm/").json()
        return [(row["tenant"], row["limits"]["cpu"]) for row in answer["objects"]
                if row["kind"] == "account"]  # fmt: skip

    before = rendered()
    assert [tenant for tenant, _ in before] == ["ada", "bob"]
    assert before[0] == ("ada", 0)  # the scheduler still has 2
    operator.put(PATH, report(last, ada=(0, 0)))
    assert rendered() == before[1:]
    assert [row["tenant"] for row in operator.get(PATH).json()["tenants"]] == ["bob"]


def test_metrics_count_silent_agents(decided, operator):
    operator.put(PATH, report(decided))
    assert "allocation_enforcement_agents_stale 0.0" in operator.get("/metrics").content.decode()
    Agent.objects.update(received_at=utc_now() - timedelta(minutes=1))
    assert "allocation_enforcement_agents_stale 1.0" in operator.get("/metrics").content.decode()


HELD = {"jobs": ["17"], "servers": ["n1", "n2"], "beside": [{"tenant": "bob", "jobs": 3}]}


def test_servers_that_are_held_are_shown_without_names_of_others(world, decided, operator):
    body = report(decided)
    body["tenants"][0]["holds"] = [HELD]
    assert operator.put(PATH, body).json()["tenants"][0]["holds"] == [HELD]
    ada, bob = operator.get(PATH).json()["tenants"]
    assert (ada["holds"], bob["holds"]) == ([HELD | {"count": 2}], [])
    (mine,) = world.as_ada.get(PATH).json()["tenants"]
    (held,) = mine["holds"]
    assert (held["jobs"], held["count"], held["servers"]) == (["17"], 2, [])
    assert [row["jobs"] for row in held["beside"]] == [3]
    assert "bob" not in str(mine)
    explained = world.as_ada.get(f"/api/v1/runs/{decided.pk}/explanation/ada/").json()
    assert explained["holds"] == [held]
    page = browser_of(world.as_ada).get("/my/pools/lab/").content.decode()
    assert "2 servers are held for your job 17, which starts when all have room." in page
    assert "Jobs that still run there: 3." in page
    world.lab.transparent = True
    world.lab.save(update_fields=["transparent"])
    (mine,) = world.as_ada.get(PATH).json()["tenants"]
    assert mine["holds"][0]["servers"] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"jobs": []}, "jobs"),
        ({"servers": ["n"] * 1001}, "servers"),
        ({"beside": [{"tenant": "bob", "jobs": 0}]}, "beside/0/jobs"),
        ({"beside": [{"tenant": "No Slug", "jobs": 1}]}, "beside/0/tenant"),
    ],
)
def test_a_hold_that_says_nothing_is_refused(decided, operator, change, pointer):
    body = report(decided)
    body["tenants"][0]["holds"] = [HELD | change]
    answer = operator.put(PATH, body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith(f"/tenants/0/holds/0/{pointer}")


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


def test_an_agent_that_reports_through_the_release_before_is_present(world, decided, operator):
    """It does not clear `retired_at`."""
    operator.put(PATH, report(decided))
    now = utc_now()
    agent = Agent.objects.get()
    agent_retire(agent=agent, now=now + timedelta(minutes=2))
    assert (list(Agent.objects.present()), pools_enforced()) == ([], [])
    Agent.objects.update(received_at=now + timedelta(minutes=3))
    assert (list(Agent.objects.present()), pools_enforced()) == ([agent], [world.lab])
    agent_retire(agent=agent, now=now + timedelta(minutes=5))
    assert list(Agent.objects.present()) == []


@pytest.mark.parametrize("seconds", [2, -2])
def test_a_clock_that_is_two_seconds_off_is_no_silence_and_no_refusal(decided, operator, seconds):
    """What counts for silence is the service's clock. After a step back, newer reports are taken."""
    at = utc_now() + timedelta(seconds=seconds)
    assert operator.put(PATH, report(decided, reported_at=at.isoformat())).status_code == 200
    (agent,) = operator.get(PATH).json()["agents"]
    assert (agent["stale"], agent["reported_at"]) == (False, text(at))
    older = operator.put(PATH, report(decided, reported_at=text(at - timedelta(seconds=1))))
    assert (older.status_code, older.json()["code"]) == (409, "enforcement.older")
    newer = at + timedelta(seconds=1)
    assert operator.put(PATH, report(decided, reported_at=text(newer))).status_code == 200


def text(moment):
    return moment.isoformat().replace("+00:00", "Z")
