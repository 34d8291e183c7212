"""Bundles of resources on servers, and the tasks that tenants could run in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.compiled import compiled
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.reasons import unserved_reasons
from policies.model.schedule import Schedule
from policies.model.server_classes import each_row_alone
from policies.model.share_definition import ShareUnits
from policies.model.tolerance import DISCRETE_TOLERANCE


class Bundles(NamedTuple):
    """Resources on servers.

    Attributes:
        owner: (b,) who has it; server_class: (b,) column of the eligibility.
        amount: (b, m) on one server, in the resources' own units.
        times: (b,) how many such servers, or the part of the period in which it is there.
    """

    owner: IntArray
    server_class: IntArray
    amount: FloatArray
    times: FloatArray


def bundles_of(allocation: Allocation) -> Bundles:
    """Return every tenant's resources on every server class, or on the pool, or in every slot."""
    problem = allocation.problem
    owner = problem.workload_tenant
    if allocation.schedule is not None:
        return _in_slots(problem, allocation.schedule)
    if not len(allocation.placement_tasks):
        everywhere = np.zeros(problem.n, dtype=np.int64)
        return _summed(
            problem, np.arange(len(owner)), everywhere, allocation.tasks, np.ones(1), one_class=True
        )
    servers = allocation.classes.servers.astype(float)
    per_server = allocation.placement_tasks / servers[allocation.placement_class]
    return _summed(
        problem, allocation.placement_workload, allocation.placement_class, per_server, servers
    )


def _in_slots(problem: Problem, schedule: Schedule) -> Bundles:
    """Return every tenant's resources in every slot, for the part of the period that it takes."""
    s = len(schedule.fraction)
    if schedule.placements is None:
        workload, slot = np.tile(np.arange(problem.n), s), np.repeat(np.arange(s), problem.n)
        tasks = schedule.tasks.ravel().astype(float)
        return _summed(problem, workload, slot, tasks, schedule.fraction, one_class=True)
    rows = each_row_alone(problem)
    row_of = np.repeat(np.arange(rows.count), rows.servers)
    size = len(row_of)
    place = np.concatenate([k * size + item.server for k, item in enumerate(schedule.placements)])
    bundles = _summed(
        problem,
        np.concatenate([item.workload for item in schedule.placements]),
        place,
        np.concatenate([item.tasks for item in schedule.placements]).astype(float),
        np.repeat(schedule.fraction, size),
    )
    return bundles._replace(server_class=row_of[bundles.server_class % size])


def _summed(
    problem: Problem,
    workload: IntArray,
    place: IntArray,
    tasks: FloatArray,
    times: FloatArray,
    *,
    one_class: bool = False,
) -> Bundles:
    """Bundles of (tenant, place) pairs that run something."""
    some = tasks > 0
    workload, place, tasks = workload[some], place[some], tasks[some]
    # One number for each pair, because NumPy finds unique numbers faster than unique rows.
    key = problem.workload_tenant[workload] * (len(times) + 1) + place
    keys, which = np.unique(key, return_inverse=True)
    amount = np.zeros((len(keys), problem.m))
    np.add.at(amount, which, tasks[:, None] * problem.demand[workload])
    place_of = keys % (len(times) + 1)
    server_class = np.zeros(len(keys), dtype=np.int64) if one_class else place_of
    return Bundles(keys // (len(times) + 1), server_class, amount, times[place_of])


def merged(allowed: BoolArray, bundles: Bundles) -> Bundles:
    """Bundles of one owner that are alike, on servers that are alike, as one.

    Args:
        allowed: (n, K) where workloads may run; bundles: any.
    """
    # Workloads that may run everywhere, or nowhere, distinguish no servers.
    choosy = allowed[allowed.any(axis=1) & ~allowed.all(axis=1)]
    first = kind = np.zeros(allowed.shape[1], dtype=np.int64)
    if len(choosy):
        _, first, kind = np.unique(choosy, axis=1, return_index=True, return_inverse=True)
    kind_of = kind.reshape(-1)[bundles.server_class]
    columns = np.column_stack([bundles.owner, kind_of, bundles.amount])
    order = np.lexsort(columns.T)
    ordered = columns[order]
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    which = np.cumsum(starts) - 1
    chosen = order[starts]
    return Bundles(
        bundles.owner[chosen],
        first[kind_of[chosen]],
        bundles.amount[chosen],
        grouped_sum(bundles.times[order], which, len(chosen)),
    )


def attainable(
    problem: Problem,
    units: ShareUnits,
    allowed: BoolArray,
    bundles: Bundles,
    *,
    whole: bool,
    scale: FloatArray,
    per_owner: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Shares that tenants could have with the bundles of each owner.

    Args:
        problem: for demands, limits and tenants; units: of the shares.
        allowed: (n, K) where workloads may run.
        bundles: whose ``owner`` is below ``len(per_owner)``.
        whole: count whole tasks, server by server.
        scale: (t,) and per_owner: (o,): tenant ``i`` gets ``scale[i] / per_owner[o]`` of what
            owner ``o`` has.

    Returns:
        (t, o) a share that can be had by running one of the tenant's workloads, and (t, o) a
        bound on what several together can have; equal for tenants with one workload.
    """
    runs = unserved_reasons(problem, allowed) == ""
    may = np.ascontiguousarray(allowed & runs[:, None])
    bundles = merged(may, bundles)
    tasks = _tasks_in_bundles(
        np.ascontiguousarray(problem.demand), may, problem.workload_tenant, bundles, scale,
        per_owner, whole,
    )  # fmt: skip
    share = units.per_task[:, None]
    of_workload = np.where(runs[:, None], np.minimum(tasks, problem.tasks[:, None]), 0.0) * share
    lower = np.zeros((problem.t, len(per_owner)))
    np.maximum.at(lower, problem.workload_tenant, of_workload)
    count = np.bincount(problem.workload_tenant[runs], minlength=problem.t)
    several = np.flatnonzero(count > 1)
    upper = lower.copy()
    if len(several):
        upper[several] = _together(problem, units, runs, may, bundles, scale, per_owner)[several]
    return lower, np.maximum(lower, upper)


def _together(
    problem: Problem,
    units: ShareUnits,
    runs: BoolArray,
    may: BoolArray,
    bundles: Bundles,
    scale: FloatArray,
    per_owner: FloatArray,
) -> FloatArray:
    """Return an upper bound (t, o) on the share of any mixture of a tenant's workloads.

    It takes each resource at its best.
    """
    per_share = np.full((problem.t, problem.m), np.inf)
    counts = runs & (units.per_task > 0)
    share = np.where(counts, units.per_task, 1.0)[:, None]
    needs = np.where(counts[:, None], problem.demand / share, np.inf)
    np.minimum.at(per_share, problem.workload_tenant, needs)
    per_share[np.isinf(per_share)] = 0.0
    anywhere = np.zeros((problem.t, may.shape[1]), dtype=np.bool_)
    np.logical_or.at(anywhere, problem.workload_tenant, may)
    bound = _tasks_in_bundles(
        per_share, anywhere, np.arange(problem.t), bundles, scale, per_owner, False
    )
    cap = np.zeros(problem.t)
    np.add.at(cap, problem.workload_tenant[runs], units.limit[runs])
    together: FloatArray = np.minimum(bound, cap[:, None])
    return together


@compiled
def _tasks_in_bundles(demand, allowed, tenant, bundles, scale, per_owner, whole):
    """Return the tasks (n, o) of each workload that fit into the bundles of each owner."""
    owner, server_class, amount, times = bundles
    n, m = demand.shape
    result = np.zeros((n, len(per_owner)))
    for j in range(n):
        for b in range(len(owner)):
            if not allowed[j, server_class[b]]:
                continue
            part = scale[tenant[j]] / per_owner[owner[b]]
            fits = np.inf
            for r in range(m):
                if demand[j, r] > 0.0:
                    fits = min(fits, amount[b, r] * part / demand[j, r])
            if whole:
                # Quotients that are whole but for rounding are whole.
                fits = np.floor(fits + DISCRETE_TOLERANCE * max(1.0, fits))
            result[j, owner[b]] += fits * times[b]
    return result
