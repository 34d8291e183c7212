"""Eliminate servers: a dense system of rows + limits + 1 unknowns.

For few tenants and many classes. The equations are those of ``normal_equations``.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled
from policies.leximin.interior_point.cholesky import bordered, cholesky


@compiled
def factor(rows, system, slack, room):  # type: ignore[no-untyped-def]
    """Write the matrix and its border at the current point; False when singular."""
    m, classes = slack.shape
    n, tenants = len(rows.row), len(rows.rise)
    demand, theta, matrix = rows.demand, system.theta, system.matrix
    for c in range(classes):
        block = system.blocks[c]
        for r in range(m):
            for q in range(r + 1):
                total = 0.0
                for j in range(n):
                    total += theta[c, j] * (demand[r, j] * demand[q, j])
                block[r, q] = total
            block[r, r] += slack[r, c]
        if not cholesky(block):
            return False
        for r in range(m):
            mine = system.columns[c * m + r]
            for j in range(n):
                mine[j] = theta[c, j] * demand[r, j]
            for q in range(r):
                for j in range(n):
                    mine[j] -= block[r, q] * system.columns[c * m + q, j]
            for j in range(n):
                mine[j] /= block[r, r]
    inner = -np.dot(system.columns.T, system.columns)
    for j in range(n):
        inner[j, j] += system.total[j]
    # Rows of the reduced system are combinations of workloads: tenants, then limits.
    matrix[:] = 0.0
    for i in range(n):
        for j in range(n):
            matrix[rows.row[i], rows.row[j]] += inner[i, j]
    for k in range(len(rows.limited)):
        i = rows.limited[k]
        for j in range(n):
            matrix[tenants + k, rows.row[j]] -= inner[i, j]
            matrix[rows.row[j], tenants + k] -= inner[i, j]
        for other in range(len(rows.limited)):
            matrix[tenants + k, tenants + other] = inner[i, rows.limited[other]]
        matrix[tenants + k, tenants + k] += room[i]
    system.border[:] = 0.0
    system.border[:tenants] = rows.rise
    system.corner[0] = 0.0
    return True


@compiled
def solve(rows, system, a, b, e, f, dp, dy, dh):  # type: ignore[no-untyped-def]
    """As ``normal_equations.solve``."""
    m, classes = a.shape
    n, tenants = len(rows.row), len(rows.rise)
    values, columns = system.values, system.columns
    values[:] = 0.0
    for c in range(classes):
        for r in range(m):
            total = a[r, c]
            for q in range(r):
                total -= system.blocks[c, r, q] * dp[q, c]
            dp[r, c] = total / system.blocks[c, r, r]
            for j in range(n):
                values[j] += columns[c * m + r, j] * dp[r, c]
    right = system.right
    right[:tenants] = b
    for j in range(n):
        right[rows.row[j]] += values[j]
    for k in range(len(rows.limited)):
        right[tenants + k] = e[rows.limited[k]] - values[rows.limited[k]]
    dtau = bordered(system, right, f, system.solved)
    for i in range(tenants):
        dy[i] = system.solved[i]
    for j in range(n):
        values[j] = dy[rows.row[j]]
    for k in range(len(rows.limited)):
        j = rows.limited[k]
        dh[j] = system.solved[tenants + k]
        values[j] -= dh[j]
    for c in range(classes):
        for r in range(m):
            total = 0.0
            for j in range(n):
                total += columns[c * m + r, j] * values[j]
            dp[r, c] += total
        for r in range(m - 1, -1, -1):
            for q in range(r + 1, m):
                dp[r, c] -= system.blocks[c, q, r] * dp[q, c]
            dp[r, c] /= system.blocks[c, r, r]
    return dtau
