"""A decision for Volcano and for KAI: a Queue per tenant, of totals.

Sources: Volcano's capacity plugin (`deserved`, `capability`) and the CustomResourceDefinition of its
Queue; KAI's scheduling queues (`quota`, `limit`, -1 for none; CPU in thousandths, memory in 10^6 bytes).
"""

from typing import Any

from allocator_service.enforcement.rendering.limits import HARD, DecisionLimits, TenantLimits
from allocator_service.enforcement.rendering.manifests import (
    metadata,
    quantities,
    refuse_nothing,
    refuse_slots,
)
from allocator_service.enforcement.rendering.names import object_name, parent_name
from allocator_service.enforcement.rendering.slurm import fairshare

LARGEST_VOLCANO_WEIGHT = 65_535
UNLIMITED = -1


def volcano_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """Hard: a queue is never above its decision. Soft: it may be, until others reclaim theirs."""
    refuse_slots(limits, "Volcano")
    refuse_nothing(limits, "Volcano")
    objects = []
    for tenant in limits.tenants:
        amounts = quantities(limits, tenant.rendered)
        objects.append(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": metadata(object_name(tenant.slug), limits, tenant=tenant.slug),
                "spec": {
                    "weight": min(fairshare(tenant.weight), LARGEST_VOLCANO_WEIGHT),
                    "reclaimable": True,
                    "deserved": amounts,
                    **({"capability": amounts} if limits.quota == HARD else {}),
                },
            }
        )
    return objects


def kai_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """A queue for the pool, and one of each tenant below it."""
    refuse_slots(limits, "KAI")
    refuse_nothing(limits, "KAI")
    pool = limits.decided.run.pool.slug
    parent = parent_name(pool, {object_name(tenant.slug) for tenant in limits.tenants})
    totals = [sum(column) for column in zip(*(t.rendered for t in limits.tenants), strict=True)]
    whole = {
        name: {"quota": amount, "limit": amount, "overQuotaWeight": 1}
        for name, amount in limits.named(totals or [0] * len(limits.units)).items()
    }
    return [
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": metadata(parent, limits),
            "spec": {"resources": whole},
        },
        *(
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": metadata(object_name(tenant.slug), limits, tenant=tenant.slug),
                "spec": {
                    "parentQueue": parent,
                    "resources": _kai_resources(limits, tenant),
                },
            }
            for tenant in limits.tenants
        ),
    ]


def _kai_resources(limits: DecisionLimits, tenant: TenantLimits) -> dict[str, dict[str, int]]:
    hard = limits.quota == HARD
    return {
        name: {
            "quota": amount,
            "limit": amount if hard else UNLIMITED,
            "overQuotaWeight": 0 if hard else fairshare(tenant.weight),
        }
        for name, amount in limits.named(tenant.rendered).items()
    }
