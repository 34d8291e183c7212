"""The state of a problem with kept tasks before its floors rise.

Source: docs/policies/kept-tasks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.floors.own_servers import beside_kept_tasks
from policies.floors.parts import Parts, placed_on_own, second_kinds
from policies.floors.placed_tasks import KeptTasks
from policies.floors.pools import FloorPool
from policies.model.current_placements import CurrentPlacements
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False)
class StartingState:
    """Parts, and the tasks of them that run before the others rise.

    Workloads are those of the problem with the parts.

    Attributes:
        parts: of the problem.
        on_own: tasks of the parts on own servers, which are all of them; None without placements.
        kept: tasks that stay, of other parts or of none; None if the problem keeps none.
        uncounted: those of none.
    """

    parts: Parts
    on_own: CurrentPlacements | None
    kept: CurrentPlacements | None = None
    uncounted: CurrentPlacements | None = None


def starting_state(
    problem: Problem,
    pools: Sequence[FloorPool],
    parts: Parts,
    kept: KeptTasks,
    deadline: float | None = None,
) -> StartingState:
    """Count kept tasks for parts, and place what own servers have room for beside them.

    A kept task counts for the part with the fewest servers that has its servers and still lacks tasks.
    """
    counts = _Counts(problem, pools, parts, kept)
    counts.shrink()
    missing = np.zeros(problem.n)
    of_own = np.flatnonzero(parts.on_own)
    missing[parts.workload[of_own]] = counts.lacking[of_own]
    own = beside_kept_tasks(problem, pools, kept, missing, deadline)
    # What has no room on own servers is not guaranteed.
    more = own.per_workload(problem)[parts.workload[of_own]]
    tasks = counts.tasks.copy()
    tasks[of_own] += more - counts.lacking[of_own]
    stays = np.flatnonzero(tasks)
    number = np.full(len(tasks), -1, dtype=np.int64)
    number[stays] = problem.n + np.arange(len(stays))
    found = parts.some(stays, tasks)
    second = second_kinds(problem, found)
    is_first, owner = kept.kind < problem.n, problem.pieces.workload[kept.kind]
    uncounted = kept.placements(np.where(is_first, owner, second[owner]), counts.uncounted)
    on_own, others = [placed_on_own(problem, found, own)], [uncounted]
    for p, some, taken in counts.counted:
        if number[p] >= 0:
            kind = np.where(is_first[some], number[p], second[number[p]])
            placed = kept.some(some).placements(kind, taken)
            (on_own if parts.on_own[p] else others).append(placed)
    return StartingState(found, _together(on_own), _together(others), uncounted)


class _Counts:
    """Kept tasks as tasks of parts.

    Attributes:
        tasks: (p,) of each part; lacking: (p,) of these for which no kept task counts.
        counted: (part, entries of kept tasks, how many of each count for the part).
        uncounted: (q,) kept tasks, of gangs pieces, that count for no part.
    """

    def __init__(
        self, problem: Problem, pools: Sequence[FloorPool], parts: Parts, kept: KeptTasks
    ) -> None:
        self._problem, self._parts, self._kept = problem, parts, kept
        servers = [int(problem.server_count[pool.rows].sum()) for pool in pools]
        self._order = sorted(
            range(len(parts.workload)),
            key=lambda p: (bool(parts.on_own[p]), servers[parts.pool[p]], int(parts.pool[p])),
        )
        self.tasks, self.lacking = parts.tasks.copy(), parts.tasks.copy()
        self.uncounted = kept.tasks.copy()
        self.counted: list[tuple[int, IntArray, FloatArray]] = []
        everywhere = np.ones(problem.k, dtype=np.bool_)
        for p in self._order:
            rows = everywhere if parts.on_own[p] else pools[parts.pool[p]].rows
            tasks, mine, taken = kept.taken_from(
                self.uncounted, int(parts.workload[p]), rows, self.lacking[p]
            )
            self.uncounted[mine] -= taken
            self.lacking[p] -= tasks
            self.counted.append((p, mine, taken))

    def shrink(self) -> None:
        """Take from parts, the last ones first, what their workload lacks beside ``uncounted``."""
        of, n = self._parts.workload, self._problem.n
        over = grouped_sum(self.tasks, of, n) - self._problem.tasks
        pieces, kind = self._problem.pieces, self._kept.kind
        uncounted = grouped_sum(self.uncounted, kind, len(pieces.count)) / pieces.count
        over = np.maximum(over + uncounted[:n], 0.0)
        for p in reversed(self._order):
            less = min(over[of[p]], self.lacking[p])
            over[of[p]] -= less
            self.tasks[p] -= less
            self.lacking[p] -= less


def _together(placed: Sequence[CurrentPlacements]) -> CurrentPlacements:
    return CurrentPlacements(
        workload=np.concatenate([each.workload for each in placed]),
        row=np.concatenate([each.row for each in placed]),
        offset=np.concatenate([each.offset for each in placed]),
        servers=np.concatenate([each.servers for each in placed]),
        tasks=np.concatenate([each.tasks for each in placed]),
    )
