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

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import PaidShares
from policies.model.group_tree import GroupTree
from policies.proofs.group_payments import Costs, furthest_paid
from policies.proofs.group_polygons import Polygons, Tree, polygons_of, shares_at


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
    def _at_first(self) -> Tree:
        tree = self.tree
        return Tree(
            tree.bottom_up, tree.first_child, tree.children, tree.tier, tree.weight, self.start,
            self.cap, self.moving, tree.sums(self.start[:, None] * self.direction),
            tree.sums(np.where(self.moving, self.start, 0.0)),
        )  # fmt: skip

    @cached_property
    def _polygons(self) -> Polygons:
        found: Polygons = polygons_of(self._at_first, self.direction)
        return found

    @cached_property
    def first(self) -> float:
        """The position at its beginning."""
        return float(self.start.sum())

    @cached_property
    def _rest(self) -> float:
        """Shares of tenants that do not rise."""
        return self.first - float(self._at_first.position[self.tree.pool])

    @cached_property
    def last(self) -> float:
        """The position at which all tasks are placed, inf without an end."""
        return np.inf if np.isinf(self.cap[self.moving]).any() else float(self.corners[-1])

    @cached_property
    def corners(self) -> FloatArray:
        """Positions between which all shares change at constant rates."""
        if not self.moving.any():
            return np.array([self.first])
        polygons, pool = self._polygons, self.tree.pool
        begin = int(polygons.first[pool])
        found: FloatArray = polygons.at[begin : begin + int(polygons.corners[pool])] + self._rest
        return found

    def shares(self, position: float) -> FloatArray:
        """Return the shares (t,) at a position.

        Tenants that do not rise keep those of the beginning.
        """
        if position <= self.first or not self.moving.any():
            return self.start.copy()
        if position >= self.last:
            return np.where(self.moving, self.cap, self.start)
        share = shares_at(self._at_first, self._polygons, position - self._rest)
        return np.where(self.moving, np.minimum(share, self.cap), self.start)

    def furthest(self, paid: PaidShares, budget: float, near: float | None = None) -> float:
        """Return the greatest position whose shares cost at most ``budget``.

        The search is short if that is about as far as ``near``.
        """
        rows = np.array([0, len(paid.owner)])
        return self.first_exceeded(paid, rows, np.array([budget]), near)[0]

    def first_exceeded(
        self, paid: PaidShares, row_first: IntArray, budget: FloatArray, near: float | None = None
    ) -> tuple[float, int]:
        """Return the greatest position at which no row exceeds its budget, and what stops it there.

        Args:
            paid: parts of shares, those of row ``q`` from ``row_first[q]`` to ``row_first[q + 1]``.
            row_first: (q + 1,), budget: (q,) of each row.
            near: a position to which that may be near.

        Returns:
            The position, inf if nothing stops it, and the number of a row, -1 if none does.
        """
        if not self.moving.any():
            return self.first, -1
        costs = Costs(row_first, paid.owner, paid.price, paid.start, paid.end, budget)
        position, row = furthest_paid(
            self._at_first, self._polygons, self.corners, self._rest, costs,
            np.inf if near is None else near,
        )  # fmt: skip
        return max(float(position), self.first), int(row)
