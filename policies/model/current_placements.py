"""Current placements of tasks, from which a new decision of the pool starts."""

from __future__ import annotations

from dataclasses import dataclass

from policies.arrays import BoolArray, FloatArray, IntArray

GONE = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class CurrentPlacements:
    """Current placements of tasks on ranges of servers.

    A range lies in one row, as in ``placements_by_range``.

    Attributes
    ----------
    workload : (p,) int array
        Index of the workload; of a kind of pieces (``Problem.pieces``) of a gang.
    row : (p,) int array
        Index of the server row; -1 where the servers have left the pool.
    offset : (p,) int array
        Position in the row of the first server.
    servers : (p,) int array
        Number of servers in the range.
    tasks : (p,) float array
        Whole tasks, or pieces, on each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import CurrentPlacements
    >>> one = np.ones(1, dtype=np.int64)
    >>> CurrentPlacements(workload=0 * one, row=0 * one, offset=0 * one, servers=2 * one,
    ...     tasks=np.array([3.0])).servers.tolist()
    [2]
    """

    workload: IntArray
    row: IntArray
    offset: IntArray
    servers: IntArray
    tasks: FloatArray

    def some(self, entries: BoolArray) -> CurrentPlacements:
        """Return some entries (p,)."""
        return CurrentPlacements(
            workload=self.workload[entries],
            row=self.row[entries],
            offset=self.offset[entries],
            servers=self.servers[entries],
            tasks=self.tasks[entries],
        )
