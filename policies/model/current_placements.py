"""Where tasks run now: what a new decision of the same pool starts from."""

from __future__ import annotations

from dataclasses import dataclass

from policies.arrays import FloatArray, IntArray

GONE = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class CurrentPlacements:
    """Where tasks run now: (p,) ranges of servers of one row, as ``placements_by_range`` gives.

    Attributes:
        workload: (p,) index of the workload.
        row: (p,) index of the server row; -1 where the servers have left the pool.
        offset: (p,) position in the row of the first server.
        servers: (p,) how many servers there are.
        tasks: (p,) whole tasks on each of them.
    """

    workload: IntArray
    row: IntArray
    offset: IntArray
    servers: IntArray
    tasks: FloatArray
