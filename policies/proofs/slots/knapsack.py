"""Exact bounded integer knapsack for the most valuable whole tasks on one server.

It uses a dynamic programme over the grid of capacities if that is small enough, and else a
depth-first search with the bound of the divisible relaxation. Demands are divided by their greatest
common divisor first, resource by resource, which changes no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.proofs.slots.knapsack_bounds import relaxed
from policies.proofs.slots.knapsack_core import CORE_TABLE, Pieces, packing_of_core, pieces_of

# Cells of the grid × pieces of workloads that a programme may have, and nodes of a search.
LARGEST_TABLE = 30_000_000
MOST_NODES = 2_000_000
# Steps of innermost loops per node, and what rounding may hide of a value.
WORK_OF_A_NODE = 13
EXACT = 1e-12


@dataclass(frozen=True, eq=False)
class Packing:
    """Tasks of a server for given prices.

    Attributes:
        tasks: (q,) whole tasks.
        value: what they are worth.
        bound: no packing is worth more; equal to ``value`` where the answer is exact.
        work: steps of innermost loops that it took.
    """

    tasks: IntArray
    value: float
    bound: float
    work: float


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
        """True if the dynamic programme is small enough."""
        return self._cells <= LARGEST_TABLE

    @cached_property
    def _cells(self) -> float:
        """Cells of the grid × pieces."""
        item, _, _ = self._pieces
        _, capacity = self.reduced
        return float(np.prod(capacity + 1.0)) * (len(item) + 1)

    def best(self, prices: FloatArray, *, nodes: int = MOST_NODES) -> Packing:
        """Return the most valuable packing.

        Args:
            prices: (q,) of one task of each workload, at least 0.
            nodes: of a search, where the grid is too large for the programme; fewer than
                ``MOST_NODES`` also ask for the search where the programme would take long.
        """
        if self.has_grid and (nodes >= MOST_NODES or self._cells <= CORE_TABLE):
            return self._by_programme(prices)
        return self._by_search(prices, nodes)

    @cached_property
    def _pieces(self) -> Pieces:
        """Pieces of the workloads."""
        room = Knapsack(self.demand, self.capacity, np.full(len(self.limit), np.inf)).most
        return pieces_of(self.most, room, self.most > 0)

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
        tasks = np.zeros(len(prices), dtype=np.int64)
        shape = (len(amounts), int(capacity[-1]) + 1 if len(capacity) else 1)
        value, taken = np.zeros(shape), np.zeros((len(self._pieces.item), *shape), dtype=np.bool_)
        _programme(
            value,
            taken,
            amounts,
            demand[:, :-1] @ strides,
            demand,
            self._pieces,
            prices,
            tasks,
        )
        worth = float(prices @ tasks)
        return Packing(tasks, worth, worth, float(taken.size))

    def _by_search(self, prices: FloatArray, nodes: int) -> Packing:
        """Return the packing of the core, or of a search.

        The search runs if the core's packing is below the divisible relaxation.
        """
        some = np.flatnonzero((prices > 0) & (self.most > 0))
        tasks = np.zeros(len(prices), dtype=np.int64)
        if not len(some):
            return Packing(tasks, 0.0, 0.0, 0.0)
        every, capacity = self.reduced
        price, demand, most = prices[some], every[some], self.most[some]
        share = demand / np.maximum(capacity, 1)
        worth, divisible = np.zeros(len(capacity)), np.zeros(len(some))
        room = (capacity > 0).astype(np.float64)
        bound = float(relaxed(price, share, room, most.astype(np.float64), worth, divisible))
        found = packing_of_core(price, demand, capacity, most, worth, divisible)
        value = float(price @ found)
        visited = 0
        # The core's packing mostly reaches the bound, which proves it.
        if value < bound * (1 - EXACT):
            # The best workloads first: early good packings cut more branches.
            order = np.argsort(-price / np.maximum(share @ worth, 1e-300), kind="stable")
            better, value, least, visited = _search(
                price[order],
                demand[order].astype(np.float64),
                capacity.astype(np.float64),
                most[order],
                worth / np.maximum(capacity, 1),
                nodes,
                value,
            )
            if better.any():
                found[order] = better
            bound = min(bound, least)
        tasks[some] = found
        value = float(prices @ tasks)
        work = float(CORE_TABLE + WORK_OF_A_NODE * visited)
        return Packing(tasks, value, value if bound <= value * (1 + EXACT) else bound, work)


@compiled
def _programme(value, taken, amounts, offset, demand, pieces, prices, tasks):
    """Fill the table piece by piece, then read the tasks of the full server off it."""
    item, size, again = pieces
    rows, columns = value.shape
    others = amounts.shape[1]
    for piece in range(len(item)):
        j, count = item[piece], size[piece]
        price = prices[j] * count
        if price <= 0.0:
            continue
        # What the piece takes of the table's rows and columns.
        back = offset[j] * count
        across = demand[j, others] * count
        for step in range(rows):
            # Upwards a cell may hold the piece several times; downwards it is read before it has
            # it.
            row = step if again[piece] else rows - 1 - step
            fits = True
            for r in range(others):
                fits = fits and demand[j, r] * count <= amounts[row, r]
            if not fits:
                continue
            mine, marks = value[row], taken[piece, row]
            source = value[row - back]
            # The source is another row, so that the loop has no order and vectorises.
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
    # From the last piece on, because a cell's marks hold for the pieces up to theirs.
    for piece in range(len(item) - 1, -1, -1):
        j, count = item[piece], size[piece]
        while taken[piece, row, y]:
            tasks[j] += count
            row -= offset[j] * count
            y -= demand[j, others] * count
            if not again[piece]:
                break


@compiled
def _search(prices, demand, capacity, most, multipliers, nodes, known):
    """Search depth first over the workloads, most tasks first.

    A branch is cut where its bound is no better. Returns the tasks (none if none is worth more than
    ``known``), the highest value, a bound on every packing, which is that value if the search
    ended, and the nodes visited.
    """
    n, m = demand.shape
    # Worth beyond the price of what it takes: with prices fixed, a node's bound costs m steps.
    after = np.zeros(n + 1)
    for j in range(n - 1, -1, -1):
        gain = prices[j]
        for r in range(m):
            gain -= multipliers[r] * demand[j, r]
        after[j] = after[j + 1] + max(gain, 0.0) * most[j]
    best, found = known, np.zeros(n, dtype=np.int64)
    count = np.zeros(n, dtype=np.int64)
    left = capacity.copy()
    # Proven in any case, and all that is known if the nodes run out.
    root = after[0]
    for r in range(m):
        root += multipliers[r] * left[r]
    worth, j, down = 0.0, 0, True
    for node in range(nodes):
        if down and j < n:
            bound = worth + after[j]
            for r in range(m):
                bound += multipliers[r] * left[r]
            if bound <= best * (1.0 + 1e-12):
                down = False
                j -= 1
                continue
            # Most tasks first, which is nearest to the relaxation.
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
            return found, best, best, node
        if count[j] == 0:
            j -= 1
            continue
        count[j] -= 1
        worth -= prices[j]
        for r in range(m):
            left[r] += demand[j, r]
        down = True
        j += 1
    return found, best, root, nodes
