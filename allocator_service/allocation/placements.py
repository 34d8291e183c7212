"""Placements of decisions, on ranges of servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from allocator_service.pools.selectors import ServerGroup
from allocator_service.tenants.models import Tenant
from policies import Allocation


@dataclass(frozen=True, eq=False)
class Traits:
    """Properties that the servers of a range have in common.

    `labels` are those that all of them carry. `owner` is the tenant that contributed all of them, by
    primary key, None if they are the pool's own or several tenants', which `shared` distinguishes.
    """

    capacity: Sequence[Decimal]
    labels: Mapping[str, str]
    owner: int | None
    shared: bool


@dataclass(frozen=True)
class ServerRange:
    """Identical servers of a decision, from `first` to `last` by age.

    `first_server` and `last_server` are their ids, for a range within one contributor's identical
    servers. Ranges of equal servers have one object as `traits`.
    """

    count: int
    traits: Traits
    first: str
    last: str
    first_server: str | None
    last_server: str | None


@dataclass(frozen=True)
class DecidedPlacements:
    """The ranges of a decision, and its placements in columns.

    A placement is of `tasks` of a workload on every server of a range, both by position. `tasks` counts
    pieces of one `kind` if the decision places the pieces of the workload's tasks.
    """

    ranges: Sequence[ServerRange]
    workload: Sequence[int]
    kind: Sequence[int]
    range_of: Sequence[int]
    tasks: Sequence[float]

    def __iter__(self) -> Iterator[tuple[int, int, int, float]]:
        """Yield workload, kind, range and tasks of each placement."""
        return zip(self.workload, self.kind, self.range_of, self.tasks, strict=True)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of servers of each range."""
        return np.array([each.count for each in self.ranges], dtype=np.int64)

    @property
    def traits(self) -> Iterator[Traits]:
        """Traits of each range, in order."""
        return (each.traits for each in self.ranges)


def placements_of_decision(
    groups: Sequence[ServerGroup], tenant_pks: Mapping[str, int], allocation: Allocation
) -> DecidedPlacements:
    """Return the placements of a decision on the servers of its input."""
    classes = allocation.classes
    # Servers of a class are alike, and have equal parts.
    per_server = allocation.placement_tasks / classes.servers[allocation.placement_class]
    return DecidedPlacements(
        list(_ranges(groups, tenant_pks, allocation)),
        allocation.placement_workload.tolist(),
        (allocation.placement_piece >= allocation.problem.n).astype(int).tolist(),
        allocation.placement_class.tolist(),
        per_server.tolist(),
    )


def _ranges(
    groups: Sequence[ServerGroup], tenant_pks: Mapping[str, int], allocation: Allocation
) -> Iterator[ServerRange]:
    classes = allocation.classes
    traits: dict[tuple[int, ...], Traits] = {}
    counts = classes.servers.tolist()
    offsets = None if classes.offset is None else classes.offset.tolist()
    # A range of whole tasks is within one row, and others are few.
    rows_of = (
        (tuple(classes.rows_of(position).tolist()) for position in range(classes.count))
        if offsets is None
        else zip(classes.first_row.tolist())
    )
    for position, rows in enumerate(rows_of):
        # Tens of thousands of ranges have few sets of rows, and share one object for each.
        if rows not in traits:
            traits[rows] = _traits([groups[row] for row in rows], tenant_pks)
        first, last = groups[rows[0]], groups[rows[-1]]
        begin, end = 0, last.count - 1
        # Whole tasks divide identical servers into ranges.
        if offsets is not None:
            begin = offsets[position]
            end = begin + counts[position] - 1
        yield ServerRange(
            counts[position],
            traits[rows],
            first.names[begin],
            last.names[end],
            first.ids[begin] if len(rows) == 1 else None,
            first.ids[end] if len(rows) == 1 else None,
        )


def _traits(groups: Sequence[ServerGroup], tenant_pks: Mapping[str, int]) -> Traits:
    common = set(groups[0].labels.items())
    for group in groups[1:]:
        common &= set(group.labels.items())
    owners = {group.contributed_by for group in groups}
    owner = next(iter(owners)) if len(owners) == 1 else None
    return Traits(
        list(groups[0].capacity),
        # Sorted, because the order of a set differs between processes and the stored bytes must not.
        dict(sorted(common)),
        tenant_pks[owner] if owner else None,
        len(owners) > 1,
    )


def owners_of(ranges: Iterable[ServerRange]) -> dict[int | None, str | None]:
    """Return the slugs of the owners of ranges by primary key, None for None."""
    keys = {each.traits.owner for each in ranges} - {None}
    return {None: None} | {pk: tenant.slug for pk, tenant in Tenant.objects.in_bulk(keys).items()}
