"""Rendering for Kubernetes as a ResourceQuota per namespace, of totals.

Source: Kubernetes' documentation, Resource Quotas.
"""

from typing import Any

from allocator_service.enforcement.rendering.limits import DecisionLimits
from allocator_service.enforcement.rendering.manifests import (
    metadata,
    quantities,
    refuse_nothing,
    refuse_slots,
)
from allocator_service.enforcement.rendering.names import object_name


def kubernetes_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """Return a ResourceQuota of requests in the namespace of each tenant."""
    refuse_slots(limits, "Kubernetes")
    refuse_nothing(limits, "Kubernetes")
    return [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata(
                f"allocator-{limits.decided.run.pool.slug}",
                limits,
                tenant=tenant.slug,
                namespace=object_name(tenant.slug),
            ),
            "spec": {
                "hard": {
                    f"requests.{name}": amount
                    for name, amount in quantities(limits, tenant.rendered).items()
                }
            },
        }
        for tenant in limits.tenants
    ]
