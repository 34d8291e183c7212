"""Whole tasks on single servers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.filling.kept_tasks import kept_tasks
from policies.model.current_placements import CurrentPlacements
from policies.model.problem import Problem
from policies.model.server_classes import each_row_alone


@dataclass(frozen=True, eq=False)
class PlacedTasks:
    """Whole tasks that have their servers before floors rise.

    Attributes:
        kind, row, server: (q,) of each entry, the servers of a row numbered from 0.
        tasks: (q,) on the server, of gangs pieces.
        task: (q,) number that all pieces of one gang share; each other entry has its own.
    """

    kind: IntArray
    row: IntArray
    server: IntArray
    tasks: FloatArray
    task: IntArray

    @classmethod
    def kept(cls, problem: Problem) -> PlacedTasks:
        """Return the tasks that a problem keeps on their servers, which are of one piece."""
        kept, rows = kept_tasks(problem), each_row_alone(problem)
        first = np.cumsum(rows.servers) - rows.servers
        row = np.searchsorted(first, kept.server, side="right") - 1
        server = kept.server - first[row]
        return cls(kept.kind, rows.first_row[row], server, kept.tasks, np.arange(len(row)))

    def some(self, entries: IntArray) -> PlacedTasks:
        """Return some entries."""
        return PlacedTasks(
            self.kind[entries],
            self.row[entries],
            self.server[entries],
            self.tasks[entries],
            self.task[entries],
        )

    def per_workload(self, problem: Problem, rows: BoolArray | None = None) -> FloatArray:
        """Return the tasks (n,) of each workload, those on some rows (k,) alone if these are given."""
        some = np.ones(len(self.task), dtype=np.bool_)
        if rows is not None:
            outside = np.zeros(self.task.max(initial=-1) + 1, dtype=np.bool_)
            outside[self.task[~rows[self.row]]] = True
            some = ~outside[self.task]
        pieces = problem.pieces
        per_kind = grouped_sum(self.tasks[some], self.kind[some], len(pieces.count))
        tasks: FloatArray = (per_kind / pieces.count)[: problem.n]
        return tasks

    def placements(self, kind: IntArray, tasks: FloatArray) -> CurrentPlacements:
        """Return so many tasks (q,) of each entry, as those of other kinds (q,).

        Entries of kinds below 0, or without tasks, are left out.
        """
        some = (tasks > 0) & (kind >= 0)
        return CurrentPlacements(
            workload=kind[some],
            row=self.row[some],
            offset=self.server[some],
            servers=np.ones(int(some.sum()), dtype=np.int64),
            tasks=tasks[some],
        )
