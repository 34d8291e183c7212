"""Tenants' workloads in the order in which their tasks are launched (indivisible policies).

A tenant's next task comes from its highest-priority workload that still fits, then from the
older one (policies §1.6). Room only shrinks while a pool is filled, so a workload that has
stopped never starts again and every tenant walks through its list once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import FloatArray, IntArray, TextArray
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Queues:
    """The runnable workloads, sorted by tenant and preference, and the tenants' progress.

    Attributes:
        workloads: (q,) indices of the problem's workloads.
        first, stop: (t,) tenant ``i`` owns positions ``first[i]`` to ``stop[i] - 1``.
        current: (t,) position from which the tenant's next task comes.
        share: (q,) what one task adds to its tenant's share.
        limit: (q,) tasks at most, beside ``kept``.
        weight: (t,) divides the share.
        second_stage: (t,) served after all others have left.
        count: (q,) tasks launched.
        kept: (q,) tasks that run before any is launched, beside ``count``.
        passed: (t,) share from the workloads before ``current``.
    """

    workloads: IntArray
    first: IntArray
    stop: IntArray
    current: IntArray
    share: FloatArray
    limit: FloatArray
    weight: FloatArray
    second_stage: IntArray
    count: FloatArray
    kept: FloatArray
    passed: FloatArray

    def shares_in_stage(self, stage: int) -> FloatArray:
        """Return the weighted shares (t,) at the start of a stage, inf for tenants not waiting in it."""
        waiting = (self.second_stage == stage) & (self.current < self.stop)
        return np.where(waiting, self.passed / self.weight, np.inf)

    def used(self, gain: FloatArray) -> FloatArray:
        """Return the use (t, r) of running tasks, of which each of workload ``q`` uses ``gain[q]``."""
        tenants = np.repeat(np.arange(len(self.first)), self.stop - self.first)
        used = np.zeros((len(self.first), gain.shape[1]))
        np.add.at(used, tenants, (self.count + self.kept)[:, None] * gain)
        return used

    def tasks(self, problem: Problem) -> FloatArray:
        """Return the tasks (n,) of each of the problem's workloads, kept and launched."""
        tasks = np.zeros(problem.n)
        tasks[self.workloads] = self.count + self.kept
        return tasks


def queues_of(
    problem: Problem,
    reasons: TextArray,
    share_per_task: FloatArray,
    kept: FloatArray | None = None,
) -> Queues:
    """Return every tenant's queue, with nothing launched but the guaranteed parts that are kept.

    Args:
        problem: the problem.
        reasons: (n,) why a workload cannot run at all; the empty string where it can.
        share_per_task: (n,) what one task adds to its tenant's share, before weights.
        kept: (n,) tasks that run before any is launched; None for none. They count from the beginning,
            whichever workload of their tenant comes first.
    """
    runnable = np.flatnonzero(reasons == "")
    owner = problem.workload_tenant[runnable]
    order = np.lexsort((runnable, -problem.priority[runnable], owner))
    workloads, owner = runnable[order], owner[order]
    tenants = np.arange(problem.t)
    first = np.searchsorted(owner, tenants).astype(np.int64)
    stop = np.searchsorted(owner, tenants, side="right").astype(np.int64)
    count = np.where(problem.kept[owner], problem.tasks[workloads], 0.0)
    passed = np.zeros(problem.t)
    if problem.count_guaranteed and problem.floors == "kept":
        np.add.at(passed, problem.owner[workloads], count * share_per_task[workloads])
    stays = np.zeros(len(workloads)) if kept is None else kept[workloads]
    np.add.at(passed, owner, stays * share_per_task[workloads])
    return Queues(
        workloads=workloads,
        first=first,
        stop=stop,
        current=np.where(problem.kept, stop, first),
        share=share_per_task[workloads],
        limit=problem.tasks[workloads] - stays,
        weight=problem.effective_weight.copy(),
        second_stage=problem.second_stage.astype(np.int64),
        count=count,
        kept=stays,
        passed=passed,
    )
