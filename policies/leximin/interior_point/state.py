"""Where the interior-point method is, where it goes, and how far from the optimum that is.

Prices are (m, K), variables (K, n) and demands (m, n), as in ``kernels``; the program and its
parts are those of ``interior_point``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray
from policies.compiled import compiled
from policies.leximin.interior_point import loops as kernels


class Bounds(NamedTuple):
    """The right-hand sides: allowed (K, n), size (m, K), keep (rows,) and limit (n,)."""

    allowed: FloatArray
    size: FloatArray
    keep: FloatArray
    limit: FloatArray


class Point(NamedTuple):
    """Primal x (K, n), s (m, K), u (n,); duals z (K, n), p (m, K), y (rows,), h (n,).

    ``used`` (m, K) and ``placed`` (n,) are sums of x; u and h count only where limited;
    ``numbers`` (6,) are tau, the sum of x z, the best gap, steps since it improved by half,
    all steps, and the number of complementary pairs.
    """

    x: FloatArray
    s: FloatArray
    u: FloatArray
    z: FloatArray
    p: FloatArray
    y: FloatArray
    h: FloatArray
    used: FloatArray
    placed: FloatArray
    numbers: FloatArray


TAU, COMPLEMENTARITY, BEST, SINCE_BEST, STEPS, PAIRS = range(6)


class Step(NamedTuple):
    """A direction, and ``numbers`` (3,): dtau and the longest primal and dual step along it."""

    dx: FloatArray
    ds: FloatArray
    du: FloatArray
    dz: FloatArray
    dp: FloatArray
    dy: FloatArray
    dh: FloatArray
    numbers: FloatArray


DTAU, PRIMAL, DUAL = range(3)


class Aims(NamedTuple):
    """What a step aims at, and what the point misses.

    push (K, n) by which x would move on its own, and its sums by_class (m, K) and by_workload
    (n,); aims of the products s p, (m, K), and u h, (n,); rests of the rows of classes (m, K),
    tenants (rows,) and limits (n,); right-hand sides a, b, e; slack (m, K), room, offset and
    ratio (n,) are scratch.
    """

    push: FloatArray
    by_class: FloatArray
    by_workload: FloatArray
    slack_aim: FloatArray
    limit_aim: FloatArray
    class_rest: FloatArray
    row_rest: FloatArray
    limit_rest: FloatArray
    a: FloatArray
    b: FloatArray
    e: FloatArray
    slack: FloatArray
    room: FloatArray
    offset: FloatArray
    ratio: FloatArray


def step_for(point: Point) -> Step:
    """Room for a direction from a point."""
    return Step(
        np.empty_like(point.x),
        np.empty_like(point.s),
        np.zeros_like(point.u),
        np.empty_like(point.z),
        np.empty_like(point.p),
        np.empty_like(point.y),
        np.zeros_like(point.h),
        np.empty(3),
    )


def aims_for(point: Point) -> Aims:
    """Room for what steps aim at."""
    per_class, per_workload, per_row = point.s, point.u, point.y
    return Aims(
        push=np.empty_like(point.x),
        by_class=np.empty_like(per_class),
        by_workload=np.empty_like(per_workload),
        slack_aim=np.empty_like(per_class),
        limit_aim=np.zeros_like(per_workload),
        class_rest=np.empty_like(per_class),
        row_rest=np.empty_like(per_row),
        limit_rest=np.zeros_like(per_workload),
        a=np.empty_like(per_class),
        b=np.empty_like(per_row),
        e=np.empty_like(per_workload),
        slack=np.empty_like(per_class),
        room=np.zeros_like(per_workload),
        offset=np.empty_like(per_workload),
        ratio=np.empty_like(per_workload),
    )


@compiled
def relative_gap(rows, bounds, point, aims):  # type: ignore[no-untyped-def]
    """The gap between both levels, or what the rows miss if that is more; writes the rests."""
    m, classes = point.s.shape
    tau = point.numbers[TAU]
    dual, missed = 0.0, 0.0
    for r in range(m):
        for c in range(classes):
            size = bounds.size[r, c]
            aims.class_rest[r, c] = size - point.used[r, c] - point.s[r, c]
            missed = max(missed, abs(aims.class_rest[r, c]) / size)
            dual += size * point.p[r, c]
    aims.row_rest[:] = 0.0
    for j in range(len(rows.row)):
        aims.row_rest[rows.row[j]] -= point.placed[j]
    paid = 0.0
    for i in range(len(rows.rise)):
        wanted = bounds.keep[i] + tau * rows.rise[i]
        aims.row_rest[i] += wanted
        missed = max(missed, abs(aims.row_rest[i]) / wanted)
        dual -= bounds.keep[i] * point.y[i]
        paid += rows.rise[i] * point.y[i]
    for j in rows.limited:
        aims.limit_rest[j] = bounds.limit[j] - point.placed[j] - point.u[j]
        missed = max(missed, abs(aims.limit_rest[j]) / bounds.limit[j])
        dual += bounds.limit[j] * point.h[j]
    gap = abs(dual - tau) / max(abs(tau), 1e-12)
    return max(gap, max(missed, abs(1.0 - paid))) if np.isfinite(gap) else np.inf


@compiled
def predicted(rows, point, step):  # type: ignore[no-untyped-def]
    """Complementarity after the longest step."""
    m, classes = point.s.shape
    primal, dual = min(1.0, step.numbers[PRIMAL]), min(1.0, step.numbers[DUAL])
    total = kernels.products(point.x, point.z, step.dx, step.dz, primal, dual)
    for r in range(m):
        for c in range(classes):
            slack = point.s[r, c] + primal * step.ds[r, c]
            total += slack * (point.p[r, c] + dual * step.dp[r, c])
    for j in rows.limited:
        total += (point.u[j] + primal * step.du[j]) * (point.h[j] + dual * step.dh[j])
    return total


@compiled
def move(rows, point, step, primal, dual):  # type: ignore[no-untyped-def]
    """Go so far along the step, in place."""
    m, classes = point.s.shape
    point.numbers[COMPLEMENTARITY] = kernels.advance(
        rows.demand,
        point.x,
        point.z,
        step.dx,
        step.dz,
        primal,
        dual,
        point.used,
        point.placed,
    )
    point.numbers[TAU] += primal * step.numbers[DTAU]
    for r in range(m):
        for c in range(classes):
            point.s[r, c] += primal * step.ds[r, c]
            point.p[r, c] += dual * step.dp[r, c]
    for i in range(len(point.y)):
        point.y[i] += dual * step.dy[i]
    for j in rows.limited:
        point.u[j] += primal * step.du[j]
        point.h[j] += dual * step.dh[j]
