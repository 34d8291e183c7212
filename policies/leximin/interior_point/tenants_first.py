"""Eliminate tenants and limits: a dense system of classes × resources + 1 unknowns.

For many tenants and few classes. The equations are those of ``normal_equations``.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.leximin.interior_point import loops as kernels
from policies.leximin.interior_point.cholesky import bordered


@compiled
def factor(rows, system, slack, room):  # type: ignore[no-untyped-def]
    """Write the matrix and its border at the current point; False when singular."""
    m, classes = slack.shape
    size = m * classes
    theta, total, matrix, rest = system.theta, system.total, system.matrix, system.rest
    rest[:] = 0.0
    for r in range(m):
        for c in range(classes):
            rest[r * classes + c, r * classes + c] = slack[r, c]
    if len(rows.several):
        _add_rows_of_several(rows, system, room)
    else:
        system.diagonal[:] = total
    # A row of one workload leaves (diag(theta) - theta theta' / S) x d d', a weighted graph
    # Laplacian per pair of resources. Its diagonal is summed from the other classes, because
    # subtracting would cancel all digits once one class has nearly all of S.
    for pair in range(len(rows.resource)):
        for j in range(len(total)):
            system.divided[pair, j] = rows.pair_products[pair, j] / total[j]
    kernels.links(theta, system.divided, system.part, system.links)
    matrix[:] = rest
    for pair in range(len(rows.resource)):
        r, q = rows.resource[pair] * classes, rows.other[pair] * classes
        for c in range(classes):
            own = 0.0
            for b in range(classes):
                link = system.links[pair, c, b]
                own += link
                matrix[r + c, q + b] -= link
                if r != q:
                    matrix[q + c, r + b] -= link
            matrix[r + c, q + c] += own
            if r != q:
                matrix[q + c, r + c] += own
    own = 0.0
    for i in range(len(rows.rise)):
        system.by_row[i] = rows.rise[i] / system.diagonal[i]
        own += rows.rise[i] * system.by_row[i]
    system.border[:size] = 0.0
    _add_to_classes(rows, system, system.border.reshape(m, classes))
    system.corner[0] = own
    return True


@compiled
def _add_to_classes(rows, system, out):  # type: ignore[no-untyped-def]
    """Add to out (m, K) the tenant rows' coupling to class rows, applied to ``by_row``."""
    for j in range(len(system.values)):
        system.values[j] = system.kept[j] * system.by_row[rows.row[j]]
    kernels.to_classes(rows.demand, system.theta, system.values, out)


@compiled
def _add_rows_of_several(rows, system, room):  # type: ignore[no-untyped-def]
    """What rows of several workloads leave: their Gram matrices less the row's own direction.

    Limit rows are diagonal within their tenant and go first.
    """
    demand, theta, rest = rows.demand, system.theta, system.rest
    m, classes = demand.shape[0], theta.shape[0]
    for j in rows.limited:
        system.inverse[j] = 1.0 / (system.total[j] + room[j])
        system.kept[j] = room[j] * system.inverse[j]
    system.diagonal[:] = 0.0
    for j in range(len(rows.row)):
        system.diagonal[rows.row[j]] += system.total[j] * system.kept[j]
    for j in rows.several:
        for r in range(m):
            for q in range(m):
                both = demand[r, j] * demand[q, j]
                for c in range(classes):
                    rest[r * classes + c, q * classes + c] += theta[c, j] * both
    shared = 0
    last = -1
    for j in rows.several:
        if rows.row[j] != last:
            shared, last = shared + 1, rows.row[j]
    limits = len(rows.limited)
    outer = np.zeros((limits + shared, m * classes))
    for k in range(limits):
        j = rows.limited[k]
        for r in range(m):
            for c in range(classes):
                outer[k, r * classes + c] = theta[c, j] * demand[r, j] * np.sqrt(system.inverse[j])
    k, last = limits - 1, -1
    for j in rows.several:
        if rows.row[j] != last:
            k, last = k + 1, rows.row[j]
        part = system.kept[j] / np.sqrt(system.diagonal[last])
        for r in range(m):
            for c in range(classes):
                outer[k, r * classes + c] += theta[c, j] * demand[r, j] * part
    rest -= np.dot(outer.T, outer)


@compiled
def solve(rows, system, a, b, e, f, refine, dp, dy, dh):  # type: ignore[no-untyped-def]
    """As ``normal_equations.solve``."""
    m, classes = a.shape
    size = m * classes
    right, values, by_row = system.right, system.values, system.by_row
    for r in range(m):
        for c in range(classes):
            right[r * classes + c] = a[r, c]
    if len(rows.limited):
        for j in range(len(values)):
            values[j] = -system.inverse[j] * e[j]
        kernels.to_classes(rows.demand, system.theta, values, right.reshape(m, classes))
        for j in rows.limited:
            b[rows.row[j]] += system.inverse[j] * system.total[j] * e[j]
    level = f
    for i in range(len(b)):
        by_row[i] = b[i] / system.diagonal[i]
        level -= rows.rise[i] * by_row[i]
    _add_to_classes(rows, system, right.reshape(m, classes))
    dtau = bordered(system, right, level, system.solved)
    flat = dp.reshape(size)
    flat[:] = system.solved
    if refine:
        _write_missed(rows, system, dtau, dp)
        missing = level - np.dot(system.border, flat) - system.corner[0] * dtau
        dtau += bordered(system, system.missed, missing, system.solved)
        flat += system.solved
    kernels.to_workloads(rows.demand, system.theta, dp, values)
    dy[:] = 0.0
    for j in range(len(values)):
        dy[rows.row[j]] += system.kept[j] * values[j]
    for i in range(len(dy)):
        dy[i] = by_row[i] + (dy[i] + rows.rise[i] * dtau) / system.diagonal[i]
    for j in rows.limited:
        reached = system.total[j] * dy[rows.row[j]]
        dh[j] = system.inverse[j] * (e[j] - values[j] + reached)
    return dtau


@compiled
def _write_missed(rows, system, dtau, dp):  # type: ignore[no-untyped-def]
    """What steps of prices leave of the right-hand side, without cancellation.

    Where all classes are priced alike the Laplacians are nearly singular along equal
    steps; applied to the differences between classes they lose no digits there.
    """
    m, classes = dp.shape
    missed, rest = system.missed, system.rest
    missed[:] = system.right + system.border * dtau - np.dot(rest, dp.reshape(m * classes))
    for pair in range(len(rows.resource)):
        r, q = rows.resource[pair], rows.other[pair]
        for c in range(classes):
            for b in range(classes):
                link = system.links[pair, c, b]
                missed[r * classes + c] -= link * (dp[q, c] - dp[q, b])
                if r != q:
                    missed[q * classes + c] -= link * (dp[r, c] - dp[r, b])
