"""Elimination of tenants and limits.

It leaves a dense system of classes × resources + 1 unknowns, for many tenants and few classes. The
equations are those of ``equations``.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray
from policies.compiled import (
    Floats1,
    Floats2,
    Floats3,
    Ints1,
    OutFloats1,
    OutFloats2,
    OutFloats3,
    compiled,
)
from policies.leximin.interior_point.cholesky import BorderedSystem, diagonal_of
from policies.leximin.interior_point.equations import Rows

# Workloads that are taken together: what is read of them again and again stays in the cache.
_TOGETHER = 2_048


class TenantsFirst:
    """The elimination at one point after another."""

    def __init__(self, rows: Rows, classes: int) -> None:
        self._rows, self._classes = rows, classes
        self._system = BorderedSystem()
        m, n = rows.demand.shape
        size = m * classes
        self._resource, self._other = np.tril_indices(m)
        self._products = rows.demand[self._resource] * rows.demand[self._other] * rows.alone
        self._several = np.flatnonzero(~rows.alone)
        self._links = np.empty((len(self._products), classes, classes))
        self._rest, self._matrix = np.empty((size, size)), np.empty((size, size))
        self._border = np.empty(size)
        self._kept, self._inverse, self._values = np.ones(n), np.zeros(n), np.empty(n)
        self._own_e = np.zeros(n)

    def factor(
        self, theta: FloatArray, total: FloatArray, slack: FloatArray, room: FloatArray
    ) -> bool:
        """Factor the system (``Elimination.factor``)."""
        rows = self._rows
        self._theta, self._total, self._diagonal = theta, total, total
        self._rest[:] = 0.0
        diagonal_of(self._rest)[:] = slack.ravel()
        if len(self._several):
            self._add_rows_of_several(room)
        self._link(theta, total)
        own = _write_system(
            rows.demand, rows.row, rows.rise, self._resource, self._other, theta, self._kept,
            self._diagonal, self._rest, self._links, self._matrix, self._border,
        )  # fmt: skip
        return self._system.factor(self._matrix, self._border, own)

    def solve(
        self, of_slacks: FloatArray, b: FloatArray, f: float, *, refine: bool
    ) -> tuple[FloatArray, FloatArray, float]:
        """Solve the system (``Elimination.solve``)."""
        rows, system, limited = self._rows, self._system, self._rows.limited
        size = len(self._border)
        known, by_row = of_slacks[:size].copy(), np.empty(len(b))
        if len(limited):
            self._own_e[limited] = self._inverse[limited] * of_slacks[size:]
            b = b + rows.sums(self._total * self._own_e)
        level = _write_known(
            rows.demand, rows.row, rows.rise, self._theta, self._kept, self._diagonal, self._own_e,
            b, f, by_row, self._values, known,
        )  # fmt: skip
        prices, dtau = system.solve(known, level)
        # Close to the optimum the factors have lost digits; one step of refinement brings them
        # back.
        if refine:
            missed = known + system.border * dtau
            _take_applied(self._resource, self._other, self._links, self._rest, prices, missed)
            missing = level - float(system.border @ prices) - system.own * dtau
            more, further = system.solve(missed, missing)
            prices += more
            dtau += further
        dy, values = np.empty(len(b)), self._values
        _write_tenant_prices(
            rows.demand, rows.first, rows.rise, self._theta, self._kept, self._diagonal, prices,
            dtau, by_row, values, dy,
        )  # fmt: skip
        if not len(limited):
            return prices, dy, dtau
        reached = self._total[limited] * dy[rows.row[limited]]
        dh = self._inverse[limited] * (of_slacks[size:] - values[limited] + reached)
        return np.concatenate([prices, dh]), dy, dtau

    def _link(self, theta: FloatArray, total: FloatArray) -> None:
        """Write the links (pairs, K, K), the sums over workloads of theta_b theta_c d_r d_q / S.

        products (pairs, n) are d_r d_q, 0 for workloads that share their row.
        """
        classes, n = theta.shape
        links = self._links.reshape(-1, classes)
        links[:] = 0.0
        for begin in range(0, n, _TOGETHER):
            these = slice(begin, begin + _TOGETHER)
            of_pairs = self._products[:, these] / total[these]
            weighted = theta[:, these] * of_pairs[:, None]
            links += np.dot(weighted.reshape(len(links), -1), theta[:, these].T)

    def _add_rows_of_several(self, room: FloatArray) -> None:
        """Add the rows of several workloads, their Gram matrices less each row's own direction.

        Limit rows are diagonal within their tenant and are eliminated first.
        """
        rows, several, mine, rest = self._rows, self._several, self._rows.limited, self._rest
        m, classes = len(rows.demand), self._classes
        self._inverse[mine] = 1.0 / (self._total[mine] + room)
        self._kept[mine] = room * self._inverse[mine]
        self._diagonal = rows.sums(self._total * self._kept)
        demand, theta = rows.demand[:, several], self._theta[:, several]
        gram = np.dot((demand[:, None] * demand).reshape(m * m, -1), theta.T)
        blocks = rest.reshape(m, classes, m, classes)
        np.einsum("rcqc->rqc", blocks)[:] += gram.reshape(m, m, classes)
        of_row = rows.row[several]
        begins = np.flatnonzero(np.r_[True, of_row[1:] != of_row[:-1]])
        # The root on both sides, so that the product below is symmetric.
        part = self._kept[several] / np.sqrt(self._diagonal[of_row])
        each = (demand[:, None] * theta).reshape(m * classes, -1)
        outer = np.add.reduceat(each * part, begins, axis=1)
        if len(mine):
            of_limits = self._theta[:, mine] * np.sqrt(self._inverse[mine])
            limits = rows.demand[:, None, mine] * of_limits
            outer = np.concatenate([limits.reshape(m * classes, -1), outer], axis=1)
        rest -= np.dot(outer, outer.T)


@compiled
def _write_system(
    demand: Floats2, row: Ints1, rise: Floats1, resource: Ints1, other: Ints1, theta: Floats2,
    kept: Floats1, diagonal: Floats1, rest: Floats2, links: OutFloats3, matrix: OutFloats2,
    border: OutFloats1,
) -> float:  # fmt: skip
    """Write the matrix (m K, m K) and its border, and return the level's diagonal entry.

    ``links`` become symmetric. A row of one workload leaves (diag(theta) - theta theta' / S) x d d',
    a weighted graph Laplacian per pair of resources. Its diagonal is summed from the links to the
    other classes, because subtracting would cancel all digits once one class has nearly all of S.
    """
    classes, n = theta.shape
    pairs = len(links)
    for pair in range(pairs):
        for c in range(classes):
            links[pair, c, c] = 0.0
    matrix[:] = rest
    for pair in range(pairs):
        r, q = resource[pair] * classes, other[pair] * classes
        for c in range(classes):
            own = 0.0
            for b in range(c, classes):
                links[pair, c, b] = links[pair, b, c]
            for b in range(classes):
                own += links[pair, c, b]
            for b in range(classes):
                link = links[pair, c, b]
                matrix[r + c, q + b] -= link
                if r != q:
                    matrix[q + c, r + b] -= link
            matrix[r + c, q + c] += own
            if r != q:
                matrix[q + c, r + c] += own
    level = 0.0
    for i in range(len(rise)):
        level += rise[i] * rise[i] / diagonal[i]
    values = np.empty(n)
    for j in range(n):
        values[j] = kept[j] * rise[row[j]] / diagonal[row[j]]
    border[:] = 0.0
    _add_to_classes(demand, theta, values, border)
    return level


@compiled
def _write_known(
    demand: Floats2, row: Ints1, rise: Floats1, theta: Floats2, kept: Floats1, diagonal: Floats1,
    own_e: Floats1, b: Floats1, level: float, by_row: OutFloats1, values: OutFloats1,
    known: OutFloats1,
) -> float:  # fmt: skip
    """Add to known (m K,) what tenants and limits leave of it, and return what of the level.

    own_e (n,) are the limits' right-hand sides over their diagonals; values (n,) are scratch.
    """
    for i in range(len(b)):
        by_row[i] = b[i] / diagonal[i]
    for i in range(len(b)):
        level -= rise[i] * by_row[i]
    for j in range(len(values)):
        values[j] = kept[j] * by_row[row[j]] - own_e[j]
    _add_to_classes(demand, theta, values, known)
    return level


@compiled
def _write_tenant_prices(
    demand: Floats2, first: Ints1, rise: Floats1, theta: Floats2, kept: Floats1,
    diagonal: Floats1, prices: Floats1, dtau: float, by_row: Floats1, values: OutFloats1,
    dy: OutFloats1,
) -> None:  # fmt: skip
    """Write dy (rows,) for steps of prices (m K,), and values (n,), sums of theta d . dp."""
    classes, n = theta.shape
    values[:] = 0.0
    for c in range(classes):
        for r in range(demand.shape[0]):
            price = prices[r * classes + c]
            for j in range(n):
                values[j] += theta[c, j] * demand[r, j] * price
    for i in range(len(dy)):
        total = 0.0
        for j in range(first[i], first[i + 1]):
            total += kept[j] * values[j]
        dy[i] = by_row[i] + (total + rise[i] * dtau) / diagonal[i]


@compiled
def _take_applied(
    resource: Ints1, other: Ints1, links: Floats3, rest: Floats2, prices: Floats1,
    missed: OutFloats1,
) -> None:  # fmt: skip
    """Take from missed (m K,) the matrix times steps of prices, without cancellation.

    Where all classes are priced alike the Laplacians are nearly singular along equal
    steps; applied to the differences between classes they lose no digits there.
    """
    classes = links.shape[1]
    for k in range(len(missed)):
        total = 0.0
        for other_k in range(len(missed)):
            total += rest[k, other_k] * prices[other_k]
        missed[k] -= total
    for pair in range(len(resource)):
        r, q = resource[pair] * classes, other[pair] * classes
        for c in range(classes):
            of_r, of_q = 0.0, 0.0
            for b in range(classes):
                link = links[pair, c, b]
                of_r += link * (prices[q + c] - prices[q + b])
                of_q += link * (prices[r + c] - prices[r + b])
            missed[r + c] -= of_r
            if r != q:
                missed[q + c] -= of_q


@compiled
def _add_to_classes(demand, theta, values, out):
    """Add to out (m K,) the sums over workloads of theta d values.

    values is (n,).
    """
    classes, n = theta.shape
    for c in range(classes):
        for r in range(demand.shape[0]):
            total = 0.0
            for j in range(n):
                total += theta[c, j] * (demand[r, j] * values[j])
            out[r * classes + c] += total
