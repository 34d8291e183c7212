"""Amounts of a group by its children, with the tree as it was at each instant.

The intervals of a period are divided wherever a tenant entered, moved in or left the group. An
amount counts for the child that its tenant belonged to in that part, so that a group's sum is that
of its children to the last digit.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from allocator_service.ledger.reporting.amounts import exact_sum
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Group
from allocator_service.pools.tree_history import Child, children_over

TREE = (
    "A tenant counts for the group only while it belonged to the group or to one below it, by the tree"
    " as it was at each instant. Its children are the groups and members directly below it then. The"
    " group's amounts are the sums of its children's."
)


class DividedPeriod:
    """A period whose intervals are divided at the moves below a group, and at `also`.

    Only time counts in which the group was `within` another one, if given.
    """

    def __init__(
        self,
        group: Group,
        period: Period,
        also: Iterable[datetime] = (),
        within: Group | None = None,
    ) -> None:
        self.group, self.period = group, period
        # Outside the outer group the time is another department's.
        self._over = children_over(group=group, start=period.start, end=period.end, within=within)
        # Within a part no tenant moves, so that all of a tenant's amount in it has one child.
        edges = {*period.edges, *self._over.moves}
        edges |= {instant for instant in also if period.start < instant < period.end}
        self.edges = sorted(edges)

    @property
    def children(self) -> Sequence[Child]:
        """The children at any instant of the period, groups first, by slug."""
        return sorted(self._over.children, key=lambda child: (not child.is_group, child.slug))

    @property
    def tenants(self) -> list[int]:
        """The keys of the tenants that belonged to the group at any instant of the period."""
        return list(self._over.stays)

    def interval_of(self, part: int) -> int:
        """Return the interval of the period that a part lies in."""
        return bisect_right(self.period.edges, self.edges[part]) - 1

    def child_of(self, tenant: int, part: int) -> Child | None:
        """Return the child that a tenant belonged to in a part, None outside the group."""
        return self._over.child_at(tenant, self.edges[part])


def column_sums(rows: Iterable[Sequence[Decimal]], columns: int) -> list[Decimal]:
    """Return the exact sum of each column."""
    rows = list(rows)
    return [exact_sum(row[column] for row in rows) for column in range(columns)]
