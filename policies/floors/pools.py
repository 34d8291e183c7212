"""The pools in which guarantees and own servers are divided among workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.floors.placed_tasks import KeptTasks
from policies.floors.sizes import dividing
from policies.model.current_placements import CurrentPlacements
from policies.model.group_tree import POOL
from policies.model.limits import SMALLEST_LIMIT_SHARE, CountedWorkloads, Scope
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit
from policies.model.server_classes import ServerClasses, allowed_pieces, each_row_alone
from policies.model.validation import LARGEST_QUANTITY

# What is within this part of a whole task, relative to the number of tasks, is a whole task.
WHOLE = 1e-12


@dataclass(frozen=True, eq=False)
class FloorPool:
    """A pool that is divided among some workloads of a problem.

    Attributes:
        problem: the pool as a problem; None if one workload has all of it.
        workloads: (q,) its workloads, as indices of the problem with the guarantee.
        rows: (k,) rows of servers on which the floors hold.
        where: selector of these servers.
        left_out: whether workloads take no part, because they would make too many whole tasks.
        floor: (1,) tasks of the one workload; empty if several divide the pool.
    """

    problem: Problem | None
    workloads: IntArray
    rows: BoolArray
    where: dict[str, tuple[str, ...]]
    left_out: bool = False
    floor: FloatArray = field(default_factory=lambda: np.zeros(0))


def pools_of(
    problem: Problem, classes: ServerClasses, kept: KeptTasks | None = None, *, whole: bool
) -> list[FloorPool]:
    """Return the pools of all guarantees, in order, then those of own servers, by tenant.

    Args:
        kept: tasks that stay on their servers. The pool of a guarantee keeps those on its servers.
    """
    on_servers, gangs = _OnServers(problem), _GangRows(problem, classes)
    pools = [
        _pool_of_guarantee(problem, classes, each, on_servers(each.rows), gangs, kept, whole=whole)
        for each in problem.guaranteed
    ]
    everywhere = np.ones(problem.k, dtype=np.bool_)
    pools += [
        _own_pool(problem, tenant, everywhere)
        for tenant in np.flatnonzero(problem.own_servers).tolist()
    ]
    return pools


class _OnServers:
    """Limits and guarantees by their servers, as few selectors have many of them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[int, _Nested] = {}
        self._rows = {id(each.rows): each.rows for each in problem.limited}
        self._rows |= {id(each.rows): each.rows for each in problem.guaranteed}
        self._table = np.array([*self._rows.values()])

    def __call__(self, rows: BoolArray) -> _Nested:
        """Return those that may apply in the pool of a guarantee on these servers."""
        if id(rows) not in self._known:
            problem, table = self._problem, self._table
            around = self._without_any(rows & ~table)
            inside = self._without_any(table & ~rows)
            limits = [each for each in problem.limited if id(each.rows) in around]
            guarantees = [each for each in problem.guaranteed if id(each.rows) in inside]
            self._known[id(rows)] = _Nested(problem, limits, guarantees)
        return self._known[id(rows)]

    def _without_any(self, different: BoolArray) -> set[int]:
        """Return the keys of the selections of servers (s, k) without any difference."""
        differs: BoolArray = np.logical_or.reduce(different, axis=1)
        return {key for key, each in zip(self._rows, differs.tolist(), strict=True) if not each}


@dataclass(frozen=True, eq=False)
class _Nested:
    """Amounts that may apply in the pool of a guarantee.

    Attributes:
        problem: the problem with the guarantee.
        limits: on all servers of the guarantee; guarantees: on some of them.
    """

    problem: Problem
    limits: list[CountedWorkloads[Limit]]
    guarantees: list[CountedWorkloads[Guarantee]]

    def limits_of(self, workload: int) -> list[CountedWorkloads[Limit]]:
        """Return the limits of a workload, its tenant and the groups above it."""
        tenant = int(self.problem.workload_tenant[workload])
        found = [*self._by_node.get(("workload", workload), ())]
        found += self._by_node.get(("tenant", tenant), ())
        group = int(self.problem.tenant_group[tenant])
        while group >= 0:
            found += self._by_node.get(("group", group), ())
            group = int(self.problem.group_parent[group])
        return found

    @cached_property
    def _by_node(self) -> dict[tuple[str, int], list[CountedWorkloads[Limit]]]:
        found: dict[tuple[str, int], list[CountedWorkloads[Limit]]] = {}
        for each in self.limits:
            found.setdefault((each.limit.scope, each.limit.node), []).append(each)
        return found


class _GangRows:
    """Rows of servers on which pieces of gangs may run."""

    def __init__(self, problem: Problem, classes: ServerClasses) -> None:
        # Servers of one class may have different values of a label that keeps pieces together.
        if any(gang.together for gang in problem.gangs.values()):
            classes = each_row_alone(problem)
        self._problem, self._row = problem, classes.first_row
        self._allowed = allowed_pieces(problem, classes) if problem.gangs else None

    def can_run(self, workload: int, rows: BoolArray) -> bool:
        """Return whether each piece of a task may run on some rows (k,), with one value of its label."""
        gang = self._problem.gangs.get(workload)
        if gang is None or self._allowed is None:
            return True
        zone, here = self._problem.zones[gang.together][self._row], rows[self._row]
        kinds = self._allowed[list(self._problem.pieces.kinds(workload))]
        values = [set(zone[each & here & (zone >= 0)].tolist()) for each in kinds]
        return bool(set.intersection(*values))


def _pool_of_guarantee(
    problem: Problem,
    classes: ServerClasses,
    item: CountedWorkloads[Guarantee],
    nested: _Nested,
    gangs: _GangRows,
    kept: KeptTasks | None,
    *,
    whole: bool,
) -> FloorPool:
    """Return the pool of one server with the guaranteed amount.

    It has the workloads below the node that can run on a server that matches.
    """
    here = item.rows[classes.first_row]
    workloads = item.workloads[classes.allowed[item.workloads][:, here].any(axis=1)]
    if problem.gangs:
        workloads = workloads[[gangs.can_run(j, item.rows) for j in workloads.tolist()]]
    named, where, left_out = item.limited, dict(item.limit.where), False
    if whole:
        around = _Inside(problem, item, workloads)
        some = dividing(problem, item, workloads, partial(_limits_inside, nested, around))
        workloads, left_out = some, len(some) < len(workloads)
    if len(workloads) == 1:
        only = int(workloads[0])
        bounds: list[FloatArray] = []
        if nested.limits_of(only):
            inside = _Inside(problem, item, workloads)
            bounds = [each.limit.amount for each in _limits_inside(nested, inside, only)]
        floor = _floor_alone(problem, item, only, bounds, whole=whole)
        return FloorPool(None, workloads, item.rows, where, left_out, np.array([floor]))
    inside = _Inside(problem, item, workloads)
    limits = [limit for limit in nested.limits if inside.number_of(limit) is not None]
    capacity = _capacity(problem, item, workloads, limits)
    used = np.isfinite(capacity)
    pool = Problem.create(
        resources=[name for name, counts in zip(problem.resources, used, strict=True) if counts],
        capacity=capacity[used][None, :],
        limits=[
            Limit(scope, node, amount)
            for limit in limits
            for scope, node, amount in inside.amounts(limit, used)
        ],
        guarantees=[
            Guarantee("group" if scope == "group" else "tenant", node, _only(amount, named[used]))
            for each in nested.guarantees
            for scope, node, amount in inside.amounts(each, used)
            if (each.limited & named).any()
        ],
        count_guaranteed=problem.count_guaranteed,
        kept_placements=None if kept is None else _kept_in_pool(workloads, item.rows, kept),
        **inside.tree(),
        **_workloads(problem, workloads, inside.position, used),
    )
    return FloorPool(pool, workloads, item.rows, where, left_out)


def _limits_inside(
    nested: _Nested, inside: _Inside, workload: int
) -> list[CountedWorkloads[Limit]]:
    """Return the limits of a workload, of nodes below the guarantee's, that apply in the pool."""
    return [each for each in nested.limits_of(workload) if inside.number_of(each) is not None]


def _only(amount: FloatArray, named: BoolArray) -> FloatArray:
    """Return an amount without the resources that are not named."""
    return np.where(named, amount, np.inf)


def _capacity(
    problem: Problem,
    item: CountedWorkloads[Guarantee],
    workloads: IntArray,
    limits: Sequence[CountedWorkloads[Limit]],
) -> FloatArray:
    """Return the capacity (m,) of the pool of a guarantee, inf for resources that it does not have.

    A resource that limits name and the guarantee does not is there for these limits alone: so much of it
    that it is never used up, and that no workload or group has its largest share of it. Of a workload
    that would need more than the servers have, no more is counted: it cannot make the resource so
    plentiful that the demands of others are too small beside it.
    """
    named, demand = item.limited, problem.demand[workloads]
    capacity = np.minimum(item.limit.amount, np.nextafter(LARGEST_QUANTITY, 0.0))
    capacity[~named] = np.inf
    also = np.zeros(problem.m, dtype=np.bool_)
    for each in limits:
        also |= each.limited & ~named
    also &= np.logical_or.reduce(demand > 0, axis=0)
    if also.any():
        part = np.where(demand[:, named] > 0, np.inf, 0.0)
        np.divide(demand[:, named], capacity[named], out=part, where=capacity[named] > 0)
        alone = demand[:, also] / part.max(axis=1)[:, None]
        largest = np.minimum(alone, problem.totals[also]).max(axis=0)
        plenty = np.where(largest > 0, 2.0 * named.sum() * largest, 1.0)
        capacity[also] = np.minimum(plenty, np.nextafter(LARGEST_QUANTITY, 0.0))
    return capacity


def _kept_in_pool(workloads: IntArray, rows: BoolArray, kept: KeptTasks) -> CurrentPlacements:
    """Return the kept tasks of some workloads on some rows (k,), as tasks on one server."""
    tasks = kept.count_on(rows, workloads)
    some = np.flatnonzero(tasks)
    one = np.ones(len(some), dtype=np.int64)
    return CurrentPlacements(
        workload=some, row=0 * one, offset=0 * one, servers=one, tasks=tasks[some]
    )


def _floor_alone(
    problem: Problem,
    item: CountedWorkloads[Guarantee],
    workload: int,
    bounds: Sequence[FloatArray],
    *,
    whole: bool,
) -> float:
    """Return the tasks of the only workload of a pool, within the amounts of its limits."""
    amount = item.limit.amount.copy()
    amount[amount < SMALLEST_LIMIT_SHARE * problem.totals] = 0.0
    for bound in bounds:
        amount = np.minimum(amount, bound)
    demand = problem.demand[workload]
    tasks = (amount[demand > 0] / demand[demand > 0]).min()
    if whole:
        tasks = np.floor(tasks * (1 + WHOLE))
    return float(min(tasks, problem.tasks[workload]))


class _Inside:
    """Tenants and groups below the node of a guarantee, with their numbers in its pool."""

    def __init__(
        self, problem: Problem, item: CountedWorkloads[Guarantee], workloads: IntArray
    ) -> None:
        self._problem, self._item, self._workloads = problem, item, workloads
        root = item.limit.node if item.limit.scope == "group" else None
        below = np.zeros(len(problem.groups), dtype=np.bool_)
        for group in problem.groups_top_down.tolist() if root is not None else ():
            parent = int(problem.group_parent[group])
            below[group] = parent == root or (parent >= 0 and below[parent])
        self.groups = np.flatnonzero(below)
        mine = np.array([item.limit.node])
        if root is not None:
            group = problem.tenant_group
            mine = np.flatnonzero((group == root) | ((group >= 0) & below[group]))
        self.tenants = mine

    # Found when they are first asked for, which most guarantees of one workload never do.
    @cached_property
    def position(self) -> IntArray:
        """Number (t,) of each tenant, -1 outside."""
        return _numbers(self._problem.t, self.tenants)

    @cached_property
    def _workload(self) -> IntArray:
        return _numbers(self._problem.n, self._workloads)

    @cached_property
    def _group(self) -> IntArray:
        """Number (g + 1,) of each group, that of the pool last."""
        return _numbers(len(self._problem.groups) + 1, self.groups)

    def tree(self) -> dict[str, Any]:
        """Return tenants and groups, as arguments of ``Problem.create``."""
        problem, groups, tenants = self._problem, self.groups, self.tenants
        derived = problem.derived_group_weight
        return {
            "tenants": [problem.tenants[i] for i in tenants.tolist()],
            "weight": problem.effective_weight[tenants],
            "best_effort": problem.second_stage[tenants],
            "tenant_group": self._group[problem.tenant_group[tenants]],
            "tenant_tier": problem.tenant_tier[tenants],
            "groups": [problem.groups[g] for g in groups.tolist()],
            "group_parent": self._group[problem.group_parent[groups]],
            "group_weight": np.where(derived > 0, derived, problem.group_weight)[groups],
            "group_tier": problem.group_tier[groups],
        }

    def number_of(self, other: CountedWorkloads[Limit] | CountedWorkloads[Guarantee]) -> int | None:
        """Return the number of the node of a limit or guarantee, None unless it is below."""
        scope, node = other.limit.scope, other.limit.node
        if scope == "lend" or (scope == "tenant" and self._item.limit.scope == "tenant"):
            return None
        if scope == "group":
            numbers = self._group
        else:
            numbers = self.position if scope == "tenant" else self._workload
        number = int(numbers[node])
        return None if number < 0 else number

    def amounts(
        self, other: CountedWorkloads[Limit] | CountedWorkloads[Guarantee], used: BoolArray
    ) -> Sequence[tuple[Scope, int, FloatArray]]:
        """Return a limit or guarantee of a node below as (scope, node, amount), if it counts.

        Args:
            used: (m,) resources of the pool that may count.
        """
        number = self.number_of(other)
        if number is None or not (other.limited & used).any():
            return ()
        return [(other.limit.scope, number, other.limit.amount[used])]


def _numbers(count: int, chosen: IntArray) -> IntArray:
    """Return the number (count,) of each that is chosen, and -1 for the others."""
    numbers = np.full(count, POOL, dtype=np.int64)
    numbers[chosen] = np.arange(len(chosen))
    return numbers


def _own_pool(problem: Problem, tenant: int, everywhere: BoolArray) -> FloorPool:
    """Return the pool of a tenant that runs alone on the servers that it contributed.

    Args:
        everywhere: (k,) all rows of servers, on which its floors hold.
    """
    rows = np.flatnonzero((problem.contributed_by == tenant) & ~problem.contributed_only)
    workloads = np.flatnonzero(problem.workload_tenant == tenant)
    position = np.full(problem.t, 0, dtype=np.int64)
    pool = Problem.create(
        resources=problem.resources,
        capacity=problem.capacity[rows],
        server_names=[problem.server_names[row] for row in rows.tolist()],
        server_count=problem.server_count[rows],
        server_labels=[problem.server_labels[row] for row in rows.tolist()],
        contributed_by=np.zeros(len(rows), dtype=np.int64),
        tenants=[problem.tenants[tenant]],
        selectors=[problem.selectors[j] for j in workloads.tolist()],
        gangs={
            number: problem.gangs[j]
            for number, j in enumerate(workloads.tolist())
            if j in problem.gangs
        },
        **_workloads(problem, workloads, position, np.ones(problem.m, dtype=np.bool_)),
    )
    return FloorPool(pool, workloads, everywhere, {})


def _workloads(
    problem: Problem, workloads: IntArray, position: IntArray, named: BoolArray
) -> dict[str, Any]:
    """Return workloads, as arguments of ``Problem.create``."""
    return {
        "workload_tenant": position[problem.workload_tenant[workloads]],
        "workload_names": [problem.workload_names[j] for j in workloads.tolist()],
        "demand": problem.demand[workloads][:, named],
        "tasks": problem.tasks[workloads],
        "priority": problem.priority[workloads],
    }
