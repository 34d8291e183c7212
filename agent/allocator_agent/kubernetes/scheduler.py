"""Kubernetes as the agent's scheduler, with resource quotas of namespaces or Kueue's queues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from allocator_agent.changes import REMOVE, ObjectChange
from allocator_agent.configuration import Configuration
from allocator_agent.errors import Misconfigured
from allocator_agent.kubernetes import reading
from allocator_agent.kubernetes.api import Absent, Api, ApiRefused, Conflict, Manifest
from allocator_agent.kubernetes.objects import Objects
from allocator_agent.kubernetes.quotas import (
    COHORTS,
    Change,
    amounts_of,
    cohort_of_rendering,
    differs,
    kind_of,
    merged,
    with_limits,
)
from allocator_agent.kubernetes.requeueing import (
    ResumedWorkload,
    above_quota,
    queue_of,
    queues_by_tenant,
    requeue_patch,
)
from allocator_agent.kubernetes.watching import Changed
from allocator_agent.model import Job, Observation, Rendering, Usage, Waiting
from allocator_agent.quantities import Amounts, added
from allocator_agent.reclaim import Memory, ReclaimPlan, by_account, plan_reclaim

NODES, PODS, NAMESPACES = "/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces"
JOBS, REPLICA_SETS = "/apis/batch/v1/jobs", "/apis/apps/v1/replicasets"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"
QUOTAS = {
    "kubernetes": "/api/v1/resourcequotas",
    "kueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
}


@dataclass(frozen=True)
class KubernetesPlan:
    """The objects to create or to change, the cohorts to remove, and the workloads that end.

    `known` are the present objects with quotas of the decision by path, with the quotas in force.
    `resumed` are workloads that ended by an earlier plan, and queue again.
    """

    changes: list[Change] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)
    removed: list[Manifest] = field(default_factory=list)
    known: dict[str, Manifest] = field(default_factory=dict)
    reclaim: ReclaimPlan = field(default_factory=ReclaimPlan)
    resumed: list[ResumedWorkload] = field(default_factory=list)

    @property
    def waiting(self) -> dict[str, list[Waiting]]:
        """An empty mapping, because Kueue admits by quota and holds no nodes."""
        return {}

    def __len__(self) -> int:
        return len(self.changes) + len(self.removed) + len(self.reclaim) + len(self.resumed)

    def shown(self) -> list[ObjectChange]:
        """Return what has to change, as plans show it."""
        gone = (f"Cohort {each['metadata']['name']}" for each in self.removed)
        return [
            *(change.shown() for change in self.changes),
            *(ObjectChange(REMOVE, name) for name in gone),
            *self.reclaim.shown(),
            *(each.shown() for each in self.resumed),
        ]


class Kubernetes(Objects):
    """A cluster of Kubernetes, by its API."""

    def __init__(self, configuration: Configuration, api: Api) -> None:
        self.target, self.memory = configuration.scheduler, Memory()
        if configuration.reclaim != "none" and self.target != "kueue":
            raise Misconfigured(
                "[agent] reclaim = none: nothing would start pods again that are stopped here"
            )
        super().__init__(api)
        self._configuration, self._options = configuration, configuration.kubernetes
        demand = (WORKLOADS,) if self.target == "kueue" else (JOBS, REPLICA_SETS)
        for path in (NODES, PODS, NAMESPACES, *demand, QUOTAS[self.target]):
            self._objects_at(path)

    @property
    def source(self) -> str:
        """The source of use reports, which is the agent's name because identities of pods are unique."""
        return self._configuration.name

    def follow(self, stopped: threading.Event, woken: threading.Event) -> None:
        """Watch from now on, so that a round lists nothing. A node that changes sets `woken`."""
        self._watched[NODES].changed = _on_nodes(woken)
        self._watch(stopped)

    def observe(self) -> Observation:
        """Return nodes, waiting and running jobs, and namespaces. Raises `SchedulerAway`."""
        label = self._options.class_label
        problems: list[str] = []
        jobs: list[Job] = []
        if self.target == "kueue":
            jobs += reading.read_workloads(self._objects(WORKLOADS), class_label=label)
        else:
            jobs += reading.read_pods(self._objects(PODS), class_label=label)
            for path in (JOBS, REPLICA_SETS):
                jobs += reading.read_missing_pods(self._objects(path), class_label=label)
        return Observation(
            list(reading.read_nodes(self._objects(NODES), owner_label=self._options.owner_label)),
            jobs,
            frozenset(
                item["metadata"]["name"]
                for item in self._objects(NAMESPACES)
                if not self._is_its_own(item["metadata"]["name"])
            ),
            problems,
        )

    def finished(self, hours: float, now: datetime) -> Sequence[Usage]:
        """Return the pods that ended within so many hours and are still listed."""
        since = (now.astimezone(timezone.utc) - timedelta(hours=hours)).isoformat()[:19]
        return [usage for usage in reading.read_usage(self._objects(PODS)) if usage.end >= since]

    def plan(
        self,
        rendering: Rendering,
        observed: Observation,
        now: datetime,
    ) -> KubernetesPlan:
        """Plan the changes of the objects that differ from the decision."""
        plan = self._planned(rendering, observed, self._objects)
        # What the watch knows may be older than this agent's own last writes.
        plan = self._planned(rendering, observed, self.listed) if len(plan) else plan
        return self._with_ends(plan, rendering, observed, now)

    def _planned(
        self,
        rendering: Rendering,
        observed: Observation,
        read: Callable[[str], Iterable[Manifest]],
    ) -> KubernetesPlan:
        namespaces = self._configuration.by_tenant(observed.accounts)
        plan = KubernetesPlan()
        present: dict[str, dict[tuple[str, str], Manifest]] = {}
        for item in rendering.objects:
            kind = kind_of(item)
            if kind is None:
                text = f"{item['kind']} is not written by this agent"
                plan.problems.setdefault("", []).append(text)
                continue
            manifest = item
            if kind.namespaced:
                tenant = item["metadata"]["namespace"]
                if tenant not in namespaces:
                    plan.problems.setdefault(tenant, []).append("there is no namespace for it")
                    continue
                manifest = {
                    **item,
                    "metadata": {**item["metadata"], "namespace": namespaces[tenant]},
                }
            path = kind.path()
            if path not in present:
                present[path] = {_identity(each): each for each in read(path)}
            before = present[path].get(_identity(manifest))
            if before is not None and item["kind"] != "ResourceFlavor":
                plan.known[kind.path(manifest)] = {**before, "kind": item["kind"]}
            if before is None or differs(before, manifest):
                plan.changes.append(Change(kind, manifest, before))
        if self.target == "kueue":
            plan.removed.extend(self._former_cohorts(rendering.objects, read))
        return plan

    def _with_ends(
        self,
        plan: KubernetesPlan,
        rendering: Rendering,
        observed: Observation,
        now: datetime,
    ) -> KubernetesPlan:
        """Return a plan with the workloads that end, and those that queue again."""
        if self.target != "kueue":
            return plan
        resumed = [
            ResumedWorkload(item)
            for item in self._objects(WORKLOADS)
            if ResumedWorkload.may_be(item)
        ]
        if self._configuration.reclaim == "none":
            return replace(plan, resumed=resumed)
        namespaces = self._configuration.by_tenant(observed.accounts)
        rendered = queues_by_tenant(rendering.objects)
        rows = {
            namespaces[row["tenant"]]: row
            for row in rendering.tenants
            if row["tenant"] in namespaces and row["tenant"] in rendered
        }
        of = {namespace: rendered[row["tenant"]] for namespace, row in rows.items()}
        admitted_by = {_key(item): queue_of(item) for item in self._objects(WORKLOADS)}
        # What another queue of the namespace admitted is not in the decision.
        jobs = [
            job
            for job in observed.jobs
            if job.account in of and admitted_by.get(job.whole, "") in ("", of[job.account].name)
        ]
        seconds = int(now.timestamp())
        chosen = [
            each
            for namespace, mine in by_account(jobs).items()
            for each in above_quota(
                mine,
                of[namespace],
                terms=rendering.terms,
                noticed=self.memory.notices,
                now=seconds,
            )
        ]
        ends = plan_reclaim(
            chosen,
            jobs=jobs,
            limits={namespace: queue.total for namespace, queue in of.items()},
            ranks={namespace: row.get("reclaim_rank", 0) for namespace, row in rows.items()},
            terms=rendering.terms,
            memory=self.memory,
            now=seconds,
        )
        return replace(plan, reclaim=ends, resumed=resumed)

    def apply(self, plan: KubernetesPlan) -> list[str]:
        """Lower the amounts that fall, then write the rest. Return what was refused."""
        problems: list[str] = []
        for change in plan.changes:
            if change.lowers and change.before is not None:
                problems += self._tried(change, with_limits(change.before, change.lowered()))
        problems = problems or self._fence(plan)
        if problems:  # what could not be lowered leaves no room for others
            return problems + self._requeued(plan, ends=False)
        for change in plan.changes:
            problems += self._tried(change, change.after)
        if not problems:  # a queue that could not leave its cohort keeps it
            for cohort in plan.removed:
                problems += self._removed(cohort)
        return problems + self._requeued(plan)

    def _fence(self, plan: KubernetesPlan) -> list[str]:
        """Let no earlier write be carried out before quotas are raised. Return problems."""
        raises = any(change.raises for change in plan.changes)
        return self._fence_unanswered(plan.known) if raises else []

    def _requeued(self, plan: KubernetesPlan, *, ends: bool = True) -> list[str]:
        """End workloads, and let those queue again that have ended. Return what was refused.

        Quotas are lowered by then, or Kueue would admit the same workload again. Without `ends` none
        ends.
        """
        if not ends:
            plan.reclaim.refused.update(victim.key for victim in plan.reclaim.ended)
        patches = [each.patch() for each in plan.resumed]
        if plan.reclaim.ended and ends:
            ended = {victim.key for victim in plan.reclaim.ended}
            patches += [
                requeue_patch(item) for item in self._objects(WORKLOADS) if _key(item) in ended
            ]
        problems = []
        for namespace, name, body in patches:
            path = WORKLOADS.replace("workloads", f"namespaces/{namespace}/workloads/{name}")
            try:
                self._api.request("PATCH", path, body)
            except (Absent, Conflict):
                # Gone, or changed by others: the next round reads it again.
                plan.reclaim.refused.add(f"{namespace}/{name}")
            except ApiRefused as refusal:
                problems.append(f"Workload {namespace}/{name}: {refusal}")
                plan.reclaim.refused.add(f"{namespace}/{name}")
        return problems

    def applied(self, observed: Observation, *, fresh: bool) -> dict[str, Amounts]:
        """Return the quotas in force, by namespace."""
        if fresh:
            self._watched[QUOTAS[self.target]].list()
        totals: dict[str, Amounts] = {}
        for item in self._objects(QUOTAS[self.target]):
            metadata = item["metadata"]
            name = metadata.get("namespace") or metadata["name"]
            if name in observed.accounts and "allocator.pool" in (metadata.get("labels") or {}):
                totals[name] = added(totals.get(name, {}), amounts_of(item))
        return totals

    def _former_cohorts(
        self, rendered: Sequence[Manifest], read: Callable[[str], Iterable[Manifest]]
    ) -> list[Manifest]:
        """Return the cohorts of groups that the pool no longer has, except for those that others use."""
        required = {
            kind: {each["metadata"]["name"]: each for each in rendered if each["kind"] == kind}
            for kind in ("Cohort", "ClusterQueue")
        }
        queues = list(read(QUOTAS["kueue"]))
        in_tree = any(cohort_of_rendering(queue) for queue in queues)
        # In a flat pool an agent may lack the permission to list cohorts.
        if not (required["Cohort"] or in_tree):
            return []
        cohorts = {each["metadata"]["name"]: each for each in read(COHORTS.path())}
        former = {
            name: each
            for name, each in cohorts.items()
            if name not in required["Cohort"] and self._is_of_a_group(each)
        }
        used = {
            each.get("spec", {}).get("parentName")
            for name, each in cohorts.items()
            if name not in former and name not in required["Cohort"]
        }
        for queue in queues:
            decided = required["ClusterQueue"].get(queue["metadata"]["name"])
            after = queue if decided is None else merged(queue, decided)
            used.add(after.get("spec", {}).get("cohortName"))
        return [each for name, each in former.items() if name not in used]

    def _is_of_a_group(self, cohort: Manifest) -> bool:
        labels = cohort["metadata"].get("labels") or {}
        return (
            labels.get("allocator.pool") == self._configuration.pool and "allocator.group" in labels
        )

    def _removed(self, cohort: Manifest) -> list[str]:
        """Delete a cohort at the version that was read. Return what was refused."""
        version = cohort["metadata"]["resourceVersion"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": version},
        }
        try:
            self._api.request("DELETE", COHORTS.path(cohort), options)
        except (Absent, Conflict):
            return []  # gone, or changed by others: the next round reads it again
        except ApiRefused as refusal:
            return [f"Cohort {cohort['metadata']['name']}: {refusal}"]
        return []

    def _is_its_own(self, namespace: str) -> bool:
        """Return whether a namespace is Kubernetes' own and not mapped to a tenant."""
        known = namespace in self._configuration.accounts
        return not known and (namespace == "default" or namespace.startswith("kube-"))


def _key(workload: Manifest) -> str:
    return f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"


def _identity(item: Mapping[str, Manifest]) -> tuple[str, str]:
    return (item["metadata"].get("namespace", ""), item["metadata"]["name"])


def _on_nodes(woken: threading.Event) -> Changed:
    """Return a function that sets an event if nodes come, go, or offer other amounts than before."""

    def compare(before: Sequence[Manifest], after: Sequence[Manifest]) -> None:
        former, present = (
            list(reading.read_nodes(each, owner_label="")) for each in (before, after)
        )
        if former != present:  # and not the heartbeat of a node
            woken.set()

    return compare
