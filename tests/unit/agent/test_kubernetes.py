"""The agent against an API server that lists, watches and fails as that of Kubernetes does."""

import threading
import time
from datetime import UTC, datetime

import pytest

from allocator_agent.configuration import Configuration, KubernetesOptions
from allocator_agent.errors import Misconfigured, SchedulerAway
from allocator_agent.kubernetes.api import Api, ApiRefused
from allocator_agent.kubernetes.scheduler import Kubernetes
from allocator_agent.kubernetes.watching import Watched
from allocator_agent.model import Rendering
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.shown import shown_plan

NOW = datetime(2026, 11, 1, tzinfo=UTC)
PODS, NODES, QUOTAS = "/api/v1/pods", "/api/v1/nodes", "/api/v1/resourcequotas"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
MARK = {"allocator.pool": "lab"}


@pytest.fixture
def server():
    running = KubernetesServer()
    yield running
    running.stop()


@pytest.fixture
def api(server, tmp_path):
    return Api(options(server, tmp_path))


def options(server, folder):
    token = folder / "token"
    token.write_text(server.TOKEN)
    return KubernetesOptions(api=server.url, token_file=token)


def scheduler(server, folder, kind="kubernetes", **settings):
    configuration = Configuration(
        url="http://localhost", pool="lab", key="", name="agent", scheduler=kind,
        kubernetes=options(server, folder), **settings,
    )  # fmt: skip
    return Kubernetes(configuration, Api(configuration.kubernetes, timeout=5))


def named(name, namespace="", **fields):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, **fields}


def pod(name, namespace="a", cpu="1", phase="Pending", **spec):
    containers = [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return named(name, namespace, spec={"containers": containers, **spec}, status={"phase": phase})


def quota(namespace, cpu, memory="1Gi"):
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "allocator-lab", "namespace": namespace, "labels": dict(MARK)},
        "spec": {"hard": {"requests.cpu": cpu, "requests.memory": memory}},
    }


def queue(name, **flavors):
    rows = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": most}]}
        for flavor, most in flavors.items()
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name, "labels": dict(MARK)},
        "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": rows}]},
    }


def decision(*objects):
    return Rendering("run", 7, [], list(objects))


def following(watched):
    stopped = threading.Event()
    thread = threading.Thread(target=watched.follow, args=(stopped,), daemon=True)
    thread.start()
    return stopped, thread


def until(holds, seconds=5):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def names(watched):
    return sorted(item["metadata"]["name"] for item in watched.objects())


# Listing and watching


def test_a_list_is_read_page_by_page_and_begins_again_when_it_has_expired(server, api):
    for number in range(1203):
        server.put(PODS, pod(f"p{number:04}"))
    server.expired_pages = 1
    watched = Watched(api, PODS)
    assert names(watched) == [f"p{number:04}" for number in range(1203)]
    assert server.requests == [("LIST", PODS)] * 5  # one page, one too old, then all three


def test_changes_arrive_by_the_watch_and_nothing_is_listed_again(server, api):
    server.put(PODS, pod("old"))
    watched = Watched(api, PODS, watch_seconds=1)
    stopped, _ = following(watched)
    until(lambda: watched.lists == 1)
    server.put(PODS, pod("new"))
    until(lambda: names(watched) == ["new", "old"])
    server.put(PODS, pod("new", phase="Running"))
    until(lambda: [p["status"]["phase"] for p in watched.objects()].count("Running") == 1)
    server.delete(PODS, "a", "old")
    until(lambda: names(watched) == ["new"])
    until(lambda: server.watches(PODS) >= 3)  # the server ends each after a second
    stopped.set()
    assert watched.lists == 1


def test_a_watch_that_is_cut_within_an_event_goes_on_where_it_was(server, api):
    watched = Watched(api, PODS, watch_seconds=30)
    stopped, _ = following(watched)
    until(lambda: server.watches(PODS) == 1)
    server.cuts = 2
    server.put(PODS, pod("one"))
    until(lambda: names(watched) == ["one"])
    server.put(PODS, pod("two"))
    until(lambda: names(watched) == ["one", "two"])
    stopped.set()
    assert watched.lists == 1
    assert server.watches(PODS) == 3


@pytest.mark.parametrize("as_event", [False, True])
def test_a_version_that_has_expired_lists_again(server, api, as_event):
    server.expiry_as_event = as_event
    server.bookmark_seconds = 60
    watched = Watched(api, PODS, watch_seconds=1)
    server.put(PODS, pod("old"))
    watched.list()
    server.delete(PODS, "a", "old")
    server.put(PODS, pod("new"))
    server.forget()  # what happened since is no longer told
    stopped, _ = following(watched)
    until(lambda: names(watched) == ["new"])
    stopped.set()
    assert watched.lists == 2


def test_bookmarks_keep_a_quiet_watch_from_expiring(server, api):
    watched = Watched(api, PODS, watch_seconds=1)
    server.put(PODS, pod("quiet"))
    stopped, _ = following(watched)
    until(lambda: watched.lists == 1)
    for number in range(20):
        server.put(NODES, named(f"n{number}"))
    time.sleep(0.3)  # a bookmark says that these versions have passed
    server.forget()
    server.put(PODS, pod("later"))
    until(lambda: names(watched) == ["later", "quiet"])
    until(lambda: server.watches(PODS) >= 2)
    stopped.set()
    assert watched.lists <= 2


def test_a_token_that_is_refused_and_a_server_that_is_away_are_said(server, tmp_path):
    wrong = options(server, tmp_path)
    wrong.token_file.write_text("other")
    with pytest.raises(ApiRefused, match=r"refused \(401 Unauthorized\)"):
        Watched(Api(wrong), PODS).list()
    wrong.token_file.write_text(server.TOKEN)  # a rotated token is read by itself
    Watched(Api(wrong), PODS).list()
    server.stop()
    with pytest.raises(SchedulerAway, match="does not answer"):
        Watched(Api(wrong), PODS).list()


# Writing


def test_quotas_are_made_changed_and_left(server, tmp_path):
    for namespace in ("a", "b", "kube-system"):
        server.put("/api/v1/namespaces", named(namespace))
    agent = scheduler(server, tmp_path)
    observed = agent.observe()
    assert observed.accounts == {"a", "b"}
    plan = agent.plan(decision(quota("a", "2"), quota("b", "3")), observed, NOW)
    assert shown_plan(plan) == [
        "+ ResourceQuota a/allocator-lab",
        "requests.cpu 2",
        "requests.memory 1Gi",
        "+ ResourceQuota b/allocator-lab",
        "requests.cpu 3",
        "requests.memory 1Gi",
    ]
    assert agent.apply(plan) == []
    server.writes.clear()
    # The same amount written otherwise is the same, and twice does nothing.
    again = agent.plan(decision(quota("a", "2000m"), quota("b", "3")), agent.observe(), NOW)
    assert len(again) == 0
    assert server.writes == []


def test_lowers_before_it_raises_and_keeps_what_others_wrote(server, tmp_path):
    for namespace, cpu in (("a", "6"), ("b", "2")):
        server.put("/api/v1/namespaces", named(namespace))
        held = quota(namespace, cpu)
        held["spec"]["hard"]["pods"] = "10"
        server.put(QUOTAS, held)
    agent = scheduler(server, tmp_path)
    plan = agent.plan(decision(quota("a", "3", "2Gi"), quota("b", "5")), agent.observe(), NOW)
    assert [change.lowers for change in plan.changes] == [True, False]
    assert agent.apply(plan) == []
    told = [(body["metadata"]["namespace"], body["spec"]["hard"]) for _, _, body in server.writes]
    assert told == [
        ("a", {"requests.cpu": "3", "requests.memory": "1Gi", "pods": "10"}),
        ("b", {"requests.cpu": "2", "requests.memory": "1Gi", "pods": "10"}),  # a new version only
        ("a", {"requests.cpu": "3", "requests.memory": "2Gi", "pods": "10"}),
        ("b", {"requests.cpu": "5", "requests.memory": "1Gi", "pods": "10"}),
    ]
    assert len(agent.plan(decision(quota("a", "3", "2Gi")), agent.observe(), NOW)) == 0


def test_a_conflict_is_read_again_and_keeps_the_others_change(server, tmp_path):
    server.put("/api/v1/namespaces", named("a"))
    server.put(QUOTAS, quota("a", "6"))
    agent = scheduler(server, tmp_path)
    plan = agent.plan(decision(quota("a", "3")), agent.observe(), NOW)

    def somebody_is_faster():
        other = quota("a", "6")
        other["metadata"]["labels"]["team"] = "x"
        server.put(QUOTAS, other)

    server.before_put = [somebody_is_faster, somebody_is_faster]
    assert agent.apply(plan) == []
    stored = server.objects[QUOTAS, "a", "allocator-lab"]
    assert stored["spec"]["hard"]["requests.cpu"] == "3"
    assert stored["metadata"]["labels"] == {"team": "x", **MARK}


def test_what_could_not_be_lowered_keeps_others_from_being_raised(server, tmp_path):
    for namespace, cpu in (("a", "6"), ("b", "2")):
        server.put("/api/v1/namespaces", named(namespace))
        server.put(QUOTAS, quota(namespace, cpu))
    path = "/api/v1/namespaces/a/resourcequotas/allocator-lab"
    server.refuse[path] = (403, "the agent may not")
    agent = scheduler(server, tmp_path)
    plan = agent.plan(decision(quota("a", "3"), quota("b", "5")), agent.observe(), NOW)
    assert agent.apply(plan) == [
        "ResourceQuota allocator-lab: Kubernetes refused (403 Forbidden): the agent may not"
    ]
    assert server.objects[QUOTAS, "b", "allocator-lab"]["spec"]["hard"]["requests.cpu"] == "2"


def test_a_tenant_without_a_namespace_is_said(server, tmp_path):
    agent = scheduler(server, tmp_path)
    plan = agent.plan(decision(quota("nowhere", "3")), agent.observe(), NOW)
    assert (len(plan), plan.problems) == (0, {"nowhere": ["there is no namespace for it"]})


def test_kueues_queues_are_lowered_flavor_by_flavor(server, tmp_path):
    server.put(QUEUES, queue("a", big="4", small="1"))
    server.put(QUEUES, queue("b", big="0", small="6"))
    agent = scheduler(server, tmp_path, "kueue")
    wanted = decision(queue("a", big="2", small="3"), queue("b", big="2", small="4"))
    plan = agent.plan(wanted, agent.observe(), NOW)
    assert shown_plan(plan) == [
        "~ ClusterQueue a",
        "big cpu 4 -> 2",
        "small cpu 1 -> 3",
        "~ ClusterQueue b",
        "big cpu 0 -> 2",
        "small cpu 6 -> 4",
    ]
    assert agent.apply(plan) == []
    told = [
        [
            flavor["resources"][0]["nominalQuota"]
            for flavor in body["spec"]["resourceGroups"][0]["flavors"]
        ]
        for _, _, body in server.writes
    ]
    assert told == [["2", "1"], ["0", "4"], ["2", "3"], ["2", "4"]]
    assert len(agent.plan(wanted, agent.observe(), NOW)) == 0


def test_a_queue_leaves_the_cohort_of_a_former_group_and_no_other(server, tmp_path):
    """Outside of a tree a queue says nothing of borrowing, so it would borrow there without bounds."""
    in_tree = queue("a", flavor="3")
    in_tree["metadata"]["annotations"] = {"allocator.cohort": "labs"}
    in_tree["spec"]["cohortName"] = "labs"
    of_others = queue("b", flavor="3")
    of_others["spec"]["cohortName"] = "site"
    server.put("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", in_tree)
    server.put("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", of_others)
    agent = scheduler(server, tmp_path, "kueue")
    plan = agent.plan(
        decision(queue("a", flavor="3"), queue("b", flavor="3")), agent.observe(), NOW
    )
    assert shown_plan(plan) == ["~ ClusterQueue a", "cohortName labs -> none"]
    assert agent.apply(plan) == []
    (_, _, body) = server.writes[-1]
    assert "cohortName" not in body["spec"]
    assert "allocator.cohort" not in body["metadata"]["annotations"]


COHORTS = "/apis/kueue.x-k8s.io/v1beta2/cohorts"


def cohort(name, parent="lab", *, pool="lab", group=True):
    labels = {"allocator.pool": pool, **({"allocator.group": name} if group else {})}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": name, "labels": labels},
        "spec": {"parentName": parent},
    }


def in_cohort(name, cohort, flavor="3", *, ours=True):
    made = queue(name, flavor=flavor)
    made["spec"]["cohortName"] = cohort
    if ours:
        made["metadata"]["annotations"] = {"allocator.cohort": cohort}
    return made


def cohorts_of(server):
    return sorted(name for collection, _, name in server.objects if collection == COHORTS)


def test_cohorts_of_former_groups_are_removed_and_no_others(server, tmp_path):
    for each in (
        cohort("labs"), cohort("old"), cohort("older", "old"), cohort("theirs", pool="other"),
        cohort("by-hand", group=False), cohort("used"), cohort("above"),
        cohort("of-others", "above", pool="other"),
    ):  # fmt: skip
        server.put(COHORTS, each)
    server.put(QUEUES, in_cohort("a", "old"))
    server.put(QUEUES, in_cohort("stranger", "used", ours=False))
    agent = scheduler(server, tmp_path, "kueue")
    wanted = decision(cohort("labs"), in_cohort("a", "labs"))
    plan = agent.plan(wanted, agent.observe(), NOW)
    assert shown_plan(plan) == [
        "~ ClusterQueue a",
        "cohortName old -> labs",
        "- Cohort old",
        "- Cohort older",
    ]
    assert len(plan) == 3
    assert agent.apply(plan) == []
    # First the queue leaves, then its cohort goes.
    assert [method for method, _, _ in server.writes] == ["PUT", "DELETE", "DELETE"]
    kept = ["above", "by-hand", "labs", "of-others", "theirs", "used"]
    assert cohorts_of(server) == kept
    assert len(agent.plan(wanted, agent.observe(), NOW)) == 0


def test_the_last_groups_cohort_goes_with_the_queues_that_leave_it(server, tmp_path):
    server.put(COHORTS, cohort("labs"))
    server.put(QUEUES, in_cohort("a", "labs"))
    agent = scheduler(server, tmp_path, "kueue")
    plan = agent.plan(decision(queue("a", flavor="3")), agent.observe(), NOW)
    assert agent.apply(plan) == []
    assert cohorts_of(server) == []


def test_names_that_read_as_the_same_number_are_two_names(server, tmp_path):
    server.put(QUEUES, in_cohort("a", "1000"))
    agent = scheduler(server, tmp_path, "kueue")
    wanted = decision(cohort("1000"), cohort("1e3"), in_cohort("a", "1e3"))
    agent.apply(agent.plan(wanted, agent.observe(), NOW))
    assert server.objects[QUEUES, "", "a"]["spec"]["cohortName"] == "1e3"


def test_cohorts_are_not_listed_for_a_flat_pool(server, tmp_path):
    server.put(QUEUES, queue("a", flavor="3"))
    agent = scheduler(server, tmp_path, "kueue")
    agent.plan(decision(queue("a", flavor="2")), agent.observe(), NOW)
    assert ("LIST", COHORTS) not in server.requests


def test_a_cohort_stays_if_a_queue_could_not_leave_it_or_others_changed_it(server, tmp_path):
    server.put(COHORTS, cohort("old"))
    server.put(COHORTS, cohort("labs"))
    server.put(QUEUES, in_cohort("a", "old"))
    agent = scheduler(server, tmp_path, "kueue")
    wanted = decision(cohort("labs"), in_cohort("a", "labs"))
    plan = agent.plan(wanted, agent.observe(), NOW)
    server.refuse[f"{QUEUES}/a"] = (403, "no")
    assert len(agent.apply(plan)) == 1
    assert cohorts_of(server) == ["labs", "old"]
    server.refuse.clear()
    server.put(COHORTS, cohort("old"))  # another version than the plan's
    assert agent.apply(plan) == []
    assert cohorts_of(server) == ["labs", "old"]
    again = agent.plan(wanted, agent.observe(), NOW)
    server.refuse[f"{COHORTS}/old"] = (403, "may not delete")
    (problem,) = agent.apply(again)
    assert problem.startswith("Cohort old: Kubernetes refused (403 Forbidden)")
    server.refuse.clear()
    assert agent.apply(agent.plan(wanted, agent.observe(), NOW)) == []
    assert cohorts_of(server) == ["labs"]


def test_reclaim_is_refused_where_nothing_is_stopped(server, tmp_path):
    with pytest.raises(Misconfigured, match="reclaim = none"):
        scheduler(server, tmp_path, reclaim="requeue")


# Reading


def test_pods_and_those_that_a_quota_keeps_from_being_made_are_demand(server, tmp_path):
    for name, fields in {
        "runs": {"phase": "Running", "nodeName": "n1"},
        "waits": {"nodeSelector": {"partition": "big"}},
        "done": {"phase": "Succeeded"},
    }.items():
        server.put(PODS, pod(name, **fields))
    template = {"spec": pod("x", cpu="500m")["spec"]}
    server.put(
        "/apis/batch/v1/jobs",
        named("job", "a", spec={"parallelism": 5, "completions": 9, "template": template},
              status={"active": 2, "succeeded": 6}),
    )  # fmt: skip
    server.put(
        "/apis/batch/v1/jobs",
        named("held", "a", spec={"parallelism": 5, "suspend": True, "template": template}),
    )
    server.put(
        "/apis/apps/v1/replicasets",
        named("set", "a", spec={"replicas": 4, "template": template}, status={"replicas": 3}),
    )
    jobs = {job.id: job for job in scheduler(server, tmp_path).observe().jobs}
    assert {key: (job.running, job.tasks, job.where) for key, job in jobs.items()} == {
        "a/runs": (True, 1, ()),
        "a/waits": (False, 1, ("big",)),
        "a/job": (False, 1, ()),  # three are left to complete, two of them run
        "a/set": (False, 1, ()),
    }
    assert jobs["a/job"].demand == {"cpu": 0.5, "memory": 2**30}


def test_kueues_workloads_are_demand_until_they_have_finished(server, tmp_path):
    sets = [{"name": "main", "count": 3, "template": {"spec": pod("x")["spec"]}}]

    def workload(name, *conditions, **spec):
        told = [{"type": condition, "status": "True"} for condition in conditions]
        server.put(
            WORKLOADS,
            named(name, "a", spec={"podSets": sets, **spec}, status={"conditions": told}),
        )

    workload("waits")
    workload("runs", "QuotaReserved", "Admitted")
    workload("done", "Admitted", "Finished")
    workload("off", active=False)
    jobs = scheduler(server, tmp_path, "kueue").observe().jobs
    assert [(job.id, job.running, job.tasks) for job in jobs] == [
        ("a/runs/main", True, 3),
        ("a/waits/main", False, 3),
    ]


def test_nodes_that_are_cordoned_or_not_ready_take_nothing_new(server, tmp_path):
    def node(name, ready, **spec):
        conditions = [{"type": "Ready", "status": ready}]
        allocatable = {"cpu": "7910m", "memory": "30Gi", "nvidia.com/gpu": "2"}
        server.put(
            NODES,
            named(name, spec=spec, status={"conditions": conditions, "allocatable": allocatable}),
        )

    node("works", "True")
    node("cordoned", "True", unschedulable=True)
    node("lost", "Unknown")
    nodes = {node.name: node for node in scheduler(server, tmp_path).observe().nodes}
    assert {name: node.draining for name, node in nodes.items()} == {
        "works": False,
        "cordoned": True,
        "lost": True,
    }
    assert nodes["works"].capacity["gpu"] == 2


def test_pods_that_ended_are_usage_under_their_own_identity(server, tmp_path):
    ended = pod("done", phase="Succeeded")
    ended["metadata"]["uid"] = "uid-1"
    ended["status"] |= {
        "startTime": "2026-10-31T23:00:00Z",
        "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-10-31T23:30:00Z"}}}],
    }
    server.put(PODS, ended)
    server.put(PODS, pod("runs", phase="Running"))
    usages = scheduler(server, tmp_path).finished(1, NOW)
    assert [(usage.id, usage.account, usage.start, usage.end) for usage in usages] == [
        ("uid-1", "a", "2026-10-31T23:00:00Z", "2026-10-31T23:30:00Z")
    ]
    assert scheduler(server, tmp_path).finished(0.25, NOW) == []
