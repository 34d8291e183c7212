"""A small Kubernetes with Kueue whose queues are kept in git, and an agent beside it."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from allocator_agent.kubernetes.effective import in_force
from allocator_agent.kubernetes.quotas import limits_of
from launcher.client import Client
from launcher.folders import PROJECT
from launcher.processes import Process, start
from tests.live.service import LiveService
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.kueue_crds import kueue_schemas

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
NODES, NAMESPACES = "/api/v1/nodes", "/api/v1/namespaces"
LABEL = "partition"
MEMORY_OF_CPU = 2**30
Cell = tuple[str, ...]  # flavor and resource


class Site:
    """The cluster; every change of a queue is checked against the capacity of the nodes."""

    def __init__(self) -> None:
        self.server = KubernetesServer()
        self.server.schemas = kueue_schemas()
        self.capacity: Counter[Cell] = Counter()
        self.sums = 0  # so many were checked
        self.excess: list[str] = []
        self.server.after_put.append(self._check)

    def add_node(self, name: str, flavor: str, cpus: int) -> None:
        ready = [{"type": "Ready", "status": "True"}]
        offered = {"cpu": str(cpus), "memory": str(2 * cpus * MEMORY_OF_CPU)}
        self.capacity[flavor, "cpu"] += cpus
        self.capacity[flavor, "memory"] += 2 * cpus * MEMORY_OF_CPU
        metadata = {"name": name, "labels": {LABEL: flavor}}
        status = {"conditions": ready, "allocatable": offered}
        self.server.put(NODES, {"metadata": metadata, "status": status})

    def add_queue(self, name: str, quotas: Mapping[str, int], cohort: str = "") -> None:
        """Add a namespace and its queue as git has it: CPUs by flavor, with memory in proportion."""
        flavors = [
            {
                "name": flavor,
                "resources": [
                    {"name": "cpu", "nominalQuota": cpus},
                    {"name": "memory", "nominalQuota": f"{2 * cpus}Gi"},
                    {"name": "pods", "nominalQuota": "110"},
                ],
            }
            for flavor, cpus in quotas.items()
        ]
        groups = [{"coveredResources": ["cpu", "memory", "pods"], "flavors": flavors}]
        spec = {
            "namespaceSelector": {"matchLabels": {"team": name}},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": groups,
        }
        self.server.put(NAMESPACES, {"metadata": {"name": name}})
        metadata = {"name": name, "annotations": {"from": "git"}}
        self.server.put(QUEUES, {"metadata": metadata, "spec": spec})

    def ask(self, namespace: str, tasks: int) -> None:
        """Let a namespace want so many workloads of one pod of one CPU, on nodes of any flavor."""
        requests = {"cpu": "1", "memory": "1Gi"}
        template = {"spec": {"containers": [{"resources": {"requests": requests}}]}}
        pod_set = {"name": "main", "count": 1, "template": template}
        names = {f"job-{number}" for number in range(tasks)}
        present = {key[2] for key in [*self.server.objects] if key[:2] == (WORKLOADS, namespace)}
        for name in sorted(names - present):
            metadata = {"name": name, "namespace": namespace}
            self.server.put(WORKLOADS, {"metadata": metadata, "spec": {"podSets": [pod_set]}})
        for name in sorted(present - names):
            self.server.delete(WORKLOADS, namespace, name)

    def quotas(self) -> dict[str, dict[Cell, Fraction]]:
        """Return what Kueue obeys, by queue."""
        return {
            name: dict(limits_of(in_force(item, "ClusterQueue")))
            for (collection, _, name), item in [*self.server.objects.items()]
            if collection == QUEUES
        }

    def cpus(self) -> dict[str, int]:
        """Return the CPUs of all flavors that Kueue admits, by queue."""
        return {
            name: int(sum(amount for cell, amount in cells.items() if cell[1] == "cpu"))
            for name, cells in self.quotas().items()
        }

    def is_orchestrated(self) -> bool:
        """Return whether every queue has effective quotas."""
        return all(
            "effectiveQuotas" in item.get("status", {})
            for (collection, _, _), item in [*self.server.objects.items()]
            if collection == QUEUES
        )

    def in_git(self) -> str:
        """Return all of the queues that a GitOps tool compares, byte for byte."""
        kept = ("annotations", "labels", "generation", "name")
        return json.dumps(
            [
                [{key: item["metadata"].get(key) for key in kept}, item["spec"]]
                for (collection, _, _), item in sorted(self.server.objects.items())
                if collection == QUEUES
            ]
        )

    def _check(self) -> None:
        total: Counter[Cell] = Counter()
        for cells in self.quotas().values():
            for cell, amount in cells.items():
                if cell[1] != "pods":
                    total[cell] += amount  # type: ignore[assignment]
        self.sums += 1
        self.excess += [
            f"{cell}: {amount} of {self.capacity[cell]}"
            for cell, amount in total.items()
            if amount > self.capacity[cell]
        ]


class KueueAgent:
    """The agent of a pool as a process."""

    def __init__(
        self, folder: Path, site: Site, service: LiveService, pool: str, *, cluster: str = ""
    ) -> None:
        self.log = folder / f"{pool}.log"
        self.kills = 0
        token = folder / "token"
        token.write_text(site.server.TOKEN)
        self._file = folder / f"{pool}.ini"
        self._file.write_text(
            f"[service]\nurl = {service.url}\npool = {pool}\n"
            "[agent]\nname = kueue\nscheduler = kueue\nregister_tenants = yes\ndecision_wait = 20\n"
            f"[kubernetes]\napi = {site.server.url}\ntoken_file = {token}\nquotas = effective\n"
        )
        key = service.manage(
            *("apikey", "create", "--scope", "agent", "--pool", pool),
            *(("--cluster", cluster) if cluster else ()),
            *("--name", f"kueue-agent-of-{pool}"),
        )
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT / "agent"),
            "ALLOCATOR_KEY": key,
        }

    def start(self, every: str) -> Process:
        """Start the process with an interval."""
        self._every = every
        with self.log.open("ab") as output:
            self.process = start(
                [sys.executable, "-m", "allocator_agent", "--config", self._file, "--every", every],
                env=self._environment,
                output=output,
            )
        return self.process

    def revive(self) -> None:
        """Start the process again if it was killed."""
        if self.process.poll() is not None:
            self.kills += 1
            self.start(self._every)

    def kill(self) -> None:
        self.process.kill()


def pool_for(operator: Client, slug: str, weights: Mapping[str, int]) -> None:
    """Make a pool of whole tasks with tenants of such weights."""
    operator.post(
        "/api/v1/pools/",
        {
            "slug": slug,
            "name": slug,
            "resources": [{"name": "cpu", "unit": "CPU"}, {"name": "memory", "unit": "GiB"}],
            "policy": {"name": "drfh", "mode": "indivisible"},
            "weights": "explicit",
        },
    )
    for tenant, weight in weights.items():
        answer = operator.request("POST", "/api/v1/tenants/", {"slug": tenant, "name": tenant})
        assert answer.status in (201, 409), answer
        path = f"/api/v1/pools/{slug}/members/{tenant}/"
        assert operator.request("PUT", path, {"weight": weight}).status < 400


def wanted_tasks(operator: Client, pool: str) -> dict[str, int]:
    """Return the tasks of the workloads that the service has, by tenant that has any.

    The agent's report may be of jobs that came after what it imported in the same round.
    """
    rows: list[dict[str, Any]] = operator.get(f"/api/v1/pools/{pool}/workloads/").body["results"]
    tasks: Counter[str] = Counter()
    for row in rows:
        tasks[row["tenant"]] += row["tasks"] or 0
    return dict(+tasks)


def until(holds: Any, *, seconds: float) -> float:
    """Wait until a function returns something true; return the seconds that it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"not within {seconds:g} s"
        time.sleep(0.02)
    return time.monotonic() - began
