"""Whole tasks on single servers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.filling.kept_tasks import kept_tasks
from policies.floors.kept_gangs import pieces_inside
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

    @staticmethod
    def none() -> PlacedTasks:
        """Return no tasks."""
        whole, tasks = np.zeros(0, dtype=np.int64), np.zeros(0)
        return PlacedTasks(whole, whole, whole, tasks, whole)

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


@dataclass(frozen=True, eq=False)
class KeptTasks(PlacedTasks):
    """Tasks that a problem keeps on their servers.

    Which pieces form a task is not known, so that each entry has a ``task`` of its own.
    """

    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> KeptTasks:
        """Return the kept tasks of a problem."""
        kept, rows = kept_tasks(problem), each_row_alone(problem)
        first = np.cumsum(rows.servers) - rows.servers
        row = np.searchsorted(first, kept.server, side="right") - 1
        server, task = kept.server - first[row], np.arange(len(row))
        return cls(kept.kind, rows.first_row[row], server, kept.tasks, task, problem)

    def count_on(self, rows: BoolArray, workloads: IntArray) -> FloatArray:
        """Return the tasks (w,) of some workloads that run on some rows (k,)."""
        here = rows[self.row]
        kinds = len(self.problem.pieces.count)
        tasks = grouped_sum(self.tasks[here], self.kind[here], kinds)[workloads]
        for at in np.flatnonzero(np.isin(workloads, list(self.problem.gangs))).tolist():
            tasks[at], _, _ = self.taken_from(self.tasks, int(workloads[at]), rows)
        return tasks

    def taken_from(
        self, tasks: FloatArray, workload: int, rows: BoolArray, most: float = np.inf
    ) -> tuple[float, IntArray, FloatArray]:
        """Return how many tasks of a workload run on some rows, its entries, and what each has of them.

        Of a gang, all pieces of such a task run there, and the other tasks stay whole.

        Args:
            tasks: (q,) of each entry; rows: (k,); most: number of tasks at most.
        """
        order, edges = self._by_workload
        entries = order[edges[workload] : edges[workload + 1]]
        row, mine = self.row[entries], tasks[entries]
        gang = self.problem.gangs.get(workload)
        if gang is None:
            room = np.where(rows[row], mine, 0.0)
            taken: FloatArray = np.clip(most - (np.cumsum(room) - room), 0.0, room)
            return float(taken.sum()), entries, taken
        places = np.stack([row, self.server[entries]])
        servers, column = np.unique(places, axis=1, return_inverse=True)
        kind, column = (self.kind[entries] != workload).astype(np.int64), column.reshape(-1)
        pieces = np.zeros((len(gang.count), servers.shape[1]))
        pieces[kind, column] = mine
        zone = self.problem.zones[gang.together][servers[0]]
        chosen = pieces_inside(pieces, zone, rows[servers[0]], gang, most)
        return float(chosen[0].sum()) / int(gang.count[0]), entries, chosen[kind, column]

    @cached_property
    def _by_workload(self) -> tuple[IntArray, IntArray]:
        """Entries by workload, and where those of each begin."""
        owner = self.problem.pieces.workload[self.kind]
        order = np.argsort(owner, kind="stable")
        return order, np.searchsorted(owner[order], np.arange(self.problem.n + 1))
