"""Compiled loops that work out the paths of a tree's nodes as polygons and walk along them.

Levels, positions and paths are defined in ``group_path``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled_in_order

# Levels this close, relative, are equal: those that rose together differ by rounding.
EQUAL_LEVELS = 1e-11
# Sums of slopes are recomputed once they are below this part of their peak, as rounding remains.
SHRUNK = 1e-3


class Tree(NamedTuple):
    """The tree of a round, and what its nodes have at the beginning.

    Attributes:
        bottom_up ... weight: as in ``GroupTree``; start, cap, moving: (t,) as in ``GroupPath``.
        held: (v, m) and position: (v,) at the beginning.
    """

    bottom_up: IntArray
    first_child: IntArray
    children: IntArray
    tier: IntArray
    weight: FloatArray
    start: FloatArray
    cap: FloatArray
    moving: BoolArray
    held: FloatArray
    position: FloatArray


class Polygons(NamedTuple):
    """Paths of all nodes.

    Attributes:
        first, corners: (v,) corners of each node, as positions in the following; none: it does not move.
        level, at, vector: (c,), (c,), (c, m) of each corner: level, position, shares of resources.
        endless: (v,) whether the last corner is followed by a ray, along which per unit of position
            ``ray`` (v, m) and ``ray_level`` (v,) are what the vector and the level grow by.
        common: (c,) the level at which the corner is swept among its siblings' corners.
        order_first, order: the corners of each node's children in the order of the sweep, of which
            ``order_child`` (c,) are the nodes.
    """

    first: IntArray
    corners: IntArray
    level: FloatArray
    at: FloatArray
    vector: FloatArray
    endless: BoolArray
    ray: FloatArray
    ray_level: FloatArray
    common: FloatArray
    order_first: IntArray
    order: IntArray
    order_child: IntArray


@compiled_in_order
def polygons_of(tree, direction):
    """Return the ``Polygons`` of all nodes, each made after those of its children."""
    bottom_up, first_child, children, tier, weight, start, cap, moving, _, _ = tree
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
    # Tenants first: a tenant's path is one side, or a ray if its tasks have no end.
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
        # Between two corners of the children each resource can begin to decide the level once.
        needed = max(corners + (below + 2) * (m + 1), swept + below)
        if needed > len(level):
            size = max(needed, 2 * len(level))
            level, at, common = _longer(level, size), _longer(at, size), _longer(common, size)
            grown = np.empty((size, m))
            grown[: len(vector)] = vector
            vector = grown
            order, order_child = _longer_whole(order, size), _longer_whole(order_child, size)
        # Tier by tier, because a lower tier rises only once all of a higher one is at its end.
        begin = first_child[v]
        while begin < first_child[v + 1]:
            end = begin + 1
            while end < first_child[v + 1] and tier[children[end]] == tier[children[begin]]:
                end += 1
            swept = _order_corners(
                children[begin:end], first, count, level, common, order, order_child, swept
            )
            begin = end
        built = Polygons(
            first, count, level, at, vector, endless, ray, ray_level, common, order_first, order,
            order_child,
        )  # fmt: skip
        siblings = children[first_child[v] : first_child[v + 1]]
        corners, _ = _sweep(
            tree, built, v, swept, np.inf, corners, siblings, (of_child, slope, slopes, since)
        )
        count[v] = corners - first[v]
    return Polygons(
        first, count, level, at, vector, endless, ray, ray_level, common, order_first, order,
        order_child,
    )  # fmt: skip


@compiled_in_order
def _longer(values, size):
    grown = np.empty(size)
    grown[: len(values)] = values
    return grown


@compiled_in_order
def _longer_whole(values, size):
    grown = np.empty(size, dtype=np.int64)
    grown[: len(values)] = values
    return grown


@compiled_in_order
def _order_corners(siblings, first, count, level, common, order, order_child, swept):
    """Put the corners of siblings of one tier in the order of their levels, then of the siblings.

    Corners of equal level get one common level, so that a side between two of them is a jump.
    """
    begin = swept
    for c in siblings:
        for k in range(first[c], first[c] + count[c]):
            order[swept], order_child[swept] = k, c
            swept += 1
    mine, whose = order[begin:swept].copy(), order_child[begin:swept].copy()
    # Stable, and equal levels then in the order of siblings, whatever rounding made of them.
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
def _sweep(tree, built, v, order_stop, stop, corners, siblings, scratch):
    """Let the children of a node rise until its position is ``stop``.

    Corners are written if that is inf.

    Args:
        v: the node; order_stop: one past its last corner in ``order``; corners: how many are written.
        scratch: (v,) is given the position of each child; slope (v,), slopes (v, m) and since (v,).

    Returns:
        How many corners are written then, and the common level that was reached.
    """
    (
        first, count, level, at, vector, endless, ray, ray_level, common, order_first, order,
        order_child,
    ) = built  # fmt: skip
    tier, weight = tree.tier, tree.weight[v]
    held, position = tree.held[v], tree.position[v]
    of_child, slope, slopes, since = scratch
    polygon = level, at, vector
    m = len(held)
    writes = np.isinf(stop)
    # What is held only matters to corners.
    resources = m if writes else 0
    now, reached = held.copy(), position
    # Sums over the siblings that rise: a corner changes one of them, and the others are not
    # visited.
    rate, rates = 0.0, np.zeros(m)
    users = np.zeros(m, dtype=np.int64)
    rising, peak, height = 0, 0.0, 0.0
    for c in siblings:
        slope[c] = 0.0
        if count[c] > 0:
            of_child[c] = at[first[c]]
    if writes:
        corners = _write(polygon, corners, now, reached, weight)
    # Added last: a level does not distinguish near positions where its resource hardly grows.
    beyond = 0.0
    its_tier = tier[order_child[order_first[v]]]
    for e in range(order_first[v], order_stop):
        k, c = order[e], order_child[e]
        if tier[c] != its_tier:
            if rising > 0:
                break  # siblings of a lower tier rise for ever
            its_tier, height = tier[c], common[k]
        if rising > 0 and common[k] > height:
            # All that rise go straight as far as this corner, and so does the node.
            further = rate * (common[k] - height)
            if reached + further >= stop:
                beyond = (stop - reached) / rate
                reached = stop
                break
            if writes:
                after = now + rates * (common[k] - height)
                corners = _write_side(
                    polygon, corners, now, after, reached, reached + further, weight
                )
                now = after
            reached += further
        height = max(height, common[k])
        if slope[c] > 0.0:
            rising -= 1
            rate -= slope[c]
            slope[c] = 0.0
            of_child[c] = at[k]
            for r in range(resources):
                # Exactly 0 without users: a rounded rest would let a resource grow that is not
                # used.
                if slopes[c, r] > 0.0:
                    users[r] -= 1
                    rates[r] = rates[r] - slopes[c, r] if users[r] > 0 else 0.0
            if rate < SHRUNK * peak:
                rate = 0.0
                rates[:] = 0.0
                for other in siblings:
                    if slope[other] > 0.0:
                        rate += slope[other]
                        for r in range(resources):
                            rates[r] += slopes[other, r]
                peak = rate
        if k + 1 < first[c] + count[c]:
            if common[k + 1] > common[k]:
                length = common[k + 1] - common[k]
                slope[c] = (at[k + 1] - at[k]) / length
                for r in range(resources):
                    # Amounts never fall along a path, except by rounding.
                    slopes[c, r] = max((vector[k + 1, r] - vector[k, r]) / length, 0.0)
            else:
                # A jump: the child moves while the level stands still, so that it goes alone.
                further = at[k + 1] - at[k]
                if reached + further >= stop:
                    of_child[c] = at[k] + (stop - reached)
                    reached = stop
                    break
                if writes:
                    after = now + (vector[k + 1] - vector[k])
                    corners = _write_side(
                        polygon, corners, now, after, reached, reached + further, weight
                    )
                    now = after
                reached += further
                of_child[c] = at[k + 1]
        elif endless[c]:
            slope[c] = 1.0 / ray_level[c]
            for r in range(resources):
                slopes[c, r] = ray[c, r] / ray_level[c]
        if slope[c] > 0.0:
            rising += 1
            rate += slope[c]
            peak = max(peak, rate)
            since[c] = common[k]
            for r in range(resources):
                if slopes[c, r] > 0.0:
                    users[r] += 1
                    rates[r] += slopes[c, r]
    if rising > 0 and reached < stop:
        if writes:
            corners = _write_ray(built, v, corners, now, reached, rates / rate, weight)
        else:
            beyond = (stop - reached) / rate
    # Only here, as those that go on to rise are not visited at each corner.
    for c in siblings:
        if slope[c] > 0.0 and not writes:
            of_child[c] += slope[c] * ((height - since[c]) + beyond)
    return corners, height + beyond


@compiled_in_order
def _write(polygon, corners, now, reached, weight):
    """Write one corner."""
    level, at, vector = polygon
    level[corners] = now.max() / weight
    at[corners] = reached
    vector[corners] = now
    return corners + 1


@compiled_in_order
def _next_change(now, rates):
    """Return the resource that decides the level and the length after which another one does."""
    top = 0
    for r in range(1, len(now)):
        # Of equal amounts the faster one decides from here on.
        if now[r] > now[top] or (now[r] == now[top] and rates[r] > rates[top]):
            top = r
    length = np.inf
    for r in range(len(now)):
        if rates[r] > rates[top]:
            length = min(length, (now[top] - now[r]) / (rates[r] - rates[top]))
    return top, length


@compiled_in_order
def _write_side(polygon, corners, before, after, begin, end, weight):
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
        corners = _write(polygon, corners, now, reached, weight)
        _make_equal(now, rates, top)
    return _write(polygon, corners, after, end, weight)


@compiled_in_order
def _write_ray(built, v, corners, before, begin, rates, weight):
    """Write the corners of a ray, and how the node grows beyond the last one."""
    polygon = built.level, built.at, built.vector
    now, reached = before.copy(), begin
    for _ in range(len(now)):
        top, length = _next_change(now, rates)
        if np.isinf(length):
            break
        reached += length
        now = now + rates * length
        corners = _write(polygon, corners, now, reached, weight)
        _make_equal(now, rates, top)
    built.endless[v] = True
    built.ray[v] = rates
    built.ray_level[v] = rates.max() / weight
    return corners


@compiled_in_order
def _make_equal(now, rates, top):
    """Undo the rounding of resources that overtake ``top``, or they would meet it again."""
    most = now.max()
    for r in range(len(now)):
        if rates[r] > rates[top] and now[r] >= most * (1 - EQUAL_LEVELS):
            now[r] = most


@compiled_in_order
def shares_at(tree, built, target):
    """Return the shares (t,) of tenants where the pool is at a position, from the pool down."""
    count, order_first = built.corners, built.order_first
    bottom_up, first_child, children, position = (
        tree.bottom_up, tree.first_child, tree.children, tree.position,
    )  # fmt: skip
    v_count, m = len(tree.weight), tree.held.shape[1]
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
        _sweep(tree, built, v, stop, reached[v], 0, siblings, (of_child, slope, slopes, since))
        for c in siblings:
            if count[c] > 0:
                reached[c] = of_child[c]
    share = tree.start.copy()
    for i in range(len(share)):
        if count[i] > 0:
            share[i] = reached[i]
    return share
