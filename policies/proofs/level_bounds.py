"""Bounds on the levels of a leximin answer, proven by the prices of its rounds.

In the round in which a tenant was frozen, the round's prices ``p`` prove its level: with every
tenant frozen before at its share, and every tenant still rising at ``level * weight``, no feasible
allocation reaches more than ``bound`` (policies §3; ``cost_curve`` for several workloads per
tenant).

Freezing needs more than a bound on the least level: a tenant is stuck only when the prices bound
*its own* lift. Tenants that are interchangeable (workloads over the same resources, eligible on the
same classes, no limits among several workloads) can hand any gain on to each other, so in a leximin
answer they share one level, and the lift of the whole group is at most
``gap / sum over the group of w_i pi_i``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.certificate import Round
from policies.model.tolerance import (
    BUDGET_ROUNDING,
    HIDDEN_LIFT,
    SMALLEST_LEVEL_SCALE,
    SOLVER_NOISE,
    SOLVER_TOLERANCE,
)
from policies.proofs.cost_curve import AT_THE_END, CostCurve
from policies.proofs.normal_form import LeximinProblem

# The likely cause of a failure to prove an answer.
TOO_FAR_APART = "demands, task limits or weights of the problem are too many powers of ten apart"


@dataclass(frozen=True, eq=False)
class RoundProof:
    """Results of one round's prices.

    Attributes:
        bound: upper bound on the round's level.
        lift: (t,) bound on the lift of a tenant's own share, as a part of what its tolerance is
            relative to; inf if it costs nothing, NaN for tenants that do not rise or need no more.
        curve: the tenants' costs at these prices.
    """

    bound: float
    lift: FloatArray
    curve: CostCurve

    @property
    def stuck(self) -> BoolArray:
        """Rising tenants (t,) whose own lift is proven to be within the tolerance."""
        return self.lift <= SOLVER_TOLERANCE

    @property
    def stuck_but_for_rounding(self) -> BoolArray:
        """Rising tenants (t,) with the least lift, and all whose lift is no more than rounding."""
        least = float(np.fmin.reduce(self.lift, initial=np.inf))
        return self.lift <= max(HIDDEN_LIFT, least)


def prove_round(
    problem: LeximinProblem,
    prices: FloatArray,
    *,
    level: float,
    share: FloatArray,
    rising: BoolArray,
) -> RoundProof:
    """Work out what prices prove about a round, by the solver's own tolerance.

    Parameters
    ----------
    problem : LeximinProblem
        The normalised problem.
    prices : (K + l, m) float array
        Prices of shares of the pool on the classes, and of the limits' amounts, at least 0; any will do,
        good ones prove more.
    level : float
        Weighted level reached by all rising tenants that are not satisfied.
    share : (t,) float array
        Shares of the tenants frozen earlier; 0 for the rest.
    rising : (t,) bool array
        Tenants of this round.

    Returns
    -------
    RoundProof
        The bound on the level, and which tenants are stuck at it.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Problem, normalise, one_class, prove_round
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> leximin = normalise(problem, one_class(problem)).leximin
    >>> proof = prove_round(leximin, np.array([[1.0, 0.0]]), level=2 / 3, share=np.zeros(2),
    ...     rising=np.ones(2, dtype=np.bool_))
    >>> round(proof.bound, 6), proof.stuck.tolist()
    (0.666667, [True, True])
    """
    curve = curve_at(problem, prices)
    budget = budget_left(problem, prices, curve, np.where(rising, 0.0, share))
    saturated = float((problem.cap / problem.weight)[rising].max(initial=0.0))
    bound = min(curve.highest_level(problem.weight, rising, budget), saturated)
    reached = np.where(rising, np.minimum(problem.cap, level * problem.weight), 0.0)
    gap = budget - float(curve.cost_of(reached).sum())
    # Next to all its tasks a tenant wants nothing: a lift of it would have no price.
    wanting = rising & (problem.cap > reached * (1 + AT_THE_END))
    pays = np.where(wanting, curve.marginal(reached), 0.0)
    group = problem.interchangeable
    together = grouped_sum(pays * problem.weight, group, problem.t)[group]
    together *= level_scale(problem, rising, level)
    # The gap is a difference of sums, whose rounding is relative to what was added up.
    gap = max(gap, 0.0) + SOLVER_NOISE * problem.worth(prices)
    return RoundProof(bound, lift_left(gap, together, wanting), curve)


def lift_left(gap: float, cost: FloatArray, wanting: BoolArray) -> FloatArray:
    """Return the part (t,) of a lift that unsold resources pay for, NaN for tenants that need none.

    Args:
        gap: the worth of what is not sold; cost: (t,) of a whole lift; wanting: (t,).
    """
    with np.errstate(over="ignore"):  # next to no cost is as good as none
        lift = np.divide(gap, cost, out=np.full(len(cost), np.inf), where=cost > 0)
    return np.where(wanting, lift, np.nan)


def prove_rounds(
    problem: LeximinProblem, rounds: Sequence[Round], frozen_in: IntArray, share: FloatArray
) -> Iterator[tuple[BoolArray, RoundProof]]:
    """Of each round its rising tenants (t,), and what its prices prove about its level.

    Args:
        problem: the normalised problem; rounds: in order; frozen_in: (t,) the round of each tenant.
        share: (t,) of each tenant.
    """
    for number, item in enumerate(rounds):
        rising = (problem.stage == item.stage) & (frozen_in >= number)
        before = np.where(frozen_in < number, share, 0.0)
        yield (
            rising,
            prove_round(problem, item.prices, level=item.level, share=before, rising=rising),
        )


def curve_at(problem: LeximinProblem, prices: FloatArray) -> CostCurve:
    """Return the costs of shares at prices (K + l, m)."""
    return CostCurve.of(problem.owner, problem.limit, problem.unit_costs(prices), problem.t)


def budget_left(
    problem: LeximinProblem, prices: FloatArray, curve: CostCurve, share: FloatArray
) -> float:
    """Return the worth of servers and limits beyond the cost of ``share`` (t,).

    It includes what rounding may hide. A bound holds for any budget at least as large as the true
    one. Without the allowance prices of very different sizes could cancel to nothing, and prove a
    false bound.
    """
    return worth_left(problem, prices, curve, share) + budget_rounding(problem, prices)


def budget_rounding(problem: LeximinProblem, prices: FloatArray) -> float:
    """Return what rounding may hide when costs are subtracted from the worth of servers and limits."""
    # Amounts of limits may be as small as 0; rounding is relative to shares of the pool.
    return BUDGET_ROUNDING * (problem.worth(prices) + float(prices[problem.K :].sum()))


def worth_left(
    problem: LeximinProblem, prices: FloatArray, curve: CostCurve, share: FloatArray
) -> float:
    """Return the worth of servers and limits beyond the cost of ``share`` (t,), at least 0."""
    return max(problem.worth(prices) - float(curve.cost_of(share).sum()), 0.0)


def level_scale(problem: LeximinProblem, rising: BoolArray, level: float) -> float:
    """Return the size to which a level's tolerance is relative.

    It is the level itself, unless that is next to nothing.
    """
    weights = float(problem.weight[rising].sum())
    return max(level, SMALLEST_LEVEL_SCALE / weights if weights > 0 else 0.0)


def normalised_prices(
    problem: LeximinProblem, prices: FloatArray, rising: Sequence[bool] | BoolArray
) -> FloatArray:
    """Prices scaled so that the rising tenants' ``w_i pi_i`` add up to 1."""
    cheapest = problem.unit_costs(prices)
    pi = np.full(problem.t, np.inf)
    np.minimum.at(pi, problem.owner, cheapest)
    total = float((problem.weight * pi)[np.asarray(rising)].sum())
    return prices / total if total > 0 and np.isfinite(total) else prices
