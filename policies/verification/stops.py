"""Reasons for which workloads of whole tasks stopped, derived from what the servers have left.

A workload that does not fit any more names the first resource of which no server on which it may
run has enough left. If each is enough somewhere, but never together, it names the first of which
the emptiest of these servers has too little (the one with the largest sum of shares of the pool
left, then by position).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray

NOTHING = -1
_CELLS = 1 << 20
_MOST_LARGEST = 1_000  # more are not looked for: each takes a pass over the servers of its kind


@dataclass(frozen=True, eq=False)
class Room:
    """Servers, or ranges of alike ones, with what they have left.

    Attributes:
        left: (L, m) whole numbers; kind: (L,) column of ``allowed``; allowed: (n, K) may it run there?
        unit: (m,) one unit of each resource as a share of the pool.
    """

    left: FloatArray
    kind: IntArray
    allowed: BoolArray
    unit: FloatArray

    def blocking(self, demand: FloatArray) -> IntArray:
        """Return the index (n,) of the resource that stops each workload.

        -1 if one more task fits.

        Args:
            demand: (n, m) whole numbers.
        """
        largest = self._largest()
        blocking = np.full(len(demand), NOTHING, dtype=np.int64)
        # As many at once as keeps the tables of workloads and servers in the processor's cache.
        at_once = max(1, _CELLS // max(1, len(largest.kind), self.allowed.shape[1]))
        for begin in range(0, len(demand), at_once):
            part = slice(begin, begin + at_once)
            some = Room(largest.left, largest.kind, self.allowed[part], self.unit)
            blocking[part] = some._blocking(demand[part])
        return blocking

    def _largest(self) -> Room:
        """Return the servers that no other one of their kind exceeds in every resource, by position.

        Where one workload fits, it fits on one of these, and the emptiest of a kind is one of them.
        """
        total = self._totals()
        chosen: list[int] = []
        for kind in np.unique(self.kind).tolist():
            rest = np.flatnonzero(self.kind == kind)
            while len(rest) and len(chosen) < _MOST_LARGEST:
                first = rest[total[rest].argmax()]
                chosen.append(int(first))
                rest = rest[(self.left[rest] > self.left[first]).any(axis=1)]
            chosen += rest.tolist()
        positions = np.sort(np.array(chosen, dtype=np.int64))
        return Room(self.left[positions], self.kind[positions], self.allowed, self.unit)

    def _totals(self) -> FloatArray:
        total = np.zeros(len(self.left))
        for r in range(len(self.unit)):
            total += self.left[:, r] * self.unit[r]
        return total

    def _blocking(self, demand: FloatArray) -> IntArray:
        allowed = self.allowed[:, self.kind]
        fits, enough = allowed.copy(), np.empty(demand.shape, dtype=np.bool_)
        for r, column in enumerate(self.left.T):
            here = allowed & (column >= demand[:, r, None])
            enough[:, r] = here.any(axis=1)
            fits &= here
        blocking = np.full(len(demand), NOTHING, dtype=np.int64)
        short = ~enough.all(axis=1)
        blocking[short] = (~enough[short]).argmax(axis=1)
        apart = np.flatnonzero(~short & ~fits.any(axis=1))
        if len(apart):
            emptiest = np.where(allowed[apart], self._totals(), -1.0).argmax(axis=1)
            blocking[apart] = (demand[apart] > self.left[emptiest]).argmax(axis=1)
        return blocking
