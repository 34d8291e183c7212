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
        n, m = demand.shape
        kinds = self.allowed.shape[1]
        most = np.full((kinds, m), -1.0)
        np.maximum.at(most, self.kind, self.left)
        enough = np.zeros((n, m), dtype=np.bool_)
        everywhere = np.ones((n, kinds), dtype=np.bool_)
        for r in range(m):
            here = self.allowed & (most[:, r] >= demand[:, r, None])
            enough[:, r] = here.any(axis=1)
            everywhere &= here
        blocking = np.full(n, NOTHING, dtype=np.int64)
        short = ~enough.all(axis=1)
        blocking[short] = (~enough[short]).argmax(axis=1)
        columns = np.ascontiguousarray(self.left.T)
        total = np.zeros(len(self.left))
        for r in range(m):
            total += columns[r] * self.unit[r]
        for j in np.flatnonzero(~short).tolist():
            fits = everywhere[j][self.kind]
            for column, needed in zip(columns, demand[j].tolist(), strict=True):
                if needed:
                    fits &= column >= needed
            if not fits.any():
                emptiest = np.where(self.allowed[j][self.kind], total, -1.0).argmax()
                blocking[j] = int((demand[j] > self.left[emptiest]).argmax())
        return blocking
