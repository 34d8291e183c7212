"""Two ways to eliminate: tenants first or servers first, whichever leaves less.

Both solve, for the steps of prices ``dp`` (m, K), tenant prices ``dy`` (rows), limit prices
``dh`` (n, 0 where unlimited) and the level ``dtau``,

    class rows:   sum_j theta d (d . dp - dy + dh) + slack dp = a
    tenant rows:  sum_v theta (dy - d . dp - dh) - rise dtau   = b
    limit rows:   sum_c theta (d . dp - dy + dh) + room dh     = e
    level row:    rise . dy                                    = f

where ``theta = x / z``, ``slack = s / p`` and ``room = u / h``.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from policies import kernels
from policies.leximin_problem import LevelProgram
from policies.problem import FloatArray, IntArray


class Singular(ArithmeticError):  # noqa: N818 - names what was found, as SciPy's LinAlgError does
    """The reduced system is not positive definite any more."""


class TenantsFirst:
    """Dense system of classes × resources + 1 unknowns; for many tenants, few classes."""

    def __init__(self, program: LevelProgram, limited: IntArray) -> None:
        self.program = program
        self.limited = limited
        n, size = program.n, program.capacity.size
        self.theta = np.zeros((n, program.K))
        self.total = np.zeros(n)
        self._weighted = np.zeros((n, size))
        self._inverse, self._kept = np.zeros(n), np.ones(n)
        r, q = np.tril_indices(program.m)
        self._resource_pairs = r, q
        self._products = (program.demand[:, r] * program.demand[:, q])[:, :, None]
        alone = np.bincount(program.row, minlength=program.rows)[program.row] == 1
        self._single = np.flatnonzero(alone)
        self._several = np.flatnonzero(~alone)

    def factor(
        self, x: FloatArray, z: FloatArray, slack: FloatArray, room: FloatArray, target: FloatArray
    ) -> None:
        """Take in the current point; slack (m, K), room (n,); writes target (n, K) = -x z."""
        program = self.program
        q, total = self._weighted, self.total
        kernels.scaling(program.demand, x, z, self.theta, target, q, total)
        matrix = self._single_rows()
        matrix[np.diag_indices(len(matrix))] += slack.ravel()
        self._limits(room)
        self._q, self._diagonal = q, total
        if len(self._several):
            self._add_rows_of_several(matrix)
        self._border = self._q.T @ (program.rise / self._diagonal)
        self._factor = _factored(matrix)
        self._solved_border, _ = lapack.dpotrs(self._factor, self._border, lower=1)
        self._corner = float((program.rise**2 / self._diagonal).sum()) + float(
            self._border @ self._solved_border
        )

    def _single_rows(self) -> FloatArray:
        """What rows of one workload leave of the matrix, (m K, m K).

        A row leaves (diag(theta) - theta theta' / S) x d d', a weighted graph Laplacian per
        pair of resources. Its diagonal is summed from the other classes, because
        subtracting would cancel all digits once one class has nearly all of S.
        """
        program, mine = self.program, self._single
        K, m = program.K, program.m  # noqa: N806
        every = len(mine) == program.n
        theta = self.theta if every else self.theta[mine]
        part = theta / (self.total if every else self.total[mine])[:, None]
        r, q = self._resource_pairs
        weighted = theta[:, None, :] * (self._products if every else self._products[mine])
        links = (part.T @ weighted.reshape(len(mine), len(r) * K)).reshape(K, len(r), K)
        matrix = np.empty((m, K, m, K))
        classes = np.arange(K)
        links[classes, :, classes] = 0.0
        laplacian = -links
        laplacian[classes, :, classes] = links.sum(axis=2)
        matrix[r, :, q, :] = laplacian.transpose(1, 0, 2)
        matrix[q, :, r, :] = laplacian.transpose(1, 0, 2)
        return matrix.reshape(m * K, m * K)

    def _add_rows_of_several(self, matrix: FloatArray) -> None:
        """Rows of several workloads: their Gram matrices less the row's own direction."""
        program, kept, mine = self.program, self._kept, self._several
        q = self._weighted
        self._q = np.add.reduceat(q * kept[:, None], program.first[:-1], axis=0)
        self._diagonal = np.add.reduceat(self.total * kept, program.first[:-1])
        K, m = program.K, program.m  # noqa: N806
        gram = q[mine].reshape(-1, m, K).transpose(2, 1, 0) @ program.demand[mine]
        blocks = matrix.reshape(m, K, m, K)
        blocks[:, np.arange(K), :, np.arange(K)] += gram
        limited = self.limited
        outer = [q[limited] * np.sqrt(self._inverse[limited])[:, None]]
        rows = np.unique(program.row[mine])
        outer.append(self._q[rows] / np.sqrt(self._diagonal[rows])[:, None])
        stacked = np.concatenate(outer)
        matrix -= stacked.T @ stacked

    def _limits(self, room: FloatArray) -> None:
        """Eliminate limit rows: they are diagonal within their tenant."""
        mine = self.limited
        self._inverse[mine] = 1.0 / (self.total[mine] + room[mine])
        self._kept[mine] = room[mine] * self._inverse[mine]

    def solve(
        self, a: FloatArray, b: FloatArray, e: FloatArray, f: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Steps (dp, dy, dh, dtau) for right-hand sides a (m, K), b (rows,), e (n,), f."""
        program = self.program
        right, rows = a.ravel().copy(), b
        if len(self.limited):
            right -= self._weighted.T @ (self._inverse * e)
            shifted = self._inverse * self.total * e
            rows = b + np.bincount(program.row, weights=shifted, minlength=program.rows)
        by_diagonal = rows / self._diagonal
        right += self._q.T @ by_diagonal
        solved, _ = lapack.dpotrs(self._factor, right, lower=1)
        rest = f - float(program.rise @ by_diagonal) - float(self._border @ solved)
        dtau = rest / self._corner
        dp = solved + self._solved_border * dtau
        dy = by_diagonal + (self._q @ dp + program.rise * dtau) / self._diagonal
        dh = np.zeros(program.n)
        if len(self.limited):
            dh = self._inverse * (e - self._weighted @ dp + self.total * dy[program.row])
        return dp.reshape(program.m, program.K), dy, dh, dtau


class ServersFirst:
    """Dense system of tenant rows + limit rows + 1 unknowns; for many classes, few tenants."""

    def __init__(self, program: LevelProgram, limited: IntArray) -> None:
        self.program = program
        self.limited = limited
        n = program.n
        self.theta = np.zeros((n, program.K))
        self.total = np.zeros(n)
        self._weighted = np.zeros((n, program.capacity.size))
        # Rows of the reduced system as combinations of workloads: tenants, then limits.
        self._members = np.zeros((program.rows + len(limited), n))
        self._members[program.row, np.arange(n)] = 1.0
        self._members[program.rows + np.arange(len(limited)), limited] = -1.0

    def factor(
        self, x: FloatArray, z: FloatArray, slack: FloatArray, room: FloatArray, target: FloatArray
    ) -> None:
        """Take in the current point; slack (m, K), room (n,); writes target (n, K) = -x z."""
        program = self.program
        q, total = self._weighted, self.total
        kernels.scaling(program.demand, x, z, self.theta, target, q, total)
        K, m, n = program.K, program.m, program.n  # noqa: N806
        columns = np.ascontiguousarray(q.reshape(n, m, K).transpose(2, 1, 0))
        self._blocks = columns @ program.demand
        self._blocks[:, np.arange(m), np.arange(m)] += slack.T
        try:
            self._solved = np.linalg.solve(self._blocks, columns)
        except np.linalg.LinAlgError as error:
            raise Singular from error
        flat = columns.reshape(K * m, n)
        inner = np.diag(total) - flat.T @ self._solved.reshape(K * m, n)
        matrix = self._members @ inner @ self._members.T
        rows = program.rows
        limit = np.arange(len(self.limited)) + rows
        matrix[limit, limit] += room[self.limited]
        self._factor, self._columns = _factored(matrix), columns
        self._border = np.r_[program.rise, np.zeros(len(limit))]
        self._solved_border, _ = lapack.dpotrs(self._factor, self._border, lower=1)
        self._corner = float(self._border @ self._solved_border)

    def solve(
        self, a: FloatArray, b: FloatArray, e: FloatArray, f: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Steps (dp, dy, dh, dtau) for right-hand sides a (m, K), b (rows,), e (n,), f."""
        program = self.program
        n, rows = program.n, program.rows
        by_block = np.linalg.solve(self._blocks, a.T[:, :, None])[:, :, 0]
        pulled = self._columns.reshape(-1, n).T @ by_block.ravel()
        right = np.r_[b, e[self.limited]] + self._members @ pulled
        solved, _ = lapack.dpotrs(self._factor, right, lower=1)
        dtau = (f - float(self._border @ solved)) / self._corner
        both = solved + self._solved_border * dtau
        dy = both[:rows]
        dh = np.zeros(n)
        dh[self.limited] = both[rows:]
        dp = by_block + self._solved @ (dy[program.row] - dh)
        return np.ascontiguousarray(dp.T), dy, dh, dtau


def _factored(matrix: FloatArray) -> FloatArray:
    """Cholesky factor, with the least regularisation that rounding makes necessary."""
    diagonal = np.diag_indices(len(matrix))
    size = matrix[diagonal].copy()
    for relative in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        matrix[diagonal] = size * (1 + relative)
        factor, status = lapack.dpotrf(matrix, lower=1)
        if status == 0:
            return factor
    raise Singular
