"""The normalised problem that leximin rounds work on, and the answer of one round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum

# Rounding may overfill a class by this much, relative.
OVERFILL = 5e-13


@dataclass(frozen=True, eq=False, kw_only=True)
class LeximinProblem:
    """Shares on server classes, with everything that cannot run already left out.

    Attributes:
        demand: (n, m) normalised demands ``d``.
        allowed: (n, K) on which classes each workload may run; every row has one.
        limit: (n,) greatest dominant share of each workload (tasks × ``s``), > 0; inf: none.
        owner: (n,) tenant of each workload, ascending; every tenant has one, and each
            tenant's workloads are in order of preference.
        weight: (t,) > 0 within its stage.
        stage: (t,) 0 is served first, 1 from what is left.
        capacity_share: (K, m) of each class, share of the pool.
    """

    demand: FloatArray
    allowed: BoolArray
    limit: FloatArray
    owner: IntArray
    weight: FloatArray
    stage: IntArray
    capacity_share: FloatArray

    @property
    def n(self) -> int:
        """Number of workloads."""
        return len(self.demand)

    @property
    def t(self) -> int:
        """Number of tenants."""
        return len(self.weight)

    @property
    def m(self) -> int:
        """Number of resources."""
        return int(self.capacity_share.shape[1])

    @property
    def K(self) -> int:  # noqa: N802 - the number of classes, as in the performance notes
        """Number of server classes."""
        return int(self.capacity_share.shape[0])

    @cached_property
    def first(self) -> IntArray:
        """(t + 1,) workloads of tenant ``i`` are ``first[i]`` to ``first[i + 1]``."""
        return np.searchsorted(self.owner, np.arange(self.t + 1)).astype(np.int64)

    @cached_property
    def cap(self) -> FloatArray:
        """(t,) share at which all of the tenant's tasks are placed; inf: never."""
        return grouped_sum(self.limit, self.owner, self.t)

    @property
    def progressive_filling(self) -> bool:
        """One pool and one workload per tenant: a resource that fills gives the exact prices."""
        return self.K == 1 and self.n == self.t

    def used_parts(self, x: FloatArray) -> FloatArray:
        """(K, m) used parts of each class's resources in ``x`` (n, K); 0 of what there is none of."""
        size = np.where(self.capacity_share > 0, self.capacity_share, np.inf)
        used: FloatArray = (x.T @ self.demand) / size
        return used

    def tenant_sums(self, x: FloatArray) -> FloatArray:
        """(t,) share of each tenant in ``x`` (n, K)."""
        return grouped_sum(x.sum(axis=1), self.owner, self.t)

    @cached_property
    def needs_limit_row(self) -> BoolArray:
        """(n,) limited workloads of tenants with several: one alone is limited by its share."""
        several = np.diff(self.first)[self.owner] > 1
        limited: BoolArray = several & np.isfinite(self.limit)
        return limited

    @cached_property
    def interchangeable(self) -> IntArray:
        """(t,) group of tenants that can hand any gain on to each other (``certificates``).

        Same set of (resources demanded, classes allowed) over their workloads; a tenant
        with a limit among several workloads is a group of its own.
        """
        if self.n == self.t and (self.demand > 0).all() and self.allowed.all():
            return np.zeros(self.t, dtype=np.int64)
        kind = np.concatenate([self.demand > 0, self.allowed], axis=1)
        _, kind_of = np.unique(np.packbits(kind, axis=1), axis=0, return_inverse=True)
        if self.n == self.t:
            return kind_of.reshape(-1).astype(np.int64)
        alone = np.zeros(self.t, dtype=np.bool_)
        alone[self.owner[self.needs_limit_row]] = True
        index: dict[object, int] = {}
        group = np.empty(self.t, dtype=np.int64)
        for i in range(self.t):
            kinds = frozenset(kind_of[self.first[i] : self.first[i + 1]].tolist())
            group[i] = index.setdefault((i,) if alone[i] else kinds, len(index))
        return group


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelProgram:
    """One round as a linear program: rows that keep a share and rows that rise together.

    Attributes:
        demand: (n, m), allowed: (n, K), capacity: (K, m) as in :class:`LeximinProblem`.
        row: (n,) row of each workload, ascending; first: (rows + 1,) where each row begins.
        keep, rise: (rows,) the row's share is ``keep + tau * rise``; their sum is > 0.
        limit: (n,) a workload's own limit where its row alone does not give it; else inf.
    """

    demand: FloatArray
    allowed: BoolArray
    capacity: FloatArray
    row: IntArray
    first: IntArray
    keep: FloatArray
    rise: FloatArray
    limit: FloatArray

    @property
    def n(self) -> int:
        """Number of workloads."""
        return len(self.demand)

    @property
    def m(self) -> int:
        """Number of resources."""
        return int(self.capacity.shape[1])

    @property
    def K(self) -> int:  # noqa: N802 - see LeximinProblem.K
        """Number of server classes."""
        return int(self.capacity.shape[0])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.keep)


def is_complete(problem: LeximinProblem, share: FloatArray) -> BoolArray:
    """(t,) does ``share`` (t,) place all of a tenant's tasks?

    Its workloads then have no choice, and their shares rise and stay each by itself; their
    limits would bound the level although capacity does not.
    """
    complete: BoolArray = share >= problem.cap * (1 - 1e-12)
    return complete


def level_program(
    problem: LeximinProblem, rise: FloatArray, keep: FloatArray
) -> tuple[LevelProgram, IntArray]:
    """The program in which tenants have ``keep + tau * rise`` (t,); and its workloads.

    Tenants that get nothing are left out. A tenant that gets all its tasks has one row per
    workload, because its workloads have no choice.
    """
    share = keep + rise
    j = np.flatnonzero(share[problem.owner] > 0)
    owner = problem.owner[j]
    complete = is_complete(problem, share)[owner]
    begins = np.r_[True, owner[1:] != owner[:-1]] | complete
    row = np.cumsum(begins) - 1
    of_row = owner[begins]
    part = np.where(complete, problem.limit[j] / np.where(complete, problem.cap[owner], 1.0), 1.0)[
        begins
    ]
    alone = np.bincount(row)[row] == 1
    program = LevelProgram(
        demand=problem.demand[j],
        allowed=problem.allowed[j],
        capacity=problem.capacity_share,
        row=row.astype(np.int64),
        first=np.r_[np.flatnonzero(begins), len(j)].astype(np.int64),
        keep=keep[of_row] * part,
        rise=rise[of_row] * part,
        limit=np.where(alone, np.inf, problem.limit[j]),
    )
    return program, j


@dataclass(frozen=True, eq=False)
class LevelSolution:
    """One linear program's answer.

    Attributes:
        x: (n, K) dominant share of each workload on each class.
        prices: (K, m) duals of the capacity rows, per share of the pool, >= 0.
        tau: the level reached.
        steps: linear systems (interior point) or programs (simplex) solved.
    """

    x: FloatArray
    prices: FloatArray
    tau: float
    steps: int
