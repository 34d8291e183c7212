"""Kueue's workloads that end and queue again. Pure.

Kueue evicts a workload whose `spec.active` is false, and admits no such workload. Once it has released
its quota, it is active again and queues as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from allocator_agent.changes import CHANGE, ObjectChange
from allocator_agent.kubernetes.api import Manifest
from allocator_agent.kubernetes.effective import in_force
from allocator_agent.kubernetes.quotas import amounts_of
from allocator_agent.kubernetes.reading import REQUEUED
from allocator_agent.quantities import Amounts

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


def queues_by_tenant(objects: Iterable[Manifest]) -> dict[str, tuple[str, Amounts]]:
    """Return the name and the quota of each tenant's queue in a rendering."""
    return {
        item["metadata"]["labels"]["allocator.tenant"]: (
            item["metadata"]["name"],
            amounts_of(in_force(item, "ClusterQueue")),
        )
        for item in objects
        if item["kind"] == "ClusterQueue"
        and "allocator.tenant" in item["metadata"].get("labels", {})
    }


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
