"""Rendering for Volcano and KAI as a Queue per tenant and group, of totals.

Sources: Volcano's capacity plugin (`guarantee`, `deserved`, `capability`, each at most the next;
`parent` with `enableHierarchy`, whose `guarantee` is at least the sum below it) and the
CustomResourceDefinition of its Queue; KAI's scheduling queues (`quota`, `limit`, -1 for none; CPU in
thousandths, memory in 10^6 bytes), of any depth since its pull request 858.
"""

from typing import Any

from allocator_service.enforcement.rendering.limits import (
    HARD,
    DecisionLimits,
    GroupLimits,
    TenantLimits,
)
from allocator_service.enforcement.rendering.manifests import (
    metadata,
    quantities,
    quantity,
    refuse_nothing,
    refuse_slots,
)
from allocator_service.enforcement.rendering.names import (
    group_objects,
    object_name,
    parent_name,
)
from allocator_service.enforcement.rendering.slurm import fairshare

LARGEST_VOLCANO_WEIGHT = 65_535
UNLIMITED = -1


def volcano_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """Return the queues of Volcano, parents first.

    Hard: a queue is never above its decision. Soft: it may be, until others reclaim theirs. Soft queues
    of pools with guarantees reserve the guaranteed part of their decision. Volcano rejects a queue whose
    parent does not exist.
    """
    refuse_slots(limits, "Volcano")
    refuse_nothing(limits, "Volcano")
    groups = _group_queues(limits)
    return [
        *(
            _volcano_queue(
                limits,
                metadata(groups[group.slug], limits, group=group.slug),
                group,
                groups.get(group.parent),
            )
            for group in limits.groups
        ),
        *(
            _volcano_queue(
                limits,
                metadata(object_name(tenant.slug), limits, tenant=tenant.slug),
                tenant,
                groups.get(tenant.group),
            )
            for tenant in limits.tenants
        ),
    ]


def _volcano_queue(
    limits: DecisionLimits,
    described: dict[str, Any],
    node: TenantLimits | GroupLimits,
    parent: str | None,
) -> dict[str, Any]:
    amounts = quantities(limits, node.rendered)
    most, reserved = amounts, {}
    if limits.has_reserved:
        reserved = {"guarantee": {"resource": quantities(limits, limits.reserved(node))}}
    if limits.quota != HARD:
        most = {name: quantity(name, each) for name, each in _most(limits, node).items()}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": described,
        "spec": {
            **({"parent": parent} if parent else {}),
            "weight": min(fairshare(node.weight), LARGEST_VOLCANO_WEIGHT),
            "reclaimable": True,
            **reserved,
            "deserved": amounts,
            **({"capability": most} if most else {}),
        },
    }


def kai_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """Return a queue for the pool, then those of its groups, parents first, then those of tenants."""
    refuse_slots(limits, "KAI")
    refuse_nothing(limits, "KAI")
    pool = limits.decided.run.pool.slug
    groups = _group_queues(limits)
    taken = {object_name(tenant.slug) for tenant in limits.tenants} | set(groups.values())
    parent = parent_name(pool, taken)
    totals = [sum(column) for column in zip(*(t.rendered for t in limits.tenants), strict=True)]
    whole = {
        name: {"quota": amount, "limit": amount, "overQuotaWeight": 1}
        for name, amount in limits.named(totals or [0] * len(limits.units)).items()
    }
    return [
        _kai_queue(metadata(parent, limits), {"resources": whole}),
        *(
            _kai_queue(
                metadata(groups[group.slug], limits, group=group.slug),
                {
                    "parentQueue": groups.get(group.parent, parent),
                    "resources": _kai_resources(limits, group),
                },
            )
            for group in limits.groups
        ),
        *(
            _kai_queue(
                metadata(object_name(tenant.slug), limits, tenant=tenant.slug),
                {
                    "parentQueue": groups.get(tenant.group, parent),
                    "resources": _kai_resources(limits, tenant),
                },
            )
            for tenant in limits.tenants
        ),
    ]


def _group_queues(limits: DecisionLimits) -> dict[str | None, str]:
    """Return the queue of each group, whose names must differ from those of tenants' queues."""
    taken = {object_name(tenant.slug) for tenant in limits.tenants}
    slugs = [group.slug for group in limits.groups]
    queues: dict[str | None, str] = {}
    queues.update(group_objects(slugs, taken).items())
    return queues


def _most(limits: DecisionLimits, node: TenantLimits | GroupLimits) -> dict[str, int]:
    """Return the most that a node may have by its limits of all servers, by the target's names.

    Queues have totals, so limits of some servers bound nothing here that the decision does not.
    """
    most = {}
    for position, unit in enumerate(limits.units):
        room = limits.total_room_to_borrow(node, position)
        if room is not None and unit.name is not None:
            most[unit.name] = node.rendered[position] + room
    return most


def _kai_queue(described: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": described,
        "spec": spec,
    }


def _kai_resources(
    limits: DecisionLimits, node: TenantLimits | GroupLimits
) -> dict[str, dict[str, int]]:
    hard = limits.quota == HARD
    most = {} if hard else _most(limits, node)
    return {
        name: {
            "quota": amount,
            "limit": amount if hard else most.get(name, UNLIMITED),
            "overQuotaWeight": 0 if hard else fairshare(node.weight),
        }
        for name, amount in limits.named(node.rendered).items()
    }
