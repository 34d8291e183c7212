"""One pool with several clusters, whose agents have a part of the decision each."""

import random
import re
from datetime import timedelta
from decimal import Decimal, localcontext

import pytest
from django.contrib.auth import get_user_model
from django.test import Client as DjangoClient
from django.urls import reverse

from allocator_service.allocation.models import Simulation
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.models import Event
from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.models import Agent, Drift, Watch
from allocator_service.enforcement.services import agent_retire
from allocator_service.enforcement.watching import clusters_watch, enforcement_watch
from allocator_service.ledger.intake.sources import source_free
from allocator_service.ledger.models import Entry, UsageSource
from allocator_service.mail.lines import line_of
from allocator_service.pools.models import Cluster, Pool, Server
from allocator_service.workloads.models import Workload
from allocator_service.workloads.reason_texts import away_text
from tests import factories
from tests.pages.browser import browser_of
from tests.pages.test_pages import LAB, words
from tests.placements import placed

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/pools/lab"
SLURM = f"{PATH}/decision/renderings/slurm/"
LEFT = (
    r"The cluster that it selects is away because its agents are silent: west left at"
    r" \d+ \w+ \d+, \d\d:\d\d UTC\."
)


@pytest.fixture(params=["divisible", "indivisible"])
def pool(request, operator):
    """12 CPUs in the cluster east, 4 in west and 8 in that of the pool, for two tenants alike."""
    return opened(operator, request.param)


def opened(operator, mode, **changes):
    pool = factories.pool(mode=mode, **changes)
    pool.tenants = {slug: factories.tenant(slug) for slug in ("ada", "bob")}
    for name, cluster, cpu, count in (("e", "east", 4, 3), ("w", "west", 4, 1), ("l", None, 4, 2)):
        labels = {"cluster": cluster} if cluster else {}
        body = {"name": name, "capacity": {"cpu": cpu}, "labels": labels, "count": count}
        assert operator.post(f"{PATH}/servers/", body).status_code == 201
    for slug in ("ada", "bob"):
        submit(operator, slug)
    return pool


def submit(operator, tenant, name="work", **changes):
    body = {"tenant": tenant, "name": name, "demand": {"cpu": 1}, **changes}
    answer = operator.post(f"{PATH}/workloads/", body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def limits(client, **query):
    """Return the CPUs that a rendering gives to each tenant."""
    parts = "&".join(f"{name}={value}" for name, value in query.items())
    answer = client.get(f"{SLURM}?{parts}")
    assert answer.status_code == 200, answer.content
    return {row["tenant"]: row["rendered"]["cpu"] for row in answer.json()["tenants"]}


def agent(cluster):
    return factories.client("agent", pool="lab", cluster=cluster)


def report(client, run, name, applied, *, used=0, **changes):
    rows = [
        {"tenant": tenant, "applied": {"cpu": cpu}, "used": {"cpu": used}}
        for tenant, cpu in applied.items()
    ]
    body = {
        "agent": name, "target": "slurm", "run": str(run.pk), "interval": "PT15S",
        "reported_at": utc_now().isoformat(), "tenants": rows,
    }  # fmt: skip
    return client.put(f"{PATH}/enforcement/", body | changes)


def silent_for(pool, seconds, cluster):
    """Look at clusters, as every few seconds until now, after so long a silence."""
    now = utc_now()
    looks = {"looked_at": now - timedelta(seconds=5), "watched_since": now - timedelta(days=1)}
    Watch.objects.filter(pool=pool).update(**looks)
    Agent.objects.filter(cluster=cluster).update(received_at=utc_now() - timedelta(seconds=seconds))
    clusters_watch(pool=pool, now=utc_now())


def test_each_cluster_gets_its_part_of_the_decision_and_together_they_are_all_of_it(pool, operator):
    factories.decision(pool)
    whole = limits(operator)
    assert sum(whole.values()) == 24
    parts = {name: limits(operator, cluster=name) for name in ("east", "west", "lab")}
    assert {name: sum(part.values()) for name, part in parts.items()} == {
        "east": 12, "west": 4, "lab": 8,
    }  # fmt: skip
    for tenant, cpu in whole.items():
        assert sum(part[tenant] for part in parts.values()) == cpu


@pytest.mark.parametrize("seed", range(5))
def test_work_that_may_run_anywhere_has_what_one_cluster_would_give(pool, operator, seed):
    chance = random.Random(seed)
    for number in range(6):
        tenant, demand = chance.choice(("ada", "bob")), {"cpu": chance.choice((1, 2, 3))}
        submit(operator, tenant, f"more-{number}", demand=demand, tasks=chance.randint(1, 4))
    factories.decision(pool)
    several = limits(operator)
    for server in operator.get(f"{PATH}/servers/").json()["results"]:
        path = f"{PATH}/servers/{server['id']}/"
        tag = operator.get(path)["ETag"]
        assert operator.patch(path, {"labels": {}}, If_Match=tag).status_code == 200
    factories.decision(pool)
    one = limits(operator)
    assert sum(several.values()) == pytest.approx(sum(one.values()))
    for tenant, cpus in several.items():
        assert abs(cpus - one[tenant]) <= 3  # a task


def test_a_part_is_for_the_classes_of_its_own_servers(pool, operator):
    """Servers that the policy does not tell apart, of two clusters and two partitions."""
    for number, cluster in enumerate(("east", "west")):
        labels = {"cluster": cluster, "partition": "big"}
        body = {"name": f"big{number}", "capacity": {"cpu": 4}, "labels": labels}
        assert operator.post(f"{PATH}/servers/", body).status_code == 201
    factories.decision(pool)
    for cluster, cpus in (("east", 16), ("west", 8), ("lab", 8)):
        document = operator.get(f"{SLURM}?cluster={cluster}").json()
        assert document["cluster"] == cluster
        assert sum(row["rendered"]["cpu"] for row in document["tenants"]) == cpus
        of_big = [each for each in document["objects"] if each.get("partition") == "big"]
        assert sum(each["limits"]["cpu"] for each in of_big) == (0 if cluster == "lab" else 4)


def test_a_workload_of_a_cluster_has_servers_of_it_only(pool, operator):
    for slug in ("cat", "dan"):
        factories.tenant(slug)
    submit(operator, "cat", "there", server_selector={"cluster": "west"})
    home = submit(operator, "dan", "home", server_selector={"cluster": ["lab"]}, tasks=3)
    run = factories.decision(pool)
    cluster_of = {str(each.pk): each.labels.get("cluster", "lab") for each in Server.objects.all()}
    found = {(row.workload, cluster_of[row.servers.first_server]) for row in placed(run)}
    assert {cluster for name, cluster in found if name == "there"} == {"west"}
    assert {cluster for name, cluster in found if name == "home"} == {"lab"}
    assert home["conditions"] == []


def test_pieces_of_a_gang_are_in_one_cluster(operator):
    """5 pieces of 4 CPUs fit into the pool, and into no cluster."""
    pool = opened(operator, "indivisible")
    gang = {"pieces": [{"count": 5, "demand": {"cpu": 4}}], "demand": None, "priority": 1}
    wide = {key: value for key, value in gang.items() if value is not None}
    answer = operator.post(f"{PATH}/workloads/", {"tenant": "ada", "name": "wide", **wide})
    assert answer.status_code == 201, answer.content
    fits = {"pieces": [{"count": 3, "demand": {"cpu": 4}}], "priority": 1, "tasks": 1}
    answer = operator.post(f"{PATH}/workloads/", {"tenant": "ada", "name": "fits", **fits})
    assert answer.status_code == 201, answer.content
    run = factories.decision(pool)
    tasks = {row.workload.name: row.tasks for row in run.allocations.select_related("workload")}
    assert (tasks["wide"], tasks["fits"]) == (0, 1)
    gangs = {
        cluster: [
            each["workload"]
            for each in operator.get(f"{SLURM}?cluster={cluster}").json()["objects"]
            if each["kind"] == "gang"
        ]
        for cluster in ("east", "west", "lab")
    }
    assert gangs == {"east": ["fits"], "west": [], "lab": []}


def test_racks_of_one_name_in_two_clusters_are_two(operator):
    """4 pieces of 4 CPUs fit into the racks r together, and into the one of no cluster."""
    pool = opened(operator, "indivisible")
    Server.objects.filter(labels__cluster="east").update(labels={"cluster": "east", "rack": "r"})
    Server.objects.filter(labels__cluster="west").update(labels={"cluster": "west", "rack": "r"})
    for name, count in (("wide", 4), ("fits", 3)):
        pieces = [{"count": count, "demand": {"cpu": 4}}]
        body = {"tenant": "ada", "name": name, "pieces": pieces, "together": "rack", "priority": 1}
        assert operator.post(f"{PATH}/workloads/", {**body, "tasks": 1}).status_code == 201
    run = factories.decision(pool)
    tasks = {row.workload.name: row.tasks for row in run.allocations.select_related("workload")}
    assert (tasks["wide"], tasks["fits"]) == (0, 1)


def test_a_policy_that_sees_one_pool_gives_clusters_no_part(operator):
    pool = opened(operator, "divisible", policy="drf")
    factories.decision(pool)
    answer = operator.get(f"{SLURM}?cluster=east")
    assert (answer.status_code, answer.json()["code"]) == (409, "rendering.cluster")
    answer = operator.get(f"{SLURM}?cluster=north")
    assert (answer.status_code, answer.json()["code"]) == (400, "cluster.unknown")


def test_the_cluster_of_the_pool_is_all_of_it_without_others(operator):
    pool = factories.pool(policy="drf")
    factories.server(pool, "n", 4, 4, None)
    factories.workload(pool, "work", 1, 1, factories.tenant("ada"))
    factories.decision(pool)
    assert limits(operator, cluster="lab") == limits(operator) == {"ada": 4}
    (server,) = operator.get(f"{PATH}/servers/").json()["results"]
    assert (server["cluster"], server["labels"]) == ("lab", {})
    assert operator.get(f"{PATH}/clusters/").json()["clusters"] == []


def test_an_agent_feeds_its_own_cluster(pool, operator):
    east = agent("east")
    rows = "name,capacity.cpu,labels.cluster\nnew,2,\nown,2,east\nother,2,west\nw,8,\nl-0001,8,\n"
    body = {"content": rows, "skip_refused": True}
    report = east.post(f"{PATH}/imports/nodes/", body).json()
    outcomes = {row["name"]: (row["outcome"], row["errors"]) for row in report["rows"]}
    assert outcomes["new"] == outcomes["own"] == ("added", [])
    for name in ("other", "w", "l-0001"):
        outcome, (error,) = outcomes[name]
        assert (outcome, error["code"]) == ("refused", "cluster.other")
    servers = operator.get(f"{PATH}/servers/").json()["results"]
    clusters = {row["name"]: row["cluster"] for row in servers}
    assert (clusters["new"], clusters["own"], clusters["w"]) == ("east", "east", "west")
    again = east.post(f"{PATH}/imports/nodes/", body).json()
    assert again["counts"]["added"] == again["counts"]["changed"] == 0

    rows = "tenant,name,demand.cpu,tasks,selector.cluster\nada,here,1,3,\nada,both,1,3,east|west\n"
    assert east.post(f"{PATH}/imports/workloads/", {"content": rows}).status_code == 200
    found = {row["name"]: row for row in operator.get(f"{PATH}/workloads/").json()["results"]}
    assert found["here"]["server_selector"] == {"cluster": "east"}
    assert found["both"]["server_selector"] == {"cluster": ["east", "west"]}

    ids = {row["name"]: row["id"] for row in servers}
    for name, status in (("e-0001", 200), ("w", 403), ("l-0001", 403)):
        answer = east.post(f"{PATH}/servers/{ids[name]}/drain/", {})
        assert answer.status_code == status, name
    for name, status in (("here", 204), ("both", 204)):
        path = f"{PATH}/workloads/{found[name]['id']}/"
        assert east.delete(path, If_Match='"v1"').status_code == status
    elsewhere = submit(operator, "ada", "elsewhere", server_selector={"cluster": "west"})
    refused = east.delete(f"{PATH}/workloads/{elsewhere['id']}/", If_Match='"v1"')
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.cluster")
    north = submit(operator, "ada", "north", server_selector={"cluster": "northeast"})
    assert east.delete(f"{PATH}/workloads/{north['id']}/", If_Match='"v1"').status_code == 403
    for row in ("ada,elsewhere,1,0,", "ada,elsewhere,1,0,west", "ada,third,1,0,west"):
        body = {"content": f"tenant,name,demand.cpu,tasks,selector.cluster\n{row}\n"}
        refused = east.post(f"{PATH}/imports/workloads/", body)
        assert refused.status_code == 422, row
        assert refused.json()["errors"][0]["code"] == "cluster.other", row


def usage(client, job, source="slurm-east", **more):
    row = f"{job},ada,2026-01-05T10:00:00Z,2026-01-05T11:00:00Z,2,{source}"
    content = f"id,tenant,start,end,resources.cpu,source\n{row}\n"
    return client.post(f"{PATH}/imports/usage/", {"content": content, **more})


def test_an_agent_meters_its_own_cluster(operator):
    """The first cluster whose agent posts usage of a source has it, until that cluster is gone."""
    pool = opened(operator, "indivisible", metering="reported")
    assert usage(agent("east"), "1", dry_run=True).json()["counts"]["added"] == 1
    assert UsageSource.objects.count() == 0
    assert usage(agent("east"), "1").json()["counts"]["added"] == 1
    refused = usage(agent("west"), "2")
    assert refused.status_code == 422
    assert [error["code"] for row in refused.json()["rows"] for error in row["errors"]] == [
        "cluster.other"
    ]
    assert usage(agent("west"), "2", dry_run=True).json()["counts"]["refused"] == 1
    assert usage(agent("west"), "2", source="slurm-west").json()["counts"]["added"] == 1
    assert Entry.objects.filter(pool=pool).count() == 2
    # Operators may post for any cluster.
    assert usage(operator, "3").json()["counts"]["added"] == 1
    source_free(source=UsageSource.objects.get(source="slurm-west"), now=utc_now())
    assert usage(agent("east"), "5", source="slurm-west").json()["counts"]["added"] == 1
    Server.objects.filter(pool=pool, labels__cluster="east").update(state="retired")
    assert usage(agent("west"), "4", dry_run=True).json()["counts"]["added"] == 1
    assert usage(agent("west"), "4").json()["counts"]["added"] == 1
    assert UsageSource.objects.get(source="slurm-east").cluster == "west"


def test_a_refused_row_claims_no_source(operator):
    opened(operator, "indivisible", metering="reported")
    rows = (
        "1,nobody,2026-01-05T10:00:00Z,2026-01-05T11:00:00Z,2,refused",
        "2,ada,2026-01-05T10:00:00Z,2026-01-05T11:00:00Z,2,taken",
    )
    content = "id,tenant,start,end,resources.cpu,source\n" + "\n".join(rows) + "\n"
    body = {"content": content, "register_tenants": False}
    assert agent("east").post(f"{PATH}/imports/usage/", body).status_code == 422
    assert not UsageSource.objects.exists()
    body["skip_refused"] = True
    assert agent("east").post(f"{PATH}/imports/usage/", body).status_code < 300
    assert [each.source for each in UsageSource.objects.all()] == ["taken"]


def test_an_agent_reads_and_reports_its_own_cluster(pool, operator):
    run = factories.decision(pool)
    east = agent("east")
    assert limits(east) == limits(east, cluster="east") == limits(operator, cluster="east")
    refused = east.get(f"{SLURM}?cluster=west")
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.cluster")
    refused = agent("new").get(SLURM)  # before its first server is there: limits stay
    assert (refused.status_code, refused.json()["code"]) == (409, "rendering.cluster")
    stored = report(east, run, "slurm-east", limits(east))
    assert (stored.status_code, stored.json()["cluster"]) == (200, "east")
    refused = report(east, run, "slurm-east", {}, cluster="west")
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.cluster")
    refused = report(agent("west"), run, "slurm-east", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "enforcement.cluster")


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ("east", "west", "enforcement.cluster"),
        ("east", "lab", "enforcement.cluster"),
        (None, "east", "enforcement.older"),
    ],
)
def test_the_report_of_another_cluster_is_no_repetition(pool, operator, first, second, code):
    run = factories.decision(pool)
    client = agent(first) if first else operator
    changes = {"reported_at": utc_now().isoformat()}
    for _ in range(2):
        stored = report(client, run, "c1", {"ada": 1}, **changes)
        assert (stored.status_code, stored.json()["cluster"]) == (200, first)
    refused = report(agent(second), run, "c1", {"ada": 1}, **changes)
    assert (refused.status_code, refused.json()["code"]) == (409, code)
    assert (Agent.objects.get().cluster or None) == first


def test_other_keys_are_not_bound_to_a_cluster():
    with pytest.raises(Unacceptable, match="scope agent"):
        factories.client("operator", cluster="east")


def test_enforcement_is_the_sum_of_the_clusters_and_hides_none(pool, operator):
    """More runs in west than was decided there, and less in east than was."""
    run = factories.decision(pool)
    clusters = ("east", "west", "lab")
    told = {name: limits(operator, cluster=name) for name in clusters}
    for name in clusters:
        used = 4 if name == "west" else 1
        assert report(agent(name), run, f"slurm-{name}", told[name], used=used).status_code == 200
    document = operator.get(f"{PATH}/enforcement/").json()
    assert [each["cluster"] for each in document["agents"]] == list(clusters)
    for row in document["tenants"]:
        assert Decimal(row["rendered"]["cpu"]) == limits(operator)[row["tenant"]]
        assert (row["used"]["cpu"], row["drift"]) == ("6", {})
        parts = {part["cluster"]: part for part in row["clusters"]}
        assert {name: int(part["rendered"]["cpu"]) for name, part in parts.items()} == {
            name: told[name][row["tenant"]] for name in clusters
        }
        assert [name for name, part in parts.items() if part["over"]] == ["west"]
        assert row["over"] is True
    # An agent that tells nothing of a tenant is not made up for by the others.
    assert report(agent("east"), run, "slurm-east", {"ada": told["east"]["ada"]}).status_code == 200
    bob = {row["tenant"]: row for row in operator.get(f"{PATH}/enforcement/").json()["tenants"]}[
        "bob"
    ]
    assert [part["enforced"] is None for part in bob["clusters"]] == [True, False, False]


def test_a_cluster_leaves_after_its_grace_and_comes_back(pool, operator):
    run = factories.decision(pool)
    for name in ("east", "west", "lab"):
        told = limits(operator, cluster=name)
        assert report(agent(name), run, f"slurm-{name}", told).status_code == 200
    silent_for(pool, 899, "west")
    assert not Cluster.objects.exclude(left_at=None).exists()
    silent_for(pool, 901, "west")
    clusters = {row["cluster"]: row for row in operator.get(f"{PATH}/clusters/").json()["clusters"]}
    assert clusters["west"]["left_at"] is not None
    assert (clusters["west"]["capacity"]["cpu"], clusters["east"]["capacity"]["cpu"]) == ("0", "12")
    assert (clusters["west"]["servers"], clusters["west"]["stale"]) == (1, True)
    pool.refresh_from_db()
    later = factories.decision(pool)
    assert sum(limits(operator).values()) == 20
    # Its scheduler keeps the limits that it has: nobody took them back.
    enforcement_watch(pool=pool, now=utc_now())
    browser = DjangoClient()
    browser.force_login(get_user_model().objects.create_superuser("operator"))
    page = browser.get(reverse("admin:pools_pool_tab_enforcement", args=[pool.pk]))
    text = " ".join(re.sub("<[^>]+>", " ", page.content.decode()).split())
    assert re.search(r"slurm-west State left at .* its servers give no capacity", text)
    assert re.search(r"ada .* west: cpu: the scheduler has \d+ more than was decided", text)
    rows = operator.get(f"{PATH}/enforcement/").json()["tenants"]
    enforced = [part["enforced"] for row in rows for part in row["clusters"]]
    assert sum(int(each["cpu"]) for each in enforced) == 24

    silent_for(pool, 902, "west")  # nothing happens twice
    west = agent("west")
    refused = west.get(SLURM)
    assert (refused.status_code, refused.json()["code"]) == (409, "rendering.cluster")
    nodes = {"content": "name,capacity.cpu\nw,4\n"}
    assert west.post(f"{PATH}/imports/nodes/", nodes | {"dry_run": True}).status_code == 200
    assert Cluster.objects.exclude(left_at=None).exists()
    heard = west.post(f"{PATH}/imports/nodes/", nodes)  # as each round of an agent begins
    assert int(heard["Pool-Generation"]) > later.generation
    assert not Cluster.objects.exclude(left_at=None).exists()
    assert west.get(SLURM).status_code == 409  # the decision in force is from when it was away
    silent_for(pool, 903, "west")  # it has a grace again until its report
    assert not Cluster.objects.exclude(left_at=None).exists()
    factories.decision(pool)
    assert sum(limits(west).values()) == 4
    assert sum(limits(operator).values()) == 24
    path = f"{PATH}/members/ada/allocation-history/"
    steps = operator.get(path).json()["steps"]
    causes = [cause for step in steps for cause in step["causes"] if cause["kind"] == "cluster"]
    of_west = {"kind": "cluster", "workload": None, "group": None, "resource": None,
               "cluster": "west"}  # fmt: skip
    assert causes == [of_west | {"action": "leave"}, of_west | {"action": "return"}]
    page = words(browser_of(factories.client("tenant", pool.tenants["ada"])).text(f"{LAB}history/"))
    assert "Before it the cluster west left." in page
    assert "the cluster west returned" in page
    kinds = Event.objects.filter(kind__startswith="cluster.").order_by("pk")
    assert [(event.kind, event.payload["cluster"]) for event in kinds] == [
        ("cluster.left", "west"), ("cluster.returned", "west"),
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["slurm", "kueue"])
def test_no_caller_gets_limits_of_a_cluster_that_left(pool, operator, target):
    """Applied, they would end the jobs there: they are all 0."""
    run = factories.decision(pool)
    assert report(agent("west"), run, "slurm-west", {"ada": 1}).status_code == 200
    silent_for(pool, 901, "west")
    pool.refresh_from_db()
    factories.decision(pool)
    callers = (operator, factories.client("billing"), factories.client(pool="lab"), agent("west"))
    path = f"{PATH}/decision/renderings/{target}/?cluster=west"
    text = "text/plain" if target == "slurm" else "application/yaml"

    def is_refused():
        """Return whether each caller is refused, as JSON and as text."""
        answers = [client.get(path, Accept=form) for client in callers for form in ("*/*", text)]
        return all(
            each.status_code == 409 and each.json()["code"] == "rendering.cluster"
            for each in answers
        )

    assert is_refused()
    assert sum(limits(operator).values()) == 20
    assert sum(limits(operator, cluster="east").values()) == 12
    nodes = {"content": "name,capacity.cpu\nw,4\n"}
    assert agent("west").post(f"{PATH}/imports/nodes/", nodes).status_code == 200
    assert is_refused()  # no decision counts its servers yet
    pool.refresh_from_db()
    factories.decision(pool)
    assert operator.get(path).status_code == 200


def page_text(page):
    """Return what a page states, without its markup."""
    return " ".join(re.sub("<[^>]+>", " ", page.content.decode()).split())


def admin_tab(pool, name):
    """Return what a tab of a pool states to an operator."""
    return admin_page(f"pools_pool_{name}", pool.pk)


def admin_page(name, *arguments):
    """Return what a page of the admin states to an operator."""
    browser = DjangoClient()
    user, _ = get_user_model().objects.get_or_create(username="op", is_staff=True)
    user.is_superuser = True
    user.save()
    browser.force_login(user)
    return page_text(browser.get(reverse(f"admin:{name}", args=arguments)))


@pytest.mark.parametrize(("gone", "left", "count"), [("west", 20, "1 is"), ("lab", 16, "2 are")])
def test_the_admin_counts_no_capacity_of_a_cluster_that_left(operator, gone, left, count):
    pool = opened(operator, "divisible")
    run = factories.decision(pool)
    assert report(agent(gone), run, f"slurm-{gone}", {"ada": 1}).status_code == 200
    text = admin_tab(pool, "overview")
    assert "cpu For decisions 24 " in text
    assert "6 servers, and" in text
    assert "because its agents are silent" not in text
    silent_for(pool, 901, gone)
    pool.refresh_from_db()
    factories.decision(pool)
    text = admin_tab(pool, "overview")
    assert f"cpu For decisions {left} " in text
    assert f"6 servers, of which {count} in the cluster {gone}, which left, and" in text
    for name in ("overview", "tab_servers"):
        notice = rf"The cluster {gone} left at .* UTC because its agents are silent"
        assert re.search(notice, admin_tab(pool, name))
    stated = operator.get(f"{PATH}/clusters/").json()["clusters"]
    assert sum(Decimal(each["capacity"]["cpu"]) for each in stated) == left


def test_pages_explain_work_of_a_cluster_that_left_by_its_silence(pool, operator):
    submit(operator, "ada", "there", server_selector={"cluster": "west"})
    submit(operator, "ada", "there-too", server_selector={"cluster": ["west"]})
    submit(operator, "ada", "either", server_selector={"cluster": ["west", "lab"]})
    nowhere = submit(operator, "ada", "nowhere", server_selector={"rack": "none"})
    run = factories.decision(pool)
    assert report(agent("west"), run, "slurm-west", {"ada": 1}).status_code == 200
    silent_for(pool, 901, "west")
    pool.refresh_from_db()
    factories.decision(pool)
    left = LEFT
    other = "No active server has the labels it selects"
    text = admin_tab(pool, "overview")
    assert re.search(f"2 workloads cannot run at present: {left}", text)
    assert f"1 workload cannot run at present: {other}" in text
    text = admin_tab(pool, "tab_demand")
    assert (len(re.findall(left, text)), text.count(other)) == (2, 1)
    text = admin_page("workloads_workload_changelist")
    assert (len(re.findall(left, text)), text.count(other)) == (2, 1)
    browser = browser_of(factories.client("tenant", pool.tenants["ada"]))
    text = page_text(browser.get("/my/pools/lab/workloads/"))
    assert len(re.findall(f"{left} Wait until an agent of the cluster reports", text)) == 2
    assert text.count(other) == text.count("contribute such a server") == 1
    chosen = operator.get(f"{PATH}/workloads/?tenant=ada").json()["results"]
    ids = {each["name"]: each["id"] for each in chosen}
    for name, hint in (("there", "Wait until an agent"), ("nowhere", "Widen its server selector")):
        text = page_text(browser.get(f"/my/pools/lab/why/?workload={ids[name]}"))
        assert f"What may help beyond that: {hint}" in text
    assert nowhere["conditions"][0]["reason"] == "no_eligible_server"


def test_the_api_and_mail_explain_work_of_a_cluster_that_left(pool, operator):
    there = {"server_selector": {"cluster": "west"}}
    Workload.objects.update(tasks=1)  # which leaves servers of the cluster
    submit(operator, "ada", "there", **there)
    submit(operator, "ada", "nowhere", server_selector={"rack": "none"})
    run = factories.decision(pool)
    assert report(agent("west"), run, "slurm-west", {"ada": 1}).status_code == 200
    silent_for(pool, 901, "west")
    pool.refresh_from_db()
    later = factories.decision(pool)
    as_ada = factories.client("tenant", pool.tenants["ada"])

    found = as_ada.get(f"{PATH}/workloads/").json()["results"]
    details = {each["name"]: [one["detail"] for one in each["conditions"]] for each in found}
    assert re.fullmatch(LEFT, details["there"][0])
    assert details["nowhere"][0].startswith("No active server has the labels it selects")
    (id_,) = [each["id"] for each in found if each["name"] == "there"]
    (condition,) = as_ada.get(f"{PATH}/workloads/{id_}/").json()["conditions"]
    assert re.fullmatch(LEFT, condition["detail"])
    added = submit(operator, "ada", "added", **there)
    assert re.fullmatch(LEFT, added["conditions"][0]["detail"])

    explained = as_ada.get(f"/api/v1/runs/{later.pk}/explanation/ada/").json()["workloads"]
    details = {each["workload"]: each["detail"] for each in explained}
    assert re.fullmatch(LEFT, details["there"])
    assert details["nowhere"].startswith("No active server has the labels it selects")
    earlier = as_ada.get(f"/api/v1/runs/{run.pk}/explanation/ada/").json()["workloads"]
    assert all("silent" not in each["detail"] for each in earlier)

    explained = admin_page("allocation_run_explanation", later.pk, "ada")
    assert len(re.findall(LEFT, explained)) == 1
    browser = browser_of(as_ada)
    fields = {"name": "more", "demand_0": "1", "tasks": "2", "priority": "0"}
    form = f"{LAB}workloads/submit/"
    answer = browser.post(form, form, server_selector="cluster=west", **fields)
    simulation_run(simulation_id=Simulation.objects.latest("created_at").pk, clock=utc_now)
    assert re.search(LEFT, page_text(browser.get(answer["Location"])))

    news = [line_of(event) for event in Event.objects.filter(tenant="ada").order_by("pk")]
    texts = [line.text for line in news if line is not None]
    assert any(re.fullmatch(f"there cannot run. {LEFT}", text) for text in texts)
    lower = LEFT.replace("The cluster", "the cluster")
    fell = [text for text in texts if "there may run 0 tasks instead of" in text]
    assert [bool(re.search(f" there: {lower}$", text)) for text in fell] == [True], texts


def test_a_run_that_was_requested_before_a_cluster_left_is_explained_by_its_silence(operator):
    pool = opened(operator, "divisible")
    submit(operator, "ada", "there", server_selector={"cluster": "west"})
    run = factories.decision(pool)
    assert report(agent("west"), run, "slurm-west", {"ada": 1}).status_code == 200
    asked = operator.post(f"{PATH}/runs/", {"reason": "a check"})
    assert asked.status_code == 202
    silent_for(pool, 901, "west")
    pool.refresh_from_db()
    later = factories.decision(pool)
    assert str(later.pk) == asked.json()["id"]  # which read the pool after the cluster left
    explained = operator.get(f"/api/v1/runs/{later.pk}/explanation/ada/").json()["workloads"]
    details = {each["workload"]: each["detail"] for each in explained}
    assert re.fullmatch(LEFT, details["there"])


@pytest.mark.parametrize("reason", ["no_eligible_server", "resource_absent"])
def test_a_sentence_of_many_clusters_that_left_names_three(reason):
    names = [f"{number:02}-{'c' * 60}" for number in range(12)]
    away = dict.fromkeys(names, utc_now())
    text = away_text(reason, {"cluster": names}, away, "America/Argentina/ComodRivadavia")
    assert len(text) <= 500
    assert text.endswith(" and 9 more.")
    assert away_text("level", {"cluster": names}, away) == ""


def test_a_report_without_a_cluster_is_left_out_once_any_agent_has_one(operator):
    """As docs/guides/clusters.md states, with what makes it count."""
    pool = factories.pool()
    factories.tenant("ada")
    body = {"name": "l", "capacity": {"cpu": 8}}
    assert operator.post(f"{PATH}/servers/", body).status_code == 201
    submit(operator, "ada")
    run = factories.decision(pool)
    unbound = factories.client("agent", pool="lab")

    def used():
        state = operator.get(f"{PATH}/enforcement/").json()
        agents = {each["agent"]: each["cluster"] for each in state["agents"]}
        return state["tenants"][0]["used"]["cpu"], agents

    assert report(unbound, run, "first", {"ada": 8}, used=5).status_code == 200
    assert used() == ("5", {"first": None})
    body = {"name": "e", "capacity": {"cpu": 4}, "labels": {"cluster": "east"}}
    assert operator.post(f"{PATH}/servers/", body).status_code == 201
    pool.refresh_from_db()
    run = factories.decision(pool)
    assert report(agent("east"), run, "second", {"ada": 4}, used=1).status_code == 200
    assert used() == ("1", {"first": None, "second": "east"})
    assert report(unbound, run, "first", {"ada": 8}, used=5).status_code == 200
    assert used() == ("6", {"first": "lab", "second": "east"})
    assert report(operator, run, "third", {"ada": 8}, used=2).status_code == 200
    assert used() == ("6", {"first": "lab", "second": "east", "third": None})


def sums_by_tenant(documents, field):
    """Return the exact sums of a field's amounts over documents of the clusters, as texts."""
    sums = {}
    for rows in documents:
        for row in rows:
            of = sums.setdefault(row["tenant"], {})
            for name, amount in row[field].items():
                of[name] = of.get(name, Decimal(0)) + Decimal(amount)
    return {
        tenant: {name: decimal_text(amount) for name, amount in of.items()}
        for tenant, of in sums.items()
    }


def clusters_of(rows):
    """Return the parts of tenants in clusters, with the tenants."""
    return [[{**each, "tenant": row["tenant"]} for each in row["clusters"]] for row in rows]


def test_what_is_decided_is_the_same_to_the_last_digit_in_all_answers(operator):
    """Placements of divisible tasks are doubles, which add up to other last digits than the tasks."""
    pool = opened(operator, "divisible")
    chance = random.Random(5)
    for number in range(9):
        body = {"name": f"s{number}", "capacity": {"cpu": chance.choice([0.7, 1.1, 3.3])}}
        body["labels"] = {"cluster": chance.choice(["east", "west", "lab"])}
        assert operator.post(f"{PATH}/servers/", body).status_code == 201
    for number in range(12):
        submit(operator, "bob", f"w{number}", demand={"cpu": chance.choice([0.3, 0.7, 1.3])})
        submit(operator, "ada", f"w{number}", demand={"cpu": chance.choice([0.1, 0.9])}, tasks=1)
    run = factories.decision(pool)
    names = ("east", "lab", "west")
    with localcontext(prec=120):
        whole = operator.get(SLURM).json()["tenants"]
        parts = [operator.get(f"{SLURM}?cluster={name}").json()["tenants"] for name in names]
        decided = {row["tenant"]: row["decided"] for row in whole}
        assert sums_by_tenant(parts, "decided") == decided
        for name, rows in zip(names, parts, strict=True):
            told = {row["tenant"]: row["rendered"]["cpu"] for row in rows}
            assert report(agent(name), run, f"slurm-{name}", told).status_code == 200
        enforced = operator.get(f"{PATH}/enforcement/").json()["tenants"]
        assert {row["tenant"]: row["decided"] for row in enforced} == decided
        in_clusters = [
            [{**each, "tenant": row["tenant"]} for each in row["clusters"]] for row in enforced
        ]
        assert sums_by_tenant(in_clusters, "decided") == decided
        entitled = operator.get(f"{PATH}/entitlements/").json()["tenants"]
        assert {row["tenant"]: row["has"] for row in entitled} == decided
        for field in ("has", "entitled"):
            of = [
                [{**each, "tenant": row["tenant"]} for each in row["clusters"]] for row in entitled
            ]
            assert sums_by_tenant(of, field) == {row["tenant"]: row[field] for row in entitled}
        # Each cluster's capacity is divided by the weights, as that of the pool is.
        ada, bob = (row["clusters"] for row in entitled)
        assert [each["entitled"] for each in ada] == [each["entitled"] for each in bob]


def test_whole_tasks_on_like_servers_of_two_clusters_add_up(operator):
    """The run does not distinguish the servers, and a task is half a task on each of two."""
    factories.pool(mode="indivisible")
    factories.tenant("ada")
    for number, cluster in enumerate(("east", "west", "east", "west", "west")):
        body = {"name": f"s{number}", "capacity": {"cpu": 4}, "labels": {"cluster": cluster}}
        assert operator.post(f"{PATH}/servers/", body).status_code == 201
    pool = Pool.objects.get(slug="lab")
    for tasks in (1, 2, 3, 4):
        submit(operator, "ada", f"w{tasks}", tasks=tasks, demand={"cpu": 3})
        pool.refresh_from_db()
        factories.decision(pool)
        parts = [limits(operator, cluster=name)["ada"] for name in ("east", "west")]
        assert sum(parts) == limits(operator)["ada"]


def test_a_tenants_page_has_its_part_in_each_cluster_with_the_total(pool, operator):
    run = factories.decision(pool)
    for name, used in (("east", 2), ("west", 1)):
        told = limits(operator, cluster=name)
        assert report(agent(name), run, f"slurm-{name}", told, used=used).status_code == 200
    part = {row["tenant"]: row for row in operator.get(f"{PATH}/entitlements/").json()["tenants"]}[
        "ada"
    ]
    has = {each["cluster"]: each["has"]["cpu"] for each in part["clusters"]}
    browser = browser_of(factories.client("tenant", pool.tenants["ada"]))
    text = page_text(browser.get("/my/pools/lab/"))
    table = text[text.index("By cluster") :]
    for name, entitled, used in (("east", 6, "2"), ("lab", 4, "not known"), ("west", 2, "1")):
        used = used if "not" in used else f"{used} core{'s' if used > '1' else ''}"
        row = f"{name} Entitled {entitled} cores Allocated {has[name]} cores Used now {used}"
        assert row in table
    assert "Total Entitled 12 cores Allocated 12 cores Used now 3 cores" in table


def test_a_tenants_page_names_the_cluster_whose_agent_is_silent(pool, operator):
    run = factories.decision(pool)
    for name in ("east", "west"):
        told = limits(operator, cluster=name)
        assert report(agent(name), run, f"slurm-{name}", told, used=1).status_code == 200
    browser = browser_of(factories.client("tenant", pool.tenants["ada"]))
    assert "silent" not in page_text(browser.get("/my/pools/lab/"))
    silent_for(pool, 100, "west")
    text = page_text(browser.get("/my/pools/lab/"))
    assert re.findall(r"The agent of the cluster (\w+) has been silent since \d", text) == ["west"]
    assert text.count("silent") == 1


def test_an_agent_that_is_gone_is_retired_and_its_cluster_leaves(pool, operator):
    """The last one of a cluster; one that reports is not, and one that reports again is back."""
    run = factories.decision(pool)
    for name in ("first", "second"):
        assert report(agent("east"), run, name, {"ada": 1}).status_code == 200
    first, second = (Agent.objects.get(name=name) for name in ("first", "second"))
    with pytest.raises(Conflict) as refused:
        agent_retire(agent=first, now=utc_now())
    assert refused.value.code == "enforcement.agent_reports"
    gone = utc_now() + timedelta(minutes=1)
    agent_retire(agent=first, now=gone)
    assert not Cluster.objects.filter(pool=pool, left_at__isnull=False).exists()
    agent_retire(agent=second, now=gone)
    agent_retire(agent=second, now=gone)
    assert Cluster.objects.get(pool=pool, name="east").left_at == gone
    state = operator.get(f"{PATH}/enforcement/").json()
    assert (state["agents"], state["stale"]) == ([], False)
    rows = operator.get(f"{PATH}/clusters/").json()["clusters"]
    assert [row["agents"] for row in rows] == [[], [], []]
    later = (utc_now() + timedelta(minutes=2)).isoformat()
    assert report(agent("east"), run, "second", {"ada": 1}, reported_at=later).status_code == 200
    assert [row["agent"] for row in operator.get(f"{PATH}/enforcement/").json()["agents"]] == [
        "second"
    ]
    assert Cluster.objects.get(pool=pool, name="east").left_at is None


def test_agents_are_retired_in_the_admin(pool, operator):
    run = factories.decision(pool)
    report(agent("east"), run, "east-1", {"ada": 1})
    Agent.objects.update(received_at=utc_now() - timedelta(minutes=5))
    admin = get_user_model().objects.create_superuser("root", "r@example.org", "secret")
    browser = DjangoClient()
    browser.force_login(admin)
    found = Agent.objects.get()
    url = reverse("admin:enforcement_agent_changelist")
    page = browser.post(url, {"action": "retire", "_selected_action": [found.pk]}, follow=True)
    assert "1 agent retired" in page.content.decode()
    found.refresh_from_db()
    assert found.retired_at is not None


def test_agents_are_retired_over_the_api(pool, operator):
    run = factories.decision(pool)
    report(agent("east"), run, "east-1", {"ada": 1})
    path = f"{PATH}/agents/east-1/retire/"
    refused = operator.post(path, {})
    assert (refused.status_code, refused.json()["code"]) == (409, "enforcement.agent_reports")
    Agent.objects.update(received_at=utc_now() - timedelta(minutes=5))
    factories.pool("other")
    assert factories.client(pool="other").post(path, {}).status_code == 404
    for client in (agent("east"), factories.client("billing", pool="lab")):
        assert client.post(path, {}).status_code == 403
    bound = factories.client(pool="lab")
    answer = bound.post(path, {})
    assert answer.status_code == 200, answer.content
    document = answer.json()
    assert (document["agent"], document["cluster"], document["target"]) == (
        "east-1", "east", "slurm",
    )  # fmt: skip
    pool.refresh_from_db()
    assert answer["Pool-Generation"] == str(pool.generation)
    assert Cluster.objects.get(pool=pool, name="east").left_at is not None
    again = operator.post(path, {})
    assert (again.status_code, again.json()) == (200, document)
    assert again["Pool-Generation"] == str(pool.generation)
    for name in ("east-2", "East", "%00"):
        unknown = operator.post(f"{PATH}/agents/{name}/retire/", {})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "agent.not_found")


def test_an_agent_that_reports_rarely_is_not_silent_before_it_had_to_report(pool, operator):
    answer = operator.get(f"{PATH}/")
    body = {"cluster_grace": "PT1M"}
    assert operator.patch(f"{PATH}/", body, If_Match=answer["ETag"]).status_code == 200
    run = factories.decision(pool)
    report(agent("west"), run, "slurm-west", {}, interval="PT10M")
    pool.refresh_from_db()
    silent_for(pool, 1799, "west")
    assert not Cluster.objects.exclude(left_at=None).exists()
    silent_for(pool, 1801, "west")
    assert Cluster.objects.exclude(left_at=None).get().name == "west"


def test_an_outage_of_the_service_is_no_silence_of_agents(pool, operator):
    run = factories.decision(pool)
    report(agent("west"), run, "slurm-west", {})
    Agent.objects.update(received_at=utc_now() - timedelta(hours=2))
    Watch.objects.update(looked_at=utc_now() - timedelta(hours=2), watched_since=None)
    clusters_watch(pool=pool, now=utc_now())
    assert not Cluster.objects.exists()
    for seconds in range(0, 1_020, 30):
        clusters_watch(pool=pool, now=utc_now() + timedelta(seconds=seconds))
    assert Cluster.objects.get().name == "west"


def test_an_agent_of_no_cluster_has_the_pools_own_in_a_pool_with_clusters(pool, operator):
    run = factories.decision(pool)
    old = agent("")
    assert limits(old) == limits(operator, cluster="lab")
    stored = report(old, run, "slurm-lab", limits(old))
    assert stored.json()["cluster"] == "lab"
    assert old.get(f"{SLURM}?cluster=east").status_code == 403
    row = {"content": "name,capacity.cpu\nmine,4\n"}
    assert old.post(f"{PATH}/imports/nodes/", row).status_code == 200
    assert Server.objects.get(name="mine").labels == {"cluster": "lab"}


def test_the_first_agent_that_is_bound_adopts_servers_without_a_cluster(operator):
    pool = factories.pool(mode="indivisible")
    factories.server(pool, "n", 4, 4, None)
    row = {"content": "name,capacity.cpu,capacity.memory\nn,4,4\n"}
    assert agent("east").post(f"{PATH}/imports/nodes/", row).status_code == 200
    assert Server.objects.get(name="n").labels == {"cluster": "east"}


def test_drifts_that_cancel_are_drifts(pool, operator):
    run = factories.decision(pool)
    for name, more in (("east", 1), ("west", -1)):
        told = {tenant: cpu + more for tenant, cpu in limits(operator, cluster=name).items()}
        assert report(agent(name), run, f"slurm-{name}", told).status_code == 200
    enforcement_watch(pool=pool, now=utc_now())
    row = operator.get(f"{PATH}/enforcement/").json()["tenants"][0]
    assert row["drift"] == {}
    assert [part["drift"] for part in row["clusters"]] == [{"cpu": "1"}, {"cpu": "-1"}]
    assert set(Drift.objects.values_list("tenant__slug", flat=True)) == {"ada", "bob"}


def test_one_cluster_that_cannot_be_told_hides_no_other(pool, operator):
    run = factories.decision(pool)
    assert report(agent("east"), run, "slurm-east", {"ada": 1}).status_code == 200
    stored = report(agent("new"), run, "slurm-new", {})  # it has no servers yet
    assert stored.status_code == 200
    document = operator.get(f"{PATH}/enforcement/").json()
    assert document["refused"].startswith("new: ")
    assert [row["enforced"] for row in document["tenants"]] == [{"cpu": "1", "memory": "0"}, None]


def test_a_tenant_puts_no_server_under_the_scheduler_of_a_cluster(pool, operator):
    ada = factories.client("tenant", pool.tenants["ada"])
    body = {"name": "mine", "capacity": {"cpu": 1}}
    refused = ada.post(f"{PATH}/servers/", body | {"labels": {"cluster": "east"}})
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.cluster")
    made = ada.post(f"{PATH}/servers/", body | {"labels": {"rack": "r1"}})
    path = f"{PATH}/servers/{made.json()['id']}/"
    refused = ada.patch(path, {"labels": {"cluster": "east"}}, If_Match=made["ETag"])
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.cluster")
    assert ada.patch(path, {"labels": {"rack": "r2"}}, If_Match=made["ETag"]).status_code == 200


def test_an_empty_label_is_none(operator):
    pool = factories.pool(mode="indivisible")
    for name, labels in (("a", {"cluster": ""}), ("b", {})):
        factories.server(pool, name, 4, 4, None, labels=labels)
    factories.workload(pool, "work", 1, 1, factories.tenant("ada"))
    factories.decision(pool)
    assert operator.get(f"{PATH}/clusters/").json()["clusters"] == []
    assert limits(operator, cluster="lab") == {"ada": 8}
    gang = {"tenant": "ada", "name": "gang", "pieces": [{"count": 2, "demand": {"cpu": 4}}]}
    assert operator.post(f"{PATH}/workloads/", gang | {"priority": 1}).status_code == 201
    run = factories.decision(pool)
    assert run.allocations.get(workload__name="gang").tasks == 1  # a piece on each of both servers
    factories.server(pool, "c", 4, 4, None, labels={"cluster": "east"})
    factories.decision(pool)
    assert limits(operator, cluster="lab") == {"ada": 8}
    assert limits(operator, cluster="east") == {"ada": 4}


def test_an_operator_reports_for_clusters_that_exist(pool, operator):
    run = factories.decision(pool)
    refused = report(operator, run, "slurm-typing", {}, cluster="wset")
    assert (refused.status_code, refused.json()["code"]) == (400, "cluster.unknown")


def test_a_grace_is_a_duration(operator):
    factories.pool()
    answer = operator.get(f"{PATH}/")
    for wrong in ("15 minutes", "", 900):
        refused = operator.patch(f"{PATH}/", {"cluster_grace": wrong}, If_Match=answer["ETag"])
        assert refused.status_code == 422, wrong


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_the_parts_by_cluster_are_all_that_a_tenant_has(operator, mode):
    """Of tasks that may run anywhere and fit no number of times into a server."""
    pool = opened(operator, mode)
    for number in range(3):
        submit(operator, "ada", f"odd-{number}", demand={"cpu": 1.5 + number / 2}, tasks=2)
    factories.decision(pool)
    rows = entitled(operator)
    assert {part["cluster"] for row in rows for part in row["clusters"]} == {"east", "west", "lab"}
    for row in rows:
        parts = sum(float(part["has"]["cpu"]) for part in row["clusters"])
        assert parts == pytest.approx(float(row["has"]["cpu"]), abs=1e-9)


def entitled(operator):
    return operator.get(f"{PATH}/entitlements/").json()["tenants"]


def test_a_tenant_sees_its_part_by_cluster_on_its_page(pool, operator):
    factories.decision(pool)
    browser = browser_of(factories.client("tenant", pool.tenants["ada"]))
    text = page_text(browser.get("/my/pools/lab/"))
    row = r"(east|lab|west) Entitled [\d.]+ cores? Allocated ([\d.]+) cores? Used now not known"
    cores = dict(re.findall(row, text))
    assert sum(map(Decimal, cores.values())) == 12
    assert len(cores) == 3


def test_equal_servers_of_two_clusters_are_told_apart_by_what_holds_a_tenant_back(world):
    """Servers of nobody and of bob, whose owner ada may not know."""
    lab = factories.pool("two", mode="divisible")
    for name, owner in (("east", None), ("west", world.bob)):
        factories.server(lab, name, 16, 64, owner, labels={"cluster": name, "rack": f"r-{name}"})
        one = {"server_selector": {"cluster": name}}
        factories.workload(lab, f"in-{name}", 1, 1, world.ada, **one)
        factories.workload(lab, f"in-{name}", 1, 1, world.bob, **one)
    run = factories.decision(lab)
    page = words(browser_of(world.as_ada).text("/my/pools/two/why/"))
    held = re.findall(
        r"1 × 16 cores, 64 GiB memory in (\w+)", page.replace("\N{NO-BREAK SPACE}", " ")
    )
    assert sorted(held) == ["east", "west"]
    found = world.as_ada.get(f"/api/v1/runs/{run.pk}/explanation/ada/").json()
    assert {each["servers"]["labels"]["cluster"] for each in found["binding"]} == {"east", "west"}
    assert "r-west" not in str(found)
