"""What agents report, and decided, enforced and used per tenant, over REST."""

from datetime import timedelta

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.enforcement.models import Agent, Report
from allocator_service.enforcement.services import agent_retire, reports_prune
from allocator_service.enforcement.watching import enforcement_watch, pools_enforced
from allocator_service.pools.services import pool_retire
from allocator_service.tenants.services import tenant_retire
from tests import factories
from tests.api.v1.enforcement_reports import PATH, drifts, report
from tests.pages.browser import browser_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


UNKNOWN = "01a1fa35-2b84-7418-8537-e4019453fdf6"


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
