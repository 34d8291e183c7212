"""Effective quotas against an API server that prunes, keeps spec and status apart, and lies."""

import copy
import json
import threading
import time
from dataclasses import replace

import pytest

from allocator_agent.cli import scheduler_of
from allocator_agent.configuration import Configuration, read_configuration
from allocator_agent.errors import AgentError, Misconfigured, SchedulerAway
from allocator_agent.kubernetes.api import Api
from allocator_agent.kubernetes.orchestrating import EffectiveKueue
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.kueue_crds import kueue_schemas
from tests.unit.agent.shown import shown_plan
from tests.unit.agent.test_kubernetes import (
    COHORTS,
    NODES,
    NOW,
    QUEUES,
    decision,
    named,
    options,
    until,
)

POOL = {"apiGroup": "allocator", "kind": "Pool", "name": "lab"}


@pytest.fixture
def server():
    running = KubernetesServer()
    running.schemas = kueue_schemas()
    for namespace in ("a", "b", "c"):
        running.put("/api/v1/namespaces", named(namespace))
    yield running
    running.stop()


@pytest.fixture
def agent(server, tmp_path):
    return scheduler_of(configuration(server, tmp_path))


def configuration(server, folder, **settings):
    kubernetes = replace(options(server, folder), quotas="effective")
    values = {"pool": "lab", "key": "", "name": "agent", "scheduler": "kueue", **settings}
    return Configuration(url="http://localhost", kubernetes=kubernetes, **values)


def groups(**flavors):
    """Return resource groups: CPUs by flavor, or rows of several resources."""
    rows = {
        name: cells if isinstance(cells, list) else [{"name": "cpu", "nominalQuota": cells}]
        for name, cells in flavors.items()
    }
    covered = [row["name"] for row in next(iter(rows.values()))]
    flavor_rows = [{"name": name, "resources": cells} for name, cells in rows.items()]
    return [{"coveredResources": covered, "flavors": flavor_rows}]


def queue(name, **flavors):
    """Return a queue as somebody keeps it in git: without labels of the pool."""
    spec = {"namespaceSelector": {}, "queueingStrategy": "StrictFIFO"}
    return named(name, spec={**spec, "resourceGroups": groups(**flavors)})


def rendered(name, kind="ClusterQueue", **flavors):
    quotas = {"orchestratorRef": POOL, "resourceGroups": groups(**flavors) if flavors else []}
    labels = {"allocator.tenant": name} if kind == "ClusterQueue" else {"allocator.group": name}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name, "labels": {"allocator.pool": "lab", **labels}},
        "spec": {},
        "status": {"effectiveQuotas": quotas},
    }


def quotas_of(server, name, collection=QUEUES):
    """Return the effective quotas of an object by flavor and resource, None without any."""
    effective = server.objects[collection, "", name].get("status", {}).get("effectiveQuotas")
    return effective and {
        (flavor["name"], row["name"]): row["nominalQuota"]
        for group in effective["resourceGroups"]
        for flavor in group["flavors"]
        for row in flavor["resources"]
    }


def done(agent, *objects):
    """Return the problems of one round with a decision."""
    plan = agent.plan(decision(*objects), agent.observe(), NOW)
    said = [text for found in plan.problems.values() for text in found]
    return said + (agent.apply(plan) if len(plan) else [])


def owned(item, reference, **flavors):
    quotas = {"orchestratorRef": reference, "resourceGroups": groups(**flavors)}
    return {**item, "status": {"effectiveQuotas": quotas}}


def test_quotas_are_in_the_status_and_the_spec_is_as_it_was(server, agent):
    server.put(QUEUES, queue("a", big="4", small="1"))
    server.put(QUEUES, {**queue("b", big="0", small="6"), "status": {"pendingWorkloads": 3}})
    before = {name: copy.deepcopy(server.objects[QUEUES, "", name]) for name in ("a", "b")}
    objects = [rendered("a", big="2", small="3"), rendered("b", big="2", small="4")]
    plan = agent.plan(decision(*objects), agent.observe(), NOW)
    assert shown_plan(plan) == [
        "~ ClusterQueue a",
        "big cpu 4 -> 2",
        "small cpu 1 -> 3",
        "~ ClusterQueue b",
        "big cpu 0 -> 2",
        "small cpu 6 -> 4",
    ]
    assert agent.apply(plan) == []
    assert {(method, path.rpartition("/")[2]) for method, path, _ in server.writes} == {
        ("PATCH", "status")
    }
    assert quotas_of(server, "a") == {("big", "cpu"): "2", ("small", "cpu"): "3"}
    for name, former in before.items():
        now = server.objects[QUEUES, "", name]
        assert json.dumps(now["spec"]) == json.dumps(former["spec"])
        assert now["metadata"]["generation"] == former["metadata"]["generation"]
        assert set(now["metadata"]) == set(former["metadata"])  # no label, no annotation
        assert now["status"]["effectiveQuotas"]["orchestratorRef"] == POOL
    assert server.objects[QUEUES, "", "b"]["status"]["pendingWorkloads"] == 3
    server.writes.clear()
    assert done(agent, *objects) == []
    assert server.writes == []
    assert agent.applied(agent.observe(), fresh=True) == {"a": {"cpu": 5}, "b": {"cpu": 6}}


def test_the_list_is_complete_and_other_resources_and_limits_stay(server, agent):
    """Kueue obeys the list alone: what it lacks has no quota at all."""
    rows = [
        {"name": "cpu", "nominalQuota": 9, "borrowingLimit": "7", "lendingLimit": "5"},
        {"name": "pods", "nominalQuota": "50"},
    ]
    mine = queue("a", big=rows, spot=copy.deepcopy(rows))
    mine["spec"]["cohortName"] = "site"
    server.put(QUEUES, mine)
    assert done(agent, rendered("a", big="3")) == []
    written = server.objects[QUEUES, "", "a"]["status"]["effectiveQuotas"]["resourceGroups"]
    cpu = {"name": "cpu", "nominalQuota": "3", "borrowingLimit": "7", "lendingLimit": "3"}
    nothing = {"name": "cpu", "nominalQuota": "0", "borrowingLimit": "7", "lendingLimit": "0"}
    pods = {"name": "pods", "nominalQuota": "50"}
    assert written == [
        {
            "coveredResources": ["cpu", "pods"],
            "flavors": [
                {"name": "big", "resources": [cpu, pods]},
                {"name": "spot", "resources": [nothing, pods]},
            ],
        }
    ]
    assert done(agent, rendered("a", big="3")) == []


def test_cohorts_have_no_quota_of_their_own(server, agent):
    mine = named("labs", spec={"parentName": "site", "resourceGroups": groups(big="8")})
    server.put(COHORTS, mine)
    server.put(QUEUES, queue("a", big="1"))
    assert done(agent, rendered("labs", "Cohort"), rendered("a", big="3")) == []
    assert quotas_of(server, "labs", COHORTS) == {("big", "cpu"): "0"}
    # A cohort that is not there has nothing to override.
    assert done(agent, rendered("gone", "Cohort"), rendered("a", big="3")) == []


def test_a_flavor_that_the_spec_lacks_and_a_queue_that_is_not_there_are_reported(server, agent):
    server.put(QUEUES, queue("a", big="4"))
    told = done(agent, rendered("a", big="2", small="3"), rendered("b", big="1"))
    assert told == [
        "the spec of ClusterQueue a lacks flavors for 3 cpu of small",
        "there is no ClusterQueue b: create it, as the agent writes no spec",
    ]
    # Kueue stops a queue with a flavor that nobody made, so none is added.
    assert quotas_of(server, "a") == {("big", "cpu"): "2"}
    assert done(agent, rendered("a", big="2", small="0"), rendered("b", big="0")) == []


def test_a_queue_that_the_pool_no_longer_has_keeps_nothing(server, agent):
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    server.put(QUEUES, queue("b", big="0"))
    server.put(QUEUES, queue("stranger", big="5"))
    assert done(agent, rendered("b", big="4")) == []
    assert quotas_of(server, "a") == {("big", "cpu"): "0"}
    assert quotas_of(server, "b") == {("big", "cpu"): "4"}
    assert quotas_of(server, "stranger") is None


KUEUES = {"apiGroup": "kueue.x-k8s.io", "kind": "DynamicQuotaOrchestrator", "name": "site"}


@pytest.mark.parametrize(
    "reference", [KUEUES, {**POOL, "name": "other"}, {**POOL, "kind": "Pools"}]
)
def test_quotas_that_another_orchestrator_manages_are_left(server, agent, reference):
    server.put(QUEUES, owned(queue("a", big="4"), reference, big="1"))
    server.put(QUEUES, queue("b", big="1"))
    (told,) = done(agent, rendered("a", big="2"), rendered("b", big="2"))
    assert told == (
        f"the effective quotas of ClusterQueue a are managed by {reference['kind']}"
        f" {reference['apiGroup']}/{reference['name']}: it is left as it is"
    )
    assert (quotas_of(server, "a"), quotas_of(server, "b")) == (
        {("big", "cpu"): "1"},
        {("big", "cpu"): "2"},
    )


def test_an_api_server_that_drops_the_field_is_no_success(server, agent):
    server.schemas = kueue_schemas(effective=False)
    server.put(QUEUES, queue("a", big="1"))
    server.put(QUEUES, queue("b", big="1"))
    (told,) = done(agent, rendered("a", big="2"), rendered("b", big="2"))
    assert told.startswith(
        "the API server drops status.effectiveQuotas, so its Kueue lacks the field"
    )
    assert "DynamicQuotaOrchestration" in told
    assert len(server.writes) == 1
    assert agent.applied(agent.observe(), fresh=True) == {"a": {"cpu": 1}, "b": {"cpu": 1}}


@pytest.mark.parametrize("answer", ["old", "new"])
@pytest.mark.parametrize("liar", ["a", "b"])
def test_an_api_server_that_keeps_the_former_quotas_is_no_success(server, agent, answer, liar):
    """Where `a` is not lowered in truth, `b` must not be raised."""
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    server.put(QUEUES, owned(queue("b", big="0"), POOL, big="0"))
    server.lies[f"{QUEUES}/{liar}/status"] = answer
    (told,) = done(agent, rendered("a", big="1"), rendered("b", big="3"))
    assert told.startswith(f"ClusterQueue {liar}: ")
    assert quotas_of(server, "b")["big", "cpu"] in ("0", "0m")  # with a new version or without
    server.lies.clear()
    assert done(agent, rendered("a", big="1"), rendered("b", big="3")) == []
    assert quotas_of(server, "b") == {("big", "cpu"): "3"}


def test_a_refused_status_is_reported_and_nothing_is_raised(server, agent):
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    server.put(QUEUES, queue("b", big="0"))
    server.refuse[f"{QUEUES}/a/status"] = (403, "the agent may not")
    assert done(agent, rendered("a", big="1"), rendered("b", big="3")) == [
        "ClusterQueue a: Kubernetes refused (403 Forbidden): the agent may not"
    ]
    assert quotas_of(server, "b") is None


def test_conflicts_with_kueues_own_writes_are_retried(server, agent):
    server.put(QUEUES, queue("a", big="4"))

    def kueue_counts():
        item = copy.deepcopy(server.objects[QUEUES, "", "a"])
        item.setdefault("status", {})["pendingWorkloads"] = server.version
        server.put(QUEUES, item)

    server.before_put = [kueue_counts] * 9
    assert done(agent, rendered("a", big="2")) == []
    assert quotas_of(server, "a") == {("big", "cpu"): "2"}
    assert server.objects[QUEUES, "", "a"]["status"]["pendingWorkloads"] > 0
    server.before_put = [kueue_counts] * 30
    (told,) = done(agent, rendered("a", big="3"))
    assert told == "ClusterQueue a: it was changed by others 12 times in a row"
    assert quotas_of(server, "a") == {("big", "cpu"): "2"}


def test_what_another_agent_raised_meanwhile_is_not_raised_upon(server, agent):
    """Two agents of a pool: one knows a later decision, in which `c` has what `b` had."""
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    for name in ("b", "c"):
        server.put(QUEUES, owned(queue(name, big="0"), POOL, big="0"))

    def other_agent_raises():
        server.put(QUEUES, owned(queue("c", big="0"), POOL, big="4"))

    stale = [rendered("a", big="0"), rendered("b", big="4"), rendered("c", big="0")]
    server.before_put = [other_agent_raises]
    told = done(agent, *stale)
    assert told == ["ClusterQueue c: written meanwhile, it has big cpu 4000m"]
    assert quotas_of(server, "b") == {("big", "cpu"): "0m"}


def test_what_another_agent_lowered_meanwhile_is_not_raised_by_lowering(server, agent):
    server.put(QUEUES, owned(queue("a", big="4", small="4"), POOL, big="4", small="4"))

    def other_agent_lowers():
        server.put(QUEUES, owned(queue("a", big="4", small="4"), POOL, big="1", small="1"))

    server.before_put = [other_agent_lowers]
    server.refuse.clear()
    plan = agent.plan(decision(rendered("a", big="2", small="4")), agent.observe(), NOW)
    written = []
    server.after_put.append(lambda: written.append(quotas_of(server, "a")))
    agent.apply(plan)
    assert written[:2] == [
        {("big", "cpu"): "1", ("small", "cpu"): "1"},
        {("big", "cpu"): "2", ("small", "cpu"): "4"},
    ]


def test_an_api_server_that_ends_between_lowering_and_raising_leaves_less(server, agent, tmp_path):
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    server.put(QUEUES, owned(queue("b", big="0"), POOL, big="0"))
    objects = [rendered("a", big="1"), rendered("b", big="3")]
    plan = agent.plan(decision(*objects), agent.observe(), NOW)
    ended = threading.Event()

    def end_once():
        if not ended.is_set():
            ended.set()
            threading.Thread(target=server.restart, kwargs={"seconds": 0.2}).start()

    server.after_put.append(end_once)
    with pytest.raises(SchedulerAway):
        _apply_for_ever(agent, plan)
    assert quotas_of(server, "b") in ({("big", "cpu"): "0"}, {("big", "cpu"): "3"})
    assert quotas_of(server, "a") == {("big", "cpu"): "1"}
    until(lambda: _answers(agent))
    assert done(agent, *objects) == []
    assert quotas_of(server, "b") == {("big", "cpu"): "3"}


def test_a_write_that_a_frozen_api_server_carries_out_late_undoes_nothing(server, agent, tmp_path):
    """The next round decided anew meanwhile. The late write has the version before it."""
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    server.put(QUEUES, owned(queue("b", big="0"), POOL, big="0"))
    settings = configuration(server, tmp_path)
    impatient = EffectiveKueue(settings, Api(settings.kubernetes, timeout=0.5))
    thawed, tried = threading.Event(), threading.Event()

    def freeze():
        thawed.wait(30)
        tried.set()

    plan = impatient.plan(
        decision(rendered("a", big="1"), rendered("b", big="3")), impatient.observe(), NOW
    )
    server.before_put = [freeze]
    with pytest.raises(SchedulerAway, match="does not answer"):
        impatient.apply(plan)
    assert quotas_of(server, "b") == {("big", "cpu"): "0"}  # nothing is raised for it
    assert done(agent, rendered("a", big="2"), rendered("b", big="2")) == []
    writes = len(server.writes)
    thawed.set()
    assert tried.wait(30)
    time.sleep(0.3)
    assert len(server.writes) == writes
    assert [quotas_of(server, name) for name in "ab"] == [{("big", "cpu"): "2"}] * 2


def _apply_for_ever(agent, plan):
    while True:
        agent.apply(plan)


def _answers(agent):
    try:
        agent.observe()
    except SchedulerAway:
        return False
    return True


def test_a_service_that_renders_no_effective_quotas_changes_nothing(server, agent):
    """Otherwise every queue would seem to be one that the pool no longer has."""
    server.put(QUEUES, owned(queue("a", big="4"), POOL, big="4"))
    older = rendered("a", big="4")
    older["status"] = {"effectiveQuota": older["status"].pop("effectiveQuotas")}
    with pytest.raises(AgentError, match="upgrade the service"):
        done(agent, older)
    assert server.writes == []


@pytest.mark.parametrize("name", ["1e3", "08", "y", "null", "true", "0x1f"])
def test_names_like_numbers_are_names(server, agent, name):
    server.put(
        QUEUES, owned(queue(name, **{name: "4", "1000": "1"}), POOL, **{"1000": "4", name: "1"})
    )
    assert done(agent, rendered(name, **{name: "2", "1000": "3"})) == []
    assert quotas_of(server, name) == {(name, "cpu"): "2", ("1000", "cpu"): "3"}


def test_the_option_is_for_kueue_alone(server, tmp_path, monkeypatch):
    monkeypatch.setenv("ALLOCATOR_KEY", "k")
    file = tmp_path / "agent.ini"
    text = (
        "[service]\nurl = http://s\npool = lab\n[agent]\nname = x\nscheduler = {}\n[kubernetes]\n"
    )
    file.write_text(text.format("kueue") + "quotas = effective\n")
    assert read_configuration(file).quota == "effective"
    file.write_text(text.format("kueue"))
    assert read_configuration(file).quota == "hard"
    file.write_text(text.format("kubernetes") + "quotas = effective\n")
    with pytest.raises(Misconfigured, match="needs \\[agent\\] scheduler = kueue"):
        read_configuration(file)
    file.write_text(text.format("kueue") + "quotas = status\n")
    with pytest.raises(Misconfigured, match="quotas is one of spec, effective"):
        read_configuration(file)


def test_a_changed_node_wakes_the_agent_and_a_heartbeat_does_not(server, agent):
    def node(name, cpu, beat):
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]
        status = {"conditions": conditions, "allocatable": {"cpu": cpu}}
        server.put(NODES, named(name, status=status))

    node("n1", "4", "1")
    node("n2", "4", "1")
    stopped, woken = threading.Event(), threading.Event()
    agent.follow(stopped, woken)
    until(lambda: server.watches(NODES) == 1)
    node("n1", "4", "2")
    assert not woken.wait(0.3)
    node("n1", "3", "3")
    assert woken.wait(2)
    woken.clear()
    server.delete(NODES, "", "n2")
    assert woken.wait(2)
    woken.clear()
    server.restart()
    server.delete(NODES, "", "n1")  # while nothing is watched: the next list shows it
    assert woken.wait(5)
    stopped.set()
