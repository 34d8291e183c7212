"""Allocation problem, the input of every policy.

Servers, tenants and workloads are arrays. Symbols are those of the papers: ``k`` server rows, ``m``
resources, ``t`` tenants and ``n`` workloads. A server *row* stands for ``server_count`` identical
servers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from policies.arrays import BoolArray, FloatArray, IntArray, read_only
from policies.errors import ProblemError
from policies.model.columns import column_of, names_of, selector_of, table_of
from policies.model.current_placements import CurrentPlacements
from policies.model.gangs import CLUSTER, Gang, Pieces, zones_of
from policies.model.group_tree import POOL, GroupTree, depths, group_sums
from policies.model.limits import CountedWorkloads, counted_workloads, in_order, limit_shares
from policies.model.policy import Choice
from policies.model.problem_fields import Guarantee, Limit, ProblemFields, WeightsMode
from policies.model.validation import check_problem

# A demand outside this range of the pool's total is left out rather than trusted to
# floating point (its workload gets 0 tasks and the reason ``out_of_range``).
SMALLEST_DEMAND_SHARE = 1e-9
LARGEST_DEMAND_SHARE = 1e9


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(ProblemFields):
    """Immutable allocation problem.

    Build it with :meth:`create`, which fills in the defaults. Its attributes are those of
    :class:`ProblemFields`. The properties below follow from them.

    Examples
    --------
    The problem of the DRF paper, section 4.1:

    >>> from policies import Problem
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> problem.totals.tolist(), problem.tasks.tolist()
    ([9.0, 18.0], [inf, inf])
    """

    @classmethod
    def create(
        cls,
        *,
        resources: Sequence[str],
        capacity: npt.ArrayLike,
        tenants: Sequence[str],
        demand: npt.ArrayLike,
        units: Sequence[str] | None = None,
        server_names: Sequence[str] | None = None,
        server_count: npt.ArrayLike | None = None,
        server_labels: Sequence[Mapping[str, str]] | None = None,
        contributed_by: npt.ArrayLike | None = None,
        contributed_only: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        best_effort: npt.ArrayLike | None = None,
        tenant_group: npt.ArrayLike | None = None,
        tenant_tier: npt.ArrayLike | None = None,
        groups: Sequence[str] = (),
        group_parent: npt.ArrayLike | None = None,
        group_weight: npt.ArrayLike | None = None,
        group_tier: npt.ArrayLike | None = None,
        deficit: npt.ArrayLike | None = None,
        weights_mode: WeightsMode = "explicit",
        workload_tenant: npt.ArrayLike | None = None,
        workload_names: Sequence[str] | None = None,
        tasks: npt.ArrayLike | None = None,
        priority: npt.ArrayLike | None = None,
        selectors: Sequence[Mapping[str, str | Iterable[str]]] | None = None,
        gangs: Mapping[int, Gang] | None = None,
        limits: Sequence[Limit] = (),
        guarantees: Sequence[Guarantee] = (),
        own_servers: npt.ArrayLike | None = None,
        count_guaranteed: bool = True,
        kept_placements: CurrentPlacements | None = None,
    ) -> Problem:
        """Return a problem with defaults for the arguments that are omitted.

        Defaults: servers ``server-0001``... with count 1, no labels, the pool's own; weight 1;
        workload ``j`` belongs to tenant ``j`` and is called ``workload-0001``...; unbounded tasks
        of one piece, priority 0, no selector; no groups, tier 0, no limits, no kept placements, and
        no guarantees, which levels count. The demand of a workload with a gang is the sum over its
        pieces, whatever ``demand`` has.

        Raises:
            ProblemError: a shape, name or value that cannot be accepted.
        """
        m, t, g = len(resources), len(tenants), len(groups)
        capacity_array = table_of(capacity, m, "capacity", "/servers")
        demand_array = table_of(demand, m, "demand", "/workloads")
        k, n = len(capacity_array), len(demand_array)
        if workload_tenant is None and n != t:
            raise ProblemError(
                "workload.tenant",
                f"{n} workloads for {t} tenants: name the tenant of each (workload_tenant)",
                "/workloads",
            )
        owner = np.arange(n) if workload_tenant is None else workload_tenant
        for j, gang in (gangs or {}).items():
            # Gangs of other shapes are refused by the checks.
            if 0 <= j < n and gang.demand.shape == (len(gang.count), m):
                demand_array[j] = gang.total
        return cls(
            resources=tuple(resources),
            units=tuple(units) if units is not None else ("",) * m,
            server_names=names_of(server_names, "server", k),
            capacity=capacity_array,
            server_count=column_of(server_count, 1, np.int64, k, "server_count", "/servers"),
            server_labels=(
                tuple(dict(labels) for labels in server_labels)
                if server_labels is not None
                else ({},) * k
            ),
            contributed_by=column_of(contributed_by, -1, np.int64, k, "contributed_by", "/servers"),
            contributed_only=column_of(
                contributed_only, False, np.bool_, k, "contributed_only", "/servers"
            ),
            tenants=tuple(tenants),
            weight=column_of(weight, 1.0, np.float64, t, "weight", "/tenants"),
            best_effort=column_of(best_effort, False, np.bool_, t, "best_effort", "/tenants"),
            tenant_group=column_of(tenant_group, -1, np.int64, t, "tenant_group", "/tenants"),
            tenant_tier=column_of(tenant_tier, 0, np.int64, t, "tenant_tier", "/tenants"),
            groups=tuple(groups),
            group_parent=column_of(group_parent, -1, np.int64, g, "group_parent", "/groups"),
            group_weight=column_of(group_weight, 1.0, np.float64, g, "group_weight", "/groups"),
            group_tier=column_of(group_tier, 0, np.int64, g, "group_tier", "/groups"),
            deficit=column_of(deficit, 0.0, np.float64, t, "owed", "/tenants"),
            weights_mode=weights_mode,
            workload_tenant=column_of(owner, 0, np.int64, n, "workload_tenant", "/workloads"),
            workload_names=names_of(workload_names, "workload", n),
            demand=demand_array,
            tasks=column_of(tasks, np.inf, np.float64, n, "tasks", "/workloads"),
            priority=column_of(priority, 0, np.int64, n, "priority", "/workloads"),
            selectors=(
                tuple(selector_of(selector) for selector in selectors)
                if selectors is not None
                else ({},) * n
            ),
            gangs=dict(gangs or {}),
            limits=in_order(replace(limit, where=selector_of(limit.where)) for limit in limits),
            guarantees=in_order(
                replace(each, where=selector_of(each.where)) for each in guarantees
            ),
            own_servers=column_of(own_servers, False, np.bool_, t, "own_servers", "/tenants"),
            count_guaranteed=bool(count_guaranteed),
            part_of=np.full(n, -1, dtype=np.int64),
            kept=np.zeros(t, dtype=np.bool_),
            kept_placements=kept_placements,
        )

    def __post_init__(self) -> None:
        # Here and not in create, because steps of solvers derive problems by replace().
        check_problem(self)
        # Cached properties follow from these arrays, so that none may change.
        for array in (
            self.capacity,
            self.server_count,
            self.contributed_by,
            self.contributed_only,
            self.weight,
            self.best_effort,
            self.tenant_group,
            self.tenant_tier,
            self.group_parent,
            self.group_weight,
            self.group_tier,
            self.deficit,
            self.workload_tenant,
            self.demand,
            self.tasks,
            self.priority,
            self.own_servers,
            self.part_of,
            self.kept,
        ):
            array.setflags(write=False)

    @cached_property
    def pieces(self) -> Pieces:
        """Kinds of pieces of all workloads."""
        return Pieces.of(self.demand, self.gangs)

    @cached_property
    def zones(self) -> dict[str, IntArray]:
        """Rows (k,) with one value of a label that keeps pieces together, by label (``zones_of``)."""
        return zones_of(self.gangs, self.server_labels)

    @cached_property
    def clusters(self) -> IntArray:
        """Number (k,) of the cluster of each row, one for all without a cluster."""
        numbers: dict[str, int] = {}
        return read_only(
            np.array(
                [
                    numbers.setdefault(labels.get(CLUSTER, ""), len(numbers))
                    for labels in self.server_labels
                ],
                dtype=np.int64,
            )
        )

    @cached_property
    def of_sums(self) -> Problem:
        """Problem for policies to which a task is the sum of its pieces."""
        return replace(self, gangs={}, kept_placements=None) if self.gangs else self

    def placed_by(self, choice: Choice) -> Problem:
        """Return the problem as a choice sees it, with pieces of gangs or with the sum of each task."""
        return self if choice.places_pieces else self.of_sums

    @cached_property
    def row_capacity(self) -> FloatArray:
        """Capacity that each whole row offers (k, m), 0 for a row that is contributed only."""
        offered = self.server_count * ~self.contributed_only
        return read_only(self.capacity * offered[:, None])

    @cached_property
    def server_kind(self) -> IntArray:
        """Number (k,) of each row's kind. Rows of a kind differ in nothing but the names of servers.

        Servers of a tenant that limits what it lends are of kinds of their own.
        """
        lenders = {limit.node for limit in self.limits if limit.scope == "lend"}
        number: dict[tuple[bytes, frozenset[tuple[str, str]], bool, int], int] = {}
        owners = [owner if owner in lenders else POOL for owner in self.contributed_by.tolist()]
        gone = self.contributed_only.tolist()
        rows = zip(self.capacity, self.server_labels, gone, owners, strict=True)
        # 0.0 is added because -0.0 has other bytes.
        kinds = [
            number.setdefault(
                ((capacity + 0.0).tobytes(), frozenset(labels.items()), *others), len(number)
            )
            for capacity, labels, *others in rows
        ]
        return read_only(np.array(kinds, dtype=np.int64))

    @cached_property
    def first_server(self) -> IntArray:
        """Number (k,) of each row's first server, counted from 0 kind by kind, in order of rows."""
        order = np.argsort(self.server_kind, kind="stable")
        first = np.empty(self.k, dtype=np.int64)
        first[order] = np.cumsum(self.server_count[order]) - self.server_count[order]
        return read_only(first)

    @cached_property
    def totals(self) -> FloatArray:
        """Capacity ``C[r]`` of the pool (m,), rounded once whatever the number of rows."""
        return read_only(np.array([math.fsum(column) for column in self.row_capacity.T.tolist()]))

    @cached_property
    def demand_share(self) -> FloatArray:
        """Demand share ``D[j, r] / C[r]`` (n, m), 0 where the pool has none of the resource."""
        return read_only(_shares(self.demand, self.totals))

    @cached_property
    def dominant_share_per_task(self) -> FloatArray:
        """Global dominant share ``s[j]`` (n,) of one task (policies §1)."""
        return read_only(self.demand_share.max(axis=1, initial=0.0))

    @cached_property
    def share_limit(self) -> FloatArray:
        """Dominant share of each workload (n,) with all its tasks placed.

        Infinite for unbounded tasks.
        """
        limit = np.full(self.n, np.inf)
        np.multiply(
            self.tasks, self.dominant_share_per_task, out=limit, where=np.isfinite(self.tasks)
        )
        return read_only(limit)

    @cached_property
    def dominant_resource(self) -> IntArray:
        """First resource (n,) that attains ``s[j]`` (by raw demand where ``s`` is 0)."""
        per_share = self.demand_share.argmax(axis=1)
        per_demand = self.demand.argmax(axis=1)
        return read_only(np.where(self.dominant_share_per_task > 0, per_share, per_demand))

    @cached_property
    def normalised_demand(self) -> FloatArray:
        """(n, m) ``d[j, r]``, so that the largest entry of a row is 1."""
        share = self.dominant_share_per_task
        return read_only(self.demand_share / np.where(share > 0, share, 1.0)[:, None])

    @cached_property
    def contributed(self) -> FloatArray:
        """Capacity (t, m) that each tenant contributed, draining servers included."""
        contributed = np.zeros((self.t, self.m))
        owned = self.contributed_by >= 0
        np.add.at(
            contributed,
            self.contributed_by[owned],
            (self.capacity * self.server_count[:, None])[owned],
        )
        return read_only(contributed)

    @cached_property
    def contributed_share(self) -> FloatArray:
        """Contributed dominant share (t,) ``max_r contributed[i, r] / C[r]``."""
        return read_only(_shares(self.contributed, self.totals).max(axis=1, initial=0.0))

    @cached_property
    def derived_weight(self) -> FloatArray:
        """Weight of each tenant before stages (t,), which may be 0.

        It is the explicit weight or the contributed share × factor. If no tenant of the first stage
        has a weight above 0, the explicit weights are used.
        """
        if self.weights_mode == "explicit":
            return self.weight
        derived = self.contributed_share * self.weight
        if not (derived[~self.best_effort] > 0).any():
            return self.weight
        return read_only(derived)

    @cached_property
    def second_stage(self) -> BoolArray:
        """Tenants that are served only after all others are frozen (t,).

        Their weight is 0 or they are best effort.
        """
        return read_only(self.best_effort | (self.derived_weight <= 0))

    @cached_property
    def effective_weight(self) -> FloatArray:
        """Weight of each tenant within its stage (t,).

        Second-stage tenants have the explicit one.
        """
        return read_only(np.where(self.second_stage, self.weight, self.derived_weight))

    @cached_property
    def derived_group_weight(self) -> FloatArray:
        """Weight (g,) of groups in the first stage, explicit or contributed share × factor.

        A group that contributed nothing has no tenant in the first stage.
        """
        # The weights themselves stand for derived ones where none are derived.
        if self.derived_weight is self.weight:
            return self.group_weight
        contributed = group_sums(self.tenant_group, self.group_parent, self.contributed)
        share = _shares(contributed, self.totals).max(axis=1, initial=0.0)
        return read_only(share * self.group_weight)

    @cached_property
    def tenants_below(self) -> IntArray:
        """Number (g,) of tenants below each group."""
        one = np.ones(self.t)
        return group_sums(self.tenant_group, self.group_parent, one).astype(np.int64)

    def tree(self, stage: int) -> GroupTree:
        """Return the tree of groups with the weights that count in a stage (0 is served first).

        Groups have their derived weight in the first stage, and the explicit one in the second.
        """
        return self._trees[stage]

    @cached_property
    def _trees(self) -> tuple[GroupTree, GroupTree]:
        def of(group_weight: FloatArray) -> GroupTree:
            return GroupTree.of(
                tenant_group=self.tenant_group,
                tenant_weight=self.effective_weight,
                tenant_tier=self.tenant_tier,
                group_parent=self.group_parent,
                group_weight=group_weight,
                group_tier=self.group_tier,
            )

        explicit = of(self.group_weight)
        if self.derived_group_weight is self.group_weight:
            return explicit, explicit
        # Groups without a contribution have no tenant in the first stage: any weight above 0 will
        # do.
        derived = self.derived_group_weight
        return of(np.where(derived > 0, derived, self.group_weight)), explicit

    @cached_property
    def groups_top_down(self) -> IntArray:
        """Indices (g,) of the groups, each after the groups above it."""
        return read_only(np.argsort(depths(self.group_parent), kind="stable"))

    @property
    def has_groups(self) -> bool:
        """True if groups or tiers decide the order, beside the tenants' own weights."""
        return self.floors != "raised" and not self._trees[0].is_flat

    @property
    def has_floors(self) -> bool:
        """True if a guarantee is still to be turned into floors."""
        return not self.floors and bool(self.guarantees or self.own_servers.any())

    @cached_property
    def prior_share(self) -> FloatArray:
        """Share × periods (t,) that each tenant is deemed to have received before.

        It is ``max(deficit / w) w - deficit``, 0 for the tenant with the largest deficit for its
        weight. Averages over a period add to it.
        """
        weight = self.effective_weight
        return read_only((self.deficit / weight).max(initial=0.0) * weight - self.deficit)

    @cached_property
    def _distinct_selectors(self) -> tuple[IntArray, BoolArray]:
        index: dict[tuple[tuple[str, tuple[str, ...]], ...], int] = {}
        # Many workloads have one and the same selector, which is looked at once.
        known: dict[int, int] = {}
        for selector in self.selectors:
            if id(selector) not in known:
                key = tuple(sorted(selector.items()))
                known[id(selector)] = index.setdefault(key, len(index))
        group = np.array([known[id(selector)] for selector in self.selectors], dtype=np.int64)
        matches = np.ones((len(index), self.k), dtype=np.bool_)
        for key, g in index.items():
            for label, values in key:
                allowed = (labels.get(label) in values for labels in self.server_labels)
                matches[g] &= np.fromiter(allowed, dtype=np.bool_, count=self.k)
        return read_only(group), read_only(matches)

    @property
    def selector_group(self) -> IntArray:
        """Index (n,) of the workload's selector among the distinct ones."""
        return self._distinct_selectors[0]

    @property
    def selector_matches(self) -> BoolArray:
        """(distinct selectors, k) which rows the selector allows, draining ones included."""
        return self._distinct_selectors[1]

    @property
    def has_selectors(self) -> bool:
        """True if any workload restricts where it runs."""
        return any(self.selectors)

    @cached_property
    def eligible(self) -> BoolArray | None:
        """(n, k) ``E[j, l]``, or None when no workload has a selector."""
        if not self.has_selectors:
            return None
        return read_only(self.selector_matches[self.selector_group])

    @cached_property
    def limited(self) -> tuple[CountedWorkloads[Limit], ...]:
        """Workloads and servers of each limit, in order."""
        return counted_workloads(self, self.limits)

    @cached_property
    def guaranteed(self) -> tuple[CountedWorkloads[Guarantee], ...]:
        """Workloads and servers of each guarantee, in order."""
        return counted_workloads(self, self.guarantees)

    def with_counts_of(self, other: Problem) -> Problem:
        """Return this problem with what another one has counted already.

        Both must have the same workloads, servers, limits and guarantees.
        """
        # These depend on nothing else.
        names = ("limited", "guaranteed", "_distinct_selectors", "demand_share", "limit_share")
        known = vars(other)
        vars(self).update({name: known[name] for name in names if name in known})
        return self

    @cached_property
    def own_limits(self) -> IntArray:
        """Number (n,) of each workload that has a limit of its own, 0 for the others."""
        own = np.zeros(self.n, dtype=np.int64)
        for limit in self.limits:
            if limit.scope == "workload":
                own[limit.node] = limit.node + 1
        return read_only(own)

    @cached_property
    def limit_share(self) -> FloatArray:
        """Amounts (l, m) of the limits as shares of the pool, inf without an amount."""
        return read_only(limit_shares(self, self.totals))

    @cached_property
    def out_of_range(self) -> BoolArray:
        """True (n,) for a demand below 1e-9 or above 1e9 of the pool (policies §1.2)."""
        share = self.demand_share
        outside = (share < SMALLEST_DEMAND_SHARE) | (share > LARGEST_DEMAND_SHARE)
        counted = outside & (self.demand > 0) & (self.totals > 0)
        return read_only(np.logical_or.reduce(counted, axis=1))

    @cached_property
    def resource_absent(self) -> BoolArray:
        """True (n,) for a workload that demands a resource that no server has."""
        return read_only(np.logical_or.reduce((self.demand > 0) & (self.totals <= 0), axis=1))


def _shares(amount: FloatArray, totals: FloatArray) -> FloatArray:
    share = np.zeros_like(amount)
    np.divide(amount, totals, out=share, where=totals > 0)
    return share
