"""Whole tasks on single servers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.filling.kept_tasks import kept_tasks
from policies.model.current_placements import CurrentPlacements
from policies.model.problem import Problem
from policies.model.server_classes import each_row_alone


@dataclass(frozen=True, eq=False)
class PlacedTasks:
    """Whole tasks that have their servers before floors rise.

    Attributes:
        workload, row, server: (q,) of each entry, the servers of a row numbered from 0.
        tasks: (q,) on the server.
    """

    workload: IntArray
    row: IntArray
    server: IntArray
    tasks: FloatArray

    @classmethod
    def kept(cls, problem: Problem) -> PlacedTasks:
        """Return the tasks that a problem keeps on their servers."""
        kept, rows = kept_tasks(problem), each_row_alone(problem)
        first = np.cumsum(rows.servers) - rows.servers
        row = np.searchsorted(first, kept.server, side="right") - 1
        return cls(kept.kind, rows.first_row[row], kept.server - first[row], kept.tasks)

    def placements(self, workload: IntArray, tasks: FloatArray) -> CurrentPlacements:
        """Return so many tasks (q,) of each entry, as those of other workloads (q,).

        Entries of workloads below 0, or without tasks, are left out.
        """
        some = (tasks > 0) & (workload >= 0)
        return CurrentPlacements(
            workload=workload[some],
            row=self.row[some],
            offset=self.server[some],
            servers=np.ones(int(some.sum()), dtype=np.int64),
            tasks=tasks[some],
        )
