"""Servers of a decision, found among those that the pool has now."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from decimal import Decimal
from uuid import UUID

import orjson

from allocator_service.pools.selectors import ServerGroup

_Kind = tuple[tuple[Decimal, ...], bytes, str | None]


class PresentServers:
    """Servers of a pool that do not drain, by capacity, labels and contributor."""

    def __init__(self, groups: Sequence[ServerGroup]) -> None:
        self._groups = groups
        self._position = {
            _kind(group.capacity, group.labels, group.contributed_by): position
            for position, group in enumerate(groups)
            if not group.draining
        }

    def find(
        self,
        capacity: Sequence[Decimal],
        labels: Mapping[str, str],
        owner: str | None,
        first: UUID,
        last: UUID,
    ) -> tuple[int, int, int]:
        """Return the group of a class, the offset of its first server in it, and the number of servers.

        The number is 0 if no server of the class is present and unchanged.
        """
        position = self._position.get(_kind(capacity, labels, owner))
        if position is None:
            return 0, 0, 0
        ids = self._groups[position].ids
        offset = bisect_left(ids, str(first))
        return position, offset, bisect_right(ids, str(last)) - offset


def _kind(capacity: Sequence[Decimal], labels: Mapping[str, str], owner: str | None) -> _Kind:
    return tuple(capacity), orjson.dumps(labels, option=orjson.OPT_SORT_KEYS), owner
