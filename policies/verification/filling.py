"""Whether whole tasks were handed out in the order of shares: without filling the pool again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import Allocation, least_level_unsatisfied
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT
from policies.proofs.pool_of_tasks import pool_of_tasks, shares_counted
from policies.verification.checks import Check
from policies.verification.checks import check as _check


def check_filling(problem: Problem, allocation: Allocation) -> Iterator[Check]:
    """Levels and objective follow from the tasks, and on one pool nobody was passed over.

    Nothing is yielded for policies whose levels are not shares of what runs.
    """
    if not allocation.policy.fills:
        return
    share = shares_counted(problem, allocation.choice, allocation.tasks)
    level = allocation.level
    runs = np.isfinite(level)
    weight = problem.effective_weight
    yield _check(
        "levels",
        np.where(runs, np.abs(np.where(runs, level, 0.0) * weight - share), share)
        / np.maximum(share, 1e-3 * AGREEMENT),
        AGREEMENT,
        "every tenant's level is its share over its weight",
        problem.tenants,
    )
    expected = least_level_unsatisfied(problem, share / weight, allocation.limited_by)
    same = np.isclose(allocation.objective, expected, rtol=AGREEMENT, atol=0, equal_nan=True)
    yield _check(
        "objective",
        np.array([not same]) * 1.0,
        0.0,
        "the objective is the least level of those who wanted more",
        ("objective",),
    )
    if allocation.choice.sees_one_pool:
        yield _check(
            "nobody_passed_over",
            _passed_over(problem, allocation, share) * 1.0,
            0.0,
            "no tenant with more was given its last task where that of one with less would fit",
            problem.tenants,
        )


def _passed_over(problem: Problem, allocation: Allocation, share: FloatArray) -> BoolArray:
    """(t,) tenants that stopped for want of room while another with more took its last task.

    At that moment the pool had what is left now and that task's demand, at least: a task that fits
    into that would have fitted then, so its tenant had not stopped, and had the lower share.
    """
    choice = allocation.choice
    pool = pool_of_tasks(problem, choice)
    tasks, last = allocation.tasks, _last_workload(problem, allocation.tasks)
    took = np.flatnonzero(last >= 0)
    fewer = tasks.copy()
    fewer[last[took]] -= 1
    before = shares_counted(problem, choice, fewer) / problem.effective_weight
    left = pool.room - tasks @ pool.demand
    room = left + pool.demand[last[took]]
    wanting = np.flatnonzero(
        np.array([reason.startswith("resource:") for reason in allocation.limited_by])
    )
    passed = np.zeros(problem.t, dtype=np.bool_)
    reached = share / problem.effective_weight
    stage = problem.second_stage
    waits = problem.workload_tenant[wanting]
    after = stage[took].max(initial=False) > stage[waits]
    ahead_of = before[took].max(initial=-np.inf) > reached[waits] * (1 + AGREEMENT)
    for j in wanting[after | ahead_of].tolist():
        tenant = problem.workload_tenant[j]
        later = stage[took] > stage[tenant]
        more = before[took] > reached[tenant] * (1 + AGREEMENT) + 1e-3 * AGREEMENT
        ahead = (later | (more & (stage[took] == stage[tenant]))) & (took != tenant)
        if ahead.any() and bool((pool.demand[j] <= room[ahead]).all(axis=1).any()):
            passed[tenant] = True
    return passed


def _last_workload(problem: Problem, tasks: FloatArray) -> IntArray:
    """(t,) the workload of which each tenant launched its last task; -1 if it runs none."""
    last = np.full(problem.t, -1, dtype=np.int64)
    runs = np.flatnonzero(tasks > 0)
    order = runs[np.lexsort((runs, -problem.priority[runs]))]
    last[problem.workload_tenant[order]] = order
    return last
