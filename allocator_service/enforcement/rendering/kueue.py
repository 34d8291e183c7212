"""Rendering for Kueue with a ResourceFlavor per class, a Cohort per group and a ClusterQueue per tenant.

Sources: Kueue's API kueue.x-k8s.io/v1beta2 (ClusterQueue, Cohort, ResourceFlavor). KEP-12382 and pull
requests 14389, 15040 and 15107 of Kueue define `status.effectiveQuotas`, an alpha field that an
orchestrator writes. With the feature gate DynamicQuotaOrchestration, Kueue obeys it instead of the spec.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.errors import Conflict
from allocator_service.enforcement.rendering.limits import (
    EFFECTIVE,
    SOFT,
    DecisionLimits,
    GroupLimits,
    TenantLimits,
)
from allocator_service.enforcement.rendering.manifests import (
    metadata,
    quantity,
    refuse_nothing,
    refuse_slots,
)
from allocator_service.enforcement.rendering.names import (
    any_class_name,
    class_name,
    group_objects,
    is_node_label,
    object_name,
)

API_VERSION = "kueue.x-k8s.io/v1beta2"
MAX_FLAVORS = 64
MAX_RESOURCES = 64
ORCHESTRATOR = {"apiGroup": "allocator", "kind": "Pool"}
# Names the cohort of the rendering, so that an agent may take a queue out of it.
COHORT_ANNOTATION = "allocator.cohort"


def kueue_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """Return flavors, then cohorts, parents first, then queues.

    Groups are cohorts without quota below the pool's, and each queue is in its group's.

    Hard: a queue has its decision, and no cohort or one in which it neither borrows nor lends.

    Soft: the pool is a cohort, in which a queue lends what it does not use and what is not reserved for
    it, and borrows up to the class's capacity, or what limits of its tenant leave. A cohort of a group
    borrows what the group's limits leave.

    Effective: the spec gives a queue nothing, and its status its decision. The status of a cohort gives
    it nothing.

    Raises `Conflict` for more classes or resources than Kueue accepts, and for values that no node has.
    """
    refuse_slots(limits, "Kueue")
    refuse_nothing(limits, "Kueue")
    names = _flavors(limits)
    flavors = [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceFlavor",
            "metadata": metadata(name, limits),
            "spec": {} if value is None else {"nodeLabels": {limits.label: value}},
        }
        for value, name in names
    ]
    cohorts = _cohorts(limits)
    return [
        *flavors,
        *(_cohort(limits, group, names, cohorts) for group in limits.groups),
        *(_queue(limits, tenant, names, cohorts) for tenant in limits.tenants),
    ]


def _cohorts(limits: DecisionLimits) -> dict[str | None, str]:
    """Return the cohort of each group, and under None the pool's cohort, the root."""
    pool = limits.decided.run.pool.slug
    cohorts: dict[str | None, str] = {None: pool}
    cohorts.update(group_objects([group.slug for group in limits.groups], {pool}).items())
    return cohorts


def _cohort(
    limits: DecisionLimits,
    group: GroupLimits,
    names: Sequence[tuple[str | None, str]],
    cohorts: Mapping[str | None, str],
) -> dict[str, Any]:
    spec: dict[str, Any] = {"parentName": cohorts[group.parent]}
    if limits.quota == SOFT:
        spec["fairSharing"] = {"weight": _weight(group)}
        bounded = _borrowing_of_group(limits, group, names)
        if bounded:
            spec["resourceGroups"] = bounded
    return {
        "apiVersion": API_VERSION,
        "kind": "Cohort",
        "metadata": metadata(cohorts[group.slug], limits, group=group.slug),
        "spec": spec,
        # An empty list overrides quota that administrators gave the cohort itself.
        **_status(limits, []),
    }


def _status(limits: DecisionLimits, groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the status with a complete list of quotas, nothing unless these are effective quotas."""
    if limits.quota != EFFECTIVE:
        return {}
    orchestrator = {**ORCHESTRATOR, "name": limits.decided.run.pool.slug}
    return {
        "status": {"effectiveQuotas": {"orchestratorRef": orchestrator, "resourceGroups": groups}}
    }


def _flavors(limits: DecisionLimits) -> Sequence[tuple[str | None, str]]:
    """Return the classes of servers with the names of their flavors, servers without the label last."""
    values: list[str | None] = [*limits.classes]
    # A queue without any flavor admits nothing, not even in a pool without labels.
    if None in limits.decided.capacity or not values:
        values.append(None)
    if len(values) > MAX_FLAVORS or len(limits.units) > MAX_RESOURCES:
        raise Conflict(
            f"{len(values)} classes of servers with {len(limits.units)} resources: Kueue takes"
            f" {MAX_FLAVORS} flavors with {MAX_RESOURCES} resources in a group. Choose a label with"
            " fewer values.",
            code="rendering.too_many",
        )
    for value in limits.classes:
        if not is_node_label(limits.label, value):
            raise Conflict(
                f'No node of Kubernetes can have the label "{limits.label[:80]}" with the value'
                f' "{value[:80]}": choose another label.',
                code="rendering.label",
            )
    # The flavor of all other servers must not have the name of a class.
    taken = {class_name(value) for value in limits.classes}
    return [
        (value, any_class_name(taken) if value is None else class_name(value)) for value in values
    ]


def _queue(
    limits: DecisionLimits,
    tenant: TenantLimits,
    names: Sequence[tuple[str | None, str]],
    cohorts: Mapping[str | None, str],
) -> dict[str, Any]:
    queue = object_name(tenant.slug)
    described = metadata(queue, limits, tenant=tenant.slug)
    spec: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": queue}}
    }
    if limits.quota == SOFT or limits.groups:
        spec["cohortName"] = cohorts[tenant.group]
    if limits.groups:
        described["annotations"][COHORT_ANNOTATION] = spec["cohortName"]
    if limits.quota == SOFT:
        spec["fairSharing"] = {"weight": _weight(tenant)}
    decided = _groups(limits, tenant, names)
    spec["resourceGroups"] = _nothing(decided) if limits.quota == EFFECTIVE else decided
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterQueue",
        "metadata": described,
        "spec": spec,
        **_status(limits, decided),
    }


def _weight(node: TenantLimits | GroupLimits) -> str:
    """Return a weight as Kueue accepts it, above 10^-9 because 0 would never be served."""
    thousandths = max(int(node.weight * 1000), 1)
    return f"{thousandths}m"


def _groups(
    limits: DecisionLimits,
    tenant: TenantLimits,
    names: Sequence[tuple[str | None, str]],
) -> list[dict[str, Any]]:
    known = [(r, unit) for r, unit in enumerate(limits.units) if unit.name is not None]
    nothing = [0] * len(limits.units)
    flavors = []
    for value, flavor in names:
        of, reserved = tenant.by_class.get(value, nothing), tenant.reserved.get(value, nothing)
        resources = []
        for r, unit in known:
            name = str(unit.name)
            row = {"name": name, "nominalQuota": quantity(name, of[r])}
            if limits.quota == SOFT:
                # All that can be idle in the class: its servers without the queue's own part.
                room = max(limits.capacity(value)[r] - of[r], 0)
                within = limits.room_to_borrow(tenant, value, r)
                row["borrowingLimit"] = quantity(
                    name, room if within is None else min(room, within)
                )
                row["lendingLimit"] = quantity(name, of[r] - reserved[r])
            elif limits.groups:
                # A queue in a cohort borrows and lends without bounds unless limits are set.
                row["borrowingLimit"] = row["lendingLimit"] = "0"
            resources.append(row)
        flavors.append({"name": flavor, "resources": resources})
    return [{"coveredResources": [unit.name for _, unit in known], "flavors": flavors}]


def _borrowing_of_group(
    limits: DecisionLimits, group: GroupLimits, names: Sequence[tuple[str | None, str]]
) -> list[dict[str, Any]]:
    """Return quotas of 0 with what a limited group may borrow, nothing for a group without limits."""
    known = [(r, unit) for r, unit in enumerate(limits.units) if unit.name is not None]
    flavors, is_limited = [], False
    for value, flavor in names:
        resources = []
        for r, unit in known:
            # Quota of the cohort itself would be lent to its queues on top of their own.
            row = {"name": str(unit.name), "nominalQuota": "0"}
            room = limits.room_to_borrow(group, value, r)
            if room is not None:
                is_limited = True
                row["borrowingLimit"] = quantity(row["name"], room)
            resources.append(row)
        flavors.append({"name": flavor, "resources": resources})
    if not is_limited:
        return []
    return [{"coveredResources": [str(unit.name) for _, unit in known], "flavors": flavors}]


def _nothing(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups with quotas of 0, for the time until a controller has written the status."""
    return [
        {
            **group,
            "flavors": [
                {
                    **flavor,
                    "resources": [{**row, "nominalQuota": "0"} for row in flavor["resources"]],
                }
                for flavor in group["flavors"]
            ],
        }
        for group in groups
    ]
