"""Kueue's workloads that end and queue again. Pure.

Kueue evicts a workload whose `spec.active` is false, and admits no such workload. Once it has released
its quota, it is active again and queues as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from allocator_agent.changes import CHANGE, ObjectChange
from allocator_agent.kubernetes.api import Manifest
from allocator_agent.kubernetes.effective import in_force
from allocator_agent.kubernetes.quotas import amounts_by_flavor
from allocator_agent.kubernetes.reading import REQUEUED
from allocator_agent.model import Job, Terms
from allocator_agent.quantities import Amounts
from allocator_agent.reclaim import Jobs, to_stop

Patch = tuple[str, str, dict[str, Any]]  # namespace, name, merge patch


@dataclass(frozen=True)
class ResumedWorkload:
    """A workload that the agent ended, and that holds no quota any more."""

    item: Manifest

    @staticmethod
    def may_be(item: Mapping[str, Any]) -> bool:
        """Return true for a workload that the agent ended and that has released its quota."""
        if REQUEUED not in (item["metadata"].get("annotations") or {}):
            return False
        conditions = (item.get("status") or {}).get("conditions") or []
        holding = ("QuotaReserved", "Admitted")
        is_active = (item.get("spec") or {}).get("active") is not False
        return is_active or not any(
            each.get("type") in holding and each.get("status") == "True" for each in conditions
        )

    def shown(self) -> ObjectChange:
        """Return the change as a plan shows it."""
        metadata = self.item["metadata"]
        name = f"workload {metadata['namespace']}/{metadata['name']}"
        return ObjectChange(CHANGE, name, notes=("active again after it was requeued",))

    def patch(self) -> Patch:
        """Return the patch that lets it queue."""
        return _patch(self.item, active=True, mark=None)


def requeue_patch(item: Manifest) -> Patch:
    """Return the patch that ends a workload."""
    return _patch(item, active=False, mark="true")


@dataclass(frozen=True)
class Queue:
    """The quota of a tenant's queue by flavor and resource."""

    name: str
    quota: Mapping[tuple[str, str], Fraction]

    @property
    def total(self) -> Amounts:
        """The quota over all flavors."""
        total: Amounts = {}
        for (_, name), amount in self.quota.items():
            total[name] = total.get(name, Fraction(0)) + amount
        return total


def queues_by_tenant(objects: Iterable[Manifest]) -> dict[str, Queue]:
    """Return the queue of each tenant in a rendering."""
    return {
        item["metadata"]["labels"]["allocator.tenant"]: Queue(
            item["metadata"]["name"], amounts_by_flavor(in_force(item, "ClusterQueue"))
        )
        for item in objects
        if item["kind"] == "ClusterQueue"
        and "allocator.tenant" in item["metadata"].get("labels", {})
    }


def above_quota(
    jobs: Sequence[Job], queue: Queue, *, terms: Terms, noticed: Mapping[str, int], now: int
) -> list[Jobs]:
    """Return the running jobs of a queue that are too many on some flavor.

    Quota of one flavor cannot be used on another, so that the sum over all may be kept while one is not.
    """
    flavors = {flavor for flavor, _ in queue.quota}
    only = min(flavors) if len(flavors) == 1 else ""
    limit = {_on(*place): amount for place, amount in queue.quota.items()}
    placed, names = [], list(queue.total)
    for job in jobs:
        demand = {}
        for name in names if job.running else ():
            if name in job.demand and (flavor := job.flavors.get(name, only)):
                demand[_on(flavor, name)] = job.demand[name]
                # Nothing is decided on a flavor that the rendering omits.
                limit.setdefault(_on(flavor, name), Fraction(0))
        placed.append(replace(job, demand=demand))
    chosen = to_stop(placed, limit, terms=terms, noticed=noticed, now=now)
    by_id = {job.id: job for job in jobs}
    return [tuple(by_id[job.id] for job in each) for each in chosen]


def _on(flavor: str, resource: str) -> str:
    return f"{flavor}/{resource}"


def queue_of(item: Mapping[str, Any]) -> str:
    """Return the queue that admitted a workload, empty without one."""
    return str(((item.get("status") or {}).get("admission") or {}).get("clusterQueue") or "")


def _patch(item: Manifest, *, active: bool, mark: str | None) -> Patch:
    metadata = item["metadata"]
    body = {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {REQUEUED: mark},
        },
        "spec": {"active": active},
    }
    return metadata["namespace"], metadata["name"], body
