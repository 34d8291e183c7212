"""The tree of groups and members under a decision."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from allocator_service.allocation.audit.decisions import refuse_undecided, stored_decision
from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.runs.budgets import stops_by_node
from allocator_service.allocation.selectors import finite_or_none, input_of
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.core.quantities import Resource
from policies import (
    Problem,
    ShareDefinition,
    choose,
    classes_of_decision,
    entitled_parts,
    group_standings,
    group_sums,
    problem_from_document,
    tenant_levels,
)

GROUP, MEMBER = "group", "member"
Amounts = Sequence[float | None]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NodeAmount:
    """An amount of a node that a decision took into account, such as a limit.

    Attributes
    ----------
    where
        Selector of the servers that it concerns, empty for all.
    amount
        By resource.
    has
        Allocated below the node on these servers, by the same resources. None if hidden from the
        reader.
    """

    where: Mapping[str, Any]
    amount: Mapping[str, float]
    has: Mapping[str, float] | None


@dataclass(frozen=True)
class NodeLimit(NodeAmount):
    """A limit of a node that a decision took into account.

    `budget` is the exhausted budget whose limit of 0 it is, as the run stores it, None for a limit that
    is set, and if hidden from the reader.
    """

    budget: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Fulfilment:
    """The fulfilment of guarantees by a decision.

    Attributes
    ----------
    met
        Least part of a floor that runs, 1 if all floors are met. None if hidden from the reader.
    limited_by
        What stopped the floors that are not met. None if hidden from the reader.
    """

    met: float | None = 1.0
    limited_by: Sequence[str] | None = ()


@dataclass(frozen=True)
class NodeGuarantee(Fulfilment, NodeAmount):
    """A guarantee of a node that a decision took into account."""


@dataclass(frozen=True)
class TreeNode:
    """A group or member of a pool under a decision. Amounts are in the order of `Tree.resources`.

    Attributes
    ----------
    parent
        Name of the group directly above; None for the pool itself.
    depth
        Groups above the node.
    part
        Fraction of the pool that it is entitled to by the weights on its path.
    level
        What siblings are compared by: the share, as the policy counts it, over the weight. Long-term
        policies count past use.
        None where weights do not count, and of a group without members.
    members
        Members below a group; 1 for a member.
    wants
        Demand of all tasks of active workloads, None for a resource without a limit.
    guaranteed
        Floors of the workloads below the node.
    limit, guarantee
        Limits and guarantees of the node that were in force.
    lend
        The most that all others may have on the servers of a member, with what they have.
    own_servers
        How far a member has what it gets alone on its own servers; None if that is not guaranteed, and
        of groups.

    Numbers that the reader may not see are None.
    """

    kind: str
    name: str
    parent: str | None
    depth: int
    weight: float
    tier: int
    best_effort: bool
    part: float | None = None
    level: float | None = None
    members: int | None = None
    has: Amounts | None = None
    wants: Amounts | None = None
    guaranteed: Amounts | None = None
    limit: Sequence[NodeLimit] = ()
    guarantee: Sequence[NodeGuarantee] = ()
    lend: Sequence[NodeAmount] = ()
    own_servers: Fulfilment | None = None


@dataclass(frozen=True)
class Tree:
    """All nodes, depth first.

    Siblings are ordered by kind and name. `timezone` is that of the pool.
    """

    resources: Sequence[Resource]
    nodes: Sequence[TreeNode]
    timezone: str = "UTC"

    def path_to(self, kind: str, name: str) -> list[TreeNode]:
        """Return the nodes from the pool to the named node, itself last.

        The path is empty if the node is not in the tree.
        """
        groups = {node.name: node for node in self.nodes if node.kind == GROUP}
        found = next((n for n in self.nodes if (n.kind, n.name) == (kind, name)), None)
        path: list[TreeNode] = []
        while found is not None:
            path.append(found)
            found = groups.get(found.parent) if found.parent is not None else None
        return path[::-1]


def run_tree(run: Run, *, levels: bool = True) -> Tree:
    """Return the tree of a succeeded run, as its input has it.

    Without `levels` those of groups are None, and neither placements nor the certificate are read.
    Raises `Conflict` for a run without a decision, `Gone` once its input is pruned.
    """
    refuse_undecided(run)
    document = input_of(run)
    parsed = problem_from_document(document)
    problem = parsed.problem
    reading = _Reading(
        run, document, problem, by_tasks=parsed.choice.share is ShareDefinition.ALONE
    )
    group_levels: list[float | None] = [None] * len(problem.groups)
    # Levels that count past use are in no row: the step has to be read.
    if "history" in document or (levels and problem.groups):
        decision = stored_decision(run).allocation
        reading.levels = _finite(tenant_levels(decision))
        group_levels = (
            [each.level for each in group_standings(decision)] if levels else group_levels
        )
    nodes = [*reading.groups(group_levels), *reading.members()]
    resources = [Resource(**each) for each in document["resources"]]
    return Tree(resources, _in_order(nodes), run.pool.timezone)


def renamed(tree: Tree, *, group: Callable[[str], str], member: Callable[[str], str]) -> Tree:
    """Return the tree under other names.

    Siblings are ordered by the new names, which reveals nothing about the old ones.
    """
    nodes = [
        replace(
            node,
            name=(group if node.kind == GROUP else member)(node.name),
            parent=None if node.parent is None else group(node.parent),
        )
        for node in tree.nodes
    ]
    return replace(tree, nodes=_in_order(nodes))


class _Reading:
    """The numbers of a run's nodes, from its input and its allocations.

    If `by_tasks`, levels count tasks over those alone instead of dominant shares.
    """

    def __init__(
        self, run: Run, document: Mapping[str, Any], problem: Problem, *, by_tasks: bool
    ) -> None:
        self._document, self._problem = document, problem
        self._parts = entitled_parts(problem)
        self._has, self._wants, self._guaranteed = np.zeros((3, problem.t, problem.m))
        self.levels: list[float | None] = [None] * problem.t
        rows = Allocation.objects.filter(run=run).order_by("position")
        tasks, floors = np.zeros((2, problem.n))
        for owner, (position, count, share, level, floor) in zip(
            problem.workload_tenant.tolist(),
            rows.values_list("position", "tasks", "weighted_share", "level", "floor"),
            strict=True,
        ):
            tasks[position], floors[position] = count, floor or 0.0
            # Those that are served last have a level, but no weighted share.
            self.levels[owner] = level if by_tasks and share is not None else share
        np.add.at(self._has, problem.workload_tenant, tasks[:, None] * problem.demand)
        np.add.at(self._guaranteed, problem.workload_tenant, floors[:, None] * problem.demand)
        self._amounts = _Amounts(run, problem, tasks)
        demanded = np.zeros((problem.n, problem.m))
        # Where the demand is 0 an unlimited number of tasks would be ∞ × 0, which is not a number.
        np.multiply(problem.tasks[:, None], problem.demand, out=demanded, where=problem.demand > 0)
        np.add.at(self._wants, problem.workload_tenant, demanded)
        parents = problem.group_parent.tolist()
        self._depth = [sum(1 for _ in _above(parents, each)) for each in range(len(parents))]

    def groups(self, levels: Sequence[float | None]) -> list[TreeNode]:
        members, parts = self._sums(np.ones(self._problem.t)), self._sums(self._parts)
        has, wants = self._sums(self._has), self._sums(self._wants)
        guaranteed = self._sums(self._guaranteed)
        return [
            TreeNode(
                kind=GROUP,
                name=row["name"],
                parent=row["parent"],
                depth=self._depth[group],
                weight=row["weight"],
                tier=row["tier"],
                best_effort=False,
                part=float(parts[group]),
                level=levels[group],
                members=int(members[group]),
                has=has[group].tolist(),
                wants=_finite(wants[group]),
                guaranteed=guaranteed[group].tolist(),
                limit=self._amounts.limits["group", group],
                guarantee=self._amounts.guarantees["group", group],
            )
            for group, row in enumerate(self._document.get("groups", ()))
        ]

    def _sums(self, of_tenants: FloatArray) -> FloatArray:
        """Return the sum of `of_tenants` (t, ...) over the tenants below each group."""
        problem = self._problem
        return group_sums(problem.tenant_group, problem.group_parent, of_tenants)

    def members(self) -> list[TreeNode]:
        groups = self._problem.tenant_group.tolist()
        return [
            TreeNode(
                kind=MEMBER,
                name=row["name"],
                parent=row.get("group"),
                depth=0 if groups[tenant] < 0 else self._depth[groups[tenant]] + 1,
                weight=row["weight"],
                tier=row.get("tier", 0),
                best_effort=row["best_effort"],
                part=float(self._parts[tenant]),
                level=self.levels[tenant],
                members=1,
                has=self._has[tenant].tolist(),
                wants=_finite(self._wants[tenant]),
                guaranteed=self._guaranteed[tenant].tolist(),
                limit=self._amounts.limits["tenant", tenant],
                guarantee=self._amounts.guarantees["tenant", tenant],
                lend=self._amounts.loans[tenant],
                own_servers=self._amounts.own_servers(tenant),
            )
            for tenant, row in enumerate(self._document["tenants"])
        ]


class _Amounts:
    """Limits, guarantees and loans of the nodes of a decision, by scope and index."""

    def __init__(self, run: Run, problem: Problem, tasks: FloatArray) -> None:
        self._problem, self._tasks = problem, tasks
        rows = [limited.rows for limited in problem.limited]
        rows += [item.rows for item in problem.guaranteed]
        # Placements are many rows, and are read only where an amount is for some of the servers.
        selects = any(not each.all() for each in rows)
        self._on_rows = _PlacedTasks(run, problem) if selects else None
        self._unmet = _unmet(run)
        self.limits: dict[tuple[str, int], list[NodeLimit]] = defaultdict(list)
        self.loans: dict[int, list[NodeAmount]] = defaultdict(list)
        for limited in problem.limited:
            scope, node = limited.limit.scope, limited.limit.node
            if scope == "lend":
                self.loans[node].append(NodeAmount(**self._amount(limited)))
            else:
                self.limits[scope, node].append(NodeLimit(**self._amount(limited)))
        for (of, name), stops in stops_by_node(run.budgets).items():
            names = problem.groups if of == GROUP else problem.tenants
            key = of, list(names).index(name)
            self.limits[key] = _with_stops(self.limits[key], stops)
        self.guarantees: dict[tuple[str, int], list[NodeGuarantee]] = defaultdict(list)
        for item in problem.guaranteed:
            scope, node = item.limit.scope, item.limit.node
            amount = self._amount(item)
            name = (problem.groups if scope == GROUP else problem.tenants)[node]
            # A guarantee that the run does not list is met.
            unmet = self._unmet.get(_unmet_key({scope: name}, amount["where"], amount["amount"]))
            self.guarantees[scope, node].append(NodeGuarantee(**amount, **(unmet or {})))

    def own_servers(self, tenant: int) -> Fulfilment | None:
        """Return how far a tenant has what it gets on its own servers, None if not guaranteed."""
        if not self._problem.own_servers[tenant]:
            return None
        unmet = self._unmet.get(_unmet_key({"tenant": self._problem.tenants[tenant]}, None, None))
        return Fulfilment(**(unmet or {}))

    def _amount(self, item: Any) -> dict[str, Any]:
        """Return an amount by the fields of `NodeAmount`."""
        problem = self._problem
        if self._on_rows is not None and not item.rows.all():
            held = self._on_rows.amounts(item.rows, item.workloads)
        else:
            held = self._tasks[item.workloads] @ problem.demand[item.workloads]
        named = np.flatnonzero(item.limited).tolist()
        return {
            "where": {label: list(values) for label, values in item.limit.where.items()},
            "amount": {problem.resources[r]: float(item.limit.amount[r]) for r in named},
            "has": {problem.resources[r]: float(held[r]) for r in named},
        }


def _with_stops(
    limits: Sequence[NodeLimit], stops: Mapping[str, Mapping[str, Any]]
) -> list[NodeLimit]:
    """Return the limits of a node with the exhausted budgets that the last of them stand for."""
    # The input of a run has them after the node's own limits, which may be 0 as well.
    own, of_budgets = limits[: -len(stops)], limits[-len(stops) :]
    return [
        *own,
        *(replace(limit, budget=stops.get(next(iter(limit.amount)))) for limit in of_budgets),
    ]


def _unmet(run: Run) -> dict[str, dict[str, Any]]:
    """Return how far the guarantees are met that a run could not meet in full."""
    return {
        _unmet_key(each["node"], each.get("where"), each.get("amount")): {
            "met": each["met"],
            "limited_by": each["limited_by"],
        }
        for each in (run.summary or {}).get("guarantees_unmet", ())
    }


def _unmet_key(node: Mapping[str, str], where: Any, amount: Any) -> str:
    """Return a text that is equal for equal guarantees of a node. Own servers have no amount."""
    return json.dumps([node, where, amount], sort_keys=True)


class _PlacedTasks:
    """Amounts that a decision places, by workload and row of servers.

    Servers that a limit in the input selects are classes of their own in the decision.
    """

    def __init__(self, run: Run, problem: Problem) -> None:
        choice, placed = choose(**run.policy), stored_placements(run)
        self._first_row = classes_of_decision(problem, choice, placed.counts).first_row
        pieces = problem.placed_by(choice).pieces
        self._workload = np.array(placed.workload, dtype=np.int64)
        kinds = [pieces.kinds(workload)[kind] for workload, kind, *_ in placed]
        self._class = np.array(placed.range_of, dtype=np.int64)
        # Tasks are stored for each server of a range.
        tasks = placed.counts[self._class] * np.array(placed.tasks)
        self._amounts = tasks[:, None] * pieces.demand[np.array(kinds, dtype=np.int64)]

    def amounts(self, rows: npt.NDArray[np.bool_], workloads: npt.NDArray[np.int64]) -> FloatArray:
        """Return what some workloads use on the servers of some rows, by resource."""
        here = rows[self._first_row[self._class]] & np.isin(self._workload, workloads)
        found: FloatArray = self._amounts[here].sum(axis=0)
        return found


def _above(parents: Sequence[int], group: int) -> Iterator[int]:
    """Yield the groups above a group, the nearest first."""
    while (group := parents[group]) >= 0:
        yield group


def _finite(amounts: FloatArray) -> list[float | None]:
    return [finite_or_none(amount) for amount in amounts.tolist()]


def _in_order(nodes: Sequence[TreeNode]) -> list[TreeNode]:
    """Sort the nodes depth first, groups before members, by name."""
    below: dict[str | None, list[TreeNode]] = {}
    # `group` precedes `member` in the alphabet.
    for node in sorted(nodes, key=lambda node: (node.kind, node.name)):
        below.setdefault(node.parent, []).append(node)
    ordered: list[TreeNode] = []
    # A stack, from which the last one is taken first.
    waiting = below.get(None, [])[::-1]
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        if node.kind == GROUP:
            waiting += below.get(node.name, [])[::-1]
    return ordered
