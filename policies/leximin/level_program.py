"""One round of the leximin as a linear program, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.proofs.normal_form import LeximinProblem


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelProgram:
    """Linear program of one round, with rows that keep a share and rows that rise together.

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


def is_complete(problem: LeximinProblem, rise: FloatArray, keep: FloatArray) -> BoolArray:
    """Return whether a tenant's (t,) tasks are all placed at the level 1, and in proportion below it.

    Its workloads then have no choice, and their shares rise and stay each by itself; their
    limits would bound the level although capacity does not. A tenant that rises from a share that it
    has already may have that by any of its workloads.
    """
    complete: BoolArray = keep + rise >= problem.cap * (1 - 1e-12)
    proportional: BoolArray = complete & ((keep == 0) | (rise == 0))
    return proportional


def level_program(
    problem: LeximinProblem, rise: FloatArray, keep: FloatArray
) -> tuple[LevelProgram, IntArray]:
    """Build the linear program in which tenants have ``keep + tau * rise``.

    Tenants that get nothing are left out. A tenant that gets all its tasks has one row per workload,
    because its workloads have no choice.

    Parameters
    ----------
    problem : LeximinProblem
        The normalised problem.
    rise : (t,) float array
        Share that each tenant gains per unit of the level ``tau``.
    keep : (t,) float array
        Share of each tenant at level 0.

    Returns
    -------
    program : LevelProgram
        The round as a linear program.
    workloads : (n',) int array
        The workloads that take part.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Problem, level_program, normalise, one_class
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> leximin = normalise(problem, one_class(problem)).leximin
    >>> program, workloads = level_program(leximin, rise=np.ones(2), keep=np.zeros(2))
    >>> program.rows, workloads.tolist()
    (2, [0, 1])
    """
    share = keep + rise
    j = np.flatnonzero(share[problem.owner] > 0)
    owner = problem.owner[j]
    complete = is_complete(problem, rise, keep)[owner]
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
