"""Problem as the verifier reads it, derived from its fields by arithmetic of its own.

Values that solvers derive from a problem (totals, weights, classes of servers, normalised demands)
are derived here again, from the definitions in docs/policies, and share no code with the solvers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum
from policies.model.policy import Choice, Servers, ShareDefinition
from policies.model.problem import Problem
from policies.verification.amounts import Amounts, read_amounts
from policies.verification.groups import Groups, contributed_by_groups
from policies.verification.limits import (
    StatedLimit,
    owners,
    rows_of_guarantees,
    shares_of,
    stated_guarantees,
    stated_limits,
)
from policies.verification.names import position_of
from policies.verification.pieces import Pieces
from policies.verification.places import Places, ranges_of, rows_of_selectors
from policies.verification.reasons import (
    NO_ELIGIBLE_SERVER,
    OUT_OF_RANGE,
    RESOURCE_ABSENT,
    TASK_LIMIT,
)

SMALLEST_DEMAND, LARGEST_DEMAND = 1e-9, 1e9


@dataclass(frozen=True, eq=False)
class Stated:
    """Problem under a policy in one of its modes."""

    problem: Problem
    choice: Choice

    @cached_property
    def pieces(self) -> Pieces:
        """Kinds of pieces of all workloads.

        A workload with tasks of one piece is one kind.
        """
        return Pieces.stated(self.problem)

    @cached_property
    def offered(self) -> FloatArray:
        """Capacity of one server of each row (k, m), 0 for rows that only count as contributed."""
        gone = self.problem.contributed_only[:, None]
        return np.where(gone, 0.0, self.problem.capacity)

    @cached_property
    def totals(self) -> FloatArray:
        """Capacity (m,) of the pool."""
        # math.fsum rounds once, so that totals do not depend on the order of rows.
        amounts = (self.offered * self.problem.server_count[:, None]).T.tolist()
        return np.array([math.fsum(column) for column in amounts])

    def shares(self, amounts: FloatArray) -> FloatArray:
        """Return amounts (..., m) as shares of the pool.

        A share is 0 if the pool has none of the resource.
        """
        result = np.zeros_like(amounts)
        np.divide(amounts, self.totals, out=result, where=self.totals > 0)
        return result

    @cached_property
    def task_shares(self) -> FloatArray:
        """Shares (n, m) of the pool that one task takes."""
        return self.shares(self.problem.demand)

    @cached_property
    def dominant(self) -> FloatArray:
        """Largest share (n,) of the pool that one task takes of any resource."""
        dominant: FloatArray = self.task_shares.max(axis=1, initial=0.0)
        return dominant

    @cached_property
    def contributed(self) -> FloatArray:
        """Capacity (t, m) that each tenant contributed."""
        problem = self.problem
        contributed = np.zeros((problem.t, problem.m))
        for row in np.flatnonzero(problem.contributed_by >= 0).tolist():
            servers = float(problem.server_count[row])
            contributed[problem.contributed_by[row]] += problem.capacity[row] * servers
        return contributed

    @cached_property
    def groups(self) -> Groups | None:
        """The tree of groups, or None if groups and tiers order nothing."""
        problem, late = self.problem, self.late
        tiers = problem.tenant_tier
        flat = (problem.tenant_group < 0).all() and (tiers == tiers[:1]).all()
        # Guaranteed parts rise by their own proportions, in which groups have no part.
        if flat or problem.floors == "raised":
            return None
        first = explicit = problem.group_weight
        if problem.weights_mode == "contribution" and self.derives_weights:
            derived = self.derived_group_weights
            # A group that contributed nothing has no tenant in the first stage: any weight above 0
            # will do.
            first = np.where(derived > 0, derived, explicit)
        return Groups(problem, (first, explicit), self.weight, late)

    @cached_property
    def tenants_below_groups(self) -> list[list[int]]:
        """Tenants below each group (g)."""
        below: list[list[int]] = [[] for _ in self.problem.groups]
        for tenant, first in enumerate(self.problem.tenant_group.tolist()):
            group = first
            while group >= 0:
                below[group].append(tenant)
                group = int(self.problem.group_parent[group])
        return below

    @cached_property
    def derived_group_weights(self) -> FloatArray:
        """Weight (g,) of each group in the first stage, by what tenants below it contributed."""
        contributed = contributed_by_groups(self.problem, self.contributed)
        derived: FloatArray = self.shares(contributed).max(axis=1, initial=0.0)
        return derived * self.problem.group_weight

    @property
    def group_weights(self) -> list[float]:
        """Weight (g) of each group, in the first stage if a tenant of that is below."""
        problem = self.problem
        first = second = problem.group_weight
        if problem.weights_mode == "contribution" and self.derives_weights:
            first = self.derived_group_weights
        return [
            float(first[g] if (~self.late[mine]).any() and first[g] > 0 else second[g])
            for g, mine in enumerate(self.tenants_below_groups)
        ]

    @property
    def derives_weights(self) -> bool:
        """True if weights come from what was contributed."""
        derived = self.shares(self.contributed).max(axis=1, initial=0.0) * self.problem.weight
        return bool((derived[~self.problem.best_effort] > 0).any())

    @cached_property
    def _stage_and_weight(self) -> tuple[BoolArray, FloatArray]:
        problem = self.problem
        weight = problem.weight
        if problem.weights_mode == "contribution":
            derived = self.shares(self.contributed).max(axis=1, initial=0.0) * weight
            if self.derives_weights:
                weight = derived
        late: BoolArray = problem.best_effort | (weight <= 0)
        return late, np.where(late, problem.weight, weight)

    @property
    def late(self) -> BoolArray:
        """Tenants (t,) that are served after all others, for weight 0 or as best effort."""
        return self._stage_and_weight[0]

    @property
    def weight(self) -> FloatArray:
        """Weight (t,) of each tenant among those of its stage."""
        return self._stage_and_weight[1]

    @cached_property
    def prior(self) -> FloatArray:
        """Share (t,) that each tenant is deemed to have received before, by its deficit."""
        deficit = self.problem.deficit
        most = max(0.0, float((deficit / self.weight).max(initial=0.0)))
        prior: FloatArray = most * self.weight - deficit
        return prior

    @cached_property
    def matches(self) -> tuple[IntArray, BoolArray]:
        """(n,) which selector a workload has, and (selectors, k) the rows that each one allows."""
        return rows_of_selectors(self.problem)

    @property
    def _matched_by_any(self) -> BoolArray:
        """Rows (k,) that each selector of a workload, a limit or a guarantee matches."""
        _, table = self.matches
        # Amounts with one selector have one array.
        rows = [each.rows for each in self.limits] + rows_of_guarantees(self.problem)
        apart = list({id(each): each for each in rows}.values())
        return np.concatenate(
            [table, np.array(apart, np.bool_).reshape(len(apart), self.problem.k)]
        )

    def places(self, sizes: IntArray | None = None) -> Places:
        """Return the places to which placements refer.

        ``sizes`` (K,) are those of ranges of servers if the answer has any. Sizes that do not cut
        every row into whole ranges count as if there were none.
        """
        problem = self.problem
        offering = np.flatnonzero((self.offered > 0).any(axis=1))
        place_of_row = np.full(problem.k, -1, dtype=np.int64)
        seen = self.choice.policy.servers[self.choice.mode]
        if self.choice.sees_one_pool:
            place_of_row[offering] = 0
            row = offering[:1]
            servers = np.full(len(row), problem.server_count[offering].sum(), dtype=np.int64)
            return self._places(
                row, servers, None, place_of_row, np.tile(self.totals, (len(row), 1))
            )
        if seen is Servers.CLASSES:
            return self._alike
        if seen is Servers.RANGES and sizes is not None:
            ranges = ranges_of(self.problem, offering, sizes)
            if ranges is not None:
                return self._places(*ranges)
        return self.rows

    @cached_property
    def _alike(self) -> Places:
        """Classes of servers that no selector, limit or guarantee distinguishes."""
        problem = self.problem
        offering = np.flatnonzero((self.offered > 0).any(axis=1))
        place_of_row = np.full(problem.k, -1, dtype=np.int64)
        number: dict[tuple[bytes, bytes], int] = {}
        matched = self._matched_by_any if len(offering) > 1 else np.zeros((0, problem.k))
        for k in offering.tolist():
            # 0.0 is added because -0.0 has other bytes.
            key = (problem.capacity[k] + 0.0).tobytes(), matched[:, k].tobytes()
            place_of_row[k] = number.setdefault(key, len(number))
        _, first = np.unique(place_of_row[offering], return_index=True)
        row = offering[first]
        of_offering = place_of_row[offering]
        counts = problem.server_count[offering].astype(np.float64)
        servers = grouped_sum(counts, of_offering, len(row)).astype(np.int64)
        return self._places(row, servers, None, place_of_row)

    @cached_property
    def rows(self) -> Places:
        """Every row that offers something by itself."""
        offering = np.flatnonzero((self.offered > 0).any(axis=1))
        place_of_row = np.full(self.problem.k, -1, dtype=np.int64)
        place_of_row[offering] = np.arange(len(offering))
        return self._places(offering, self.problem.server_count[offering], None, place_of_row)

    def _places(
        self,
        row: IntArray,
        servers: IntArray,
        offset: IntArray | None,
        place_of_row: IntArray,
        capacity: FloatArray | None = None,
    ) -> Places:
        if capacity is None:
            capacity = self.problem.capacity[row] * servers[:, None]
        pieces = self.pieces
        # A view of one value: written out, it would have 126 MB for 10,000 workloads on 12,583 ranges.
        allowed: BoolArray = np.broadcast_to(np.array([True]), (len(pieces.owner), len(row)))
        if any(self.problem.selectors):
            which, table = self.matches
            allowed = table[:, row][which[pieces.owner]]
        for r in range(self.problem.m):
            lacking = capacity[:, r] <= 0
            if lacking.any():
                allowed = allowed & ~np.outer(pieces.demand[:, r] > 0, lacking)
        return Places(row, servers, offset, place_of_row, allowed, self.shares(capacity))

    @cached_property
    def absent(self) -> BoolArray:
        """Workloads (n,) that demand a resource that no server has."""
        lacking = self.totals <= 0
        absent: BoolArray = np.logical_or.reduce(self.problem.demand[:, lacking] > 0, axis=1)
        return absent

    @cached_property
    def out_of_range(self) -> BoolArray:
        """Workloads (n,) that demand less than a billionth of the pool or more than a billion pools."""
        share = self.task_shares
        some = (self.problem.demand > 0) & (self.totals > 0)
        outside = some & ((share < SMALLEST_DEMAND) | (share > LARGEST_DEMAND))
        result: BoolArray = np.logical_or.reduce(outside, axis=1)
        return result

    def unserved(self, places: Places) -> TextArray:
        """Return the reason (n,) for which a workload can have no share at all.

        It is empty for a workload that can.
        """
        reason = np.full(self.problem.n, "", dtype=object)
        somewhere = np.zeros(self.problem.n, dtype=np.bool_)
        somewhere[self.pieces.owner[places.allowed.any(axis=1)]] = True
        reason[~somewhere] = NO_ELIGIBLE_SERVER
        reason[self.out_of_range] = OUT_OF_RANGE
        reason[self.absent] = RESOURCE_ABSENT
        reason[self.problem.tasks == 0] = TASK_LIMIT
        return reason

    def amounts(self, largest: FloatArray | None = None) -> Amounts:
        """Return the quantities read for sums up to ``largest`` (m,).

        Without ``largest``, nothing is added up and the quantities are as they are. Demands are
        those of pieces where single servers are filled. Demands that cannot be served at all are 0.
        """
        ignored = self.absent | self.out_of_range
        demand = np.where(ignored[self.pieces.owner, None], 0.0, self.pieces.demand)
        if largest is None:
            largest = np.maximum(
                self.offered.max(axis=0, initial=0.0), demand.max(axis=0, initial=0.0)
            )
        amounts = self.limits_that_can_bind
        largest = np.maximum(
            largest, np.where(amounts < np.inf, amounts, 0.0).max(axis=0, initial=0.0)
        )
        return read_amounts(demand, self.offered, largest, amounts)

    @cached_property
    def limits(self) -> list[StatedLimit]:
        """The limits of the problem, in order."""
        return stated_limits(self.problem)

    @cached_property
    def counted_floors(self) -> FloatArray:
        """Share (t,) of the kept parts of workloads, which count in the level of their tenant."""
        problem = self.problem
        counted = np.zeros(problem.t)
        if problem.floors == "kept" and problem.count_guaranteed:
            parts = np.flatnonzero(problem.part_of >= 0)
            share = problem.tasks[parts] * self.columns[parts].max(axis=1, initial=0.0)
            np.add.at(counted, owners(problem)[parts], share)
        return counted

    @cached_property
    def guarantees(self) -> list[StatedLimit]:
        """The guarantees of the problem, in order."""
        return stated_guarantees(self.problem)

    @cached_property
    def limits_that_can_bind(self) -> FloatArray:
        """Amounts (l, m) of limits that are less than what the pool has, inf of the others."""
        given = np.array([limit.amount for limit in self.limits]).reshape(-1, self.problem.m)
        least = np.where(self.limit_shares > 0, given, 0.0)
        return np.where(least < self.totals, least, np.inf)

    @cached_property
    def limit_shares(self) -> FloatArray:
        """Amounts (l, m) of limits as shares of the pool."""
        return shares_of(self.limits, self.totals)

    @cached_property
    def as_they_are(self) -> Amounts:
        """Quantities read where nothing is added up."""
        return self.amounts()

    @cached_property
    def on_servers(self) -> Amounts:
        """Quantities read for whole tasks on single servers."""
        return self.amounts(self.offered.max(axis=0, initial=0.0))

    @cached_property
    def in_pool(self) -> Amounts:
        """Quantities read for whole tasks on the pool as one server."""
        return self.amounts(self.totals)

    @cached_property
    def factors(self) -> FloatArray | None:
        """Factor of each tenant's weight in each resource (t, m), None without such weights.

        Raises:
            PolicyOptionsError: they name what the problem does not have.
        """
        given = self.choice.option("resource_weights")
        if not given:
            return None
        factors = np.ones((self.problem.t, self.problem.m))
        for tenant, row in given.items():
            for resource, factor in row.items():
                i = position_of(tenant, self.problem.tenants, f"resource_weights/{tenant}")
                r = position_of(
                    resource, self.problem.resources, f"resource_weights/{tenant}/{resource}"
                )
                factors[i, r] = factor
        return factors

    @cached_property
    def alone(self) -> FloatArray:
        """Tasks (n,) of each workload if it had all servers to itself, wherever it may run.

        Whole tasks are counted server by server.
        """
        problem, whole = self.problem, self.choice.whole_tasks
        demand, capacity = problem.demand, self.offered
        if whole:
            demand, capacity = self.on_servers.demand, self.on_servers.capacity
        unserved = self.absent | self.out_of_range
        demand = np.where(unserved[:, None], 1.0, demand)
        servers: dict[tuple[float, ...], int] = {}
        for row, count in zip(capacity.tolist(), problem.server_count.tolist(), strict=True):
            servers[tuple(row)] = servers.get(tuple(row), 0) + count
        needed = np.where(demand > 0, demand, 1.0)
        total, rest = np.zeros(problem.n), np.zeros(problem.n)
        for row, count in servers.items():
            room = np.where(demand > 0, np.array(row) / needed, np.inf)
            if whole:
                room = np.where(demand > 0, np.array(row) // needed, np.inf)
            # Added up with what rounding takes away, so that the sum is rounded once.
            added = count * room.min(axis=1, initial=np.inf)
            more = total + added
            back = more - total
            rest += (total - (more - back)) + (added - back)
            total = more
        return np.where(unserved, 0.0, total + rest)

    @cached_property
    def columns(self) -> FloatArray:
        """Share (n, c) that one task adds to each column of its tenant's share, which is the largest.

        One column, but for weights that differ between resources: then one per resource.
        """
        if self.choice.share is ShareDefinition.ALONE:
            return np.divide(1.0, self.alone, out=np.zeros(len(self.alone)), where=self.alone > 0)[
                :, None
            ]
        if self.choice.share is ShareDefinition.SUM:
            summed: FloatArray = self.task_shares.sum(axis=1)[:, None]
            return summed
        if self.factors is None:
            return self.dominant[:, None]
        columns: FloatArray = self.task_shares / self.factors[self.problem.workload_tenant]
        return columns

    def tenant_shares(self, columns: FloatArray, tasks: FloatArray) -> FloatArray:
        """Return the shares (t,) before weights of tenants that run so many tasks (n,)."""
        sums = [
            grouped_sum(tasks * column, self.problem.workload_tenant, self.problem.t)
            for column in columns.T
        ]
        share: FloatArray = np.max(sums, axis=0)
        return share
