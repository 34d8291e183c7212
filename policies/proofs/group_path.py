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
from policies.compiled import compiled_in_order
from policies.model.group_tree import GroupTree

# Levels this close, relative, are equal: those that rose together differ by rounding.
EQUAL_LEVELS = 1e-11
# Sums of slopes are recomputed once they are below this part of their peak, as rounding remains.
SHRUNK = 1e-3
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
        """(t,) tenants that rise and have tasks left."""
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
            _build(
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
        share = _walk(
            tree.bottom_up, tree.first_child, tree.children, tree.tier, tree.weight, self.start,
            polygons.held, polygons.position, position - self._rest, polygons.built,
        )  # fmt: skip
        return np.where(self.moving, np.minimum(share, self.cap), self.start)

    def furthest(self, cost: Callable[[FloatArray], float], budget: float) -> float:
        """Return the greatest position whose shares cost at most ``budget``, inf if all do.

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
            return np.inf
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
        while right - left > SMALLEST_PART and at_left < 0 < at_right:
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
        held: (v, m) and position: (v,) at the beginning; built: of ``_build``.
    """

    held: FloatArray
    position: FloatArray
    built: tuple[np.ndarray, ...]


@compiled_in_order
def _build(  # type: ignore[no-untyped-def]
    bottom_up, first_child, children, tier, weight, start, cap, moving, direction, held, position
):
    """Work out the polygons of all nodes, each after those of its children.

    Returns:
        first, count: (v,) corners of each node, as positions in the following; none: it does not move.
        level, at, vector: (c,), (c,), (c, m) of each corner: level, position, shares of resources.
        endless: (v,) whether the last corner is followed by a ray, along which per unit of position
        ray: (v, m) vector and ray_level: (v,) level grow.
        common: (c,) the level at which the corner is swept among its siblings' corners.
        order_first, order: the corners of each node's children in the order of the sweep, of which
        order_child: (c,) are the nodes.
    """
    t, m, v_count = len(start), direction.shape[1], len(weight)
    first, count = np.zeros(v_count, dtype=np.int64), np.zeros(v_count, dtype=np.int64)
    endless = np.zeros(v_count, dtype=np.bool_)
    ray, ray_level = np.zeros((v_count, m)), np.zeros(v_count)
    size = 4 * v_count + 64
    level, at, vector = np.empty(size), np.empty(size), np.empty((size, m))
    order_first = np.zeros(v_count + 1, dtype=np.int64)
    order = np.empty(size, dtype=np.int64)
    order_child = np.empty(size, dtype=np.int64)
    common = np.empty(size)
    corners, swept = 0, 0
    for i in range(t):
        first[i] = corners
        if not moving[i]:
            continue
        count[i] = 1
        level[corners], at[corners] = start[i] / weight[i], start[i]
        vector[corners] = start[i] * direction[i]
        corners += 1
        if np.isinf(cap[i]):
            endless[i] = True
            ray[i] = direction[i]
            ray_level[i] = 1.0 / weight[i]
        else:
            count[i] = 2
            level[corners], at[corners] = cap[i] / weight[i], cap[i]
            vector[corners] = cap[i] * direction[i]
            corners += 1
    of_child = np.zeros(v_count)
    slope = np.zeros(v_count)
    slopes = np.zeros((v_count, m))
    since = np.zeros(v_count)
    for v in bottom_up:
        first[v], order_first[v] = corners, swept
        below = 0
        for c in children[first_child[v] : first_child[v + 1]]:
            below += count[c]
        if below == 0:
            continue
        needed = max(corners + (below + 2) * (m + 1), swept + below)
        if needed > len(level):
            size = max(needed, 2 * len(level))
            level, at, common = _longer(level, size), _longer(at, size), _longer(common, size)
            grown = np.empty((size, m))
            grown[: len(vector)] = vector
            vector = grown
            order, order_child = _longer_whole(order, size), _longer_whole(order_child, size)
        begin = first_child[v]
        while begin < first_child[v + 1]:
            end = begin + 1
            while end < first_child[v + 1] and tier[children[end]] == tier[children[begin]]:
                end += 1
            swept = _order_corners(
                children[begin:end], first, count, level, common, order, order_child, swept
            )
            begin = end
        built = (
            first, count, level, at, vector, endless, ray, ray_level, common, order_first, order,
            order_child,
        )  # fmt: skip
        corners, _ = _sweep(
            v, swept, np.inf, corners, children[first_child[v] : first_child[v + 1]], tier, weight,
            held[v], position[v], built, of_child, slope, slopes, since,
        )  # fmt: skip
        count[v] = corners - first[v]
    return (
        first, count, level, at, vector, endless, ray, ray_level, common, order_first, order,
        order_child,
    )  # fmt: skip


@compiled_in_order
def _longer(values, size):  # type: ignore[no-untyped-def]
    grown = np.empty(size)
    grown[: len(values)] = values
    return grown


@compiled_in_order
def _longer_whole(values, size):  # type: ignore[no-untyped-def]
    grown = np.empty(size, dtype=np.int64)
    grown[: len(values)] = values
    return grown


@compiled_in_order
def _order_corners(siblings, first, count, level, common, order, order_child, swept):  # type: ignore[no-untyped-def]
    """Put the corners of siblings of one tier in the order of their levels, then of the siblings.

    Corners of equal level get one common level, so that a side between two of them is a jump.
    """
    begin = swept
    for c in siblings:
        for k in range(first[c], first[c] + count[c]):
            order[swept], order_child[swept] = k, c
            swept += 1
    mine, whose = order[begin:swept].copy(), order_child[begin:swept].copy()
    sorted_ = np.argsort(level[mine], kind="mergesort")
    position = 0
    while position < len(sorted_):
        stop = position + 1
        least = level[mine[sorted_[position]]]
        while stop < len(sorted_) and level[mine[sorted_[stop]]] <= least * (1 + EQUAL_LEVELS):
            stop += 1
        greatest = level[mine[sorted_[stop - 1]]]
        for place in np.sort(sorted_[position:stop]):
            order[begin + position] = mine[place]
            order_child[begin + position] = whose[place]
            common[mine[place]] = greatest
            position += 1
    return swept


@compiled_in_order
def _sweep(  # type: ignore[no-untyped-def]
    v, order_stop, stop, corners, siblings, tier, weight, held, position, built, of_child, slope,
    slopes, since,
):  # fmt: skip
    """Let the children of a node rise until its position is ``stop``.

    Corners are written if that is inf.

    Args:
        v: the node; order_stop: one past its last corner in ``order``; corners: how many are written.
        of_child: (v,) is given the position of each child; slope, since: (v,), slopes: (v, m) scratch.

    Returns:
        How many corners are written then, and the common level that was reached.
    """
    (
        first, count, level, at, vector, endless, ray, ray_level, common, order_first, order,
        order_child,
    ) = built  # fmt: skip
    m = len(held)
    writes = np.isinf(stop)
    now, reached = held.copy(), position
    rate, rates = 0.0, np.zeros(m)
    users = np.zeros(m, dtype=np.int64)
    rising, peak, height = 0, 0.0, 0.0
    for c in siblings:
        slope[c] = 0.0
        if count[c] > 0:
            of_child[c] = at[first[c]]
    if writes:
        corners = _write(corners, now, reached, weight[v], level, at, vector)
    its_tier = tier[order_child[order_first[v]]]
    for e in range(order_first[v], order_stop):
        k, c = order[e], order_child[e]
        if tier[c] != its_tier:
            if rising > 0:
                break  # siblings of a lower tier rise for ever
            its_tier, height = tier[c], common[k]
        if rising > 0 and common[k] > height:
            further = rate * (common[k] - height)
            if reached + further >= stop:
                height += (stop - reached) / rate
                reached = stop
                break
            after = now + rates * (common[k] - height)
            if writes:
                corners = _write_side(
                    corners, now, after, reached, reached + further, weight[v], level, at, vector
                )
            now, reached = after, reached + further
        height = max(height, common[k])
        if slope[c] > 0.0:
            rising -= 1
            rate -= slope[c]
            slope[c] = 0.0
            of_child[c] = at[k]
            for r in range(m):
                if slopes[c, r] > 0.0:
                    users[r] -= 1
                    rates[r] = rates[r] - slopes[c, r] if users[r] > 0 else 0.0
            if rate < SHRUNK * peak:
                rate = 0.0
                rates[:] = 0.0
                for other in siblings:
                    if slope[other] > 0.0:
                        rate += slope[other]
                        rates += slopes[other]
                peak = rate
        if k + 1 < first[c] + count[c]:
            if common[k + 1] > common[k]:
                length = common[k + 1] - common[k]
                slope[c] = (at[k + 1] - at[k]) / length
                for r in range(m):
                    slopes[c, r] = max((vector[k + 1, r] - vector[k, r]) / length, 0.0)
            else:
                further = at[k + 1] - at[k]
                if reached + further >= stop:
                    of_child[c] = at[k] + (stop - reached)
                    reached = stop
                    break
                after = now + (vector[k + 1] - vector[k])
                if writes:
                    corners = _write_side(
                        corners, now, after, reached, reached + further, weight[v], level, at,
                        vector,
                    )  # fmt: skip
                now, reached = after, reached + further
                of_child[c] = at[k + 1]
        elif endless[c]:
            slope[c] = 1.0 / ray_level[c]
            slopes[c] = ray[c] / ray_level[c]
        if slope[c] > 0.0:
            rising += 1
            rate += slope[c]
            peak = max(peak, rate)
            since[c] = common[k]
            for r in range(m):
                if slopes[c, r] > 0.0:
                    users[r] += 1
                    rates[r] += slopes[c, r]
    if rising > 0 and reached < stop:
        if writes:
            corners = _write_ray(
                v, corners, now, reached, rates / rate, weight[v], level, at, vector, endless, ray,
                ray_level,
            )  # fmt: skip
        else:
            height += (stop - reached) / rate
    for c in siblings:
        if slope[c] > 0.0 and not writes:
            of_child[c] += slope[c] * (height - since[c])
    return corners, height


@compiled_in_order
def _write(corners, now, reached, weight, level, at, vector):  # type: ignore[no-untyped-def]
    """Write one corner."""
    level[corners] = now.max() / weight
    at[corners] = reached
    vector[corners] = now
    return corners + 1


@compiled_in_order
def _next_change(now, rates):  # type: ignore[no-untyped-def]
    """Return the resource that decides the level and the length after which another one does."""
    top = 0
    for r in range(1, len(now)):
        if now[r] > now[top] or (now[r] == now[top] and rates[r] > rates[top]):
            top = r
    length = np.inf
    for r in range(len(now)):
        if rates[r] > rates[top]:
            length = min(length, (now[top] - now[r]) / (rates[r] - rates[top]))
    return top, length


@compiled_in_order
def _write_side(corners, before, after, begin, end, weight, level, at, vector):  # type: ignore[no-untyped-def]
    """Write a side of the polygon, with a corner wherever another resource decides the level."""
    if end <= begin:
        return corners
    now, reached = before.copy(), begin
    rates = (after - before) / (end - begin)
    for _ in range(len(now)):
        top, length = _next_change(now, rates)
        if reached + length >= end:
            break
        reached += length
        now = now + rates * length
        corners = _write(corners, now, reached, weight, level, at, vector)
        _make_equal(now, rates, top)
    return _write(corners, after, end, weight, level, at, vector)


@compiled_in_order
def _write_ray(  # type: ignore[no-untyped-def]
    v, corners, before, begin, rates, weight, level, at, vector, endless, ray, ray_level
):
    """Write the corners of a ray, and how the node grows beyond the last one."""
    now, reached = before.copy(), begin
    for _ in range(len(now)):
        top, length = _next_change(now, rates)
        if np.isinf(length):
            break
        reached += length
        now = now + rates * length
        corners = _write(corners, now, reached, weight, level, at, vector)
        _make_equal(now, rates, top)
    endless[v] = True
    ray[v] = rates
    ray_level[v] = rates.max() / weight
    return corners


@compiled_in_order
def _make_equal(now, rates, top):  # type: ignore[no-untyped-def]
    """Undo the rounding of resources that overtake ``top``, or they would meet it again."""
    most = now.max()
    for r in range(len(now)):
        if rates[r] > rates[top] and now[r] >= most * (1 - EQUAL_LEVELS):
            now[r] = most


@compiled_in_order
def _walk(  # type: ignore[no-untyped-def]
    bottom_up, first_child, children, tier, weight, start, held, position, target, built
):
    """(t,) shares of tenants where the pool is at a position, from the pool down."""
    count, order_first = built[1], built[9]
    v_count, m = len(weight), held.shape[1]
    reached = position.copy()
    of_child, slope, since = np.zeros(v_count), np.zeros(v_count), np.zeros(v_count)
    slopes = np.zeros((v_count, m))
    reached[bottom_up[-1]] = target
    for place in range(len(bottom_up) - 1, -1, -1):
        v = bottom_up[place]
        if count[v] == 0 or reached[v] <= position[v]:
            continue
        siblings = children[first_child[v] : first_child[v + 1]]
        stop = order_first[v]
        for c in siblings:
            stop += count[c]
        _sweep(
            v, stop, reached[v], 0, siblings, tier, weight, held[v], position[v], built, of_child,
            slope, slopes, since,
        )  # fmt: skip
        for c in siblings:
            if count[c] > 0:
                reached[c] = of_child[c]
    share = start.copy()
    for i in range(len(start)):
        if count[i] > 0:
            share[i] = reached[i]
    return share
