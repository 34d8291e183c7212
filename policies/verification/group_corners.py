"""The corners of paths of nodes, as the verifier joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray

# A resource is the one that decides a level if it is this near to the largest, relative.
DECIDES = 1e-13


@dataclass(frozen=True, eq=False)
class Polygon:
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
class Corners:
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

    def with_others(self, others: Corners) -> Corners:
        """Return these corners, followed by those of other siblings."""
        return Corners(
            child=np.concatenate([self.child, others.child]),
            points=np.concatenate([self.points, others.points]),
            level=np.concatenate([self.level, others.level]),
            endless=np.concatenate([self.endless, len(self.child) + others.endless]),
            ray=np.concatenate([self.ray, others.ray]),
            ray_level=np.concatenate([self.ray_level, others.ray_level]),
        )

    def in_order(self) -> Corners:
        """Return them in the order of siblings, in which equal levels are swept."""
        order = np.argsort(self.child, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        endless = place[self.endless]
        rays = np.argsort(endless)
        return Corners(
            self.child[order], self.points[order], self.level[order],
            endless[rays], self.ray[rays], self.ray_level[rays],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LoneEnds:
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

    def corners(self, some: IntArray, child: IntArray) -> Corners:
        """Return the corners of some groups (s,), which are siblings (s,)."""
        ends, endless = self.ends[some], some[~self.ends[some]]
        sizes = 1 + ends
        group = np.repeat(some, sizes)
        first = np.cumsum(sizes) - sizes
        at = np.arange(len(group)) - np.repeat(first, sizes)
        rays = np.ones((len(endless), self.points.shape[2]))
        rays[:, 1:] = self.direction[endless]
        return Corners(
            child=np.repeat(child, sizes),
            points=self.points[group, at],
            level=self.level[group, at],
            endless=first[~ends],
            ray=rays,
            ray_level=self.direction[endless].max(axis=1, initial=0.0) / self.weight[endless],
        )


def corners_of_polygons(parts: Sequence[Polygon], child: IntArray) -> Corners:
    """Return the corners of polygons of some siblings (s,)."""
    counts = np.array([len(part.points) for part in parts])
    last = np.cumsum(counts) - 1
    going = [number for number, part in enumerate(parts) if part.ray is not None]
    points = np.concatenate([part.points for part in parts])
    rays = np.ones((len(going), points.shape[1]))
    rays[:, 1:] = np.array([parts[q].ray for q in going]).reshape(rays[:, 1:].shape)
    return Corners(
        child=np.repeat(child, counts),
        points=points,
        level=np.concatenate([part.level for part in parts]),
        endless=last[going],
        ray=rays,
        ray_level=np.array([parts[q].ray_level for q in going]),
    )


def polygon_through(points: FloatArray, ray: FloatArray | None, weight: float) -> Polygon:
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
    return Polygon(points, level, ray, 0.0 if ray is None else float(ray.max()) / weight)


def have_one_deciding_resource(
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
