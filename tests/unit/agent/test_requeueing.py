"""Kueue's workloads that the agent ends and lets queue again."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from allocator_agent.configuration import Configuration, KubernetesOptions
from allocator_agent.kubernetes.api import Api
from allocator_agent.kubernetes.orchestrating import EffectiveKueue
from allocator_agent.kubernetes.reading import REQUEUED
from allocator_agent.kubernetes.scheduler import Kubernetes
from allocator_agent.model import Rendering, Terms
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.shown import shown_plan

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def server():
    running = KubernetesServer()
    for name in "ab":
        running.put("/api/v1/namespaces", {"metadata": {"name": name}})
    yield running
    running.stop()


@pytest.fixture(params=["spec", "effective"])
def quotas(request):
    return request.param


@pytest.fixture
def agent(server, tmp_path, quotas):
    token = tmp_path / "token"
    token.write_text(server.TOKEN)
    options = KubernetesOptions(api=server.url, token_file=token, quotas=quotas)
    configuration = Configuration(
        url="http://x", pool="lab", key="k", name="agent", scheduler="kueue", reclaim="requeue",
        kubernetes=options,
    )  # fmt: skip
    return (EffectiveKueue if quotas == "effective" else Kubernetes)(configuration, Api(options))


def queue(name, cpu, quotas, **flavors):
    rows = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": most}]}
        for flavor, most in (flavors or {"big": cpu}).items()
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": rows}]
    spec, status = {"resourceGroups": groups}, {}
    if quotas == "effective":
        reference = {"apiGroup": "allocator", "kind": "Pool", "name": "lab"}
        status = {"effectiveQuotas": {"orchestratorRef": reference, "resourceGroups": groups}}
    labels = {"allocator.pool": "lab", "allocator.tenant": name}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
        "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status,
    }  # fmt: skip


def decision(quotas, *, terms=None, **cpus):
    tenants = [{"tenant": name, "reclaim_rank": number} for number, name in enumerate(cpus)]
    objects = [queue(name, cpu, quotas) for name, cpu in cpus.items()]
    return Rendering("run", 1, tenants, objects, terms or Terms())


def put(server, name, namespace="a", *, since="", active=None, annotations=None, sets=(1,)):
    """Have a workload that waits, or that runs since a time."""
    pods = [
        {
            "name": f"set-{number}",
            "count": count,
            "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}},
        }
        for number, count in enumerate(sets)
    ]
    status = "True" if since else "False"
    conditions = [
        {"type": kind, "status": status, "lastTransitionTime": since or "2026-11-01T00:00:00Z"}
        for kind in ("QuotaReserved", "Admitted")
    ]
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}}
    spec = {"podSets": pods, **({} if active is None else {"active": active})}
    server.put(
        WORKLOADS, {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
    )


def workload(server, name, namespace="a"):
    item = server.objects[WORKLOADS, namespace, name]
    return item["spec"].get("active"), item["metadata"].get("annotations") or {}


def demand(agent):
    counts = Counter()
    for job in agent.observe().jobs:
        counts[job.whole, job.running] += job.tasks
    return counts


def test_the_youngest_is_deactivated_and_queues_again_once_it_is_evicted(server, agent, quotas):
    put(server, "old", since="2026-11-01T08:00:00Z")
    put(server, "young", since="2026-11-01T09:00:00Z", sets=(1, 1))
    put(server, "waits", "b")
    for name in "ab":
        server.put(QUEUES, queue(name, "3", quotas))
    wanted = decision(quotas, a="1", b="2")
    plan = agent.plan(wanted, agent.observe(), NOW)
    (victim,) = plan.reclaim.ended
    assert (victim.key, victim.tasks, victim.heir) == ("a/young", 2, "b")
    assert any("requeued, above the decision for b" in line for line in shown_plan(plan))
    assert agent.apply(plan) == []
    assert workload(server, "young") == (False, {REQUEUED: "true"})
    assert workload(server, "old") == (None, {})
    agent.memory.keep(plan.reclaim, int(NOW.timestamp()))
    # It is demand all the time, and no other workload ends in its place.
    assert demand(agent) == {("a/old", True): 1, ("a/young", False): 2, ("b/waits", False): 1}
    again = agent.plan(wanted, agent.observe(), NOW)
    assert (again.reclaim.ended, again.resumed) == ([], [])  # Kueue has not evicted it yet
    put(server, "young", sets=(1, 1), active=False, annotations={REQUEUED: "true"})
    again = agent.plan(wanted, agent.observe(), NOW)
    assert len(again.resumed) == len(again) == 1
    assert agent.apply(again) == []
    assert workload(server, "young") == (True, {})
    assert len(agent.plan(wanted, agent.observe(), NOW)) == 0


def test_a_workload_that_somebody_else_deactivated_stays_as_it_is(server, agent, quotas):
    put(server, "paused", active=False)
    put(server, "left", active=True, annotations={REQUEUED: "true"})
    for name in "ab":
        server.put(QUEUES, queue(name, "3", quotas))
    plan = agent.plan(decision(quotas, a="3", b="3"), agent.observe(), NOW)
    assert agent.apply(plan) == []
    assert workload(server, "paused") == (False, {})
    assert workload(server, "left") == (True, {})


def test_a_workload_younger_than_the_minimum_and_one_with_notice_run_on(server, agent, quotas):
    put(server, "old", since="2026-11-01T08:00:00Z")
    put(server, "young", since="2026-11-01T11:59:00Z")
    for name in "ab":
        server.put(QUEUES, queue(name, "1", quotas))
    terms = Terms(minimum_run_seconds=600, notice_seconds=60)
    wanted = decision(quotas, terms=terms, a="1", b="1")
    plan = agent.plan(wanted, agent.observe(), NOW)
    assert [each.key for each in plan.reclaim.warned] == ["a/old"]
    assert agent.apply(plan) == []
    assert workload(server, "old") == workload(server, "young") == (None, {})


def test_nothing_ends_while_a_quota_cannot_be_lowered(server, agent, quotas):
    put(server, "young", since="2026-11-01T09:00:00Z")
    for name in "ab":
        server.put(QUEUES, queue(name, "3", quotas))
    part = "/status" if quotas == "effective" else ""
    server.refuse[f"{QUEUES}/a{part}"] = (403, "no")
    plan = agent.plan(decision(quotas, a="0", b="3"), agent.observe(), NOW)
    assert len(plan.reclaim.ended) == 1
    assert agent.apply(plan) != []
    assert workload(server, "young") == (None, {})


def test_a_refused_end_is_a_problem_and_a_conflict_is_for_the_next_round(server, agent, quotas):
    put(server, "young", since="2026-11-01T09:00:00Z")
    for name in "ab":
        server.put(QUEUES, queue(name, "0", quotas))
    wanted = decision(quotas, a="0", b="0")
    path = f"{WORKLOADS.replace('workloads', 'namespaces/a/workloads')}/young"
    server.refuse[path] = (403, "no")
    (problem,) = agent.apply(agent.plan(wanted, agent.observe(), NOW))
    assert problem.startswith("Workload a/young: Kubernetes refused (403")
    server.refuse.clear()
    plan = agent.plan(wanted, agent.observe(), NOW)
    put(server, "young", since="2026-11-01T09:00:00Z")  # another version than the plan's
    server.before_put = [lambda: put(server, "young", since="2026-11-01T09:00:00Z")]
    assert agent.apply(plan) == []
    assert workload(server, "young") == (None, {})
    assert agent.apply(agent.plan(wanted, agent.observe(), NOW)) == []
    assert workload(server, "young") == (False, {REQUEUED: "true"})


def admitted(server, name, *, queue="a", count=8, held=4, done=0, owner="Job", evicted=False):
    """Have a workload of eight pods that runs with fewer."""
    put(server, name, since="2026-11-01T09:00:00Z", sets=(count,))
    item = server.objects[WORKLOADS, "a", name]
    item["metadata"]["ownerReferences"] = [{"kind": owner, "name": "x"}]
    assigned = [{"name": "set-0", "count": held}]
    item["status"]["admission"] = {"clusterQueue": queue, "podSetAssignments": assigned}
    if done:
        item["status"]["reclaimablePods"] = [{"name": "set-0", "count": done}]
    if evicted:
        item["status"]["conditions"].append({"type": "Evicted", "status": "True"})
    server.put(WORKLOADS, item)


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({}, "4"),  # admitted with half of its pods
        ({"held": 8, "done": 6}, "2"),
        ({"held": 8, "done": 8}, "0"),
        ({"queue": "private"}, "0"),  # the decision is about other servers
        ({"owner": "Pod"}, "0"),  # nothing would make them again
        ({"evicted": True}, "0"),  # it ends already
    ],
)
def test_a_workload_within_the_decision_or_outside_of_it_runs_on(
    server, agent, quotas, fields, cpus
):
    admitted(server, "job", **fields)
    for name in "ab":
        server.put(QUEUES, queue(name, cpus, quotas))
    plan = agent.plan(decision(quotas, a=cpus, b="0"), agent.observe(), NOW)
    assert plan.reclaim.ended == []


def test_what_was_admitted_above_the_decision_ends(server, agent, quotas):
    admitted(server, "job")
    for name in "ab":
        server.put(QUEUES, queue(name, "3", quotas))
    plan = agent.plan(decision(quotas, a="3", b="0"), agent.observe(), NOW)
    assert [(each.key, each.tasks) for each in plan.reclaim.ended] == [("a/job", 4)]


def test_a_refused_quota_keeps_no_workload_off(server, agent, quotas):
    put(server, "young", active=False, annotations={REQUEUED: "true"})
    for name in "ab":
        server.put(QUEUES, queue(name, "3", quotas))
    part = "/status" if quotas == "effective" else ""
    server.refuse[f"{QUEUES}/b{part}"] = (403, "no")
    plan = agent.plan(decision(quotas, a="3", b="0"), agent.observe(), NOW)
    assert agent.apply(plan) != []
    assert workload(server, "young") == (True, {})


def on_flavor(server, name, flavor, *, since, namespace="a", resource="cpu"):
    """Have a workload of one pod that holds quota of a flavor."""
    put(server, name, namespace, since=since)
    item = server.objects[WORKLOADS, namespace, name]
    assigned = [{"name": "set-0", "count": 1, "flavors": {resource: flavor}}]
    item["status"]["admission"] = {"clusterQueue": namespace, "podSetAssignments": assigned}
    server.put(WORKLOADS, item)


def by_flavor(quotas, **flavors):
    """Return a decision with quota of the flavors for a, and none for b."""
    tenants = [{"tenant": name, "reclaim_rank": 0} for name in "ab"]
    objects = [queue("a", "", quotas, **flavors), queue("b", "0", quotas)]
    return Rendering("run", 1, tenants, objects, Terms())


def ended(server, agent, wanted):
    for name in "ab":
        server.put(
            QUEUES, next(each for each in wanted.objects if each["metadata"]["name"] == name)
        )
    plan = agent.plan(wanted, agent.observe(), NOW)
    return [each.key for each in plan.reclaim.ended]


def test_quota_of_one_flavor_covers_nothing_on_another(server, agent, quotas):
    on_flavor(server, "on-big", "big", since="2026-11-01T08:00:00Z")
    on_flavor(server, "on-small", "small", since="2026-11-01T09:00:00Z")
    # The sum is kept, and the youngest is on a flavor that has room.
    assert ended(server, agent, by_flavor(quotas, big="0", small="2")) == ["a/on-big"]
    assert ended(server, agent, by_flavor(quotas, big="1", small="1")) == []
    assert ended(server, agent, by_flavor(quotas, big="2", small="0")) == ["a/on-small"]


def test_a_workload_on_a_flavor_without_quota_ends(server, agent, quotas):
    on_flavor(server, "on-big", "big", since="2026-11-01T08:00:00Z")
    on_flavor(server, "elsewhere", "gone", since="2026-11-01T07:00:00Z")
    assert ended(server, agent, by_flavor(quotas, big="2")) == ["a/elsewhere"]


def test_a_resource_outside_of_the_quotas_ends_nothing(server, agent, quotas):
    on_flavor(server, "other", "gone", since="2026-11-01T07:00:00Z", resource="example.com/other")
    assert ended(server, agent, by_flavor(quotas, big="0", small="0")) == []
