"""Compiled steps of Mehrotra's predictor-corrector method for one round of the leximin.

The program and its parts are those of ``interior_point``; prices are (m, K), variables (K, n)
and demands (m, n), as in ``kernels``.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.leximin.interior_point import loops as kernels
from policies.leximin.interior_point.equations import factor, solve
from policies.leximin.interior_point.state import (
    BEST,
    COMPLEMENTARITY,
    DTAU,
    DUAL,
    PAIRS,
    PRIMAL,
    SINCE_BEST,
    STEPS,
    move,
    predicted,
    relative_gap,
)

GOING, ARRIVED, LOST = 0, 1, 2

MOST_STEPS_WITHOUT_GAIN = 25
LONG_STEP = 0.9
MOST_CENTRALITY_CORRECTORS = 1
# Close to the optimum the linear systems are nearly singular.
REFINE_BELOW = 1e-4
# Relative gap to aim for: well inside the 1e-9 that is certified afterwards.
AIM = 1e-12
# ... and what is accepted where rounding allows no more.
GOOD_ENOUGH = 1e-10
SHORTEST_STEP = 1e-8


@compiled
def advance(rows, bounds, system, point, aims, step, other, most):  # type: ignore[no-untyped-def]
    """At most so many steps, from ``point`` in place; GOING, ARRIVED or LOST.

    ``step`` and ``other`` are room for two directions.
    """
    numbers = point.numbers
    for _ in range(most):
        gap = relative_gap(rows, bounds, point, aims)
        numbers[SINCE_BEST] = 0.0 if gap < 0.5 * numbers[BEST] else numbers[SINCE_BEST] + 1.0
        numbers[BEST] = min(gap, numbers[BEST])
        if gap <= AIM or (gap <= GOOD_ENOUGH and numbers[SINCE_BEST] > 1):
            return ARRIVED
        if numbers[SINCE_BEST] > MOST_STEPS_WITHOUT_GAIN or not np.isfinite(gap):
            return LOST
        if not _advance_once(rows, bounds, system, point, aims, step, other, gap < REFINE_BELOW):
            return LOST
        numbers[STEPS] += 1
    return GOING


@compiled
def _advance_once(rows, bounds, system, point, aims, step, other, refine):  # type: ignore[no-untyped-def]
    """One predictor and its correctors; False when singular or when the point hardly moves."""
    m, classes = point.s.shape
    numbers = point.numbers
    # The predictor aims at complementarity 0: it pushes every entry by itself.
    total = numbers[COMPLEMENTARITY]
    for r in range(m):
        for c in range(classes):
            aims.slack[r, c] = point.s[r, c] / point.p[r, c]
            aims.slack_aim[r, c] = -point.s[r, c] * point.p[r, c]
            aims.by_class[r, c] = -point.used[r, c]
            total -= aims.slack_aim[r, c]
    for j in rows.limited:
        aims.room[j] = point.u[j] / point.h[j]
        aims.limit_aim[j] = -point.u[j] * point.h[j]
        total -= aims.limit_aim[j]
    for c in range(classes):
        for j in range(len(point.placed)):
            aims.push[c, j] = -point.x[c, j]
    for j in range(len(point.placed)):
        aims.by_workload[j] = -point.placed[j]
    if not factor(rows, system, point.x, point.z, aims.slack, aims.room):
        return False
    _direction(rows, bounds, system, point, aims, step, refine)
    mu = total / numbers[PAIRS]
    centre = mu * (predicted(rows, point, step) / total) ** 3
    kernels.second_order(
        bounds.allowed,
        rows.demand,
        point.x,
        point.z,
        step.dx,
        step.dz,
        centre,
        aims.push,
        aims.by_class,
        aims.by_workload,
    )
    for r in range(m):
        for c in range(classes):
            aims.slack_aim[r, c] += centre - step.ds[r, c] * step.dp[r, c]
    for j in rows.limited:
        aims.limit_aim[j] += centre - step.du[j] * step.dh[j]
    _direction(rows, bounds, system, point, aims, step, refine)
    for _ in range(MOST_CENTRALITY_CORRECTORS):
        if min(step.numbers[PRIMAL], step.numbers[DUAL]) >= LONG_STEP:
            break
        _recentre(rows, bounds, point, aims, step, centre)
        _direction(rows, bounds, system, point, aims, other, refine)
        before = min(1.0, step.numbers[PRIMAL]) + min(1.0, step.numbers[DUAL])
        if min(1.0, other.numbers[PRIMAL]) + min(1.0, other.numbers[DUAL]) <= before + 0.03:
            break
        step, other = other, step
    primal = _short_of_boundary(step.numbers[PRIMAL])
    dual = _short_of_boundary(step.numbers[DUAL])
    move(rows, point, step, primal, dual)
    return max(primal, dual) > SHORTEST_STEP


@compiled
def _direction(rows, bounds, system, point, aims, step, refine):  # type: ignore[no-untyped-def]
    """Solve for the current aims, into ``step``."""
    m, classes = point.s.shape
    for r in range(m):
        for c in range(classes):
            pull = aims.slack_aim[r, c] / point.p[r, c]
            aims.a[r, c] = aims.by_class[r, c] + pull - aims.class_rest[r, c]
    aims.b[:] = aims.row_rest
    for j in range(len(rows.row)):
        aims.b[rows.row[j]] -= aims.by_workload[j]
        aims.e[j] = aims.by_workload[j] - aims.limit_rest[j]
    for j in rows.limited:
        aims.e[j] += aims.limit_aim[j] / point.h[j]
    missing = 1.0 - np.dot(rows.rise, point.y)
    step.numbers[DTAU] = solve(
        rows, system, aims.a, aims.b, aims.e, missing, refine, step.dp, step.dy, step.dh
    )
    for j in range(len(rows.row)):
        aims.offset[j] = step.dh[j] - step.dy[rows.row[j]]
    primal, dual = kernels.direction(
        bounds.allowed,
        rows.demand,
        point.x,
        point.z,
        system.theta,
        aims.push,
        step.dp,
        aims.offset,
        aims.ratio,
        step.dx,
        step.dz,
    )
    for r in range(m):
        for c in range(classes):
            pull = aims.slack_aim[r, c] / point.p[r, c]
            step.ds[r, c] = pull - aims.slack[r, c] * step.dp[r, c]
            primal = max(primal, -step.ds[r, c] / point.s[r, c])
            dual = max(dual, -step.dp[r, c] / point.p[r, c])
    for j in rows.limited:
        step.du[j] = aims.limit_aim[j] / point.h[j] - aims.room[j] * step.dh[j]
        primal = max(primal, -step.du[j] / point.u[j])
        dual = max(dual, -step.dh[j] / point.h[j])
    step.numbers[PRIMAL] = 1.0 / max(primal, 1e-300)
    step.numbers[DUAL] = 1.0 / max(dual, 1e-300)


@compiled
def _recentre(rows, bounds, point, aims, step, centre):  # type: ignore[no-untyped-def]
    """Gondzio's centrality corrector (Comput. Optim. Appl. 6, 1996), added to the aims."""
    m, classes = point.s.shape
    primal, dual = min(1.0, step.numbers[PRIMAL] + 0.3), min(1.0, step.numbers[DUAL] + 0.3)
    low, high = 0.1 * centre, 10.0 * centre
    kernels.recentre(
        bounds.allowed,
        rows.demand,
        point.x,
        point.z,
        step.dx,
        step.dz,
        primal,
        dual,
        low,
        high,
        aims.push,
        aims.by_class,
        aims.by_workload,
    )
    for r in range(m):
        for c in range(classes):
            slack = point.s[r, c] + primal * step.ds[r, c]
            product = slack * (point.p[r, c] + dual * step.dp[r, c])
            aims.slack_aim[r, c] += kernels.recentred(product, low, high)
    for j in rows.limited:
        room = point.u[j] + primal * step.du[j]
        product = room * (point.h[j] + dual * step.dh[j])
        aims.limit_aim[j] += kernels.recentred(product, low, high)


@compiled
def _short_of_boundary(longest):  # type: ignore[no-untyped-def]
    """Step length: long steps go nearly to the boundary, short ones keep well away from it."""
    reach = min(1.0, longest)
    return min(1.0, longest * (0.9 + 0.0995 * reach**2))
