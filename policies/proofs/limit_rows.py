"""Limits of a normalised problem, as constraints over workloads and classes or as caps of shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import PaidShares
from policies.model.limits import CountedWorkloads
from policies.model.problem import Problem
from policies.model.problem_fields import Limit
from policies.model.server_classes import ServerClasses
from policies.model.share_definition import ShareUnits
from policies.model.tolerance import BUDGET_ROUNDING


@dataclass(frozen=True, eq=False)
class LimitRow:
    """A limit of the normalised problem.

    Attributes:
        workloads: (w,) leximin workloads that the limit counts.
        classes: (K,) whether it counts them on a server class.
        amount: (m,) greatest share of the pool; inf for resources without a limit.
        is_cap: whether it counts one workload alone, wherever that runs: a cap of its ``limit``.
    """

    workloads: IntArray
    classes: BoolArray
    amount: FloatArray
    is_cap: bool


@dataclass(frozen=True, eq=False)
class ShareLimits:
    """Amounts of limits that bound the shares of tenants, wherever their workloads run.

    Attributes:
        limit, resource: (q,) of each amount; amount: (q,) greatest share of the pool.
        row: (e,) amount of each entry; tenant: (e,) a tenant that it counts.
        demand: (e,) of the tenant's only workload.
    """

    limit: IntArray
    resource: IntArray
    amount: FloatArray
    row: IntArray
    tenant: IntArray
    demand: FloatArray

    def sums(self, share: FloatArray) -> FloatArray:
        """Return what shares (t,) use of each amount (q,)."""
        return grouped_sum(self.demand * share[self.tenant], self.row, len(self.amount))

    def used(self, share: FloatArray) -> FloatArray:
        """Return the part of each amount (q,) that shares (t,) use, inf for any use of nothing."""
        used = self.sums(share)
        # Any use of an amount of 0 is infinitely much of it.
        part = np.where(used > 0, np.inf, 0.0)
        np.divide(used, self.amount, out=part, where=self.amount > 0)
        return part

    def paid(self, rising: BoolArray, share: FloatArray) -> tuple[PaidShares, IntArray, FloatArray]:
        """Return the use of amounts by rising tenants (t,), as costs of their shares.

        Args:
            share: (t,) of the other tenants.

        Returns:
            The parts (e,), where those of each amount begin (q + 1,), and what is left for them (q,).
        """
        size = np.where(self.amount > 0, self.amount, 1.0)
        left = np.maximum(self.amount - self.sums(np.where(rising, 0.0, share)), 0.0)
        mine = rising[self.tenant]
        row = self.row[mine]
        nothing = np.zeros(len(row))
        parts = PaidShares(
            self.tenant[mine], self.demand[mine] / size[row], nothing, nothing + np.inf
        )
        return parts, np.searchsorted(row, np.arange(len(size) + 1)), left / size

    def rounding(self, number: int) -> float:
        """Return what a bound allows for the rounding of the costs of an amount, as in ``paid``."""
        amount = float(self.amount[number])
        return BUDGET_ROUNDING * (amount + 1) / (amount if amount > 0 else 1.0)

    def highest_level(
        self, rise: FloatArray, keep: FloatArray, level: float, exceeded: float
    ) -> float:
        """Return the highest level, at most the given one, of shares ``keep + level * rise``.

        Args:
            exceeded: part by which amounts may be exceeded.
        """
        rises = self.sums(rise)
        left = np.maximum(self.amount * (1 + exceeded) - self.sums(keep), 0.0)
        levels = np.divide(left, rises, out=np.full(len(rises), level), where=rises > 0)
        return float(levels.min(initial=level))


def share_limits(
    limits: Sequence[LimitRow], demand: FloatArray, allowed: BoolArray, owner: IntArray
) -> ShareLimits:
    """Return the amounts that count the only workloads of tenants on all servers that these may use.

    Limits that are caps are left out.

    Args:
        demand: (n, m), allowed: (n, K) and owner: (n,) of the normalised problem.
    """
    only = np.bincount(owner)[owner] == 1
    found: list[tuple[int, int, float]] = []
    entries: list[IntArray] = []
    for number, limit in enumerate(limits):
        mine = limit.workloads
        if limit.is_cap or not only[mine].all():
            continue
        if not (limit.classes | ~allowed[mine]).all():
            continue
        for resource in np.flatnonzero(np.isfinite(limit.amount)).tolist():
            found.append((number, resource, float(limit.amount[resource])))
            entries.append(mine)
    row = np.repeat(np.arange(len(found)), [len(mine) for mine in entries])
    workload = np.concatenate([np.zeros(0, dtype=np.int64), *entries])
    resource_of = np.array([resource for _, resource, _ in found], dtype=np.int64)
    return ShareLimits(
        limit=np.array([number for number, _, _ in found], dtype=np.int64),
        resource=resource_of,
        amount=np.array([amount for _, _, amount in found], dtype=np.float64),
        row=row.astype(np.int64),
        tenant=owner[workload],
        demand=demand[workload, resource_of[row]],
    )


def alone_in_limits(
    problem: Problem, classes: ServerClasses, workloads: IntArray
) -> list[int | None]:
    """Return the workload that alone counts in each limit wherever it may run, None for several.

    Args:
        workloads: (q,) runnable workloads of the problem.
    """
    if not problem.limits:
        return []
    runs = np.zeros(problem.n, dtype=np.bool_)
    runs[workloads] = True
    allowed = classes.allowed
    return [_alone_in(item, classes, allowed, runs) for item in problem.limited]


def caps_of_limits(
    problem: Problem, units: ShareUnits, workloads: IntArray, alone_in: Sequence[int | None]
) -> FloatArray:
    """Return the greatest share (q,) of each workload by the limits in which it counts alone.

    Args:
        workloads: (q,) runnable workloads; alone_in: the workload that alone counts in each limit.
    """
    caps = np.full(len(workloads), np.inf)
    position = np.full(problem.n, -1, dtype=np.int64)
    position[workloads] = np.arange(len(workloads))
    for alone, share in zip(alone_in, problem.limit_share, strict=True):
        if alone is not None:
            demand = units.demand[alone]
            cap = float((share[demand > 0] / demand[demand > 0]).min())
            # A cap of 0 is left to the rounds, in which a share of 0 has its reason.
            if cap > 0:
                caps[position[alone]] = min(caps[position[alone]], cap)
    return caps


def _alone_in(
    item: CountedWorkloads[Limit], classes: ServerClasses, allowed: BoolArray, runs: BoolArray
) -> int | None:
    """Return the workload that alone counts in a limit wherever it may run, or None.

    Args:
        runs: (n,) whether each workload can run.
    """
    counted = item.workloads[runs[item.workloads]]
    if len(counted) != 1:
        return None
    workload = int(counted[0])
    everywhere = bool((item.rows[classes.first_row] | ~allowed[workload]).all())
    return workload if everywhere else None


def limit_rows(
    problem: Problem,
    classes: ServerClasses,
    workloads: IntArray,
    merged: IntArray,
    alone_in: Sequence[int | None],
) -> tuple[LimitRow, ...]:
    """Return the limits of the normalised problem.

    Args:
        workloads: (q,) runnable workloads of the problem.
        merged: (q,) index of the leximin workload that each of them is part of.
        alone_in: the workload that alone counts in each limit.
    """
    merged_of = np.full(problem.n, -1, dtype=np.int64)
    merged_of[workloads] = merged
    shares = problem.limit_share
    bounds_all = np.logical_and.reduce(shares > 0, axis=1).tolist()
    rows = []
    for number, (item, alone) in enumerate(zip(problem.limited, alone_in, strict=True)):
        counted = merged_of[item.workloads]
        counted = counted[counted >= 0]
        # Ascending already if no workloads were merged and each tenant's are together.
        if len(counted) > 1 and not (counted[1:] > counted[:-1]).all():
            counted = np.unique(counted)
        is_cap = alone is not None and bounds_all[number]
        rows.append(LimitRow(counted, item.rows[classes.first_row], shares[number], is_cap))
    return tuple(rows)


def number_of_sets(count: int, sets: Sequence[IntArray]) -> IntArray:
    """Number the combinations of sets, and return (count,) the number of each element's combination.

    The number is 0 for elements in no set.
    """
    number = np.zeros(count, dtype=np.int64)
    known: dict[tuple[int, int], int] = {}
    for position, members in enumerate(sets):
        for element in members.tolist():
            key = int(number[element]), position
            number[element] = known.setdefault(key, len(known) + 1)
    return number
