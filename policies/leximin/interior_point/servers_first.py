"""Elimination of servers, which leaves a dense system of rows + limits + 1 unknowns.

For few tenants and many classes. The equations are those of ``equations``.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray
from policies.leximin.interior_point.cholesky import BorderedSystem, diagonal_of
from policies.leximin.interior_point.equations import Rows


class ServersFirst:
    """The elimination at one point after another."""

    def __init__(self, rows: Rows, classes: int) -> None:
        self._rows = rows
        self._system = BorderedSystem()
        m, n = rows.demand.shape
        self._columns = np.empty((m, classes, n))
        self._border = np.r_[rows.rise, np.zeros(len(rows.limited))]

    def factor(
        self, theta: FloatArray, total: FloatArray, slack: FloatArray, room: FloatArray
    ) -> bool:
        """Factor the system (``Elimination.factor``)."""
        rows, columns = self._rows, self._columns
        demand, mine, tenants = rows.demand, rows.limited, len(rows.rise)
        m, n = demand.shape
        products = (demand[:, None] * demand).reshape(m * m, n)
        blocks = np.dot(theta, products.T).reshape(-1, m, m)
        np.einsum("crr->cr", blocks)[:] += slack.T
        try:
            lower = np.linalg.cholesky(blocks)
        except np.linalg.LinAlgError:
            # Not an error: the caller tries another method.
            return False
        self._lower = lower.transpose(1, 2, 0).copy()  # (m, m, K)
        for r in range(m):
            np.multiply(theta, demand[r], out=columns[r])
            for q in range(r):
                columns[r] -= self._lower[r, q, :, None] * columns[q]
            columns[r] /= self._lower[r, r, :, None]
        flat = columns.reshape(-1, n)
        inner = -np.dot(flat.T, flat)
        diagonal_of(inner)[:] += total
        # Rows of the reduced system are combinations of workloads: tenants, then limits.
        one_each = tenants == n
        by_row = inner if one_each else np.add.reduceat(inner, rows.first[:-1], axis=0)
        matrix = np.empty((len(self._border), len(self._border)))
        matrix[:tenants, :tenants] = (
            by_row if one_each else np.add.reduceat(by_row, rows.first[:-1], axis=1)
        )
        if len(mine):
            matrix[:tenants, tenants:] = -by_row[:, mine]
            matrix[tenants:, :tenants] = matrix[:tenants, tenants:].T
            matrix[tenants:, tenants:] = inner[np.ix_(mine, mine)] + np.diag(room)
        return self._system.factor(matrix, self._border, 0.0)

    def solve(
        self,
        of_slacks: FloatArray,
        b: FloatArray,
        f: float,
        *,
        refine: bool,  # noqa: ARG002 - it loses no digits
    ) -> tuple[FloatArray, FloatArray, float]:
        """Solve the system (``Elimination.solve``)."""
        rows, lower = self._rows, self._lower
        tenants, m, limited = len(rows.rise), len(rows.demand), rows.limited
        flat = self._columns.reshape(-1, rows.demand.shape[1])
        of_limits = of_slacks[len(flat) :]
        dp = of_slacks[: len(flat)].reshape(m, -1).copy()
        for r in range(m):
            for q in range(r):
                dp[r] -= lower[r, q] * dp[q]
            dp[r] /= lower[r, r]
        values = np.dot(dp.ravel(), flat)
        known = np.concatenate([b + rows.sums(values), of_limits - values[limited]])
        solved, dtau = self._system.solve(known, f)
        values = solved[rows.row]
        values[limited] -= solved[tenants:]
        dp += np.dot(flat, values).reshape(dp.shape)
        for r in range(m - 1, -1, -1):
            for q in range(r + 1, m):
                dp[r] -= lower[q, r] * dp[q]
            dp[r] /= lower[r, r]
        return np.concatenate([dp.ravel(), solved[tenants:]]), solved[:tenants], dtau
