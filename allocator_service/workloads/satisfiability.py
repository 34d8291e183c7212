"""Why no task of a workload could run on the pool's servers as they are now, if none could."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from allocator_service.pools.selectors import ServerGroup

RESOURCE_ABSENT = "resource_absent"
NO_ELIGIBLE_SERVER = "no_eligible_server"


def unsatisfiable_reason(
    demand: Sequence[Decimal],
    selector: Mapping[str, str | Sequence[str]],
    groups: Sequence[ServerGroup],
) -> str:
    """`resource_absent`, `no_eligible_server`, or empty when some server could run a part of it.

    The same words as a decision's `limited_by`; a task may be spread, so its size does not matter.
    """
    needed = {position for position, quantity in enumerate(demand) if quantity > 0}
    active = [group for group in groups if not group.draining]
    present = {position for group in active for position, c in enumerate(group.capacity) if c > 0}
    if not needed <= present:
        return RESOURCE_ABSENT
    for group in active:
        has = {position for position, c in enumerate(group.capacity) if c > 0}
        if needed <= has and selects(selector, group.labels):
            return ""
    return NO_ELIGIBLE_SERVER


def selects(selector: Mapping[str, str | Sequence[str]], labels: Mapping[str, str]) -> bool:
    """Whether a server with `labels` has, for every label selected, one of the values named."""
    return all(
        labels.get(label) in ([wanted] if isinstance(wanted, str) else wanted)
        for label, wanted in selector.items()
    )
