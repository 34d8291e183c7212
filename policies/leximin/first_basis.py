"""A basis near the optimum for the first program of the simplex method.

Without a first basis the simplex method takes more steps than there are tenants. The interior point
solves a relaxation in few. Limits that couple workloads or classes are dropped, and capacities are
enlarged by `LARGER`, so that an interior exists. Placements of its answer are basic. The basis changes
the number of steps, not the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.leximin.crossover import few_placements
from policies.leximin.interior_point.method import NoConvergenceError, maximise_level
from policies.leximin.level_program import level_program
from policies.proofs.normal_form import LeximinProblem

# Fraction by which capacities are enlarged.
LARGER = 1e-3
# A row is full if less than this fraction of it is free.
FULL = 1e-9


@dataclass(frozen=True, eq=False)
class FirstBasis:
    """The basic variables of a program.

    Attributes:
        rises: whether the level is basic. Otherwise it is at its bound.
        placed: (n, K) variables of workloads on classes.
        spare: (K, m) slacks of capacities; below_limit: (n,) of the workloads' own limits.
        within: (l, m) slacks of limits.
    """

    rises: bool
    placed: BoolArray
    spare: BoolArray
    below_limit: BoolArray
    within: BoolArray


def first_basis(
    problem: LeximinProblem,
    rise: FloatArray,
    keep: FloatArray,
    deadline: float | None,
    *,
    most: float = np.inf,
) -> FirstBasis | None:
    """Return a basis for the program of a round, or None if the interior point finds none.

    Args:
        rise, keep: (t,) the program maximises ``tau`` with shares ``keep + tau * rise``.
        most: bound of ``tau``.

    Raises:
        SolveTimeoutError: the deadline passed.
    """
    larger = replace(
        problem, capacity_share=problem.capacity_share * (1 + LARGER), groups=None, limits=()
    )
    program, workloads = level_program(larger, rise, keep)
    try:
        solution = maximise_level(program, deadline)
    except NoConvergenceError:
        return None
    bounds = problem.share_limits
    within_limits = bounds.highest_level(rise, keep, solution.tau, FULL)
    tau = min(within_limits, most)
    reached = keep + solution.tau * rise
    part = np.divide(keep + tau * rise, reached, out=np.ones_like(reached), where=reached > 0)
    x = np.zeros((problem.n, problem.K))
    x[workloads] = solution.x
    x = few_placements(larger, x * part[problem.owner, None], deadline)
    within = np.ones((len(problem.limits), problem.m), dtype=np.bool_)
    rises = tau < most * (1 - FULL)
    if rises and within_limits < solution.tau:
        full = (bounds.sums(rise) > 0) & (bounds.used(keep + tau * rise) >= 1 - FULL)
        within[bounds.limit[full], bounds.resource[full]] = False
    return FirstBasis(
        rises=rises,
        placed=x > 0,
        spare=larger.used_parts(x) < 1 - FULL,
        below_limit=x.sum(axis=1) < problem.limit * (1 - FULL),
        within=within,
    )
