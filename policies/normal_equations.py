"""Two ways to eliminate: tenants first or servers first, whichever leaves less.

Both solve, for the steps of prices ``dp`` (m, K), tenant prices ``dy`` (rows,), limit prices
``dh`` (n,), 0 where unlimited, and the level ``dtau``,

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
from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.leximin_problem import LevelProgram

Steps = tuple[FloatArray, FloatArray, FloatArray, float]


class SingularError(ArithmeticError):
    """The reduced system is not positive definite any more."""


class _Elimination:
    """What both eliminations keep per point: theta and its sums.

    ``refine`` asks for steps that are accurate although the system is nearly singular.
    """

    refine = False

    def __init__(self, program: LevelProgram, limited: IntArray) -> None:
        self.program = program
        self.limited = limited
        self.demand = np.ascontiguousarray(program.demand.T)
        self.theta = np.zeros((program.K, program.n))
        self.total = np.zeros(program.n)

    def _weighted(self, workloads: IntArray) -> FloatArray:
        """(m, K, workloads) theta d."""
        return self.theta[:, workloads] * self.demand[:, None, workloads]


class TenantsFirst(_Elimination):
    """Dense system of classes × resources + 1 unknowns; for many tenants, few classes."""

    def __init__(self, program: LevelProgram, limited: IntArray) -> None:
        super().__init__(program, limited)
        n = program.n
        alone = np.bincount(program.row, minlength=program.rows)[program.row] == 1
        self._several = np.flatnonzero(~alone)
        self._inverse, self._kept = np.zeros(n), np.ones(n)
        r, q = np.tril_indices(program.m)
        self._resource_pairs = r, q
        self._pair_products = self.demand[r] * self.demand[q] * alone
        self._scratch = np.empty(n)
        self._links = np.empty((len(r), program.K, program.K))

    def factor(self, x: FloatArray, z: FloatArray, slack: FloatArray, room: FloatArray) -> None:
        """Take in the current point; slack (m, K), room (n,) where limited."""
        program = self.program
        kernels.scaling(x, z, self.theta, self.total)
        self._rest = np.diag(slack.ravel())
        self._diagonal = self.total
        if len(self._several):
            self._rest += self._rows_of_several(room)
        matrix = self._single_rows() + self._rest
        self._border = self._to_classes(program.rise / self._diagonal)
        self._factor = _factored(matrix)
        self._solved_border, _ = lapack.dpotrs(self._factor, self._border, lower=1)
        self._own_corner = float((program.rise**2 / self._diagonal).sum())
        self._corner = self._own_corner + float(self._border @ self._solved_border)

    def _to_classes(self, by_row: FloatArray) -> FloatArray:
        """(m K,) the tenant rows' coupling to class rows, applied to values per row."""
        by_workload = self._kept * by_row[self.program.row] if len(self._several) else by_row
        return self._from_workloads(by_workload)

    def _from_workloads(self, values: FloatArray) -> FloatArray:
        """(m K,) theta d, applied to values per workload."""
        out = np.empty((self.program.m, self.program.K))
        kernels.to_classes(self.demand, self.theta, values, out)
        return out.ravel()

    def _to_workloads(self, prices: FloatArray) -> FloatArray:
        """(n,) theta d, applied to prices (m K,)."""
        out = np.empty(self.program.n)
        shape = (self.program.m, self.program.K)
        kernels.to_workloads(self.demand, self.theta, prices.reshape(shape), out)
        return out

    def _single_rows(self) -> FloatArray:
        """What rows of one workload leave of the matrix, (m K, m K).

        A row leaves (diag(theta) - theta theta' / S) x d d', a weighted graph Laplacian per
        pair of resources. Its diagonal is summed from the other classes, because
        subtracting would cancel all digits once one class has nearly all of S.
        """
        K, m = self.program.K, self.program.m  # noqa: N806
        r, q = self._resource_pairs
        kernels.links(self.theta, self._pair_products / self.total, self._scratch, self._links)
        laplacian = -self._links
        laplacian[:, np.arange(K), np.arange(K)] = self._links.sum(axis=2)
        matrix = np.empty((m, K, m, K))
        matrix[r, :, q, :] = laplacian
        matrix[q, :, r, :] = laplacian
        return matrix.reshape(m * K, m * K)

    def _missed(self, right: FloatArray, dp: FloatArray) -> FloatArray:
        """What steps of prices leave of the right-hand side, (m K,), without cancellation.

        Where all classes are priced alike the Laplacians are nearly singular along equal
        steps; applied to the differences between classes they lose no digits there.
        """
        K, m = self.program.K, self.program.m  # noqa: N806
        step = dp.reshape(m, K)
        apart = step[:, :, None] - step[:, None, :]
        missed = (right - self._rest @ dp).reshape(m, K)
        for pair, (r, q) in enumerate(zip(*self._resource_pairs, strict=True)):
            missed[r] -= (self._links[pair] * apart[q]).sum(axis=1)
            if r != q:
                missed[q] -= (self._links[pair] * apart[r]).sum(axis=1)
        return missed.ravel()

    def _rows_of_several(self, room: FloatArray) -> FloatArray:
        """What rows of several workloads leave: their Gram matrices less the row's own direction.

        Limit rows are diagonal within their tenant and go first.
        """
        program, limited, mine = self.program, self.limited, self._several
        self._inverse[limited] = 1.0 / (self.total[limited] + room[limited])
        self._kept[limited] = room[limited] * self._inverse[limited]
        self._diagonal = np.add.reduceat(self.total * self._kept, program.first[:-1])
        K, m = program.K, program.m  # noqa: N806
        weighted = self._weighted(mine)
        matrix = np.zeros((m, K, m, K))
        gram = weighted.transpose(1, 0, 2) @ program.demand[mine]
        matrix[:, np.arange(K), :, np.arange(K)] = gram
        rows, begins = np.unique(program.row[mine], return_index=True)
        together = np.add.reduceat(weighted * self._kept[mine], begins, axis=2)
        outer = np.concatenate(
            [
                self._weighted(limited) * np.sqrt(self._inverse[limited]),
                together / np.sqrt(self._diagonal[rows]),
            ],
            axis=2,
        ).reshape(m * K, -1)
        left: FloatArray = matrix.reshape(m * K, m * K) - outer @ outer.T
        return left

    def _bordered(self, right: FloatArray, level: float) -> tuple[FloatArray, float]:
        """Prices and level for what is left after tenants and limits are eliminated."""
        solved, _ = lapack.dpotrs(self._factor, right, lower=1)
        dtau = (level - float(self._border @ solved)) / self._corner
        return solved + self._solved_border * dtau, dtau

    def solve(self, a: FloatArray, b: FloatArray, e: FloatArray, f: float) -> Steps:
        """Steps (dp, dy, dh, dtau) for right-hand sides a (m, K), b (rows,), e (n,), f."""
        program, limited = self.program, self.limited
        right, rows = a.ravel(), b
        if len(limited):
            right = right - self._from_workloads(self._inverse * e)
            shifted = self._inverse * self.total * e
            rows = b + grouped_sum(shifted, program.row, program.rows)
        by_diagonal = rows / self._diagonal
        right = right + self._to_classes(by_diagonal)
        level = f - float(program.rise @ by_diagonal)
        dp, dtau = self._bordered(right, level)
        if self.refine:
            missed = self._missed(right + self._border * dtau, dp)
            missing = level - float(self._border @ dp) - self._own_corner * dtau
            more_dp, more_dtau = self._bordered(missed, missing)
            dp, dtau = dp + more_dp, dtau + more_dtau
        by_workload = self._to_workloads(dp)
        by_row = by_workload
        if len(self._several):
            by_row = np.add.reduceat(self._kept * by_workload, program.first[:-1])
        dy = by_diagonal + (by_row + program.rise * dtau) / self._diagonal
        dh = np.zeros(program.n)
        if len(limited):
            dh = self._inverse * (e - by_workload + self.total * dy[program.row])
        return dp.reshape(program.m, program.K), dy, dh, dtau


class ServersFirst(_Elimination):
    """Dense system of tenant rows + limit rows + 1 unknowns; for many classes, few tenants."""

    def __init__(self, program: LevelProgram, limited: IntArray) -> None:
        super().__init__(program, limited)
        # Rows of the reduced system as combinations of workloads: tenants, then limits.
        self._members = np.zeros((program.rows + len(limited), program.n))
        self._members[program.row, np.arange(program.n)] = 1.0
        self._members[program.rows + np.arange(len(limited)), limited] = -1.0

    def factor(self, x: FloatArray, z: FloatArray, slack: FloatArray, room: FloatArray) -> None:
        """Take in the current point; slack (m, K), room (n,) where limited."""
        program = self.program
        kernels.scaling(x, z, self.theta, self.total)
        m, n, rows = program.m, program.n, program.rows
        self._columns = self.theta[:, None, :] * self.demand
        self._blocks = self._columns @ program.demand
        self._blocks[:, np.arange(m), np.arange(m)] += slack.T
        try:
            self._solved = np.linalg.solve(self._blocks, self._columns)
        except np.linalg.LinAlgError as error:
            raise SingularError from error
        inner = np.diag(self.total) - self._columns.reshape(-1, n).T @ self._solved.reshape(-1, n)
        matrix = self._members @ inner @ self._members.T
        limit = rows + np.arange(len(self.limited))
        matrix[limit, limit] += room[self.limited]
        self._factor = _factored(matrix)
        self._border = np.r_[program.rise, np.zeros(len(limit))]
        self._solved_border, _ = lapack.dpotrs(self._factor, self._border, lower=1)
        self._corner = float(self._border @ self._solved_border)

    def solve(self, a: FloatArray, b: FloatArray, e: FloatArray, f: float) -> Steps:
        """Steps (dp, dy, dh, dtau) for right-hand sides a (m, K), b (rows,), e (n,), f."""
        program = self.program
        n, rows = program.n, program.rows
        by_block = np.linalg.solve(self._blocks, a.T[:, :, None])[:, :, 0]
        pulled = self._columns.reshape(-1, n).T @ by_block.ravel()
        right = np.r_[b, e[self.limited]] + self._members @ pulled
        solved, _ = lapack.dpotrs(self._factor, right, lower=1)
        dtau = (f - float(self._border @ solved)) / self._corner
        both = solved + self._solved_border * dtau
        dy, dh = both[:rows], np.zeros(n)
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
            lower: FloatArray = factor
            return lower
    raise SingularError
