"""Compiled inner loops of the interior-point method: one pass over (class, workload) each.

Everything per variable is (K, n), demands are (m, n) and prices (m, K), C-contiguous, so
that the innermost loops run over workloads and vectorise. ``allowed`` is a mask of 0 and 1;
outside it ``x`` and ``theta`` are 0, ``z`` is 1, and no step is taken.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled


@compiled
def scaling(x, z, theta, total):  # type: ignore[no-untyped-def]
    """Write theta (K, n) = x / z and total (n,) = its sums over classes."""
    classes, n = theta.shape
    total[:] = 0.0
    for c in range(classes):
        for j in range(n):
            theta[c, j] = x[c, j] / z[c, j]
            total[j] += theta[c, j]


@compiled
def to_classes(demand, theta, values, out):  # type: ignore[no-untyped-def]
    """Add to out (m, K) the sums over workloads of theta d values; values (n,)."""
    classes, n = theta.shape
    for c in range(classes):
        for r in range(demand.shape[0]):
            total = 0.0
            for j in range(n):
                total += theta[c, j] * (demand[r, j] * values[j])
            out[r, c] += total


@compiled
def to_workloads(demand, theta, prices, out):  # type: ignore[no-untyped-def]
    """Write out (n,) = sum over classes of theta d . prices; prices (m, K)."""
    classes, n = theta.shape
    out[:] = 0.0
    for c in range(classes):
        for r in range(demand.shape[0]):
            price = prices[r, c]
            for j in range(n):
                out[j] += theta[c, j] * demand[r, j] * price


@compiled
def links(theta, products, part, out):  # type: ignore[no-untyped-def]
    """Write out (pairs, K, K), symmetric, zero diagonal: sums of theta_b theta_c products.

    products (pairs, n) are d[r] d[q] / S, 0 for workloads that do not count; part (K, n) is
    scratch.
    """
    classes, n = theta.shape
    for c in range(classes):
        for b in range(c):
            for j in range(n):
                part[b, j] = theta[c, j] * theta[b, j]
        together = np.dot(products, part[:c].T)
        for pair in range(products.shape[0]):
            out[pair, c, c] = 0.0
            for b in range(c):
                out[pair, c, b] = together[pair, b]
                out[pair, b, c] = together[pair, b]


@compiled
def direction(allowed, demand, x, z, theta, push, dp, offset, ratio, dx, dz):  # type: ignore[no-untyped-def]
    """Steps dx and dz of x and z for given steps of the duals; offset (n,) is dh - dy.

    Returns the largest of -dx / x and of -dz / z, or 0: 1 over the longest steps. ratio (n,)
    is scratch. Non-negative floats are in the order of their bits, and integers have a
    greatest in one pass of vectors.
    """
    classes, n = theta.shape
    bits = ratio.view(np.int64)
    peak = np.zeros(2)
    most = peak.view(np.int64)
    for c in range(classes):
        for j in range(n):
            dz[c, j] = offset[j]
        for r in range(demand.shape[0]):
            price = dp[r, c]
            for j in range(n):
                dz[c, j] += demand[r, j] * price
        for j in range(n):
            dz[c, j] *= allowed[c, j]
            dx[c, j] = push[c, j] - theta[c, j] * dz[c, j]
            ratio[j] = -dz[c, j] / z[c, j]
        most[1] = greatest(bits, most[1])
        for j in range(n):
            ratio[j] = -dx[c, j] / x[c, j] if dx[c, j] < 0.0 else 0.0
        most[0] = greatest(bits, most[0])
    return peak[0], peak[1]


@compiled
def greatest(bits, most):  # type: ignore[no-untyped-def]
    """The greatest of most and of bits (n,), the bits of floats; negative ones count as less."""
    for j in range(len(bits)):
        most = max(most, bits[j])
    return most


@compiled
def products(x, z, dx, dz, primal, dual):  # type: ignore[no-untyped-def]
    """Sum of (x + primal dx)(z + dual dz)."""
    total = 0.0
    classes, n = x.shape
    for c in range(classes):
        for j in range(n):
            total += (x[c, j] + primal * dx[c, j]) * (z[c, j] + dual * dz[c, j])
    return total


@compiled
def second_order(allowed, demand, x, z, dx, dz, centre, push, by_class, by_workload):  # type: ignore[no-untyped-def]
    """Mehrotra's corrector: push (K, n) = (centre - x z - dx dz) / z.

    Also writes push's sums by_class (m, K), weighted by demand, and by_workload (n,).
    """
    classes, n = x.shape
    by_workload[:] = 0.0
    for c in range(classes):
        for j in range(n):
            wanted = (centre - dx[c, j] * dz[c, j]) * allowed[c, j]
            push[c, j] = wanted / z[c, j] - x[c, j]
            by_workload[j] += push[c, j]
        _used(demand, push, c, by_class)


@compiled
def recentre(allowed, demand, x, z, dx, dz, primal, dual, low, high, push, by_class, by_workload):  # type: ignore[no-untyped-def]
    """Gondzio's corrector: pull products that a longer step would leave outside [low, high].

    Adds to push (K, n); writes its sums by_class (m, K) and by_workload (n,).
    """
    classes, n = x.shape
    by_workload[:] = 0.0
    for c in range(classes):
        for j in range(n):
            product = (x[c, j] + primal * dx[c, j]) * (z[c, j] + dual * dz[c, j])
            change = recentred(product, low, high)
            push[c, j] += change * allowed[c, j] / z[c, j]
            by_workload[j] += push[c, j]
        _used(demand, push, c, by_class)


@compiled
def recentred(product, low, high):  # type: ignore[no-untyped-def]
    """How far to move one product: into [low, high], but no further down than by high."""
    return max(min(max(product, low), high) - product, -high)


@compiled
def advance(demand, x, z, dx, dz, primal, dual, used, by_workload):  # type: ignore[no-untyped-def]
    """Move x and z; write used (m, K) = sum of x d, and by_workload (n,) = sums of x.

    Returns the sum of x z.
    """
    classes, n = x.shape
    by_workload[:] = 0.0
    complementarity = 0.0
    for c in range(classes):
        for j in range(n):
            x[c, j] += primal * dx[c, j]
            z[c, j] += dual * dz[c, j]
            by_workload[j] += x[c, j]
            complementarity += x[c, j] * z[c, j]
        _used(demand, x, c, used)
    return complementarity


@compiled
def _used(demand, x, c, out):  # type: ignore[no-untyped-def]
    for r in range(demand.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[c, j] * demand[r, j]
        out[r, c] = total
