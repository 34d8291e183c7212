"""Writes without an answer, which a frozen API server carries out after later rounds."""

import threading
from dataclasses import replace
from fractions import Fraction

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.errors import SchedulerAway
from allocator_agent.kubernetes.api import Api
from allocator_agent.kubernetes.effective import in_force
from allocator_agent.kubernetes.orchestrating import EffectiveKueue
from allocator_agent.kubernetes.quotas import limits_of
from allocator_agent.kubernetes.scheduler import Kubernetes
from tests.unit.agent import test_effective, test_kubernetes
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.kueue_crds import kueue_schemas
from tests.unit.agent.test_kubernetes import NOW, QUEUES, QUOTAS, decision, named, options, until

CAPACITY = 8
KINDS = ("effective", "kueue", "kubernetes")


class Cluster:
    """Two tenants of eight CPUs; every change of a quota is checked against the capacity."""

    def __init__(self, kind, folder):
        self.kind, self.folder, self.server = kind, folder, KubernetesServer()
        if kind == "effective":
            self.server.schemas = kueue_schemas()
        self.collection = QUOTAS if kind == "kubernetes" else QUEUES
        self.excess = []
        self.thawed = threading.Event()
        self.late = threading.Event()
        for name in ("a", "b"):
            self.server.put("/api/v1/namespaces", named(name))
        self.server.after_put.append(self._check)

    def agent(self):
        """Return an agent that waits half a second for an answer."""
        quotas = "effective" if self.kind == "effective" else "spec"
        configuration = Configuration(
            url="http://localhost", pool="lab", key="", name="agent",
            scheduler="kubernetes" if self.kind == "kubernetes" else "kueue",
            kubernetes=replace(options(self.server, self.folder), quotas=quotas),
        )  # fmt: skip
        of_kind = EffectiveKueue if self.kind == "effective" else Kubernetes
        return of_kind(configuration, Api(configuration.kubernetes, timeout=0.5))

    def set(self, a, b):
        """Let the tenants have quotas before the first round."""
        for name, cpus in (("b", b), ("a", a)):
            if self.kind == "effective":
                quotas = test_effective.queue(name, big=str(cpus))
            elif self.kind == "kueue":
                quotas = test_kubernetes.queue(name, big=str(cpus))
            else:
                quotas = test_kubernetes.quota(name, str(cpus))
            self.server.put(self.collection, quotas)

    def round(self, agent, a, b):
        """Run a round with a decision; return its problems."""
        objects = {
            "effective": lambda name, cpus: test_effective.rendered(name, big=str(cpus)),
            "kueue": lambda name, cpus: test_kubernetes.queue(name, big=str(cpus)),
            "kubernetes": lambda name, cpus: test_kubernetes.quota(name, str(cpus)),
        }[self.kind]
        plan = agent.plan(decision(objects("a", a), objects("b", b)), agent.observe(), NOW)
        return agent.apply(plan) if len(plan) else []

    def freeze(self, number, *, method="PUT"):
        """Freeze the server within a write, after so many; it is carried out once thawed."""

        def hold():
            self.thawed.wait(20)
            self.late.set()

        before = self.server.before_post if method == "POST" else self.server.before_put
        before += [*[lambda: None] * number, hold]

    def thaw(self):
        writes = len(self.server.answers)
        self.thawed.set()
        assert self.late.wait(5)
        until(lambda: len(self.server.answers) > writes)

    def cpus(self):
        """Return the CPUs in force by tenant."""
        found = {}
        for (collection, namespace, name), item in [*self.server.objects.items()]:
            if collection == self.collection:
                of_item = in_force(item, "ClusterQueue") if self.kind == "effective" else item
                found[namespace or name] = sum(
                    (amount for place, amount in limits_of(of_item).items() if "cpu" in place[-1]),
                    Fraction(0),
                )
        return found

    def _check(self):
        if sum(self.cpus().values()) > CAPACITY:
            self.excess.append(self.cpus())


@pytest.fixture(params=KINDS)
def cluster(request, tmp_path):
    running = Cluster(request.param, tmp_path)
    yield running
    running.thawed.set()
    running.server.stop()


def frozen_raise(cluster):
    """Return the agent whose raise of `a` from 2 to 6 is frozen, `b` being lowered to 2 by then."""
    cluster.set(2, 6)
    agent = cluster.agent()
    assert cluster.round(agent, 3, 5) == []
    assert cluster.round(agent, 2, 6) == []
    cluster.freeze(1)  # the first write lowers b
    with pytest.raises(SchedulerAway):
        cluster.round(agent, 6, 2)
    assert cluster.cpus() == {"a": 2, "b": 2}
    return agent


@pytest.mark.parametrize("restarted", [False, True])
def test_a_raise_is_not_carried_out_after_a_later_round(cluster, restarted):
    """The later decision changes nothing of `a`, so that no write of it has a newer version."""
    agent = frozen_raise(cluster)
    if restarted:
        agent = cluster.agent()
    assert cluster.round(agent, 2, 6) == []
    assert cluster.cpus() == {"a": 2, "b": 6}
    cluster.thaw()
    assert cluster.server.answers[-1] == 409
    assert cluster.cpus() == {"a": 2, "b": 6}
    assert cluster.excess == []
    assert cluster.round(agent, 6, 2) == []
    assert cluster.cpus() == {"a": 6, "b": 2}
    assert cluster.excess == []


def test_a_raise_that_is_carried_out_between_a_plan_and_its_writes_raises_nothing(cluster):
    agent = frozen_raise(cluster)
    fence = agent._fence

    def thaw_first(plan):
        if not cluster.thawed.is_set():
            cluster.thaw()
        return fence(plan)

    agent._fence = thaw_first
    (problem,) = cluster.round(agent, 2, 6)
    assert problem.partition(": ")[2].startswith("written meanwhile, it has ")
    assert cluster.cpus() == {"a": 6, "b": 2}
    assert cluster.round(agent, 2, 6) == []
    assert cluster.cpus() == {"a": 2, "b": 6}
    assert cluster.excess == []


def test_a_fence_without_an_answer_raises_nothing(cluster):
    agent = frozen_raise(cluster)
    cluster.freeze(0)
    with pytest.raises(SchedulerAway):
        cluster.round(agent, 2, 6)
    assert cluster.cpus() == {"a": 2, "b": 2}
    cluster.thaw()
    until(lambda: sum(status in (200, 409) for status in cluster.server.answers[-2:]) == 2)
    cluster.round(agent, 2, 6)
    cluster.round(agent, 2, 6)
    assert cluster.cpus() == {"a": 2, "b": 6}
    assert cluster.excess == []


@pytest.mark.parametrize("cluster", ["kueue"], indirect=True)
def test_a_queue_is_created_without_quota(cluster):
    """A POST names no version: if it is carried out later, it must not raise anything."""
    agent = cluster.agent()
    cluster.freeze(0, method="POST")
    with pytest.raises(SchedulerAway):
        cluster.round(agent, 6, 2)
    objects = decision(test_kubernetes.queue("b", big="8"))
    plan = agent.plan(objects, agent.observe(), NOW)
    assert agent.apply(plan) == []
    cluster.thaw()
    assert cluster.cpus() == {"a": 0, "b": 8}
    assert cluster.excess == []
