"""Upper bounds on the worth of whole tasks on one server, in plain NumPy and Python.

There are three, the cheapest first. Prices of the server's resources bound every packing, whatever
rounding did to them (the divisible relaxation, by a bounded simplex method). A table over all
amounts is exact. A depth-first search is cut where prices leave nothing better than a given worth.

Sources: Dantzig, 1955; Martello and Toth, Knapsack Problems, 1990.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import FloatArray, IntArray

# Cells × pieces of a table, and nodes of a search.
LARGEST_TABLE = 40_000_000
MOST_NODES = 2_000_000
_ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class Knapsack:
    """One server, or several whose limits are resources of their own.

    Attributes:
        demand: (q, m) of one task, whole numbers; capacity: (m,) in the same units.
        limit: (q,) tasks at most; 0 where the workload may not run here.
    """

    demand: FloatArray
    capacity: FloatArray
    limit: FloatArray

    @cached_property
    def most(self) -> IntArray:
        """Tasks (q,) of each workload alone."""
        room = np.full(self.demand.shape, np.inf)
        np.divide(self.capacity, self.demand, out=room, where=self.demand > 0)
        most: IntArray = np.minimum(np.floor(room.min(axis=1)), self.limit).astype(np.int64)
        return most

    @cached_property
    def _pieces(self) -> list[tuple[int, int]]:
        """Pieces (workload, tasks) of which every number of a workload's tasks is a sum."""
        pieces = []
        for j, left in enumerate(self.most.tolist()):
            size = 1
            while left > 0:
                pieces.append((j, min(size, left)))
                left -= size
                size *= 2
        return pieces

    @cached_property
    def _grid(self) -> tuple[IntArray, IntArray]:
        """Demands (q, m) and capacity (m,) in the coarsest units that change nothing."""
        some = self.most > 0
        demand = np.where(some[:, None], self.demand, 0.0).astype(np.int64)
        unit = np.maximum(np.gcd.reduce(demand, axis=0, initial=0), 1)
        demand = demand // unit
        # More than all tasks take is no constraint, and only makes the table larger.
        return demand, np.minimum(self.capacity // unit, self.most @ demand).astype(np.int64)

    @cached_property
    def has_table(self) -> bool:
        """True if the table is small enough."""
        cells = float(np.prod(self._grid[1] + 1.0))
        return cells * (len(self._pieces) + 1) <= LARGEST_TABLE

    def worth_by_table(self, prices: FloatArray) -> float:
        """Return the greatest worth at prices (q,) of one task of each workload."""
        demand, capacity = self._grid
        value = np.zeros(tuple((capacity + 1).tolist()))
        for j, size in self._pieces:
            taken = (demand[j] * size).tolist()
            if prices[j] <= 0 or any(d > c for d, c in zip(taken, capacity.tolist(), strict=True)):
                continue
            with_it = tuple(slice(d, None) for d in taken)
            without = tuple(slice(0, int(c) + 1 - d) for c, d in zip(capacity, taken, strict=True))
            # The right side is complete before it is written, so that a piece is taken once.
            value[with_it] = np.maximum(value[with_it], value[without] + prices[j] * size)
        return float(value.flat[-1])

    def worth_of_parts(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """Return the greatest worth of divisible tasks and prices (m,) that prove it."""
        some = (prices > 0) & (self.most > 0)
        has = self.capacity > 0
        if not some.any() or not has.any():
            return 0.0, np.zeros(len(self.capacity))
        part = self.demand[some][:, has] / self.capacity[has]
        most = self.most[some].astype(np.float64)
        dual = np.maximum(_dual(prices[some], part, most), 0.0)
        gain = np.maximum(prices[some] - part @ dual, 0.0)
        of_resources = np.zeros(len(self.capacity))
        of_resources[has] = dual / self.capacity[has]
        return float(dual.sum() + gain @ most), of_resources

    def worth_beyond(self, prices: FloatArray, known: float) -> float | None:
        """Return the greatest worth if it is more than ``known``, else ``known``.

        None if it is not found in time.
        """
        _, dual = self.worth_of_parts(prices)
        some = np.flatnonzero((prices > 0) & (self.most > 0))
        cost = self.demand[some] @ dual
        some = some[np.argsort(-prices[some] / np.maximum(cost, 1e-300), kind="stable")]
        price = prices[some].tolist()
        demand = [[(r, d) for r, d in enumerate(row) if d] for row in self.demand[some].tolist()]
        gain = (prices[some] - self.demand[some] @ dual).tolist()
        most = self.most[some].tolist()
        after = [0.0] * (len(some) + 1)
        for j in range(len(some) - 1, -1, -1):
            after[j] = after[j + 1] + max(gain[j], 0.0) * most[j]
        return _search(price, demand, most, after, dual.tolist(), self.capacity.tolist(), known)


def _search(
    price: list[float],
    demand: list[list[tuple[int, float]]],
    most: list[int],
    after: list[float],
    dual: list[float],
    left: list[float],
    known: float,
) -> float | None:
    """Search depth first, most tasks first, for a worth beyond ``known``.

    A branch ends where prices leave no more than ``known``.
    """
    count = [0] * len(price)
    unused = sum(y * c for y, c in zip(dual, left, strict=True))
    best, worth, j, down = known, 0.0, 0, True
    for _ in range(MOST_NODES):
        if down and j < len(price) and worth + after[j] + unused > best * (1 + _ZERO):
            count[j] = int(min([most[j], *(left[r] // d for r, d in demand[j])]))
            worth += price[j] * count[j]
            for r, d in demand[j]:
                left[r] -= d * count[j]
                unused -= dual[r] * d * count[j]
            j += 1
            continue
        if down:
            if j == len(price):
                best = max(best, worth)
            down, j = False, j - 1
        if j < 0:
            return best
        if not count[j]:
            j -= 1
            continue
        count[j] -= 1
        worth -= price[j]
        for r, d in demand[j]:
            left[r] += d
            unused += dual[r] * d
        down, j = True, j + 1
    return None


def _dual(price: FloatArray, part: FloatArray, most: FloatArray) -> FloatArray:
    """Return the prices (m,) of whole resources at which divisible tasks are worth least.

    Any prices are a bound. The method is the primal simplex on tasks between 0 and ``most`` that
    take ``part`` (q, m) of resources of size 1, with a slack for each.
    """
    q, m = part.shape
    table = np.vstack([part, np.eye(m)])
    gain_of = np.concatenate([price, np.zeros(m)])
    upper = np.concatenate([most, np.full(m, np.inf)])
    basis = np.arange(q, q + m)
    at_upper = np.zeros(q + m, dtype=np.bool_)
    size = np.maximum(gain_of, price.max() * 1e-3)
    pivots = 20 * (q + m)
    dual = np.zeros(m)
    for pivot in range(pivots):
        matrix = table[basis].T
        dual = np.linalg.solve(matrix.T, gain_of[basis])
        gain = gain_of - table @ dual
        gain[basis] = 0.0
        better = np.where(at_upper, -gain, gain)
        open_ = better > _ZERO * size
        if not open_.any():
            break
        steep = better / np.maximum(table.sum(axis=1), 1e-300)
        # Bland's rule in the second half, because the steepest gain can cycle.
        entering = int(
            np.where(open_, steep, -1.0).argmax() if pivot < pivots // 2 else open_.argmax()
        )
        sign = -1.0 if at_upper[entering] else 1.0
        column = sign * np.linalg.solve(matrix, table[entering])
        # From the bounds and not by steps, so that rounding does not add up.
        amount = np.linalg.solve(matrix, 1.0 - upper[at_upper] @ table[at_upper])
        length = np.full(m, np.inf)
        down, up = column > _ZERO, column < -_ZERO
        length[down] = np.maximum(amount[down], 0.0) / column[down]
        length[up] = np.maximum(upper[basis[up]] - amount[up], 0.0) / -column[up]
        leaving = int(length.argmin())
        if length[leaving] >= upper[entering]:
            at_upper[entering] = ~at_upper[entering]
            continue
        at_upper[entering] = False
        at_upper[basis[leaving]] = bool(up[leaving])
        basis[leaving] = entering
    return dual
