"""Whole tasks that run on their tenants' own servers before everything else.

Source: docs/policies/guarantees.md, docs/policies/kept-tasks.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.floors.placed_tasks import PlacedTasks
from policies.floors.pools import FloorPool
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone


def alone_on_own_servers(
    problem: Problem, pools: Sequence[FloorPool], answers: Sequence[Allocation | None]
) -> PlacedTasks:
    """Return the tasks of tenants alone on their own servers, without those that a limit excludes.

    The answers of the pools of own servers have the tasks on each row.
    """
    placing = _Placing(problem, np.full(problem.n, np.inf))
    first, tenants = len(problem.guarantees), np.flatnonzero(problem.own_servers).tolist()
    for tenant, pool, answer in zip(tenants, pools[first:], answers[first:], strict=True):
        assert answer is not None  # noqa: S101 - for mypy: the pools of own servers are solved
        rows = np.flatnonzero((problem.contributed_by == tenant) & ~problem.contributed_only)
        job, at, tasks = answer.placements_by_row()
        placing.place(pool.workloads[job], rows[at], tasks)
    return placing.placed()


def beside_kept_tasks(problem: Problem, kept: PlacedTasks, missing: FloatArray) -> PlacedTasks:
    """Return the tasks for which own servers have room beside kept ones.

    Args:
        missing: (n,) tasks of each workload at most.
    """
    placing, rows = _Placing(problem, missing), each_row_alone(problem)
    placing.take(kept)
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        own = np.flatnonzero(problem.contributed_by[rows.first_row] == tenant)
        mine = np.flatnonzero((problem.workload_tenant == tenant) & (missing > 0))
        job, at = np.nonzero(rows.allowed[mine][:, own])
        placing.place(mine[job], rows.first_row[own[at]], missing[mine[job]])
    return placing.placed()


class _Placing:
    """Room on servers and in limits while tasks are placed."""

    def __init__(self, problem: Problem, missing: FloatArray) -> None:
        """Begin with empty servers. At most ``missing`` (n,) tasks of each workload are placed."""
        self._problem, self._missing = problem, missing.copy()
        self._whole = WholeServers.of(problem)
        self._limits = self._whole.limits.copy()
        self._counted = np.zeros((len(self._limits), problem.n), dtype=np.bool_)
        for item, of_limit in zip(problem.limited, self._counted, strict=True):
            of_limit[item.workloads] = True
        self._left: dict[int, FloatArray] = {}
        self._entries: list[IntArray] = [np.zeros((0, 3), dtype=np.int64)]
        self._tasks: list[FloatArray] = [np.zeros(0)]

    def placed(self) -> PlacedTasks:
        """Return all tasks that were placed."""
        workload, row, server = np.concatenate(self._entries).T
        return PlacedTasks(workload, row, server, np.concatenate(self._tasks))

    def take(self, kept: PlacedTasks) -> None:
        """Take what tasks use that run already."""
        need = kept.tasks[:, None] * self._whole.demand[kept.workload]
        for item, of_limit, left in zip(
            self._problem.limited, self._counted, self._limits, strict=True
        ):
            left -= need[of_limit[kept.workload] & item.rows[kept.row]].sum(axis=0)
        order = np.argsort(kept.row, kind="stable")
        rows, begins = np.unique(kept.row[order], return_index=True)
        ends = np.append(begins, len(order))[1:]
        for row, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
            some = order[begin:end]
            np.subtract.at(self._left_on(row), kept.server[some], need[some])

    def place(self, workload: IntArray, row: IntArray, tasks: FloatArray) -> None:
        """Place at most so many tasks (q,) of each workload on each row.

        Workloads of higher priority come first, then the older ones, each row by row.
        """
        for q in np.lexsort((row, workload, -self._problem.priority[workload])).tolist():
            self._place(int(workload[q]), int(row[q]), float(tasks[q]))

    def _place(self, j: int, row: int, tasks: float) -> None:
        most = min(tasks, float(self._missing[j]))
        demand, left = self._whole.demand[j], self._left_on(row)
        needed = demand > 0
        mine = [
            number
            for number in np.flatnonzero(self._counted[:, j]).tolist()
            if self._problem.limited[number].rows[row]
        ]
        each = np.floor(left[:, needed] / demand[needed]).min(axis=1)
        before = np.cumsum(each) - each
        room = np.floor(self._limits[mine][:, needed] / demand[needed])
        taken: FloatArray = np.clip(room.min(initial=most) - before, 0.0, each)
        self._limits[mine] -= taken.sum() * demand
        left -= taken[:, None] * demand
        servers = np.flatnonzero(taken)
        self._entries.append(
            np.stack([np.full(len(servers), j), np.full(len(servers), row), servers], 1)
        )
        self._tasks.append(taken[servers])
        self._missing[j] -= taken.sum()

    def _left_on(self, row: int) -> FloatArray:
        if row not in self._left:
            servers = int(self._problem.server_count[row])
            self._left[row] = np.tile(self._whole.capacity[row], (servers, 1))
        return self._left[row]
