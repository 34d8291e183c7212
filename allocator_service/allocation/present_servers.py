"""Servers of a decision, found among those that the pool has now."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from decimal import Decimal

import orjson

from allocator_service.allocation.placements import ServerRange, Traits, owners_of
from allocator_service.pools.selectors import ServerGroup

_UNKNOWN = ""  # the owner of servers whose stored owner does not exist
_Kind = tuple[tuple[Decimal, ...], bytes, str | None]


class PresentServers:
    """Servers of a pool that do not drain, by capacity, labels and contributor.

    `ranges` are those of the decision.
    """

    def __init__(self, groups: Sequence[ServerGroup], ranges: Sequence[ServerRange]) -> None:
        self._groups = groups
        position = {
            _kind(group.capacity, group.labels, group.contributed_by): position
            for position, group in enumerate(groups)
            if not group.draining
        }
        owners = owners_of(ranges)
        self._position = {
            each: position.get(_kind(each.capacity, each.labels, owners.get(each.owner, _UNKNOWN)))
            for each in {each.traits for each in ranges}
        }

    def find(self, traits: Traits, first: str, last: str) -> tuple[int, int, int]:
        """Return the group of a range, the offset of its first server in it, and the number of servers.

        The number is 0 if no server of the range is present and unchanged.
        """
        position = self._position[traits]
        if position is None:
            return 0, 0, 0
        ids = self._groups[position].ids
        # Ids ascend in a group: servers that left a range shorten it, and those behind move up.
        offset = bisect_left(ids, first)
        return position, offset, bisect_right(ids, last) - offset


def _kind(capacity: Sequence[Decimal], labels: Mapping[str, str], owner: str | None) -> _Kind:
    return tuple(capacity), orjson.dumps(labels, option=orjson.OPT_SORT_KEYS), owner
