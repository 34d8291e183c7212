"""The reason why no task of a workload could run on the pool's present servers, if none could."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from allocator_service.pools.selectors import ServerGroup

RESOURCE_ABSENT = "resource_absent"
NO_ELIGIBLE_SERVER = "no_eligible_server"

Selector = Mapping[str, str | Sequence[str]]


class Supply:
    """The supply of a pool's active servers for a part of a task.

    A task may be spread over servers, so only which resources a server has matters, not how much.
    """

    def __init__(self, groups: Iterable[ServerGroup]) -> None:
        # A set, because thousands of servers have few combinations of resources and labels.
        self._kinds = {
            (_positive(group.capacity), tuple(sorted(group.labels.items())))
            for group in groups
            if not group.draining
        }
        self._present = frozenset[int]().union(*(resources for resources, _ in self._kinds))

    def unsatisfiable_reason(
        self,
        demand: Sequence[Decimal],
        selector: Selector,
        kinds: Sequence[Sequence[Decimal]] = (),
    ) -> str:
        """Return `resource_absent` or `no_eligible_server`, as a decision's `limited_by`, or empty.

        `kinds` are the demands of the pieces of a task that has several kinds.
        """
        needed = _positive(demand)
        # First, as it holds whatever the workload selects.
        if not needed <= self._present:
            return RESOURCE_ABSENT
        parts = [_positive(kind) for kind in kinds] or [needed]
        if any(
            part <= resources and _selects(selector, dict(labels))
            for resources, labels in self._kinds
            for part in parts
        ):
            return ""
        return NO_ELIGIBLE_SERVER


def _positive(vector: Sequence[Decimal]) -> frozenset[int]:
    return frozenset(position for position, quantity in enumerate(vector) if quantity > 0)


def _selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    return all(
        labels.get(label) in ([accepted] if isinstance(accepted, str) else accepted)
        for label, accepted in selector.items()
    )
