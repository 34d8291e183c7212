"""The path on which shares rise in a tree of groups, from given shares and for given rising tenants.

The *level* of a node is its largest share of any resource, over its weight. At every inner node the
children of the least tier and the least level rise together, so that their levels stay equal, and each
hands its rise on to its own children by the same rule. A child whose level does not move while tenants
below it rise lets them rise alone until it does; such children take turns in order.

How far a group is along its own path depends on nothing outside it. Its path is therefore worked out
once, as a polygon whose corners have the group's level, and the parent's path is made of its children's:
a sweep over their corners in order of level. A position is the sum of the shares of all tenants; within,
on the path of a node, of those below it that rise.

Source: docs/policies/groups.md. ``verification.group_path`` walks the same path by other means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.group_tree import GroupTree
from policies.proofs.group_polygons import polygons_of, shares_at

# Positions closer than this, as a part of a straight part, are equal.
SMALLEST_PART = 1e-15


@dataclass(frozen=True, eq=False)
class GroupPath:
    """The path of a round.

    Attributes:
        tree: of the tenants that take part; direction: (t, m) share of each resource per unit of share.
        start: (t,) shares at its beginning; cap: (t,) shares at which all tasks are placed.
        rising: (t,) tenants that are not frozen.
    """

    tree: GroupTree
    direction: FloatArray
    start: FloatArray
    cap: FloatArray
    rising: BoolArray

    @cached_property
    def moving(self) -> BoolArray:
        """Tenants (t,) that rise and have tasks left."""
        moving: BoolArray = self.rising & (self.cap > self.start)
        return moving

    @cached_property
    def _polygons(self) -> _Polygons:
        held = self.tree.sums(self.start[:, None] * self.direction)
        position = self.tree.sums(np.where(self.moving, self.start, 0.0))
        tree = self.tree
        return _Polygons(
            held,
            position,
            polygons_of(
                tree.bottom_up, tree.first_child, tree.children, tree.tier, tree.weight, self.start,
                self.cap, self.moving, self.direction, held, position,
            ),
        )  # fmt: skip

    @cached_property
    def first(self) -> float:
        """The position at its beginning."""
        return float(self.start.sum())

    @cached_property
    def _rest(self) -> float:
        """Shares of tenants that do not rise."""
        return self.first - float(self._polygons.position[self.tree.pool])

    @cached_property
    def last(self) -> float:
        """The position at which all tasks are placed, inf without an end."""
        return np.inf if np.isinf(self.cap[self.moving]).any() else float(self.corners[-1])

    @cached_property
    def corners(self) -> FloatArray:
        """Positions between which all shares change at constant rates."""
        if not self.moving.any():
            return np.array([self.first])
        first, count, _, position, *_ = self._polygons.built
        begin = int(first[self.tree.pool])
        found: FloatArray = position[begin : begin + int(count[self.tree.pool])] + self._rest
        return found

    def shares(self, position: float) -> FloatArray:
        """Return the shares (t,) at a position.

        Tenants that do not rise keep those of the beginning.
        """
        if position <= self.first or not self.moving.any():
            return self.start.copy()
        if position >= self.last:
            return np.where(self.moving, self.cap, self.start)
        tree, polygons = self.tree, self._polygons
        share = shares_at(
            tree.bottom_up, tree.first_child, tree.children, tree.tier, tree.weight, self.start,
            polygons.held, polygons.position, position - self._rest, polygons.built,
        )  # fmt: skip
        return np.where(self.moving, np.minimum(share, self.cap), self.start)

    def furthest(self, cost: Callable[[FloatArray], float], budget: float) -> float:
        """Return the greatest position whose shares cost at most ``budget``.

        Args:
            cost: of shares (t,), convex between corners, and nowhere falling along the path.
        """
        if cost(self.shares(self.first)) > budget:
            return self.first
        low, high = self._corner_before(cost, budget)
        begin = max(float(self.corners[low]), self.first)
        if high < len(self.corners):
            return self._between(cost, budget, begin, float(self.corners[high]))
        if self.last < np.inf:
            return self.last
        # Beyond the last corner shares grow for ever: what cannot be paid is found by doubling.
        step = max(begin, 1.0)
        while cost(self.shares(begin + step)) <= budget:
            step *= 2
            if step > 1e30:
                return np.inf
        return self._between(cost, budget, begin, begin + step)

    def _corner_before(self, cost: Callable[[FloatArray], float], budget: float) -> tuple[int, int]:
        """Return the last corner that is affordable and the one after it.

        Costs are near to linear along long parts of a path: the crossing of a chord and the middle are
        tried in turn.
        """
        corners = self.corners
        low, high = 0, len(corners)
        at_low = cost(self.shares(float(corners[0]))) - budget
        at_high = np.inf
        by_chord = False
        while high - low > 1:
            by_chord = not by_chord and at_high < np.inf
            middle = (low + high) // 2
            if by_chord:
                length = float(corners[high] - corners[low])
                guess = float(corners[low]) - at_low * length / (at_high - at_low)
                nearest = int(np.searchsorted(corners, guess))
                middle = min(max(nearest, low + 1), high - 1)
            elif at_high == np.inf and high == len(corners):
                middle = high - 1 if low == 0 else middle
            value = cost(self.shares(float(corners[middle]))) - budget
            if value <= 0:
                low, at_low = middle, value
            else:
                high, at_high = middle, value
        return low, high

    def _between(
        self, cost: Callable[[FloatArray], float], budget: float, low: float, high: float
    ) -> float:
        """Return the last affordable position on a straight part of the path.

        The cost is convex there: a chord's crossing is affordable, and exact once no tenant comes to a
        dearer workload between the two ends.
        """
        begin, end = self.shares(low), self.shares(high)

        def excess(part: float) -> float:
            return cost(begin + part * (end - begin)) - budget

        left, right = 0.0, 1.0
        at_left, at_right = excess(left), excess(right)
        while right - left > SMALLEST_PART and at_left <= 0 < at_right:
            chord = left - at_left * (right - left) / (at_right - at_left)
            middle = left + (right - left) / 2
            for part in (chord, middle):
                if left < part < right:
                    value = excess(part)
                    if value <= 0:
                        left, at_left = part, value
                    else:
                        right, at_right = part, value
        return low + left * (high - low)


@dataclass(frozen=True, eq=False)
class _Polygons:
    """Paths of all nodes.

    Attributes:
        held: (v, m) and position: (v,) at the beginning; built: of ``polygons_of``.
    """

    held: FloatArray
    position: FloatArray
    built: tuple[np.ndarray, ...]
