"""Floors as parts of workloads, and the two problems that have these parts as tenants.

A part is a number of tasks of one workload that can always run, on the servers of its guarantee. The
parts are tenants of their own after the tenants of the problem, each with one workload, in two problems:
in ``raised_problem`` their shares rise together to all their tasks; in ``kept_problem`` they
run, as far as they could rise, and the shares of the rest of the workloads rise beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.floors.placed_tasks import PlacedTasks
from policies.floors.pools import FloorPool
from policies.model.current_placements import CurrentPlacements
from policies.model.gangs import Gang, Pieces
from policies.model.group_tree import POOL
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Selector
from policies.model.reasons import unserved_reasons
from policies.model.server_classes import ServerClasses
from policies.model.share_definition import share_per_task

# A rest of a workload below this part of its tasks is rounding.
SMALLEST_REST = 1e-12


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of workloads that are guaranteed.

    Attributes:
        workload: (p,) index of the workload; tasks: (p,) how many tasks of it, above 0.
        pool: (p,) position of the pool that gives them; where: (p) selector of servers.
        on_own: (p,) whether they are placed on their tenant's own servers before everything else.
    """

    workload: IntArray
    tasks: FloatArray
    pool: IntArray
    where: list[dict[str, tuple[str, ...]]]
    on_own: BoolArray

    def some(self, parts: IntArray, tasks: FloatArray) -> Parts:
        """Return some parts, with other numbers of tasks (p,)."""
        return Parts(
            self.workload[parts],
            tasks[parts],
            self.pool[parts],
            [self.where[p] for p in parts.tolist()],
            self.on_own[parts],
        )


def parts_of(
    problem: Problem,
    pools: Sequence[FloorPool],
    floors: Sequence[FloatArray],
    on_own: PlacedTasks | None = None,
) -> Parts:
    """Return the parts of all floors.

    A floor counts what is guaranteed already on servers that are among its own, so that pools with few
    servers go first. Floors on servers that overlap in part add up, as far as the workload has tasks.

    Args:
        pools: of the problem; floors: (q,) of each, tasks of its workloads.
        on_own: what the pools of own servers place before everything else; None if their floors
            hold on all servers.
    """
    found: list[tuple[int, int, float, bool]] = []
    shared, left, ends = len(pools), problem.tasks.copy(), np.isfinite(problem.tasks)
    if on_own is not None:
        shared = len(problem.guarantees)
        placed = on_own.per_workload(problem)
        for at in range(shared, len(pools)):
            found += [(at, j, float(placed[j]), True) for j in pools[at].workloads.tolist()]
        left -= placed
    # Few selectors have many pools.
    rows_of = {id(pool.rows): pool.rows for pool in pools[:shared]}
    sizes = {key: int(problem.server_count[rows].sum()) for key, rows in rows_of.items()}
    number = {key: row for row, key in enumerate(sorted(rows_of, key=sizes.__getitem__))}
    table = np.array([rows_of[key] for key in number]).reshape(len(number), problem.k)
    within = [np.flatnonzero(~(table & ~rows).any(axis=1)) for rows in table]
    given = np.zeros((len(table), problem.n))
    size = [sizes[id(pool.rows)] for pool in pools[:shared]]
    for at in sorted(range(shared), key=lambda at: (size[at], at)):
        rows, mine, floor = pools[at].rows, pools[at].workloads, floors[at]
        selector = number[id(rows)]
        have = given[within[selector][:, None], mine].sum(axis=0)
        if on_own is not None and len(on_own.task):
            have += on_own.per_workload(problem, rows)[mine]
        missing = np.minimum(floor - have, left[mine])
        missing[missing <= SMALLEST_REST * floor] = 0.0
        # What other floors leave of a workload may be their rounding alone.
        missing[missing <= SMALLEST_REST * np.where(ends[mine], problem.tasks[mine], 0.0)] = 0.0
        left[mine] -= missing
        given[selector, mine] += missing
        each = zip(mine.tolist(), missing.tolist(), strict=True)
        found += [(at, j, count, False) for j, count in each]
    found = sorted(each for each in found if each[2] > 0)
    return Parts(
        workload=np.array([j for _, j, _, _ in found], dtype=np.int64),
        tasks=np.array([count for _, _, count, _ in found], dtype=np.float64),
        pool=np.array([at for at, _, _, _ in found], dtype=np.int64),
        where=[pools[at].where for at, _, _, _ in found],
        on_own=np.array([own for _, _, _, own in found], dtype=np.bool_),
    )


def raised_problem(
    problem: Problem, parts: Parts, choice: Choice, kept: CurrentPlacements | None = None
) -> Problem:
    """Return the problem in which the shares of the parts rise together, in proportion to their tasks.

    Parts on own servers are kept in it.

    Args:
        kept: tasks that stay on their servers, of parts and of workloads beside them.
    """
    uncounted = np.zeros(problem.n)
    if kept is not None:
        of_workload = kept.workload < problem.n
        pieces = grouped_sum(kept.tasks[of_workload], kept.workload[of_workload], problem.n)
        uncounted = pieces / problem.pieces.count[: problem.n]
    weight = parts.tasks * share_per_task(problem, choice)[parts.workload]
    return _with_parts(
        problem,
        parts,
        floors="raised",
        tasks=np.concatenate([uncounted, parts.tasks]),
        weight=np.concatenate([problem.weight, np.where(weight > 0, weight, 1.0)]),
        best_effort=np.concatenate([problem.best_effort, parts.on_own]),
        weights_mode="explicit",
        kept=np.concatenate([np.zeros(problem.t, dtype=np.bool_), parts.on_own]),
        kept_placements=kept,
    )


def kept_problem(
    problem: Problem,
    parts: Parts,
    met: FloatArray,
    classes: ServerClasses,
    uncounted: CurrentPlacements | None,
    *,
    whole: bool,
) -> Problem:
    """Return the problem of the rest of all workloads, beside the parts that run.

    If levels count what is guaranteed, a tenant's parts count with it. In divisible problems tenant
    and parts form a group, whose level is the tenant's.

    Args:
        met: (p,) tasks of each part that run.
        uncounted: tasks that stay on their servers beside the parts.
    """
    rest = rest_of(problem, parts, met)
    some = np.ones(len(parts.workload), dtype=np.bool_)
    owner = problem.workload_tenant[parts.workload]
    tree: dict[str, Any] = {}
    if problem.count_guaranteed and whole:
        tree["tenant_group"] = np.concatenate([problem.tenant_group, problem.tenant_group[owner]])
        tree["tenant_tier"] = np.concatenate([problem.tenant_tier, problem.tenant_tier[owner]])
    elif problem.count_guaranteed:
        tree = _groups_of_owners(problem, np.unique(owner[met > 0]), owner, classes)
    return _with_parts(
        problem,
        parts,
        floors="kept",
        tasks=np.concatenate([rest, met]),
        weight=np.concatenate([problem.weight, np.ones(len(some))]),
        best_effort=np.concatenate([problem.best_effort, some]),
        kept=np.concatenate([np.zeros(problem.t, dtype=np.bool_), some]),
        kept_placements=uncounted,
        **tree,
    )


def rest_of(problem: Problem, parts: Parts, met: FloatArray) -> FloatArray:
    """Return the tasks (n,) of each workload beyond those of its parts that run (p,)."""
    rest = problem.tasks - grouped_sum(met, parts.workload, problem.n)
    ends = np.isfinite(problem.tasks)
    rest[ends & (rest <= SMALLEST_REST * problem.tasks)] = 0.0
    return rest


def _with_parts(problem: Problem, parts: Parts, **others: Any) -> Problem:
    p, t, n = len(parts.workload), problem.t, problem.n
    prefix = "part"
    while any(name.startswith(prefix) for name in problem.tenants):
        prefix += "_"
    names = tuple(f"{prefix}{number}" for number in range(p))
    of = parts.workload
    fields: dict[str, Any] = {
        "tenants": problem.tenants + names,
        "tenant_group": np.concatenate([problem.tenant_group, np.full(p, POOL)]),
        "tenant_tier": np.concatenate([problem.tenant_tier, np.zeros(p, dtype=np.int64)]),
        "deficit": np.zeros(t + p),
        "workload_tenant": np.concatenate([problem.workload_tenant, t + np.arange(p)]),
        "workload_names": problem.workload_names + names,
        "demand": np.concatenate([problem.demand, problem.demand[of]]),
        "gangs": _gangs(problem, parts),
        "priority": np.concatenate([problem.priority, problem.priority[of]]),
        "selectors": problem.selectors + _selectors(problem, parts),
        "own_servers": np.zeros(t + p, dtype=np.bool_),
        "part_of": np.concatenate([np.full(n, -1, dtype=np.int64), of]),
    }
    return replace(problem, **{**fields, **others})


def _selectors(problem: Problem, parts: Parts) -> tuple[Selector, ...]:
    """Return the selectors of parts, of which many have the same one."""
    known: dict[tuple[int, int], Selector] = {}
    found: list[Selector] = []
    for j, where in zip(parts.workload.tolist(), parts.where, strict=True):
        key = id(problem.selectors[j]), id(where)
        if key not in known:
            known[key] = both_selectors(problem.selectors[j], where)
        found.append(known[key])
    return tuple(found)


def _gangs(problem: Problem, parts: Parts) -> dict[int, Gang]:
    """Return the gangs of workloads and parts."""
    of_parts = {
        problem.n + number: problem.gangs[j]
        for number, j in enumerate(parts.workload.tolist())
        if j in problem.gangs
    }
    return {**problem.gangs, **of_parts}


def placed_on_own(problem: Problem, parts: Parts, own: PlacedTasks) -> CurrentPlacements:
    """Return what runs on own servers as pieces of parts."""
    part_of = np.full(problem.n, -1, dtype=np.int64)
    mine = np.flatnonzero(parts.on_own)
    part_of[parts.workload[mine]] = problem.n + mine
    part = part_of[problem.pieces.workload[own.kind]]
    second = second_kinds(problem, parts)
    return own.placements(np.where(own.kind < problem.n, part, second[part]), own.tasks)


def second_kinds(problem: Problem, parts: Parts) -> IntArray:
    """Return the second kind of pieces of each workload and each part, -1 for none.

    It is the index in the problems with parts, in which the first kinds of parts follow the workloads.
    """
    demand = np.concatenate([problem.demand, problem.demand[parts.workload]])
    return Pieces.of(demand, _gangs(problem, parts)).second


def both_selectors(first: Selector, second: Selector) -> dict[str, tuple[str, ...]]:
    """Return the selector of the servers that two selectors match."""
    both = dict(first)
    for label, values in second.items():
        both[label] = tuple(v for v in both[label] if v in values) if label in both else values
    return both


def _groups_of_owners(
    problem: Problem, owners: IntArray, owner: IntArray, classes: ServerClasses
) -> dict[str, Any]:
    """Return fields of a problem with a group in the place of each owner, of the owner and its parts."""
    groups = np.full(problem.t, POOL, dtype=np.int64)
    groups[owners] = len(problem.groups) + np.arange(len(owners))
    inner = np.where(groups >= 0, groups, problem.tenant_group)
    tier = problem.tenant_tier.copy()
    tier[owners] = 0
    proportions = directions(problem, classes)
    counted = np.concatenate([groups >= 0, groups[owner] >= 0])
    direction = np.concatenate([proportions, proportions[owner]])
    direction[~counted] = np.nan
    taken, prefix = set(problem.groups), "of "
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    return {
        "tenant_group": np.concatenate([inner, groups[owner]]),
        "tenant_tier": np.concatenate([tier, np.zeros(len(owner), dtype=np.int64)]),
        "groups": problem.groups + tuple(f"{prefix}{problem.tenants[i]}" for i in owners.tolist()),
        "group_parent": np.concatenate([problem.group_parent, problem.tenant_group[owners]]),
        "group_weight": np.concatenate([problem.group_weight, problem.weight[owners]]),
        "group_tier": np.concatenate([problem.group_tier, problem.tenant_tier[owners]]),
        "direction": direction,
    }


def directions(problem: Problem, classes: ServerClasses) -> FloatArray:
    """Return the proportions (t, m) in which tenants count in groups, 0 without anything to run.

    A tenant's workloads count by their tasks, or alike if any of them has no end.
    """
    runs = np.flatnonzero(unserved_reasons(problem, classes.allowed) == "")
    owner, tasks = problem.workload_tenant[runs], problem.tasks[runs]
    endless = np.isin(owner, owner[np.isinf(tasks)])
    times = np.where(endless, 1 / problem.dominant_share_per_task[runs], tasks)
    total = np.zeros((problem.t, problem.m))
    np.add.at(total, owner, times[:, None] * problem.demand_share[runs])
    most = total.max(axis=1, initial=0.0)
    return total / np.where(most > 0, most, 1.0)[:, None]
