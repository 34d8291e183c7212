"""Fairness properties of one allocation, such as envy and sharing incentives.

Sources: Ghodsi et al., NSDI 2011, §3; Wang et al., TPDS 2015, §4.5 (sharing incentives); Tang et
al., TPDS 2018, §2 and §4 (sharing degree over time).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.problem import Problem
from policies.model.reasons import LIMIT, unserved_reasons
from policies.model.server_classes import (
    ServerClasses,
    each_row_alone,
    one_class,
    server_classes,
)
from policies.model.tolerance import SHARE_TOLERANCE
from policies.properties.bundles import Bundles, attainable, bundles_of
from policies.properties.groups import are_siblings, entitled_parts, levels_of_tenants
from policies.properties.shares import compared_shares, compared_units
from policies.properties.verdicts import Verdict, undecided
from policies.registry import solve

LARGEST_PARTITION = 2_000_000


def takes_part(allocation: Allocation) -> BoolArray:
    """Return the first-stage tenants (t,) that have a workload that can run."""
    problem = allocation.problem
    runs = unserved_reasons(problem, allocation.classes.allowed) == ""
    having = np.zeros(problem.t, dtype=np.bool_)
    having[problem.workload_tenant[runs]] = True
    return having & ~problem.second_stage


def _at_limit(allocation: Allocation) -> BoolArray:
    """Return the tenants (t,) of which a limit stops a workload."""
    stopped = np.array(
        [reason.startswith(f"{LIMIT}:") for reason in allocation.limited_by], np.bool_
    )
    at_limit = np.zeros(allocation.problem.t, dtype=np.bool_)
    at_limit[allocation.problem.workload_tenant[stopped]] = True
    return at_limit


def counts_whole(allocation: Allocation) -> bool:
    """Return whether tasks are counted whole, server by server and slot by slot."""
    return allocation.mode == "indivisible"


def envy_free(allocation: Allocation) -> Verdict:
    """Check that no tenant could run more with another's resources, scaled by their weights (§7).

    Tenants that a limit stops are not counted, here and below: they have what they may have.
    In a pool with groups the others are a tenant's siblings: weights compare no others.
    """
    problem = allocation.problem
    weight = problem.effective_weight
    lower, upper = attainable(
        problem,
        compared_units(problem, allocation.choice),
        allocation.classes.allowed,
        bundles_of(allocation),
        whole=counts_whole(allocation),
        scale=weight,
        per_owner=weight,
    )
    first = takes_part(allocation)
    unlimited = first & ~_at_limit(allocation)
    pairs = unlimited[:, None] & first[None, :] & ~np.eye(problem.t, dtype=np.bool_)
    in_groups = problem.has_groups
    if in_groups:
        pairs &= are_siblings(problem)
        if not pairs.any():
            return undecided("no two tenants are siblings")
    own = compared_shares(allocation)[:, None]
    # Of several workloads together only bounds are known: the lower one refutes, the upper one
    # proves.
    envied = np.where(pairs, _more(lower, own), 0.0)
    if envied.any():
        i, j = np.unravel_index(int(envied.argmax()), envied.shape)
        return Verdict(False, _pair(problem, int(i), int(j), float(envied[i, j])))
    open_pairs = int((np.where(pairs, _more(upper, own), 0.0) > 0).sum())
    if open_pairs:
        return undecided(f"{open_pairs} pairs of tenants with several workloads are undecided")
    return Verdict(True, reason="between siblings" if in_groups else None)


def sharing_incentive(allocation: Allocation) -> Verdict:
    """Check that no tenant has less than it would have alone.

    Alone means on the servers it contributed. A long-term policy is judged by the sharing degree
    over the history's window, after the step: it must be at least 1 for every tenant.
    """
    problem = allocation.problem
    first = takes_part(allocation)
    if allocation.history is not None:
        degree = np.where(first, allocation.history.sharing_degree, np.nan)
        if np.isnan(degree).all():
            return undecided("no tenant would have used anything alone")
        i = int(np.nanargmin(degree))
        if degree[i] >= 1 - SHARE_TOLERANCE:
            return Verdict(True, reason="every sharing degree is at least 1")
        return Verdict(False, {"tenant": problem.tenants[i], "size": float(1 - degree[i])})
    offered = ~problem.contributed_only
    rows = np.flatnonzero(offered & (problem.contributed_by >= 0) & (problem.capacity > 0).any(1))
    if not len(rows):
        return undecided("nothing was contributed")
    classes = each_row_alone(problem)
    bundles = Bundles(
        problem.contributed_by[rows],
        classes.class_of_row[rows],
        problem.capacity[rows],
        problem.server_count[rows].astype(float),
    )
    ones = np.ones(problem.t)
    lower, upper = attainable(
        problem,
        compared_units(problem, allocation.choice),
        classes.allowed,
        bundles,
        whole=counts_whole(allocation),
        scale=ones,
        per_owner=ones,
    )
    first &= np.isin(np.arange(problem.t), problem.contributed_by[rows])
    return _at_least(allocation, first, np.diag(lower), np.diag(upper))


def strong_sharing_incentive(allocation: Allocation) -> Verdict:
    """Check that no tenant would run more with its part by weight of every single server."""
    problem = allocation.problem
    if allocation.history is not None:
        return undecided("one step of a long-term policy is not enough: see sharing_incentive")
    first = takes_part(allocation)
    classes = _servers_of(allocation)
    one = allocation.choice.sees_one_pool
    amount = problem.capacity[classes.first_row]
    times = classes.servers.astype(float)
    if one:
        amount, times = np.tile(problem.totals, (classes.count, 1)), np.ones(classes.count)
    lower, upper = attainable(
        problem,
        compared_units(problem, allocation.choice),
        classes.allowed,
        Bundles(np.zeros(classes.count, np.int64), np.arange(classes.count), amount, times),
        whole=counts_whole(allocation),
        scale=_part(problem),
        per_owner=np.ones(1),
    )
    return _at_least(allocation, first, lower[:, 0], upper[:, 0])


def weak_sharing_incentive(allocation: Allocation) -> Verdict:
    """Check that every tenant has at least its share in some partition by weights.

    Any partition shows it if every share is at least the tenant's part. If not, the partition that
    gives the rest to tenants below their part (Wang et al., Proposition 5) is tried as a witness.
    """
    problem = allocation.problem
    if allocation.history is not None:
        return undecided("one step of a long-term policy is not enough: see sharing_incentive")
    first, part = takes_part(allocation), _part(problem)
    share, units = compared_shares(allocation), compared_units(problem, allocation.choice)
    # A tenant whose tasks need less than its part lacks nothing when all of them run.
    due = np.minimum(part, grouped_sum(units.limit, problem.workload_tenant, problem.t))
    first &= ~_at_limit(allocation)
    if (share >= due * (1 - SHARE_TOLERANCE))[first].all():
        return Verdict(True, reason="everybody has its part of the pool, or all its tasks")
    mine = bundles_of(allocation)
    classes = allocation.classes
    if allocation.schedule is not None or problem.t * classes.count > LARGEST_PARTITION:
        return undecided("no partition was tried")
    positive = np.where(problem.totals > 0, problem.totals, 1.0)
    total = classes.capacity_share.copy()
    used = np.zeros((problem.t, classes.count, problem.m))
    one = allocation.choice.sees_one_pool
    amount = mine.amount * mine.times[:, None] / positive
    np.add.at(used, (mine.owner, mine.server_class), amount)
    left = np.maximum(total - used.sum(axis=0), 0.0)
    lacking = part[:, None] - used.sum(axis=1)
    # A partition could only add to what a tenant has, never take from it.
    if (lacking < -SHARE_TOLERANCE).any():
        return undecided("the partition of Proposition 5 does not exist here")
    whole_left = left.sum(axis=0)
    fraction = np.divide(
        np.maximum(lacking, 0.0), whole_left, out=np.zeros_like(lacking), where=whole_left > 0
    )
    given = used + left[None] * fraction[:, None, :]
    owner, server_class = (axis.ravel() for axis in np.indices(given.shape[:2]))
    servers = np.ones(classes.count) if one else classes.servers.astype(float)
    amount = given.reshape(-1, problem.m) * positive / servers[server_class][:, None]
    ones = np.ones(problem.t)
    _, upper = attainable(
        problem,
        units,
        classes.allowed,
        Bundles(owner, server_class, amount, servers[server_class]),
        whole=counts_whole(allocation),
        scale=ones,
        per_owner=ones,
    )
    if _more(np.diag(upper), share)[first].any():
        return undecided("the partition of Proposition 5 is no witness")
    return Verdict(True, reason="nobody would run more with the partition of Proposition 5")


def bottleneck_fair(allocation: Allocation) -> Verdict:
    """Check for max-min fairness of the dominant resource, if all tenants have the same one."""
    problem = allocation.problem
    runs = takes_part(allocation)[problem.workload_tenant]
    runs &= unserved_reasons(problem, allocation.classes.allowed) == ""
    common = (problem.normalised_demand[runs] >= 1 - SHARE_TOLERANCE).all(axis=0)
    if not runs.any() or not common.any():
        return undecided("tenants have different dominant resources")
    return _max_min(allocation)


def single_resource_fair(allocation: Allocation) -> Verdict:
    """Check for max-min fairness of the resource, if there is only one."""
    if np.count_nonzero(allocation.problem.totals) != 1:
        return undecided("there is not exactly one resource")
    return _max_min(allocation)


def _max_min(allocation: Allocation) -> Verdict:
    """Check that shares are the weighted max-min of the dominant resource.

    Whole tasks may differ by one task. In a pool with groups the reference is that of the tree, and
    whole tasks may differ by one task on each level.
    """
    problem = allocation.problem
    if allocation.history is not None:
        return undecided("a long-term policy is fair over time, not in one step")
    one = allocation.choice.sees_one_pool
    even = replace(problem, deficit=np.zeros(problem.t))  # what divisible policies do not repay
    reference = solve(even, "drf" if one else "drfh", mode="divisible").tenant_share
    first = takes_part(allocation)
    task = np.zeros(problem.t)
    whole = counts_whole(allocation)
    if whole and problem.limits:
        return undecided("whole tasks under limits are not compared")
    if whole:
        runs = unserved_reasons(problem, allocation.classes.allowed) == ""
        np.maximum.at(task, problem.workload_tenant[runs], problem.dominant_share_per_task[runs])
        task[:] = task.max(initial=0.0) * levels_of_tenants(problem)
    off = np.where(first, np.abs(allocation.tenant_share - reference) - task, 0.0)
    off[off <= SHARE_TOLERANCE * np.maximum(reference, SHARE_TOLERANCE)] = 0.0
    if not off.any():
        within = "within one task on each level" if problem.has_groups else "within one task"
        return Verdict(True, reason=within if whole else None)
    # The first of equally large ones, whatever rounding made of them.
    i = int((off >= off.max() * (1 - SHARE_TOLERANCE)).argmax())
    return Verdict(False, {"tenant": problem.tenants[i], "size": float(off[i])})


def _servers_of(allocation: Allocation) -> ServerClasses:
    one = allocation.choice.sees_one_pool
    return one_class(allocation.problem) if one else server_classes(allocation.problem)


def _part(problem: Problem) -> FloatArray:
    """Return each tenant's part (t,) of the pool by weight, 0 in the second stage."""
    if problem.has_groups:
        return entitled_parts(problem.tree(0), ~problem.second_stage)[: problem.t]
    weight = np.where(problem.second_stage, 0.0, problem.effective_weight)
    total = float(weight.sum())
    return weight / total if total > 0 else weight


def _at_least(
    allocation: Allocation, first: BoolArray, lower: FloatArray, upper: FloatArray
) -> Verdict:
    """Check that every tenant has at least what it could have otherwise."""
    problem, share = allocation.problem, compared_shares(allocation)
    first = first & ~_at_limit(allocation)
    loses = np.where(first, _more(lower, share), 0.0)
    if loses.any():
        i = int(loses.argmax())
        return Verdict(False, {"tenant": problem.tenants[i], "size": float(loses[i])})
    if np.where(first, _more(upper, share), 0.0).any():
        return undecided("tenants with several workloads are undecided")
    return Verdict(True)


def _more(could: FloatArray, has: FloatArray) -> FloatArray:
    """Return the excess of ``could`` over ``has`` beyond rounding, 0 where there is none."""
    gain = could - has
    more: FloatArray = np.where(gain > SHARE_TOLERANCE * np.maximum(could, has), gain, 0.0)
    return more


def _pair(problem: Problem, i: int, j: int, size: float) -> dict[str, object]:
    return {"tenant": problem.tenants[i], "other": problem.tenants[j], "size": size}
