"""Compiled inner loops of the interior-point method: one pass over (workload, class) each.

Arrays are C-contiguous float64. ``allowed`` is an (n, K) mask; outside it ``x``, ``theta``
and ``target`` are 0, ``z`` is 1, and no step is taken. Prices come as (m, K), so that inner
loops run along classes. ``row[j]`` is the tenant row of workload ``j``, ascending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Compiled = TypeVar("Compiled", bound=Callable[..., Any])


def _kernel(function: Compiled) -> Compiled:
    compiled: Compiled = njit(cache=True, fastmath={"reassoc", "contract", "nsz"})(function)
    return compiled


@_kernel
def scaling(demand, x, z, theta, target, weighted, total):  # type: ignore[no-untyped-def]
    """theta = x / z, and its sums; the predictor's target -x z.

    Writes theta (n, K), target (n, K), weighted (n, m * K) = theta d, total (n,).
    """
    n, classes = theta.shape
    m = demand.shape[1]
    for j in range(n):
        row_sum = 0.0
        for c in range(classes):
            theta[j, c] = x[j, c] / z[j, c]
            target[j, c] = -x[j, c] * z[j, c]
            row_sum += theta[j, c]
        for r in range(m):
            for c in range(classes):
                weighted[j, r * classes + c] = theta[j, c] * demand[j, r]
        total[j] = row_sum


@_kernel
def pull(allowed, demand, row, z, p, y, h, theta, target, residual, push, by_class, by_workload):  # type: ignore[no-untyped-def]
    """What complementarity targets and dual residuals ask of x before the duals move.

    Writes residual (n, K), the dual residual; push (n, K) = target / z - theta residual;
    and push's sums by_class (m, K), weighted by demand, and by_workload (n,).
    """
    n, classes = theta.shape
    m = demand.shape[1]
    by_class[:] = 0.0
    for j in range(n):
        offset = h[j] - y[row[j]]
        for c in range(classes):
            residual[j, c] = offset - z[j, c]
        for r in range(m):
            d = demand[j, r]
            for c in range(classes):
                residual[j, c] += d * p[r, c]
        row_sum = 0.0
        for c in range(classes):
            residual[j, c] *= allowed[j, c]
            push[j, c] = target[j, c] / z[j, c] - theta[j, c] * residual[j, c]
            row_sum += push[j, c]
        for r in range(m):
            d = demand[j, r]
            for c in range(classes):
                by_class[r, c] += push[j, c] * d
        by_workload[j] = row_sum


@_kernel
def direction(allowed, demand, row, x, z, theta, residual, push, dp, dy, dh, dx, dz):  # type: ignore[no-untyped-def]
    """Steps dx and dz of x and z that belong to the given steps of the duals.

    Returns the largest of -dx / x and of -dz / z: 1 over the longest steps.
    """
    n, classes = theta.shape
    m = demand.shape[1]
    primal, dual = 1e-300, 1e-300
    for j in range(n):
        offset = dh[j] - dy[row[j]]
        for c in range(classes):
            dz[j, c] = offset
        for r in range(m):
            d = demand[j, r]
            for c in range(classes):
                dz[j, c] += d * dp[r, c]
        for c in range(classes):
            dz[j, c] *= allowed[j, c]
            dx[j, c] = push[j, c] - theta[j, c] * dz[j, c]
            dz[j, c] += residual[j, c]
        for c in range(classes):
            if -dx[j, c] > primal * x[j, c]:
                primal = -dx[j, c] / x[j, c]
            if -dz[j, c] > dual * z[j, c]:
                dual = -dz[j, c] / z[j, c]
    return primal, dual


@_kernel
def products(x, z, dx, dz, primal, dual):  # type: ignore[no-untyped-def]
    """Sum of (x + primal dx)(z + dual dz)."""
    total = 0.0
    n, classes = x.shape
    for j in range(n):
        for c in range(classes):
            total += (x[j, c] + primal * dx[j, c]) * (z[j, c] + dual * dz[j, c])
    return total


@_kernel
def second_order(allowed, x, z, dx, dz, centre, target):  # type: ignore[no-untyped-def]
    """Mehrotra's corrector target: centre - x z - dx dz."""
    n, classes = x.shape
    for j in range(n):
        for c in range(classes):
            target[j, c] = (centre - dx[j, c] * dz[j, c]) * allowed[j, c] - x[j, c] * z[j, c]


@_kernel
def recentre(allowed, x, z, dx, dz, primal, dual, low, high, target):  # type: ignore[no-untyped-def]
    """Gondzio's corrector: pull products that a longer step would leave outside [low, high]."""
    n, classes = x.shape
    for j in range(n):
        for c in range(classes):
            product = (x[j, c] + primal * dx[j, c]) * (z[j, c] + dual * dz[j, c])
            change = max(min(max(product, low), high) - product, -high)
            target[j, c] += change * allowed[j, c]


@_kernel
def advance(demand, x, z, dx, dz, primal, dual, used, by_workload):  # type: ignore[no-untyped-def]
    """Move x and z; write used (m, K) = sum of x d, and by_workload (n,) = sums of x."""
    n, classes = x.shape
    m = demand.shape[1]
    used[:] = 0.0
    for j in range(n):
        row_sum = 0.0
        for c in range(classes):
            x[j, c] += primal * dx[j, c]
            z[j, c] += dual * dz[j, c]
            row_sum += x[j, c]
        for r in range(m):
            d = demand[j, r]
            for c in range(classes):
                used[r, c] += x[j, c] * d
        by_workload[j] = row_sum

