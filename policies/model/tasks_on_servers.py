"""Whole tasks by single server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.model.current_placements import GONE, CurrentPlacements
from policies.model.problem import Problem
from policies.model.server_classes import ServerClasses


@dataclass(frozen=True, eq=False)
class TasksOnServers:
    """Tasks, or pieces of gangs, by server and kind, servers numbered row by row.

    Attributes:
        key: (p,) ``server × kinds + kind``, ascending; tasks: (p,) above 0.
        kinds: number of kinds of pieces, which is that of workloads without gangs.
    """

    key: IntArray
    tasks: FloatArray
    kinds: int

    @classmethod
    def of(cls, server: IntArray, kind: IntArray, tasks: FloatArray, kinds: int) -> TasksOnServers:
        """Add up what has the same server and kind."""
        keys, inverse = np.unique(server * kinds + kind, return_inverse=True)
        return cls(keys, grouped_sum(tasks, inverse, len(keys)), kinds)

    @classmethod
    def of_placements(
        cls, problem: Problem, rows: ServerClasses, placements: CurrentPlacements
    ) -> TasksOnServers:
        """Return what runs on servers that the problem offers."""
        rank = np.full(problem.k + 1, GONE, dtype=np.int64)
        rank[rows.first_row] = np.arange(rows.count)
        edge = np.cumsum(rows.servers) - rows.servers
        present = rank[placements.row] != GONE
        row, offset = rank[placements.row[present]], placements.offset[present]
        length = np.minimum(placements.servers[present], rows.servers[row] - offset).clip(min=0)
        which = np.repeat(np.arange(len(row)), length)
        within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        return cls.of(
            (edge[row] + offset)[which] + within,
            placements.workload[present][which],
            placements.tasks[present][which],
            len(problem.pieces.demand),
        )

    @cached_property
    def server(self) -> IntArray:
        """Number (p,) of the server."""
        return self.key // self.kinds

    @cached_property
    def kind(self) -> IntArray:
        """Kind (p,) of pieces, for tasks of one piece the workload."""
        return self.key % self.kinds

    def only(self, tasks: FloatArray) -> TasksOnServers:
        """Return the entries with other numbers of tasks (p,), without those that have none."""
        stays = tasks > 0
        return TasksOnServers(self.key[stays], tasks[stays], self.kinds)

    def with_more(self, other: TasksOnServers) -> TasksOnServers:
        """Add the tasks of both."""
        key, tasks = np.r_[self.key, other.key], np.r_[self.tasks, other.tasks]
        return TasksOnServers.of(key // self.kinds, key % self.kinds, tasks, self.kinds)

    def on(self, other: TasksOnServers) -> FloatArray:
        """Return the tasks (p,) that another one has for each entry."""
        at = np.searchsorted(other.key, self.key)
        found = np.zeros(len(self.key))
        inside = at < len(other.key)
        same = np.flatnonzero(inside)[other.key[at[inside]] == self.key[inside]]
        found[same] = other.tasks[at[same]]
        return found

    def per_kind(self) -> FloatArray:
        """Return the tasks, or pieces, of each kind (q,)."""
        return grouped_sum(self.tasks, self.kind, self.kinds)

    def per_workload(self, problem: Problem) -> FloatArray:
        """Return the whole tasks (n,) of each workload."""
        pieces = problem.pieces
        return self.per_kind()[: problem.n] / pieces.count[: problem.n]
