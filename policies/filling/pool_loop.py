"""Compiled loop of whole tasks on one pool.

The tenant with the least share launches its next task.

Source: Ghodsi et al., NSDI 2011, Algorithm 1. While everything fits, tenant ``i`` has launched
``ceil(level × w_i / s_i)`` tasks once every share has reached ``level``: the highest such level is
bisected, and only the last picks are made one by one.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.compiled import compiled
from policies.errors import SolveTimeoutError
from policies.filling.group_turns import next_in_groups, set_level, turns_in_stage
from policies.filling.winner_tree import next_tenant, set_share, tree_of
from policies.model.problem import Problem
from policies.model.queues import Queues
from policies.model.tolerance import DISCRETE_TOLERANCE

BISECTIONS = 60
# A jump to a level is safe only if no tenant's share comes this close to it, because then the
# order of equal shares cannot matter. If one does, levels a little lower are tried.
CLEARANCE = 4 * DISCRETE_TOLERANCE
LEVELS_TRIED = 200
STEP_DOWN = 1e-7
PICKS_BETWEEN_JUMPS = 4
PICKS_BETWEEN_CLOCKS = 100_000


class Pool(NamedTuple):
    """One pool and the workloads that wait for it.

    Attributes:
        tree: shares of tenants (``winner_tree``); empty where groups decide the order.
        stop ... passed: as in ``Queues``, of which ``done`` is ``count``.
        demand: (q, m) of one task.
        left: (m,) of the pool; level: (t,) weighted share at which each tenant left.
    """

    tree: FloatArray
    stop: IntArray
    current: IntArray
    share: FloatArray
    limit: FloatArray
    weight: FloatArray
    done: FloatArray
    passed: FloatArray
    demand: FloatArray
    left: FloatArray
    level: FloatArray


def _pool_of(queues: Queues, tree: FloatArray, demand: FloatArray, left: FloatArray) -> Pool:
    return Pool(
        tree, queues.stop, queues.current, queues.share, queues.limit, queues.weight, queues.count,
        queues.passed, demand, left, np.full(len(queues.weight), np.nan),
    )  # fmt: skip


def fill_pool(
    queues: Queues, demand: FloatArray, left: FloatArray, deadline: float | None
) -> FloatArray:
    """Launch tasks of a flat pool until none fits, and update ``queues`` and ``left``.

    Args:
        queues: workloads of each tenant, in the order of their launches.
        demand: (q, m) of one task, whole numbers, in the order of ``queues``.
        left: (m,) what the pool has, whole numbers.
        deadline: ``time.monotonic()`` seconds at which to give up, or None.

    Returns:
        (t,) weighted share at which each tenant left; NaN for tenants without work.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    pool = _pool_of(queues, np.zeros(0), demand, left)
    # The second stage is handed what the first leaves: its tenants never delay one of the first.
    for stage in (0, 1):
        pool = pool._replace(tree=tree_of(queues.shares_in_stage(stage)))
        # A jump looks at every tenant some sixty times, so that picks in between must be worth as
        # much.
        patience = PICKS_BETWEEN_JUMPS * (len(pool.level) + 16)
        while np.isfinite(pool.tree[1]):
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while filling")
            jumped = _jump(pool)
            _pick(pool, patience)
            # A jump that saves fewer tasks than a batch of picks is not worth its price: the next
            # comes later.
            if jumped < patience:
                patience *= 2
    return pool.level


@compiled
def _pick(pool, most):
    """Take at most ``most`` steps of Algorithm 1.

    A step launches a task or stops a workload.
    """
    tree, stop, current, share, limit, weight, count, passed, demand, left, level = pool
    size = len(tree) // 2
    for _ in range(most):
        if tree[1] == np.inf:
            break
        tenant = next_tenant(tree)
        job = current[tenant]
        fits = count[job] < limit[job]
        for r in range(len(left)):
            fits = fits and demand[job, r] <= left[r]
        if fits:
            count[job] += 1.0
            for r in range(len(left)):
                left[r] -= demand[job, r]
            set_share(tree, tenant, (passed[tenant] + count[job] * share[job]) / weight[tenant])
            continue
        # Room only shrinks: a workload whose task does not fit now is over for good.
        passed[tenant] += count[job] * share[job]
        current[tenant] += 1
        if current[tenant] == stop[tenant]:
            level[tenant] = tree[size + tenant]
            set_share(tree, tenant, np.inf)


def fill_pool_summed(
    queues: Queues,
    weighted: FloatArray,
    demand: FloatArray,
    left: FloatArray,
    deadline: float | None,
) -> FloatArray:
    """Fill the pool with shares ``max_r`` of what a tenant's tasks use together.

    Every task is picked by itself: a launch may leave its tenant's share as it is.

    Args:
        weighted: (q, m) share of each resource that one task adds, for the weight there.
        queues, demand, left, deadline: as for :func:`fill_pool`, which raises and returns the same.
    """
    pool = _pool_of(queues, np.zeros(0), demand, left)
    used = np.zeros((len(queues.weight), weighted.shape[1]))
    for stage in (0, 1):
        pool = pool._replace(tree=tree_of(queues.shares_in_stage(stage)))
        while np.isfinite(pool.tree[1]):
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while filling")
            _pick_summed(pool, weighted, used, PICKS_BETWEEN_CLOCKS)
    return pool.level


@compiled
def _pick_summed(pool, weighted, used, most):
    """Take at most ``most`` steps of Algorithm 1 with shares of what a tenant uses altogether."""
    tree, stop, current, _, limit, weight, count, _, demand, left, level = pool
    size = len(tree) // 2
    for _ in range(most):
        if tree[1] == np.inf:
            break
        tenant = next_tenant(tree)
        job = current[tenant]
        fits = count[job] < limit[job]
        for r in range(len(left)):
            fits = fits and demand[job, r] <= left[r]
        if fits:
            # Sums and not a share per task: another resource may become the largest with any
            # launch.
            count[job] += 1.0
            share = 0.0
            for r in range(len(left)):
                left[r] -= demand[job, r]
                used[tenant, r] += weighted[job, r]
                share = max(share, used[tenant, r])
            set_share(tree, tenant, share / weight[tenant])
            continue
        current[tenant] += 1
        if current[tenant] == stop[tenant]:
            level[tenant] = tree[size + tenant]
            set_share(tree, tenant, np.inf)


def fill_pool_in_groups(
    problem: Problem,
    queues: Queues,
    demand: FloatArray,
    left: FloatArray,
    deadline: float | None,
) -> FloatArray:
    """Fill the pool in the order that groups decide.

    Like :func:`fill_pool`, but every task is picked by itself, since a launch changes the levels of
    all groups above its tenant.
    """
    pool = _pool_of(queues, np.zeros(0), demand, left)
    gain = np.ascontiguousarray(problem.demand_share[queues.workloads])
    for stage in (0, 1):
        waits = queues.shares_in_stage(stage)
        turns = turns_in_stage(problem, queues, stage, gain)
        waiting = int(np.isfinite(waits).sum())
        while waiting:
            if deadline is not None and time.monotonic() > deadline:
                raise SolveTimeoutError("solve.timeout", "the time limit passed while filling")
            waiting = _pick_in_groups(pool, turns, gain, waiting, PICKS_BETWEEN_CLOCKS)
    return pool.level


@compiled
def _pick_in_groups(pool, turns, gain, waiting, most):
    """Make at most ``most`` launches or stops and return the number of tenants that wait."""
    _, stop, current, share, limit, weight, count, passed, demand, left, level = pool
    nothing = np.zeros(gain.shape[1])
    for _ in range(most):
        if waiting == 0:
            break
        tenant = next_in_groups(turns)
        job = current[tenant]
        fits = count[job] < limit[job]
        for r in range(len(left)):
            fits = fits and demand[job, r] <= left[r]
        # Before the launch: a tenant leaves at the level that it had when its task did not fit.
        reached = (passed[tenant] + count[job] * share[job]) / weight[tenant]
        if fits:
            count[job] += 1.0
            for r in range(len(left)):
                left[r] -= demand[job, r]
            reached = (passed[tenant] + count[job] * share[job]) / weight[tenant]
            set_level(turns, tenant, reached, gain[job])
            continue
        passed[tenant] += count[job] * share[job]
        current[tenant] += 1
        if current[tenant] == stop[tenant]:
            level[tenant] = reached
            set_level(turns, tenant, np.inf, nothing)
            waiting -= 1
    return waiting


@compiled
def _launched(goal, passed, share, limit):
    """Tasks that one workload has launched when its tenant's share has reached ``goal``."""
    if goal <= passed:
        return 0.0
    if share <= 0.0:
        return limit
    return min(np.ceil((goal - passed) / share), limit)


@compiled
def _fits(pool, level, used):
    """Return whether everything fits that is launched before every share has reached ``level``."""
    tree, stop, current, share, limit, weight, count, passed, demand, left, _ = pool
    size = len(tree) // 2
    used[:] = 0.0
    for tenant in range(len(stop)):
        if tree[size + tenant] == np.inf:
            continue
        before = passed[tenant]
        goal = level * weight[tenant]
        for job in range(current[tenant], stop[tenant]):
            # A share is beyond the goal by up to one task, and launches are never taken back.
            tasks = max(_launched(goal, before, share[job], limit[job]), count[job])
            # Endless tasks without a share: infinity times a demand of 0 would be NaN.
            if tasks == np.inf:
                return False
            for r in range(len(left)):
                used[r] += (tasks - count[job]) * demand[job, r]
                if used[r] > left[r]:
                    return False
            if tasks < limit[job]:
                break
            before += tasks * share[job]
    return True


@compiled
def _is_clear(pool, level):
    """Return whether no tenant's share, before or after any launch, comes close to ``level``."""
    tree, stop, current, share, limit, weight, _, passed, _, _, _ = pool
    size = len(tree) // 2
    for tenant in range(len(stop)):
        if tree[size + tenant] == np.inf:
            continue
        goal = level * weight[tenant]
        before = passed[tenant]
        for job in range(current[tenant], stop[tenant]):
            if abs(before - goal) <= CLEARANCE * goal:
                return False
            if before > goal:
                break
            if share[job] > 0.0:
                steps = min(np.round((goal - before) / share[job]), limit[job])
                if abs(before + steps * share[job] - goal) <= CLEARANCE * goal:
                    return False
            before += limit[job] * share[job] if share[job] > 0.0 else 0.0
    return True


@compiled
def _jump(pool):
    """Launch at once all that is launched below the highest level at which it fits.

    Returns how many tasks those are; 0 when the next picks have to be made one by one.
    """
    tree, used = pool.tree, np.zeros(len(pool.left))
    # No bound of the level is known at first, since tasks may be tiny beside the pool: double.
    low = tree[1]
    high = max(2.0 * low, 1e-12)
    while _fits(pool, high, used):
        low = high
        high *= 2.0
        if high > 1e30:
            break
    # Coarsely, because the last picks are made one by one anyway.
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if high - low <= STEP_DOWN * high:
            break
        if _fits(pool, middle, used):
            low = middle
        else:
            high = middle
    clear = False
    for attempt in range(LEVELS_TRIED):
        level = low * (1.0 - STEP_DOWN * attempt)
        # Nothing would be launched below this level.
        if level <= tree[1] * (1.0 + CLEARANCE):
            return 0.0
        if _is_clear(pool, level):
            clear = True
            break
    if not clear:
        return 0.0
    return _launch_up_to(pool, level)


@compiled
def _launch_up_to(pool, level):
    """Raise every tenant to the first share at or above ``level`` and return the tasks launched."""
    tree, stop, current, share, limit, weight, count, passed, demand, left, _ = pool
    size = len(tree) // 2
    launched = 0.0
    for tenant in range(len(stop)):
        if tree[size + tenant] >= level:
            continue
        goal = level * weight[tenant]
        while True:
            job = current[tenant]
            tasks = max(_launched(goal, passed[tenant], share[job], limit[job]), count[job])
            launched += tasks - count[job]
            for r in range(len(left)):
                left[r] -= (tasks - count[job]) * demand[job, r]
            count[job] = tasks
            if tasks < limit[job] or job + 1 == stop[tenant]:
                break
            reached = passed[tenant] + tasks * share[job]
            if reached >= goal:
                break
            passed[tenant] = reached
            current[tenant] += 1
        reached = passed[tenant] + count[current[tenant]] * share[current[tenant]]
        set_share(tree, tenant, reached / weight[tenant])
    return launched
