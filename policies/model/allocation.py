"""The answer every policy gives, with what explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.model.certificate import Certificate
from policies.model.current_placements import CurrentPlacements
from policies.model.group_tree import group_sums
from policies.model.history import History
from policies.model.policy import Choice, Policy, Servers
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.schedule import Schedule
from policies.model.server_classes import ServerClasses, classes_of_decision


class PaidShares(NamedTuple):
    """Prices of parts of shares.

    Attributes:
        owner: (e,) tenant of each part; price: (e,) of one unit of share in it.
        start, end: (e,) the tenant's share at which the part begins and ends.
    """

    owner: IntArray
    price: FloatArray
    start: FloatArray
    end: FloatArray


class SharePath(Protocol):
    """A path on which the shares of tenants with something to run rise together."""

    @property
    def first(self) -> float:
        """The position at the beginning."""

    @property
    def last(self) -> float:
        """The position at which all tasks are placed."""

    def shares(self, position: float) -> FloatArray:
        """Return the shares of tenants at a position."""

    def furthest(self, paid: PaidShares, budget: float, near: float | None = None) -> float:
        """Return the greatest position whose shares cost at most the budget.

        It is expected to be about as far as ``near``.
        """


@dataclass(frozen=True, eq=False)
class Floors:
    """Answers by which guarantees were met, step by step (``policies.floors``).

    Attributes
    ----------
    pools : tuple of (Allocation or None)
        The answer of each guarantee's pool, then of each tenant's own servers; None for a pool that one
        workload has for itself.
    raised : Allocation
        How far the guaranteed parts of workloads could rise.
    rest : Allocation
        The rest of the workloads, beside these parts.
    floor : (n,) float array
        Guaranteed tasks of each workload.
    met : (n,) float array
        How many of them run.
    pool_of_part : (p,) int array
        Pool that guarantees each part; parts follow the workloads in ``raised`` and ``rest``.
    left_out : (l,) int array
        Pools of guarantees in which a workload takes no part, as it would make too many whole tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], tenants=["A", "B"],
    ...     demand=[[1], [1]],
    ...     guarantees=[Guarantee("tenant", i, np.array([8.0])) for i in (0, 1)])
    >>> floors = solve(problem, "drfh").floors
    >>> floors.floor.tolist(), floors.met.round(6).tolist()
    ([8.0, 8.0], [4.0, 4.0])
    """

    pools: tuple[Allocation | None, ...]
    raised: Allocation
    rest: Allocation
    floor: FloatArray
    met: FloatArray
    pool_of_part: IntArray
    left_out: IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Allocation:
    """Tasks per workload and where they run.

    Attributes
    ----------
    problem : Problem
        The problem that was solved.
    choice : Choice
        The policy, mode and options that answered it.
    tasks : (n,) float array
        Tasks allocated to each workload; fractions in divisible mode.
    classes : ServerClasses
        The server classes that placements refer to.
    placement_piece : (p,) int array
        Kind of pieces of each placement, an index of ``Problem.pieces``: the workload itself, but for
        the second kind of a gang.
    placement_class : (p,) int array
        Server class of each placement; its tasks are spread evenly over the class's servers.
    placement_tasks : (p,) float array
        Tasks on the whole class; in an answer with whole tasks, pieces.
    level : (t,) float array
        Weighted share at which the tenant was frozen; NaN where it was never part of a round
        (policies without levels, tenants without anything to run).
    limited_by : tuple of n str
        What stopped each workload: ``task_limit``, ``resource:<name>``, ``no_eligible_server``,
        ``resource_absent``, ``out_of_range`` or ``level``.
    objective : float
        Least weighted share of the first-stage tenants that a resource stopped; NaN without any.
    bound : float
        Proven upper bound on the objective.
    gap : float
        Relative distance of objective and bound.
    certificate : Certificate or None
        Proof of optimality; None for policies that have none.
    moved : float or None
        Tasks that run on another server than before, where the caller passed ``running``.
    history : History or None
        State of a long-term policy after this step; None for memoryless policies.
    schedule : Schedule or None
        Slots of a time-sharing policy, of which ``tasks`` are the averages over the period.
    floors : Floors or None
        How guarantees were met, with the answers that prove it; None without guarantees.
    statistics : dict
        How it was solved (iterations, rounds, solver); not part of the answer.
    paths : tuple of SharePath
        In a pool with groups, the path of each round as the solver walked it; not part of the answer.

    Examples
    --------
    The two tenants of the DRF paper, figure 3:

    >>> from policies import Problem, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> allocation = solve(problem, "drf")
    >>> allocation.tasks.round(6).tolist()
    [3.0, 2.0]
    >>> allocation.limited_by
    ('resource:cpu', 'resource:cpu')
    """

    problem: Problem
    choice: Choice
    tasks: FloatArray
    classes: ServerClasses
    placement_piece: IntArray
    placement_class: IntArray
    placement_tasks: FloatArray
    level: FloatArray
    limited_by: tuple[str, ...]
    objective: float = float("nan")
    bound: float = float("nan")
    gap: float = float("nan")
    certificate: Certificate | None = None
    moved: int | None = None
    history: History | None = None
    schedule: Schedule | None = None
    floors: Floors | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    paths: tuple[SharePath, ...] = ()

    @classmethod
    def from_parts(
        cls,
        problem: Problem,
        *,
        choice: Choice,
        tasks: FloatArray,
        placement_piece: IntArray,
        placement_row: IntArray,
        placement_each: FloatArray,
        level: FloatArray,
        limited_by: tuple[str, ...],
        objective: float = float("nan"),
        bound: float = float("nan"),
        gap: float = float("nan"),
        certificate: Certificate | None = None,
        history: History | None = None,
        schedule: Schedule | None = None,
    ) -> Allocation:
        """Rebuild a stored allocation whose placements name server rows, with tasks on each server.

        Where the policy decides on classes, every server of a class is given what the one with most
        has: placements that were not spread evenly then add up to too many tasks.
        """
        classes = classes_of_decision(problem, choice)
        of_class = classes.class_of_row[np.asarray(placement_row, dtype=np.int64)]
        pair = np.asarray(placement_piece, dtype=np.int64) * (classes.count + 1) + of_class
        pairs, inverse = np.unique(pair, return_inverse=True)
        of_pair = pairs % (classes.count + 1)
        each = np.zeros(len(pairs))
        np.maximum.at(each, inverse, np.asarray(placement_each, dtype=np.float64))
        return cls(
            problem=problem,
            choice=choice,
            tasks=np.asarray(tasks, dtype=np.float64),
            classes=classes,
            placement_piece=pairs // (classes.count + 1),
            placement_class=of_pair,
            placement_tasks=each * classes.servers[of_pair],
            level=np.asarray(level, dtype=np.float64),
            limited_by=tuple(limited_by),
            objective=objective,
            bound=bound,
            gap=gap,
            certificate=certificate,
            history=history,
            schedule=schedule,
        )

    @property
    def policy(self) -> Policy:
        """The policy that answered."""
        return self.choice.policy

    @property
    def mode(self) -> str:
        """The mode in which it did."""
        return self.choice.mode

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that were given."""
        return self.choice.options

    @property
    def whole(self) -> bool:
        """True if ``tasks`` are whole numbers."""
        return self.choice.whole_tasks

    @cached_property
    def placement_workload(self) -> IntArray:
        """Workload (p,) of each placement."""
        return self.problem.pieces.workload[self.placement_piece]

    @property
    def placement_demand(self) -> FloatArray:
        """Demand (p, m) of one task or, in an answer with whole tasks, of one piece."""
        table = self.problem.pieces.demand if self.whole else self.problem.demand
        return table[self.placement_piece]

    @cached_property
    def dominant_share(self) -> FloatArray:
        """Global dominant share of each workload (n,), its tasks × ``s[j]``."""
        return self.tasks * self.problem.dominant_share_per_task

    @property
    def dominant_resource(self) -> IntArray:
        """Index (n,) of each workload's dominant resource."""
        return self.problem.dominant_resource

    @cached_property
    def tenant_share(self) -> FloatArray:
        """Share ``G_i`` (t,), the sum over the tenant's workloads of their dominant shares."""
        return grouped_sum(self.dominant_share, self.problem.workload_tenant, self.problem.t)

    @cached_property
    def weighted_share(self) -> FloatArray:
        """Weighted share ``G_i / w_i`` of each tenant (t,).

        NaN for tenants of the second stage (policies §1.3).
        """
        share = self.tenant_share / self.problem.effective_weight
        return np.where(self.problem.second_stage, np.nan, share)

    @cached_property
    def used(self) -> FloatArray:
        """Resources (m,) in use over the whole pool, in their own units."""
        total: FloatArray = self.tasks @ self.problem.demand
        return total

    @cached_property
    def used_by_group(self) -> FloatArray:
        """Resources (g, m) that the tenants below each group use, in their own units."""
        problem = self.problem
        used = np.zeros((problem.t, problem.m))
        np.add.at(used, problem.workload_tenant, self.tasks[:, None] * problem.demand)
        return group_sums(problem.tenant_group, problem.group_parent, used)

    @cached_property
    def used_by_class(self) -> FloatArray:
        """Resources (K, m) in use on each server class, in their own units."""
        used = np.zeros((self.classes.count, self.problem.m))
        amount = self.placement_tasks[:, None] * self.placement_demand
        np.add.at(used, self.placement_class, amount)
        return used

    def left(self, whole: WholeServers) -> FloatArray:
        """Return the room (K, m) left on one server of each class beside whole tasks.

        It is in whole numbers.
        """
        left = whole.capacity[self.classes.first_row].copy()
        # Placements are whole per server: what is not is the rounding of the division.
        each = np.round(self.placement_tasks / self.classes.servers[self.placement_class])
        for r in range(left.shape[1]):
            used = each * whole.demand[self.placement_piece, r]
            left[:, r] -= grouped_sum(used, self.placement_class, self.classes.count)
        return left

    def placements_by_row(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the placements by server row as three arrays.

        They are the kind of pieces, the row, and the tasks on the whole row. A class's tasks are
        split evenly over its servers, so each of its rows gets them in proportion to its
        ``server_count``.
        """
        if self.classes.offset is not None:
            on = self.classes.first_row[self.placement_class]
            pair = self.placement_piece * self.problem.k + on
            pairs, inverse = np.unique(pair, return_inverse=True)
            summed = grouped_sum(self.placement_tasks, inverse, len(pairs))
            return pairs // self.problem.k, pairs % self.problem.k, summed
        which, row = _members(self.classes.class_of_row, self.placement_class)
        servers = self.classes.servers[self.placement_class]
        tasks = (self.placement_tasks / servers)[which] * self.problem.server_count[row]
        if self.whole:
            # What is not whole is the rounding of the division.
            tasks = np.round(tasks)
        return self.placement_piece[which], row, tasks

    def placements_by_range(self) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]:
        """Return the placements by range of servers as five arrays.

        They are the kind of pieces, the row, the offset in the row, the number of servers, and the
        tasks on each server. The offset counts the servers of a row as ``Problem.first_server``
        does. All servers of a range run the same number of these pieces. A range stays within its
        row. Where a class consists of whole rows, a range is all servers of one kind.
        """
        of, servers = self.placement_class, self.classes.servers[self.placement_class]
        each = self.placement_tasks / servers
        if self.classes.offset is not None:
            row, offset = self.classes.first_row[of], self.classes.offset[of]
            return self.placement_piece, row, offset, servers, each
        first, size = self._kinds_or_rows
        which, kind = _members(self.classes.class_of_row[first], of)
        return self.placement_piece[which], first[kind], 0 * kind, size[kind], each[which]

    @property
    def _kinds_or_rows(self) -> tuple[IntArray, IntArray]:
        """First row and number of servers of each part of a whole class.

        A part is a server kind if the policy sees classes, and a row if not.
        """
        count = self.problem.server_count
        if self.policy.servers[self.mode] is not Servers.CLASSES:
            return np.arange(self.problem.k), count
        _, first, kind = np.unique(self.problem.server_kind, return_index=True, return_inverse=True)
        return first, grouped_sum(count.astype(np.float64), kind, len(first)).astype(np.int64)


def _members(class_of: IntArray, classes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of some classes as two arrays of position in ``classes`` and row.

    The rows of a class follow each other, in order.
    """
    # Stable, so that the rows of one class keep their order.
    order = np.argsort(class_of, kind="stable")
    grouped = class_of[order]
    start = np.searchsorted(grouped, classes)
    length = np.searchsorted(grouped, classes, side="right") - start
    which = np.repeat(np.arange(len(length)), length)
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return which, order[start[which] + within]


def current_placements_of(allocation: Allocation) -> CurrentPlacements:
    """Return the placements of an answer as what runs once it is in force.

    Parameters
    ----------
    allocation : Allocation
        An answer with whole tasks.

    Returns
    -------
    CurrentPlacements
        What the next decision takes as ``running``.

    Examples
    --------
    >>> from policies import Problem, current_placements_of, solve
    >>> problem = Problem.create(resources=["cpu"], capacity=[[4]], tenants=["A"], demand=[[1]])
    >>> current_placements_of(solve(problem, "drfh", mode="indivisible")).tasks.tolist()
    [4.0]
    """
    workload, row, offset, servers, tasks = allocation.placements_by_range()
    return CurrentPlacements(
        workload=workload, row=row, offset=offset, servers=servers, tasks=tasks
    )
