"""The path on which shares rise in a tree of groups, as the verifier works it out.

A node's path is a polygon: corners with its position (the sum of the shares below it that rise), what is
held below it of each resource, and its level. That of a parent follows from those of its children, whose
corners are swept in order of level: between two of them every child that has begun rises with the level,
and a child whose level stays equal over a side jumps along it, in the order of siblings. All sums of a
sweep are cumulative sums; Python loops run over nodes, and over pairs of resources
on the few sides on which another one comes to decide the level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, read_only
from policies.model.allocation import PaidShares
from policies.verification.group_corners import (
    Corners,
    LoneEnds,
    Polygon,
    corners_of_polygons,
    have_one_deciding_resource,
    polygon_through,
)
from policies.verification.group_sweeps import (
    SAME_LEVEL,
    Layer,
    Sweep,
    by_tier,
    common_levels,
    running_rates,
)
from policies.verification.groups import Groups

# To the last digit, as prices of small limits may begin to count after a small part of a long way.
HALVINGS = 80
# Shares that a path remembers: those at a round's level, and those at which a search ended.
MOST_KNOWN = 4


class GroupPath:
    """The path of one round.

    Args:
        groups: the tree; stage: whose weights count.
        direction: (t, m) shares of the pool per unit of share.
        start: (t,) shares at the beginning; cap: (t,) of all tasks; rising: (t,) those not frozen.
        before: path of the same stage that ended where this one begins, of which groups go on as long as
            the same tenants rise in them, or come to the end of their tasks.
    """

    def __init__(
        self,
        groups: Groups,
        stage: int,
        direction: FloatArray,
        start: FloatArray,
        cap: FloatArray,
        rising: BoolArray,
        before: GroupPath | None = None,
    ) -> None:
        self.groups, self.start, self.cap = groups, start, cap
        self.moving = rising & (cap > start)
        self._weight = groups.weights(stage)
        self._held = groups.sums(start[:, None] * direction)
        self._direction = direction
        # Tenants at the end of their tasks stay in the positions of groups that go on.
        self._counted = self.moving.copy()
        if before is not None:
            self._counted |= before._counted & (start >= cap)
        counted_start = np.where(self._counted, start, 0.0)[:, None]
        self._position = groups.sums(counted_start)[:, 0]
        self._moves = groups.sums(self.moving[:, None].astype(np.float64))[:, 0] > 0
        self._polygons: dict[int, Polygon] = {}
        self._sweeps: dict[int, Sweep] = {}
        self._known: dict[float, FloatArray] = {}
        # (v,) position among ``_ends`` of groups in which one tenant moves at whose sides one resource
        # decides, -1 elsewhere: these are many, and are joined without a polygon of each.
        self._straight = np.full(len(self._moves), -1)
        self._lone = self._follow_lone_tenants()
        going_on = self._go_on(before)
        for node in groups.top_down[::-1]:
            if self._moves[node] and self._lone[node] < 0 and not going_on[node]:
                self._sweep(node)
        self.first = float(start.sum())
        self._rest = self.first - float(self._position[groups.pool])
        self.last = np.inf
        if not np.isinf(cap[self.moving]).any():
            self.last = self.first + float((cap - start)[self.moving].sum())

    @cached_property
    def corners(self) -> FloatArray:
        """Positions between which all shares change at constant rates."""
        if self.groups.pool not in self._sweeps:
            return np.array([self.first])
        sweep = self._sweeps[self.groups.pool]
        return np.unique(np.concatenate([sweep.before, sweep.reached])) + self._rest

    def shares(self, position: float) -> FloatArray:
        """Return the shares (t,) at a position."""
        if position <= self.first:
            return self.start.copy()
        if position >= self.last:
            return np.where(self.moving, self.cap, self.start)
        if position not in self._known:
            if len(self._known) == MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[position] = read_only(self._shares_between(position))
        return self._known[position]

    def _shares_between(self, position: float) -> FloatArray:
        """Return the shares (t,) at a position between the first and the last."""
        share = self.start.copy()
        targets = np.full(len(self._position), -np.inf)
        targets[self.groups.pool] = position - self._rest
        for layer in self._layers:
            begun, reached = layer.positions(targets[layer.nodes])
            tenants = begun & layer.is_tenant
            share[layer.children[tenants]] = reached[tenants]
            groups = begun & ~layer.is_tenant & (reached > layer.position)
            targets[layer.children[groups]] = reached[groups]
        return np.where(self.moving, np.clip(share, self.start, self.cap), self.start)

    @cached_property
    def _layers(self) -> list[Layer]:
        """The sweeps by depth, that of the pool first."""
        layers: list[Layer] = []
        nodes = [self.groups.pool]
        while nodes:
            sweeps = [self._sweeps[node] for node in nodes]
            layer = Layer.of(nodes, sweeps, self._lone, self._position, len(self.start))
            layers.append(layer)
            nodes = layer.children[~layer.is_tenant].tolist()
        return layers

    def furthest(self, paid: PaidShares, budget: float, near: float | None = None) -> float:
        """Return the greatest position at which shares cost at most the budget.

        The search is short if that is about as far as ``near``.
        """

        def cost(share: FloatArray) -> float:
            reached = np.minimum(share[paid.owner], paid.end)
            begun = reached > paid.start
            return float(((reached - paid.start)[begun] * paid.price[begun]).sum())

        corners = self.corners
        worth = {0: cost(self.shares(self.first)) - budget}
        if worth[0] > 0:
            return self.first
        low, high = 0, len(corners)
        if near is not None:
            after = int(np.searchsorted(corners, near, side="right"))
            for corner in (after, after - 1):
                if low < corner < high:
                    worth[corner] = cost(self.shares(float(corners[corner]))) - budget
                    low, high = (corner, high) if worth[corner] <= 0 else (low, corner)
        while high - low > 1:
            # Where a straight line between both ends crosses, and every other time in the middle.
            middle = (low + high) // 2
            if high in worth and len(worth) % 2:
                part = worth[low] / (worth[low] - worth[high])
                aim = corners[low] + part * (corners[high] - corners[low])
                middle = int(np.clip(np.searchsorted(corners, aim), low + 1, high - 1))
            worth[middle] = cost(self.shares(float(corners[middle]))) - budget
            low, high = (middle, high) if worth[middle] <= 0 else (low, middle)
        begin = max(float(corners[low]), self.first)
        if high < len(corners):
            return self._pays_until(paid, cost, budget, begin, float(corners[high]))
        if np.isfinite(self.last):
            return self.last
        step = max(begin, 1.0)
        while cost(self.shares(begin + step)) <= budget:
            step *= 4
            if step > 1e30:
                return np.inf
        return self._pays_until(paid, cost, budget, begin, begin + step)

    def _pays_until(
        self,
        paid: PaidShares,
        cost: Callable[[FloatArray], float],
        budget: float,
        begin: float,
        end: float,
    ) -> float:
        """Return the position on a straight part at which the cost crosses the budget."""
        first, second = self.shares(begin), self.shares(end)

        def excess(part: float) -> float:
            return cost(first + part * (second - first)) - budget

        left, right = 0.0, 1.0
        one, other = first[paid.owner], second[paid.owner]
        bends = [(one < bend) & (bend < other) for bend in (paid.start, paid.end)]
        # Where no part begins or ends, the cost is a straight line.
        halvings = HALVINGS if np.logical_or(*bends).any() else 0
        for _ in range(halvings):
            middle = (left + right) / 2
            if not left < middle < right:
                break
            left, right = (middle, right) if excess(middle) <= 0 else (left, middle)
        low, high = excess(left), excess(right)
        if high > low:
            left -= low * (right - left) / (high - low)
        return begin + left * (end - begin)

    def _go_on(self, before: GroupPath | None) -> BoolArray:
        """Take over the paths of groups (v,) that go on, and return which do.

        They are those below which the same tenants rise, or have come to the end of their tasks.
        """
        groups = self.groups
        going_on = np.zeros(len(self._moves), dtype=np.bool_)
        if before is None:
            return going_on
        changed = (self.moving != before.moving) & ~(before._counted & self._counted)
        same = groups.sums(changed[:, None].astype(np.float64))[:, 0] == 0
        for node in groups.top_down[1:]:
            if going_on[groups.parent[node]]:
                # Below such a group nothing is swept again, not even where one tenant is left.
                going_on[node] = True
                self._lone[node] = before._lone[node]
                if node in before._sweeps:
                    self._sweeps[node] = before._sweeps[node]
                if node in before._polygons:
                    self._polygons[node] = before._polygons[node]
            elif same[node] and self._moves[node]:
                going_on[node] = self._goes_on(node, before)
        return going_on

    def _goes_on(self, node: int, before: GroupPath) -> bool:
        """Take over what is left of a group's path, and return False if it is at its end."""
        path, sweep = before._polygons.get(node), before._sweeps.get(node)
        # Groups in which one tenant moved had no sweep.
        if path is None or sweep is None:
            return False
        position, held = self._position[node], self._held[node]
        # The corner before those that are left gives way to where the path is now.
        first = int(path.points[:, 0].searchsorted(position, side="right"))
        if first == len(path.points) and path.ray is None:
            return False
        points = np.empty((1 + len(path.points) - first, path.points.shape[1]))
        points[0, 0], points[0, 1:], points[1:] = position, held, path.points[first:]
        level = np.empty(len(points))
        level[0], level[1:] = held.max() / self._weight[node], path.level[first:]
        level = np.maximum.accumulate(level)
        self._polygons[node] = Polygon(points, level, path.ray, path.ray_level)
        self._sweeps[node] = sweep
        self._lone[node] = -1
        return True

    def _sweep(self, node: int) -> None:
        """Work out a node's sweep and polygon from its children's."""
        mine = self.groups.child_nodes[node]
        mine = mine[self._moves[mine]]
        corners = self._corners_of(mine)
        child, points = corners.child, corners.points
        tier = self.groups.tier[mine][child]
        goes_on = child[1:] == child[:-1]
        height = common_levels(tier, corners.level)
        order = by_tier(height, tier)
        here = np.flatnonzero(goes_on)
        length, moved = height[here + 1] - height[here], points[here + 1] - points[here]
        slopes = length > 0
        # Changes of position and of what is held, with the level and in jumps.
        changes, jumps = np.zeros_like(points), np.zeros_like(points)
        changes[here[slopes]] = moved[slopes] / length[slopes, None]
        jumps[here[~slopes]] = moved[~slopes]
        changes[corners.endless] = corners.ray / corners.ray_level[:, None]
        earlier = np.zeros_like(changes)
        earlier[1:] = changes[:-1] * goes_on[:, None]
        # If a tier has endless siblings, later tiers never rise.
        endless_tiers = tier[corners.endless]
        if len(endless_tiers):
            order = order[tier[order] <= endless_tiers.min()]
        child, tier, height = child[order], tier[order], height[order]
        at, changes, jumps = points[order, 0], changes[order], jumps[order]
        rate = running_rates(changes, earlier[order], child)
        gap = np.zeros(len(order))
        gap[:-1] = height[1:] - height[:-1]
        gap[:-1][tier[1:] != tier[:-1]] = 0.0
        before = np.zeros_like(jumps)
        before[1:] = np.cumsum(jumps + rate * gap[:, None], axis=0)[:-1]
        before[:, 0] += self._position[node]
        before[:, 1:] += self._held[node]
        reached = before + jumps
        self._sweeps[node] = Sweep(
            nodes=mine,
            child=child,
            at=at,
            after=at + jumps[:, 0],
            height=height,
            slope=changes[:, 0],
            before=before[:, 0],
            reached=reached[:, 0],
            rate=rate[:, 0],
        )
        if node == self.groups.pool:
            return
        weight = float(self._weight[node])
        corners_of_node = np.stack([before, reached], axis=1).reshape(-1, points.shape[1])
        ray = rate[-1, 1:] / rate[-1, 0] if rate[-1, 0] > 0 else None
        self._polygons[node] = polygon_through(corners_of_node, ray, weight)

    def _follow_lone_tenants(self) -> IntArray:
        """Give each group below which one tenant moves alone, as its child, the path of that tenant.

        Returns (v,) these tenants, -1 elsewhere. Where a tenant's corners have one level but for
        rounding, a sweep treats it.
        """
        parent, lone = self.groups.parent, np.full(len(self._moves), -1)
        moving = np.flatnonzero(self._moves)
        count = np.bincount(parent[moving[moving != self.groups.pool]], minlength=len(lone))
        tenants = np.flatnonzero(self.moving)
        start, cap = self.start[tenants], self.cap[tenants]
        # An endless tenant has one corner, for which inf <= inf holds.
        near = np.isfinite(cap) & (cap - start <= SAME_LEVEL * cap)
        alone = (count[parent[tenants]] == 1) & ~near & (parent[tenants] != self.groups.pool)
        mine = tenants[alone]
        if not len(mine):
            return lone
        nodes = parent[mine]
        lone[nodes] = mine
        start, cap, direction = self.start[mine], self.cap[mine], self._direction[mine]
        ends = np.isfinite(cap)
        begin = self._held[nodes]
        end = begin + np.where(ends, cap - start, 0.0)[:, None] * direction
        points = np.stack(
            [
                np.concatenate([start[:, None], begin], axis=1),
                np.concatenate([np.where(ends, cap, 0.0)[:, None], end], axis=1),
            ],
            axis=1,
        )
        levels = np.maximum.accumulate(points[:, :, 1:].max(axis=2), axis=1)
        levels /= self._weight[nodes][:, None]
        straight = have_one_deciding_resource(begin, end, direction, ends)
        self._straight[nodes[straight]] = np.flatnonzero(straight)
        self._ends = LoneEnds(points, levels, ends, direction, self._weight[nodes])
        for at in np.flatnonzero(~straight).tolist():
            corners = points[at] if ends[at] else points[at, :1]
            ray = None if ends[at] else direction[at]
            weight = float(self._weight[nodes[at]])
            self._polygons[int(nodes[at])] = polygon_through(corners, ray, weight)
        return lone

    def _corners_of(self, mine: IntArray) -> Corners:
        """Return all corners of some siblings, those of tenants first."""
        tenants = mine[mine < len(self.start)]
        start, cap, weight = self.start[tenants], self.cap[tenants], self._weight[tenants]
        ends = np.isfinite(cap)
        sizes = 1 + ends
        child = np.repeat(np.arange(len(tenants)), sizes)
        first = np.cumsum(sizes) - sizes
        at = start[child]
        at[first[ends] + 1] = cap[ends]
        direction = self._direction[tenants]
        points = np.empty((len(at), 1 + direction.shape[1]))
        points[:, 0], points[:, 1:] = at, at[:, None] * direction[child]
        rays = np.empty((len(tenants) - int(ends.sum()), points.shape[1]))
        rays[:, 0], rays[:, 1:] = 1.0, direction[~ends]
        found = Corners(child, points, at / weight[child], first[~ends], rays, 1 / weight[~ends])
        groups = np.arange(len(tenants), len(mine))
        is_straight = (self._straight[mine[groups]] >= 0) & (self._lone[mine[groups]] >= 0)
        if is_straight.any():
            straight = groups[is_straight]
            found = found.with_others(self._ends.corners(self._straight[mine[straight]], straight))
        if not is_straight.all():
            others = groups[~is_straight]
            parts = [self._polygons[node] for node in mine[others].tolist()]
            found = found.with_others(corners_of_polygons(parts, others))
        return found.in_order() if is_straight.any() and not is_straight.all() else found
