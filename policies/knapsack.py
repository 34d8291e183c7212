"""The most valuable whole tasks that fit into one server: a bounded integer knapsack, exactly.

A dynamic programme over the grid of capacities where that is small enough; a depth-first search
with the bound of the divisible relaxation where it is not. Demands are divided by their greatest
common divisor first, resource by resource, which changes no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.compiled import compiled

# Cells of the grid × pieces of workloads that a programme may have, and nodes of a search.
LARGEST_TABLE = 30_000_000
MOST_NODES = 2_000_000
# Steps towards the best multipliers of resources; each is shorter than the one before.
MULTIPLIER_STEPS = 3_000
SHORTER = 0.994


@dataclass(frozen=True, eq=False)
class Packing:
    """What a server runs for given prices.

    Attributes:
        tasks: (q,) whole tasks.
        value: what they are worth.
        bound: no packing is worth more; equal to ``value`` where the answer is exact.
    """

    tasks: IntArray
    value: float
    bound: float


@dataclass(frozen=True, eq=False)
class Knapsack:
    """One server and the workloads that may run on it.

    Attributes:
        demand: (q, m) of one task, whole numbers.
        capacity: (m,) of the server, whole numbers in the same units.
        limit: (q,) tasks at most: 0 where the workload may not run here.
    """

    demand: FloatArray
    capacity: FloatArray
    limit: FloatArray

    @cached_property
    def most(self) -> IntArray:
        """(q,) tasks of each workload alone, within its limit."""
        room = np.full(self.demand.shape, np.inf)
        np.divide(self.capacity, self.demand, out=room, where=self.demand > 0)
        most: IntArray = np.minimum(np.floor(room.min(axis=1)), self.limit).astype(np.int64)
        return most

    @cached_property
    def reduced(self) -> tuple[IntArray, IntArray]:
        """(q, m) demands and (m,) capacity in the coarsest unit that changes no answer."""
        some = self.most > 0
        unit = np.gcd.reduce(self.demand[some].astype(np.int64), axis=0, initial=0)
        unit = np.maximum(unit, 1)
        demand = np.where(some[:, None], self.demand, 0).astype(np.int64) // unit
        return demand, np.minimum(self.capacity // unit, self.most @ demand).astype(np.int64)

    @cached_property
    def has_grid(self) -> bool:
        """Is the dynamic programme small enough?"""
        item, _, _ = self._pieces
        _, capacity = self.reduced
        cells = float(np.prod(capacity + 1.0))
        return cells * (len(item) + 1) <= LARGEST_TABLE

    def best(self, prices: FloatArray) -> Packing:
        """The most valuable packing.

        Args:
            prices: (q,) of one task of each workload, at least 0.
        """
        return self._by_programme(prices) if self.has_grid else self._by_search(prices)

    @cached_property
    def _pieces(self) -> tuple[IntArray, IntArray, BoolArray]:
        """(P,) workload and tasks of each piece, and whether it may be taken again and again.

        A workload whose limit binds is cut into pieces of 1, 2, 4, ... tasks and a rest.
        """
        room = Knapsack(self.demand, self.capacity, np.full(len(self.limit), np.inf)).most
        item, size, again = [], [], []
        for j, most in enumerate(self.most.tolist()):
            if most and most == room[j]:
                item.append(j)
                size.append(1)
                again.append(True)
                continue
            piece, left = 1, most
            while left > 0:
                item.append(j)
                size.append(min(piece, left))
                again.append(False)
                left -= size[-1]
                piece *= 2
        return np.array(item, np.int64), np.array(size, np.int64), np.array(again, np.bool_)

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray]:
        """(R, m - 1) amounts of all resources but the last, and (m - 1,) their strides."""
        _, capacity = self.reduced
        shape = tuple((capacity[:-1] + 1).tolist())
        amounts = np.indices(shape).reshape(len(shape), -1).T if shape else np.zeros((1, 0))
        strides = [int(np.prod(shape[r + 1 :])) for r in range(len(shape))]
        return np.ascontiguousarray(amounts, dtype=np.int64), np.array(strides, dtype=np.int64)

    def _by_programme(self, prices: FloatArray) -> Packing:
        demand, capacity = self.reduced
        amounts, strides = self._rows
        item, size, again = self._pieces
        tasks = np.zeros(len(prices), dtype=np.int64)
        shape = (len(amounts), int(capacity[-1]) + 1 if len(capacity) else 1)
        value, taken = np.zeros(shape), np.zeros((len(item), *shape), dtype=np.bool_)
        _programme(
            value,
            taken,
            amounts,
            demand[:, :-1] @ strides,
            demand,
            item,
            size,
            again,
            prices,
            tasks,
        )
        worth = float(prices @ tasks)
        return Packing(tasks, worth, worth)

    def _by_search(self, prices: FloatArray) -> Packing:
        some = np.flatnonzero((prices > 0) & (self.most > 0))
        share = self.demand[some] / np.where(self.capacity > 0, self.capacity, 1.0)
        multipliers = _multipliers(prices[some], share, self.most[some].astype(float))
        cost = np.maximum(share @ multipliers, 1e-300)
        order = some[np.argsort(-prices[some] / cost, kind="stable")]
        found, most_valuable, bound = _search(
            prices[order],
            np.ascontiguousarray(self.demand[order]),
            self.capacity.copy(),
            self.most[order],
            multipliers / np.where(self.capacity > 0, self.capacity, 1.0),
            MOST_NODES,
        )
        tasks = np.zeros(len(prices), dtype=np.int64)
        tasks[order] = found
        worth = float(prices @ tasks)
        return Packing(tasks, worth, max(bound, worth) if bound > most_valuable else worth)


@compiled
def _programme(value, taken, amounts, offset, demand, item, size, again, prices, tasks):  # type: ignore[no-untyped-def]
    """Fill the table piece by piece, then read the tasks of the full server off it."""
    rows, columns = value.shape
    others = amounts.shape[1]
    for piece in range(len(item)):
        j, count = item[piece], size[piece]
        price = prices[j] * count
        if price <= 0.0:
            continue
        back = offset[j] * count
        across = demand[j, others] * count
        for step in range(rows):
            row = step if again[piece] else rows - 1 - step
            fits = True
            for r in range(others):
                fits = fits and demand[j, r] * count <= amounts[row, r]
            if not fits:
                continue
            mine, marks = value[row], taken[piece, row]
            source = value[row - back]
            if back > 0:
                for y in range(across, columns):
                    worth = source[y - across] + price
                    if worth > mine[y]:
                        mine[y] = worth
                        marks[y] = True
                continue
            for step_across in range(across, columns):
                y = step_across if again[piece] else columns - 1 - (step_across - across)
                worth = mine[y - across] + price
                if worth > mine[y]:
                    mine[y] = worth
                    marks[y] = True
    row, y = rows - 1, columns - 1
    for piece in range(len(item) - 1, -1, -1):
        j, count = item[piece], size[piece]
        while taken[piece, row, y]:
            tasks[j] += count
            row -= offset[j] * count
            y -= demand[j, others] * count
            if not again[piece]:
                break


@compiled
def _multipliers(prices, share, most):  # type: ignore[no-untyped-def]
    """(m,) prices of whole resources that bound every packing well: subgradient steps.

    Any will do for a bound; these minimise ``sum(y) + sum_j most_j max(0, p_j - y . share_j)``.
    """
    n, m = share.shape
    y, best = np.zeros(m), np.zeros(m)
    least = np.inf
    scale = 0.0
    for j in range(n):
        scale = max(scale, prices[j] * most[j])
    for _ in range(MULTIPLIER_STEPS):
        slope = np.ones(m)
        worth = y.sum()
        for j in range(n):
            gain = prices[j]
            for r in range(m):
                gain -= y[r] * share[j, r]
            if gain > 0.0:
                worth += gain * most[j]
                for r in range(m):
                    slope[r] -= most[j] * share[j, r]
        if worth < least:
            least = worth
            best[:] = y
        length = 0.0
        for r in range(m):
            length += slope[r] * slope[r]
        if length == 0.0:
            break
        stride = scale / np.sqrt(length)
        scale *= SHORTER
        for r in range(m):
            y[r] = max(0.0, y[r] - stride * slope[r])
    return best


@compiled
def _search(prices, demand, capacity, most, multipliers, nodes):  # type: ignore[no-untyped-def]
    """Depth first over the workloads, most tasks first; cut where the bound is no better.

    Returns the tasks, their value, and a bound on every packing: the value if the search ended.
    """
    n, m = demand.shape
    after = np.zeros(n + 1)
    for j in range(n - 1, -1, -1):
        gain = prices[j]
        for r in range(m):
            gain -= multipliers[r] * demand[j, r]
        after[j] = after[j + 1] + max(gain, 0.0) * most[j]
    best, found = -1.0, np.zeros(n, dtype=np.int64)
    count = np.zeros(n, dtype=np.int64)
    left = capacity.copy()
    root = after[0]
    for r in range(m):
        root += multipliers[r] * left[r]
    worth, j, down = 0.0, 0, True
    for _ in range(nodes):
        if down and j < n:
            bound = worth + after[j]
            for r in range(m):
                bound += multipliers[r] * left[r]
            if best >= 0.0 and bound <= best * (1.0 + 1e-12):
                down = False
                j -= 1
                continue
            fits = float(most[j])
            for r in range(m):
                if demand[j, r] > 0.0:
                    fits = min(fits, np.floor(left[r] / demand[j, r]))
            count[j] = int(fits)
            worth += prices[j] * count[j]
            for r in range(m):
                left[r] -= demand[j, r] * count[j]
            j += 1
            continue
        if down:
            if worth > best:
                best = worth
                found[:] = count
            down = False
            j -= 1
            continue
        if j < 0:
            return found, best, best
        if count[j] == 0:
            j -= 1
            continue
        count[j] -= 1
        worth -= prices[j]
        for r in range(m):
            left[r] += demand[j, r]
        down = True
        j += 1
    return found, best, root
