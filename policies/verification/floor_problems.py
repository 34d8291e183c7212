"""Problems that follow from one with guarantees, for the verifier.

They are derived here again from docs/policies/guarantees.md, and share no code with ``policies.floors``:
one for each pool of guaranteed servers, one in which the guaranteed parts rise together, and one of the
rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from policies import catalogue
from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.current_placements import CurrentPlacements
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit, Selector
from policies.verification.floor_parts import (
    DUST,
    Part,
    Parts,
    Pool,
    kept_on,
    placements_of,
)
from policies.verification.form import form_of
from policies.verification.kept_gangs import Placed
from policies.verification.limits import SMALLEST_SHARE, StatedLimit
from policies.verification.places import Places
from policies.verification.replay import MOST_REPLAYED
from policies.verification.rounds import proportions
from policies.verification.stated import Stated

# A tenant alone on its own servers, without and with tasks of several pieces.
ALONE = Choice(catalogue.STATIC, "indivisible")
GANGS_ALONE = Choice(catalogue.DRFH, "indivisible", {"placement": "first-fit"})
LARGEST_AMOUNT = float(np.nextafter(1e12, 0.0))


def pools_of(stated: Stated, kept: Placed | None) -> Iterator[Pool]:
    """Yield the pool of each guarantee, then of each tenant alone on its own servers."""
    problem = stated.problem
    places = stated.places() if stated.choice.sees_one_pool else stated.rows
    for number, item in enumerate(stated.guarantees):
        here = item.rows[places.row]
        if stated.choice.sees_one_pool:
            here = np.ones(places.count, dtype=np.bool_)
        some = np.flatnonzero(item.counted).tolist()
        able = [j for j in some if _can_run(stated, places, j, here)]
        given = problem.guarantees[number]
        workloads = _dividing(stated, given, item, able) if stated.choice.whole_tasks else able
        pool = _guaranteed_pool(stated, number, item, workloads, kept)
        yield replace(pool, left_out=len(workloads) < len(able))
    everywhere = np.ones(problem.k, dtype=np.bool_)
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        rows = [
            row
            for row in range(problem.k)
            if problem.contributed_by[row] == tenant and not problem.contributed_only[row]
        ]
        mine = [j for j in range(problem.n) if problem.workload_tenant[j] == tenant]
        own = Problem.create(
            resources=problem.resources,
            capacity=problem.capacity[rows],
            server_names=[problem.server_names[row] for row in rows],
            server_count=problem.server_count[rows],
            server_labels=[problem.server_labels[row] for row in rows],
            contributed_by=[0] * len(rows),
            tenants=[problem.tenants[tenant]],
            selectors=[problem.selectors[j] for j in mine],
            gangs={at: problem.gangs[j] for at, j in enumerate(mine) if j in problem.gangs},
            **_some_workloads(problem, mine, {tenant: 0}, np.ones(problem.m, dtype=np.bool_)),
        )
        placed = stated.choice.whole_tasks and not stated.choice.sees_one_pool
        alone = GANGS_ALONE if own.gangs else ALONE
        yield Pool(own, alone if placed else stated.choice, mine, everywhere, {})


def _can_run(stated: Stated, places: Places, j: int, here: BoolArray) -> bool:
    """Return whether some places (K,) have one for each piece, all with one value of its label."""
    gang = stated.problem.gangs.get(j)
    open_ = places.allowed[stated.pieces.of(j)] & here
    if gang is None or not gang.together:
        return bool(open_.any(axis=1).all())
    value = stated.pieces.values[gang.together][places.row]
    return any(
        open_[:, value == one].any(axis=1).all() for one in np.unique(value[value >= 0]).tolist()
    )


def _dividing(stated: Stated, given: Guarantee, item: StatedLimit, able: list[int]) -> list[int]:
    """Return the workloads that divide an amount in whole tasks, without those that make too many.

    From that with the fewest tasks on, they are taken while all of them have at most as many as are
    replayed: as many as they have alone together, or as each resource could serve of the one with most.
    """
    if len(able) < 2:
        return able
    named = np.flatnonzero(item.amount < np.inf)
    sizes = []
    for j in able:
        demand = stated.problem.demand[j, named]
        quotients = item.amount[named][demand > 0] / demand[demand > 0]
        fitting = np.ceil(min(float(quotients.min()), MOST_REPLAYED + 1))
        pieces = int(stated.pieces.count[stated.pieces.of(j)].sum())
        sizes.append((pieces * min(fitting, float(stated.problem.tasks[j])), j, pieces, fitting))
    if sum(size[0] for size in sizes) <= MOST_REPLAYED:
        return able
    limits = _limits_inside(stated, given, item)
    sizes = [
        (min(tasks, pieces * _tasks_within(stated, limits, j)), j, pieces, fitting)
        for tasks, j, pieces, fitting in sizes
    ]
    kept: list[int] = []
    together = most = 0.0
    for tasks, j, pieces, fitting in sorted(sizes):
        together, most = together + tasks, max(most, pieces * fitting)
        if min(together, most * len(named)) > MOST_REPLAYED:
            break
        kept.append(j)
    return sorted(kept)


def _limits_inside(stated: Stated, given: Guarantee, item: StatedLimit) -> list[StatedLimit]:
    """Return the limits on all servers of a guarantee, of nodes that are below its node."""
    problem = stated.problem
    below = set(_groups_below(problem, given.node)) if given.scope == "group" else set()
    return [
        counted
        for limit, counted in zip(problem.limits, stated.limits, strict=True)
        if not (item.rows & ~counted.rows).any()
        and (
            limit.scope == "workload"
            or (limit.scope == "tenant" and given.scope == "group")
            or (limit.scope == "group" and limit.node in below)
        )
    ]


def _tasks_within(stated: Stated, limits: list[StatedLimit], j: int) -> float:
    """Return how many tasks of a workload each of some limits leaves it."""
    demand, tasks = stated.problem.demand[j], math.inf
    for limit in limits:
        if limit.counted[j]:
            named = (limit.amount < np.inf) & (demand > 0)
            tasks = min(tasks, float(np.ceil(limit.amount[named] / demand[named]).min()))
    return tasks


def _guaranteed_pool(
    stated: Stated, number: int, item: StatedLimit, workloads: list[int], kept: Placed | None
) -> Pool:
    """One server of the amount, for the workloads below the node that may run where it holds."""
    problem = stated.problem
    given = problem.guarantees[number]
    named = given.amount < np.inf
    groups = _groups_below(problem, given.node) if given.scope == "group" else []
    inside = set(groups) | ({given.node} if given.scope == "group" else set())
    tenants = [
        i
        for i in range(problem.t)
        if (given.scope == "tenant" and i == given.node)
        or (given.scope == "group" and int(problem.tenant_group[i]) in inside)
    ]
    position = {
        "group": {g: at for at, g in enumerate(groups)},
        "tenant": {i: at for at, i in enumerate(tenants)} if given.scope == "group" else {},
        "workload": {j: at for at, j in enumerate(workloads)},
    }

    def inside_pool(other: Limit | Guarantee) -> bool:
        return other.node in position.get(other.scope, {})

    limits = [
        (limit, counted.counted)
        for limit, counted in zip(problem.limits, stated.limits, strict=True)
        if inside_pool(limit) and not (item.rows & ~counted.rows).any()
    ]
    guarantees = [
        (other, np.where(named, other.amount, np.inf))
        for other, counted in zip(problem.guarantees, stated.guarantees, strict=True)
        if inside_pool(other) and not (counted.rows & ~item.rows).any()
    ]
    # A pool of one workload has nothing to divide: its floor is a quotient.
    if len(workloads) == 1:
        mine = [limit.amount for limit, counted in limits if counted[workloads[0]]]
        floor = _tasks_alone(stated, workloads[0], [given.amount, *mine])
        return Pool(None, stated.choice, workloads, item.rows, given.where, floor)
    capacity = _capacity(stated, given, workloads, [limit for limit, _ in limits])
    used = capacity < np.inf

    def placed(scope: str, node: int, amount: FloatArray) -> tuple[Any, int, FloatArray]:
        return scope, position[scope][node], amount[used]

    first = problem.group_weight
    if problem.weights_mode == "contribution" and stated.derives_weights:
        first = stated.derived_group_weights
    pool = Problem.create(
        resources=[r for r, counts in zip(problem.resources, used, strict=True) if counts],
        capacity=[capacity[used]],
        tenants=[problem.tenants[i] for i in tenants],
        weight=stated.weight[tenants],
        best_effort=stated.late[tenants],
        tenant_group=[position["group"].get(int(problem.tenant_group[i]), -1) for i in tenants],
        tenant_tier=problem.tenant_tier[tenants],
        groups=[problem.groups[g] for g in groups],
        group_parent=[position["group"].get(int(problem.group_parent[g]), -1) for g in groups],
        group_weight=np.where(first > 0, first, problem.group_weight)[groups],
        group_tier=problem.group_tier[groups],
        limits=[
            Limit(*placed(each.scope, each.node, each.amount))
            for each, _ in limits
            if (each.amount[used] < np.inf).any()
        ],
        guarantees=[
            Guarantee(*placed(each.scope, each.node, amount))
            for each, amount in guarantees
            if (amount < np.inf).any()
        ],
        count_guaranteed=problem.count_guaranteed,
        kept_placements=None if kept is None else _kept_inside(stated, kept, item.rows, workloads),
        **_some_workloads(problem, workloads, {i: at for at, i in enumerate(tenants)}, used),
    )
    return Pool(pool, stated.choice, workloads, item.rows, given.where)


def _kept_inside(
    stated: Stated, kept: Placed, rows: BoolArray, workloads: list[int]
) -> CurrentPlacements:
    """Return the kept tasks of a pool's workloads on its servers, which are one server in it."""
    on = kept_on(stated, kept, rows, workloads)
    return placements_of(Counter({(at, 0, 0): on[j] for at, j in enumerate(workloads) if j in on}))


def _capacity(
    stated: Stated, given: Guarantee, workloads: list[int], limits: list[Limit]
) -> FloatArray:
    """Return what a guarantee's pool has of each resource (m,), inf for none of it.

    What only limits name is plentiful: twice what all tasks that the amount could serve would demand if
    each of the named resources served those with most of it. No workload has its largest share of that,
    unless the amount could serve it so many tasks that they demand more than the servers have.
    """
    problem = stated.problem
    named = given.amount < np.inf
    capacity = np.where(named, np.minimum(given.amount, LARGEST_AMOUNT), np.inf)
    for r in np.flatnonzero(~named).tolist():
        if not any(limit.amount[r] < np.inf for limit in limits):
            continue
        plenty = 0.0
        for j in workloads:
            demand = problem.demand[j]
            parts = [
                demand[n] / capacity[n] if capacity[n] > 0 else np.inf
                for n in np.flatnonzero(named & (demand > 0))
            ]
            plenty = max(plenty, min(float(demand[r] / max(parts)), float(stated.totals[r])))
        if plenty > 0:
            capacity[r] = min(2.0 * named.sum() * plenty, LARGEST_AMOUNT)
        elif any(problem.demand[j, r] > 0 for j in workloads):
            capacity[r] = 1.0
    return capacity


def _tasks_alone(stated: Stated, workload: int, bounds: list[FloatArray]) -> float:
    """Tasks of a workload that has a pool for itself, within the first amount and those of limits."""
    tasks = float(stated.problem.tasks[workload])
    demand, totals = stated.problem.demand[workload], stated.totals
    for number, amounts in enumerate(bounds):
        for amount, needed, total in zip(amounts.tolist(), demand.tolist(), totals, strict=True):
            if needed > 0:
                counts = number > 0 or amount >= SMALLEST_SHARE * total
                tasks = min(tasks, amount / needed if counts else 0.0)
    if stated.choice.whole_tasks and np.isfinite(tasks):
        tasks = float(np.floor(tasks * (1 + DUST)))
    return tasks


def _groups_below(problem: Problem, root: int) -> list[int]:
    below = []
    for group in range(len(problem.groups)):
        parent = int(problem.group_parent[group])
        while parent >= 0 and parent != root:
            parent = int(problem.group_parent[parent])
        if parent == root:
            below.append(group)
    return below


def _some_workloads(
    problem: Problem, some: list[int], position: dict[int, int], named: BoolArray
) -> dict[str, Any]:
    return {
        "workload_tenant": np.array([position[int(problem.workload_tenant[j])] for j in some], int),
        "workload_names": [problem.workload_names[j] for j in some],
        "demand": problem.demand[some][:, named],
        "tasks": problem.tasks[some],
        "priority": problem.priority[some],
    }


def rising_problem(stated: Stated, found: Parts) -> Problem:
    """Return the problem in which the parts rise together, in proportion to their tasks."""
    problem, parts = stated.problem, found.parts
    own = np.array([part.own for part in parts], dtype=np.bool_)
    per_task = stated.columns.max(axis=1, initial=0.0)
    weight = [part.tasks * float(per_task[part.workload]) for part in parts]
    uncounted = np.zeros(problem.n)
    for (j, _, _), tasks in (found.uncounted or {}).items():
        if j < problem.n:
            uncounted[j] += tasks
    # Whole tasks, of which the pieces were counted.
    uncounted /= stated.pieces.count[: problem.n]
    return _with_parts(
        problem,
        parts,
        floors="raised",
        tasks=np.r_[uncounted, [part.tasks for part in parts]],
        weight=np.r_[problem.weight, [w if w > 0 else 1.0 for w in weight]],
        best_effort=np.r_[problem.best_effort, own],
        weights_mode="explicit",
        kept=np.r_[np.zeros(problem.t, dtype=np.bool_), own],
        kept_placements=None if found.kept is None else placements_of(found.kept),
    )


def rest_problem(stated: Stated, found: Parts, met: FloatArray) -> Problem:
    """Return the problem of what the first step did not meet, beside the parts that it met."""
    problem, parts, whole = stated.problem, found.parts, stated.choice.whole_tasks
    of = np.array([part.workload for part in parts], dtype=np.int64)
    left = problem.tasks - grouped_sum(met, of, problem.n)
    # Remains of rounding would be tasks that wait.
    left[np.isfinite(left) & (left <= DUST * problem.tasks)] = 0.0
    some = np.ones(len(parts), dtype=np.bool_)
    fields: dict[str, Any] = {
        "floors": "kept",
        "tasks": np.r_[left, met],
        "weight": np.r_[problem.weight, np.ones(len(parts))],
        "best_effort": np.r_[problem.best_effort, some],
        "kept": np.r_[np.zeros(problem.t, dtype=np.bool_), some],
        "kept_placements": None if found.uncounted is None else placements_of(found.uncounted),
    }
    owner = problem.workload_tenant[of]
    if problem.count_guaranteed and whole:
        fields["tenant_group"] = np.r_[problem.tenant_group, problem.tenant_group[owner]]
        fields["tenant_tier"] = np.r_[problem.tenant_tier, problem.tenant_tier[owner]]
    elif problem.count_guaranteed:
        # A tenant and its parts are a group in its place, whose level is that of the tenant.
        owners = sorted({int(i) for i, tasks in zip(owner, met, strict=True) if tasks > 0})
        group = {i: len(problem.groups) + at for at, i in enumerate(owners)}
        form = form_of(stated, stated.places())
        declared = np.full((problem.t + len(parts), problem.m), np.nan)
        of_tenant = np.zeros((problem.t, problem.m))
        of_tenant[form.tenants] = proportions(stated, form)
        for i in owners:
            declared[i] = of_tenant[i]
        for at, i in enumerate(owner.tolist()):
            if i in group:
                declared[problem.t + at] = of_tenant[i]
        fields |= {
            "tenant_group": np.array(
                [group.get(i, int(g)) for i, g in enumerate(problem.tenant_group)]
                + [group.get(i, -1) for i in owner.tolist()],
                dtype=np.int64,
            ),
            "tenant_tier": np.array(
                [0 if i in group else int(tier) for i, tier in enumerate(problem.tenant_tier)]
                + [0] * len(parts),
                dtype=np.int64,
            ),
            "groups": problem.groups
            + tuple(f"{_free('of ', problem.groups)}{problem.tenants[i]}" for i in owners),
            "group_parent": np.r_[problem.group_parent, problem.tenant_group[owners]].astype(int),
            "group_weight": np.r_[problem.group_weight, problem.weight[owners]],
            "group_tier": np.r_[problem.group_tier, problem.tenant_tier[owners]].astype(int),
            "direction": declared,
        }
    return _with_parts(problem, parts, **fields)


def _with_parts(problem: Problem, parts: list[Part], **others: Any) -> Problem:
    """Return the problem with a tenant for each part, after its own tenants."""
    count, of = len(parts), [part.workload for part in parts]
    names = tuple(f"{_free('part', problem.tenants)}{number}" for number in range(count))
    fields: dict[str, Any] = {
        "tenants": problem.tenants + names,
        "tenant_group": np.r_[problem.tenant_group, np.full(count, -1)].astype(np.int64),
        "tenant_tier": np.r_[problem.tenant_tier, np.zeros(count)].astype(np.int64),
        "deficit": np.zeros(problem.t + count),
        "workload_tenant": np.r_[problem.workload_tenant, problem.t + np.arange(count)].astype(
            np.int64
        ),
        "workload_names": problem.workload_names + names,
        "demand": np.concatenate([problem.demand, problem.demand[of]]),
        "gangs": dict(problem.gangs)
        | {problem.n + at: problem.gangs[j] for at, j in enumerate(of) if j in problem.gangs},
        "priority": np.r_[problem.priority, problem.priority[of]].astype(np.int64),
        "selectors": problem.selectors
        + tuple(_both(problem.selectors[part.workload], part.where) for part in parts),
        "own_servers": np.zeros(problem.t + count, dtype=np.bool_),
        "part_of": np.r_[np.full(problem.n, -1), of].astype(np.int64),
    }
    return replace(problem, **(fields | others))


def _free(prefix: str, names: Sequence[str]) -> str:
    """Return the prefix with as many ``_`` as no name begins with it."""
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _both(first: Selector, second: Selector) -> Selector:
    return {
        label: tuple(
            value
            for value in first.get(label, second.get(label, ()))
            if value in second.get(label, (value,))
        )
        for label in {**first, **second}
    }


def kinds_of_steps(stated: Stated, parts: list[Part]) -> tuple[IntArray, BoolArray]:
    """Return what the kinds of pieces of the problems with parts are kinds of.

    Returns:
        (q,) kind of the problem, and whether it is one of a part.
    """
    n, pieces, of = stated.problem.n, stated.pieces, [part.workload for part in parts]
    second = [pieces.of(j)[1] for j in of if len(pieces.of(j)) > 1]
    kinds = [*range(n), *of, *range(n, len(pieces.owner)), *second]
    of_part = np.zeros(len(kinds), dtype=np.bool_)
    of_part[n : n + len(parts)] = True
    of_part[len(kinds) - len(second) :] = True
    return np.array(kinds, dtype=np.int64), of_part
