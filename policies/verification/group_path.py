"""The path on which shares rise in a tree of groups, as the verifier works it out.

A node's path is a polygon: corners with its position (the sum of the shares below it that rise), what is
held below it of each resource, and its level. That of a parent follows from those of its children, whose
corners are swept in order of level: between two of them every child that has begun rises with the level,
and a child whose level stays equal over a side jumps along it, in the order of siblings. All sums of a
sweep are cumulative sums; Python loops run over nodes, and over pairs of resources
on the few sides on which another one comes to decide the level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, read_only
from policies.model.allocation import PaidShares
from policies.verification.groups import Groups

# Levels of siblings that differ by less, relative, are equal but for rounding.
SAME_LEVEL = 1e-11
# A resource is the one that decides a level if it is this near to the largest, relative.
DECIDES = 1e-13
# To the last digit, as prices of small limits may begin to count after a small part of a long way.
HALVINGS = 80
# Running sums are taken afresh once they are this part of what they were: rounding stays behind.
FRESH = 1e-3
# Shares that a path remembers: those at a round's level, and those at which a search ended.
MOST_KNOWN = 4


@dataclass(frozen=True, eq=False)
class _Polygon:
    """A node's path.

    Attributes:
        points: (c, 1 + m) position and what is held at each of its corners; level: (c,).
        ray: (m,) growth of ``held`` per unit of position beyond the last corner; None: it ends there.
        ray_level: growth of the level there.
    """

    points: FloatArray
    level: FloatArray
    ray: FloatArray | None
    ray_level: float


@dataclass(frozen=True, eq=False)
class _Corners:
    """The corners of siblings.

    Attributes:
        child: (e,) position of the sibling; points: (e, 1 + m), level: (e,), as of a polygon.
        endless: (q,) corners that a ray follows; ray: (q, 1 + m), ray_level: (q,).
    """

    child: IntArray
    points: FloatArray
    level: FloatArray
    endless: IntArray
    ray: FloatArray
    ray_level: FloatArray

    def with_others(self, others: _Corners) -> _Corners:
        """Return these corners, followed by those of other siblings."""
        return _Corners(
            child=np.concatenate([self.child, others.child]),
            points=np.concatenate([self.points, others.points]),
            level=np.concatenate([self.level, others.level]),
            endless=np.concatenate([self.endless, len(self.child) + others.endless]),
            ray=np.concatenate([self.ray, others.ray]),
            ray_level=np.concatenate([self.ray_level, others.ray_level]),
        )

    def in_order(self) -> _Corners:
        """Return them in the order of siblings, in which equal levels are swept."""
        order = np.argsort(self.child, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        endless = place[self.endless]
        rays = np.argsort(endless)
        return _Corners(
            self.child[order], self.points[order], self.level[order],
            endless[rays], self.ray[rays], self.ray_level[rays],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _LoneEnds:
    """Beginnings and ends of groups below which one tenant moves.

    Attributes:
        points: (g, 2, 1 + m) position and what is held, level: (g, 2), as of a polygon.
        ends: (g,) whether the tenant has an end; direction: (g, m) of its shares.
        weight: (g,) of the groups.
    """

    points: FloatArray
    level: FloatArray
    ends: BoolArray
    direction: FloatArray
    weight: FloatArray

    def corners(self, some: IntArray, child: IntArray) -> _Corners:
        """Return the corners of some groups (s,), which are siblings (s,)."""
        ends, endless = self.ends[some], some[~self.ends[some]]
        sizes = 1 + ends
        group = np.repeat(some, sizes)
        first = np.cumsum(sizes) - sizes
        at = np.arange(len(group)) - np.repeat(first, sizes)
        rays = np.ones((len(endless), self.points.shape[2]))
        rays[:, 1:] = self.direction[endless]
        return _Corners(
            child=np.repeat(child, sizes),
            points=self.points[group, at],
            level=self.level[group, at],
            endless=first[~ends],
            ray=rays,
            ray_level=self.direction[endless].max(axis=1, initial=0.0) / self.weight[endless],
        )


@dataclass(frozen=True, eq=False)
class _Sweep:
    """The corners of a node's children in the order in which they are swept.

    Attributes:
        nodes: (s,) the children that move; child: (e,) position among them of whose corner each is.
        at: (e,) the child's position there, after: (e,) once it jumped; height: (e,) the level.
        slope: (e,) growth of the child's position with the level.
        before, reached: (e,) the node's position when the corner comes, and after its jump.
        rate: (e,) growth of the node's position with the level after it.
    """

    nodes: IntArray
    child: IntArray
    at: FloatArray
    after: FloatArray
    height: FloatArray
    slope: FloatArray
    before: FloatArray
    reached: FloatArray
    rate: FloatArray


@dataclass(frozen=True, eq=False)
class _Layer:
    """The sweeps of all groups of one depth, one after the other.

    Attributes:
        nodes: (g,) the groups; first, last: (g,) the first and the last event of each.
        owner: (e,) position of the group of each event; number: (e,) position of the event in its group.
        child: (e,) position of the event's child among all children. Other columns are of ``_Sweep``.
        children: (c,) the node of each child, or the tenant that moves alone below it.
        group: (c,) position of its group; is_tenant: (c,).
        position: (c,) where a child that is a group begins.
    """

    nodes: IntArray
    first: IntArray
    last: IntArray
    owner: IntArray
    number: IntArray
    child: IntArray
    at: FloatArray
    after: FloatArray
    height: FloatArray
    slope: FloatArray
    before: FloatArray
    reached: FloatArray
    rate: FloatArray
    children: IntArray
    group: IntArray
    is_tenant: BoolArray
    position: FloatArray

    @classmethod
    def of(
        cls,
        nodes: Sequence[int],
        sweeps: Sequence[_Sweep],
        lone: IntArray,
        position: FloatArray,
        t: int,
    ) -> _Layer:
        """Join the sweeps of some groups.

        Args:
            lone: (v,) the tenant that moves alone below a node, -1 elsewhere; position: (v,) where nodes
                begin; t: number of tenants.
        """
        events = np.array([len(sweep.at) for sweep in sweeps])
        sizes = np.array([len(sweep.nodes) for sweep in sweeps])
        first, offset = np.cumsum(events) - events, np.cumsum(sizes) - sizes
        owner = np.repeat(np.arange(len(sweeps)), events)
        children = np.concatenate([sweep.nodes for sweep in sweeps])
        found = np.where(lone[children] >= 0, lone[children], children)
        return cls(
            nodes=np.array(nodes),
            first=first,
            last=first + events - 1,
            owner=owner,
            number=np.arange(len(owner)) - first[owner],
            child=np.concatenate([sweep.child for sweep in sweeps]) + offset[owner],
            at=np.concatenate([sweep.at for sweep in sweeps]),
            after=np.concatenate([sweep.after for sweep in sweeps]),
            height=np.concatenate([sweep.height for sweep in sweeps]),
            slope=np.concatenate([sweep.slope for sweep in sweeps]),
            before=np.concatenate([sweep.before for sweep in sweeps]),
            reached=np.concatenate([sweep.reached for sweep in sweeps]),
            rate=np.concatenate([sweep.rate for sweep in sweeps]),
            children=found,
            group=np.repeat(np.arange(len(sweeps)), sizes),
            is_tenant=found < t,
            position=position[found],
        )

    def positions(self, target: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return which children (c,) have begun, and their positions.

        Args:
            target: (g,) positions of the groups, -inf for those that have not begun.
        """
        # Events of a group are in the order of its positions.
        come = np.bincount(self.owner[self.before <= target[self.owner]], minlength=len(self.nodes))
        latest_event = np.maximum(self.first + come - 1, self.first)
        jumps = (come > 0) & (target < self.reached[latest_event])
        passed = np.flatnonzero(self.number < (come - jumps)[self.owner])
        latest = np.full(len(self.children), -1)
        latest[self.child[passed]] = passed
        position = np.zeros(len(self.children))
        begun = latest >= 0
        height, rate = self.height[latest_event], self.rate[latest_event]
        rises = (come > 0) & ~jumps & (rate > 0)
        # Added last: a level that hardly grows does not distinguish near positions.
        ahead = np.zeros(len(self.nodes))
        ahead[rises] = (target[rises] - self.reached[latest_event[rises]]) / rate[rises]
        event, group = latest[begun], self.group[begun]
        since = height[group] - self.height[event]
        position[begun] = self.after[event] + self.slope[event] * (since + ahead[group])
        if jumps.any():
            event = latest_event[jumps]
            position[self.child[event]] = self.at[event] + (target[jumps] - self.before[event])
            begun[self.child[event]] = True
        return begun, position


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
        self._polygons: dict[int, _Polygon] = {}
        self._sweeps: dict[int, _Sweep] = {}
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
    def _layers(self) -> list[_Layer]:
        """The sweeps by depth, that of the pool first."""
        layers: list[_Layer] = []
        nodes = [self.groups.pool]
        while nodes:
            sweeps = [self._sweeps[node] for node in nodes]
            layer = _Layer.of(nodes, sweeps, self._lone, self._position, len(self.start))
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
        self._polygons[node] = _Polygon(points, level, path.ray, path.ray_level)
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
        height = _common_levels(tier, corners.level)
        order = _by_tier(height, tier)
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
        rate = _running_rates(changes, earlier[order], child)
        gap = np.zeros(len(order))
        gap[:-1] = height[1:] - height[:-1]
        gap[:-1][tier[1:] != tier[:-1]] = 0.0
        before = np.zeros_like(jumps)
        before[1:] = np.cumsum(jumps + rate * gap[:, None], axis=0)[:-1]
        before[:, 0] += self._position[node]
        before[:, 1:] += self._held[node]
        reached = before + jumps
        self._sweeps[node] = _Sweep(
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
        self._polygons[node] = _with_levels(corners_of_node, ray, weight)

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
        straight = _have_one_deciding_resource(begin, end, direction, ends)
        self._straight[nodes[straight]] = np.flatnonzero(straight)
        self._ends = _LoneEnds(points, levels, ends, direction, self._weight[nodes])
        for at in np.flatnonzero(~straight).tolist():
            corners = points[at] if ends[at] else points[at, :1]
            ray = None if ends[at] else direction[at]
            weight = float(self._weight[nodes[at]])
            self._polygons[int(nodes[at])] = _with_levels(corners, ray, weight)
        return lone

    def _corners_of(self, mine: IntArray) -> _Corners:
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
        found = _Corners(child, points, at / weight[child], first[~ends], rays, 1 / weight[~ends])
        groups = np.arange(len(tenants), len(mine))
        is_straight = (self._straight[mine[groups]] >= 0) & (self._lone[mine[groups]] >= 0)
        if is_straight.any():
            straight = groups[is_straight]
            found = found.with_others(self._ends.corners(self._straight[mine[straight]], straight))
        if not is_straight.all():
            others = groups[~is_straight]
            parts = [self._polygons[node] for node in mine[others].tolist()]
            found = found.with_others(_corners_of_polygons(parts, others))
        return found.in_order() if is_straight.any() and not is_straight.all() else found


def _corners_of_polygons(parts: Sequence[_Polygon], child: IntArray) -> _Corners:
    """Return the corners of polygons of some siblings (s,)."""
    counts = np.array([len(part.points) for part in parts])
    last = np.cumsum(counts) - 1
    going = [number for number, part in enumerate(parts) if part.ray is not None]
    points = np.concatenate([part.points for part in parts])
    rays = np.ones((len(going), points.shape[1]))
    rays[:, 1:] = np.array([parts[q].ray for q in going]).reshape(rays[:, 1:].shape)
    return _Corners(
        child=np.repeat(child, counts),
        points=points,
        level=np.concatenate([part.level for part in parts]),
        endless=last[going],
        ray=rays,
        ray_level=np.array([parts[q].ray_level for q in going]),
    )


def _by_tier(level: FloatArray, tier: IntArray) -> IntArray:
    """Return the order of levels (e,) by tier, and of equal ones by position."""
    if (tier == tier[0]).all():
        return np.argsort(level, kind="stable")
    return np.lexsort((level, tier))


def _running_rates(rates: FloatArray, before: FloatArray, child: IntArray) -> FloatArray:
    """Return the sums (e, c) over siblings of their rates after each corner.

    Args:
        rates: (e, c) of the corner's sibling after it; before: (e, c) until it; child: (e,) which one.
    """
    change = rates - before
    total = np.cumsum(change, axis=0)
    begin = 0
    while begin < len(total):
        peak = np.maximum.accumulate(total[begin:], axis=0)
        fallen = np.flatnonzero(((total[begin:] < FRESH * peak) & (peak > 0)).any(axis=1))
        if not len(fallen):
            break
        # Of sums of much larger rates, which have ended by now, nothing but rounding is left.
        begin += int(fallen[0])
        latest = np.full(int(child.max()) + 1, -1)
        latest[child[: begin + 1]] = np.arange(begin + 1)
        fresh = rates[latest[latest >= 0]].sum(axis=0)
        total[begin] = fresh
        total[begin + 1 :] = fresh + np.cumsum(change[begin + 1 :], axis=0)
    return np.maximum(total, 0.0)


def _common_levels(tier: IntArray, level: FloatArray) -> FloatArray:
    """Return the levels (e,) with one level for all that are equal but for rounding within a tier."""
    order = _by_tier(level, tier)
    sorted_, tiers = level[order], tier[order]
    apart = (sorted_[1:] - sorted_[:-1] > SAME_LEVEL * sorted_[1:]) | (tiers[1:] != tiers[:-1])
    cluster = np.zeros(len(order), dtype=np.int64)
    cluster[1:] = np.cumsum(apart)
    last = np.append(np.flatnonzero(apart), len(order) - 1)
    common = np.empty_like(level)
    common[order] = sorted_[last][cluster]
    return common


def _with_levels(points: FloatArray, ray: FloatArray | None, weight: float) -> _Polygon:
    """Return the polygon through points (c, 1 + m).

    It has corners where another resource decides the level.
    """
    if len(points) > 1:
        points = points[np.append(True, np.diff(points[:, 0]) > 0)]
    if ray is not None:
        # Beyond the last of these points no other resource comes to decide the level.
        points = np.concatenate([points, _changes_on_ray(points[-1], ray)])
    held = points[:, 1:]
    near = held >= held.max(axis=1, keepdims=True) * (1 - DECIDES)
    split = ~(near[1:] & near[:-1]).any(axis=1)
    if split.any():
        rows: list[FloatArray] = []
        for number in range(len(points) - 1):
            rows.append(points[number])
            if split[number]:
                rows += _changes_between(points[number], points[number + 1])
        points = np.array([*rows, points[-1]])
        held = points[:, 1:]
    level = np.maximum.accumulate(held.max(axis=1) / weight)
    return _Polygon(points, level, ray, 0.0 if ray is None else float(ray.max()) / weight)


def _have_one_deciding_resource(
    begin: FloatArray, end: FloatArray, direction: FloatArray, ends: BoolArray
) -> BoolArray:
    """Return whether one resource decides the level of a path (v,) from its beginning to its end.

    Args:
        begin, end: (v, m) what is held; direction: (v, m) of those that have no end; ends: (v,).
    """
    near = [held >= held.max(axis=1, keepdims=True) * (1 - DECIDES) for held in (begin, end)]
    fastest = np.arange(len(begin)), direction.argmax(axis=1)
    behind = direction < direction[fastest][:, None]
    # On a ray another resource decides first if it has more of the pool than the fastest.
    overtaken = (behind & (begin > begin[fastest][:, None])).any(axis=1)
    straight: BoolArray = np.where(ends, (near[0] & near[1]).any(axis=1), ~overtaken)
    return straight


def _changes_between(begin: FloatArray, end: FloatArray) -> list[FloatArray]:
    """Points of a side at which lines of resources cross that are the largest on both sides."""
    change = end - begin
    crossings: set[float] = set()
    for r in range(1, len(begin)):
        for s in range(r + 1, len(begin)):
            if change[r] != change[s]:
                part = float((begin[s] - begin[r]) / (change[r] - change[s]))
                point = begin + part * change
                most = point[1:].max()
                if 0 < part < 1 and point[r] >= most * (1 - DECIDES) > 0:
                    crossings.add(part)
    return [begin + part * change for part in sorted(crossings)]


def _changes_on_ray(begin: FloatArray, ray: FloatArray) -> FloatArray:
    """Return the points (c, 1 + m) of a ray at which another resource comes to decide the level."""
    far = 0.0
    fastest = int(ray.argmax())
    for r in range(len(ray)):
        if ray[r] < ray[fastest]:
            far = max(far, float((begin[1 + r] - begin[1 + fastest]) / (ray[fastest] - ray[r])))
    if far <= 0:
        return np.zeros((0, len(begin)))
    change: FloatArray = (begin + far * np.r_[1.0, ray])[None, :]
    return change
