"""Saturated whole tasks of one slot of a schedule, on one pool or packed on its servers.

Source: the saturation property of the TDA thesis (2015, §3.2): in every slot the resources that are
left are not sufficient for a task from any user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, TextArray, grouped_sum
from policies.compiled import compiled
from policies.errors import ProblemTooLargeError
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone
from policies.proofs.pool_of_tasks import DRF_OF_TASKS, pool_of_tasks
from policies.proofs.saturation import filling_reasons
from policies.proofs.slots.knapsack import MOST_NODES, Knapsack, Packing
from policies.proofs.slots.knapsack_bounds import relaxed
from policies.proofs.slots.work_budget import WorkBudget

LARGEST_PACKED = 20_000
# (server, workload) pairs of servers tied together by limits that are searched as one.
LARGEST_JOINT = 400


@dataclass(frozen=True, eq=False)
class Slot:
    """Whole tasks that run together.

    Attributes:
        on_server: (L, q) tasks on each server.
        bound: no shares are worth more at the prices that it was made for.
    """

    on_server: IntArray
    bound: float = float("nan")

    @cached_property
    def tasks(self) -> IntArray:
        """(q,) tasks of each workload on all servers."""
        total: IntArray = self.on_server.sum(axis=0)
        return total


@dataclass(frozen=True, eq=False)
class SlotPool:
    """Servers of a slot and the workloads that can run there, in whole numbers.

    Attributes:
        workloads: (q,) indices of the problem's runnable workloads, each tenant's in order of
            preference.
        tenants: (t',) tenants that own one of them; owner: (q,) positions in ``tenants``.
        share: (q,) dominant share ``s[j]`` of one task.
        prior_share: (t',) prior shares of the tenants.
        demand: (q, m) of one task; limit: (q,) tasks at most.
        capacity: (L, m) of each server; the whole pool as one unless tasks are packed.
        kind: (L,) which of ``knapsacks`` each server is.
        knapsacks: the kinds of servers.
        reasons: (n,) why a workload of the problem cannot run, or the empty string.
    """

    workloads: IntArray
    tenants: IntArray
    owner: IntArray
    share: FloatArray
    prior_share: FloatArray
    demand: FloatArray
    limit: FloatArray
    capacity: FloatArray
    kind: IntArray
    knapsacks: tuple[Knapsack, ...]
    reasons: TextArray

    @classmethod
    def of(cls, problem: Problem, *, pack: bool) -> SlotPool:
        """Return the pool as one big server, or every server by itself.

        Raises:
            ProblemTooLargeError: more than 20,000 servers to pack, or that many (server,
                workload) or (tenant, workload) pairs a thousand times over.
        """
        if problem.t * problem.n > 1000 * LARGEST_PACKED:
            raise ProblemTooLargeError(
                "problem.too_large",
                f"{problem.n} workloads of {problem.t} tenants: there is a slot for each tenant, and "
                f"slots hold at most {1000 * LARGEST_PACKED} (workload, tenant) pairs",
            )
        if not pack:
            pool = pool_of_tasks(problem, DRF_OF_TASKS)
            everything = np.ones((problem.n, 1), dtype=np.bool_)
            one = np.zeros(1, dtype=np.int64)
            return cls._of(problem, pool.demand, pool.room[None, :], one, everything, pool.reasons)
        rows = each_row_alone(problem)
        servers = int(rows.servers.sum())
        if servers > LARGEST_PACKED or servers * problem.n > 1000 * LARGEST_PACKED:
            raise ProblemTooLargeError(
                "problem.too_large",
                f"{problem.n} workloads on {servers} servers; slots are packed on at most "
                f"{LARGEST_PACKED} servers and {1000 * LARGEST_PACKED} (workload, server) pairs",
            )
        whole = WholeServers.of(problem)
        reasons = filling_reasons(problem, whole, rows)
        row_of = np.repeat(np.arange(rows.count), rows.servers)
        capacity = whole.capacity[rows.first_row]
        return cls._of(problem, whole.demand, capacity, row_of, rows.allowed, reasons)

    @classmethod
    def _of(
        cls,
        problem: Problem,
        demand: FloatArray,
        capacity: FloatArray,
        row_of: IntArray,
        allowed: BoolArray,
        reasons: TextArray,
    ) -> SlotPool:
        runnable = np.flatnonzero(reasons == "")
        owner = problem.workload_tenant[runnable]
        workloads = runnable[np.lexsort((runnable, -problem.priority[runnable], owner))]
        tenants, owner = np.unique(problem.workload_tenant[workloads], return_inverse=True)
        limit = problem.tasks[workloads]
        # Servers that are alike share a knapsack, which is solved once for all of them.
        described = np.concatenate([capacity, allowed[workloads].T], axis=1)
        _, first, kind_of_row = np.unique(described, axis=0, return_index=True, return_inverse=True)
        return cls(
            workloads=workloads,
            tenants=tenants,
            owner=owner.astype(np.int64),
            share=problem.dominant_share_per_task[workloads],
            prior_share=problem.prior_share[tenants],
            demand=demand[workloads],
            limit=limit,
            capacity=capacity[row_of],
            kind=kind_of_row.reshape(-1)[row_of],
            knapsacks=tuple(
                Knapsack(
                    demand[workloads], capacity[row], np.where(allowed[workloads, row], limit, 0.0)
                )
                for row in first.tolist()
            ),
            reasons=reasons,
        )

    @cached_property
    def coupled(self) -> bool:
        """True if task limits tie the servers together, so that the sum of their bounds is loose."""
        return len(self.kind) > 1 and bool((self._most_together > self.limit).any())

    @cached_property
    def exact(self) -> bool:
        """True if every bound is the value of the best tasks, and not more."""
        return not self.coupled and all(knapsack.has_grid for knapsack in self.knapsacks)

    def shares(self, tasks: IntArray) -> FloatArray:
        """Return the dominant shares (t',) of the tenants with tasks (q,), plus their prior shares."""
        return grouped_sum(tasks * self.share, self.owner, len(self.tenants)) + self.prior_share

    def best(
        self, prices: FloatArray, *, nodes: int = MOST_NODES, budget: WorkBudget | None = None
    ) -> Slot:
        """Return the saturated slot whose shares are worth most.

        Args:
            prices: (t',) of the tenants' shares, at least 0.
            nodes: of each search, where a knapsack's grid is too large for the programme.
            budget: what may be spent on it; no limit unless given.

        Raises:
            WorkBudgetSpentError: nothing is left to spend.
        """
        per_task = prices[self.owner] * self.share
        packings = []
        for knapsack in self.knapsacks:
            packings.append(knapsack.best(per_task, nodes=nodes))
            if budget is not None:
                budget.spend(packings[-1].work)
        servers = np.bincount(self.kind, minlength=len(self.knapsacks))
        bound = float(
            sum(
                packing.bound * count
                for packing, count in zip(packings, servers.tolist(), strict=True)
            )
        )
        # With finite tasks only, no slot is worth more than all of them.
        everything = float(per_task[self.limit < np.inf] @ self.limit[self.limit < np.inf])
        if not per_task[np.isinf(self.limit)].any():
            bound = min(bound, everything)
        if self.coupled:
            bound = min(bound, self._bound_together(per_task))
        on_server = self._together(packings, per_task, nodes, budget)
        # Bounds of single servers add up too high where limits tie them; together they are exact.
        if self._joint is not None:
            whole = self._joint.best(np.tile(per_task, len(self.kind)), nodes=nodes)
            if budget is not None:
                budget.spend(whole.work)
            bound = min(bound, whole.bound)
            if whole.value > float(per_task @ on_server.sum(axis=0)):
                on_server = whole.tasks.reshape(on_server.shape)
        return Slot(self.saturated(on_server), bound + float(prices @ self.prior_share))

    def bound(self, prices: FloatArray) -> float:
        """Return a bound on the worth of any slot's shares at these prices (t',)."""
        key = prices.tobytes()
        if key not in self._bounds:
            self._bounds[key] = self.best(prices).bound
        return self._bounds[key]

    @cached_property
    def _bounds(self) -> dict[bytes, float]:
        return {}

    def in_turn(self, weighted: FloatArray, weight: FloatArray, last: BoolArray) -> Slot:
        """Return a saturated slot for the tenants with the least share, one task each in turn.

        Args:
            weighted: (t',) shares ÷ weights that the tenants have had; those of the slot are added.
            weight: (t',) of the tenants; last: (t',) tenants that come after all others.
        """
        on_server = np.zeros((len(self.kind), len(self.workloads)), dtype=np.int64)
        order = np.lexsort((weighted[self.owner], last[self.owner]))
        _take_turns(
            on_server,
            self.capacity,
            self.demand,
            self.limit,
            self.allowed_on_kind,
            self.kind,
            order,
        )
        slot = Slot(on_server)
        weighted += (self.shares(slot.tasks) - self.prior_share) / weight
        return slot

    @cached_property
    def _joint(self) -> Knapsack | None:
        """One knapsack for a few servers that limits tie together.

        Limits count as resources.
        """
        servers, q, m = len(self.kind), len(self.workloads), self.demand.shape[1]
        if not self.coupled or servers * q > LARGEST_JOINT:
            return None
        finite = np.flatnonzero(np.isfinite(self.limit))
        demand = np.zeros((servers, q, servers * m + len(finite)))
        for server in range(servers):
            demand[server, :, server * m : (server + 1) * m] = self.demand
        demand[:, finite, servers * m + np.arange(len(finite))] = 1.0
        alone = np.array([knapsack.limit for knapsack in self.knapsacks])[self.kind]
        return Knapsack(
            demand.reshape(servers * q, -1),
            np.concatenate([self.capacity.ravel(), self.limit[finite]]),
            alone.ravel(),
        )

    def _bound_together(self, per_task: FloatArray) -> float:
        """Return the worth of divisible tasks within all limits, on the servers taken as one."""
        some = per_task > 0
        total = self.capacity.sum(axis=0)
        most = np.minimum(self._most_together, self.limit)[some]
        count = np.zeros(len(most))
        return float(
            relaxed(
                per_task[some],
                self.demand[some] / np.where(total > 0, total, 1.0),
                (total > 0).astype(np.float64),
                most,
                np.zeros(len(total)),
                count,
            )
        )

    @cached_property
    def _most_together(self) -> IntArray:
        """(q,) tasks of each workload alone on all servers, whatever its limit."""
        per_kind = np.array([knapsack.most for knapsack in self.knapsacks])
        together: IntArray = per_kind[self.kind].sum(axis=0)
        return together

    def _together(
        self,
        packings: Sequence[Packing],
        per_task: FloatArray,
        nodes: int,
        budget: WorkBudget | None,
    ) -> IntArray:
        """Return every server's best tasks (L, q), as far as the limits go."""
        if not len(self.kind):
            return np.zeros((0, len(self.workloads)), dtype=np.int64)
        on_server = np.array([packing.tasks for packing in packings])[self.kind]
        if not self.coupled:
            return on_server
        left = self.limit.copy()
        for server, kind in enumerate(self.kind.tolist()):
            if (on_server[server] > left).any():
                knapsack = self.knapsacks[kind]
                smaller = Knapsack(
                    knapsack.demand, knapsack.capacity, np.minimum(knapsack.limit, left)
                )
                packing = smaller.best(per_task, nodes=nodes)
                on_server[server] = packing.tasks
                if budget is not None:
                    budget.spend(packing.work)
            left -= on_server[server]
        return on_server

    def saturated(self, on_server: IntArray) -> IntArray:
        """Return the tasks (L, q) with more added until none fits.

        They are added workload by workload on the servers in order.
        """
        full = np.ascontiguousarray(on_server)
        _saturate(full, self.capacity, self.demand, self.limit, self.allowed_on_kind, self.kind)
        return full

    @cached_property
    def allowed_on_kind(self) -> BoolArray:
        """True where a workload may run on servers of a kind (q, K)."""
        columns = [knapsack.limit > 0 for knapsack in self.knapsacks]
        allowed = np.array(columns, dtype=np.bool_).reshape(len(columns), len(self.workloads))
        return np.ascontiguousarray(allowed.T)


@compiled
def _saturate(on_server, capacity, demand, limit, allowed, kind):
    """Add tasks to ``on_server`` until no workload that wants more has room for one."""
    servers, workloads = on_server.shape
    m = demand.shape[1]
    left = capacity.copy()
    requested = limit.copy()
    for server in range(servers):
        for j in range(workloads):
            requested[j] -= on_server[server, j]
            for r in range(m):
                left[server, r] -= on_server[server, j] * demand[j, r]
    for j in range(workloads):
        for server in range(servers):
            room = requested[j] if allowed[j, kind[server]] else 0.0
            for r in range(m):
                if demand[j, r] > 0.0:
                    room = min(room, np.floor(left[server, r] / demand[j, r]))
            if room > 0.0:
                requested[j] -= room
                on_server[server, j] += int(room)
                for r in range(m):
                    left[server, r] -= room * demand[j, r]


@compiled
def _take_turns(on_server, capacity, demand, limit, allowed, kind, order):
    """Add one task of each workload in the given order, as long as there is room for any."""
    m = demand.shape[1]
    left, requested = capacity.copy(), limit.copy()
    full = np.zeros(len(order), dtype=np.bool_)
    going = True
    while going:
        going = False
        for j in order:
            if full[j]:
                continue
            full[j] = True
            for server in range(len(kind)):
                fits = requested[j] >= 1.0 and allowed[j, kind[server]]
                for r in range(m):
                    fits = fits and demand[j, r] <= left[server, r]
                if fits:
                    on_server[server, j] += 1
                    requested[j] -= 1.0
                    for r in range(m):
                        left[server, r] -= demand[j, r]
                    full[j] = False
                    going = True
                    break
