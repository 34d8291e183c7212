"""Bounds by prices on the path on which shares rise in a tree of groups.

Any feasible shares cost no more than the servers are worth (``cost_curve``), and the path is monotone in
every share: the position at which the costs of all shares reach that worth is a bound on all feasible
ones. A tenant is stuck where its own lift, and that of those with whom it can trade, costs more than
what is left.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.model.allocation import PaidShares
from policies.model.tolerance import (
    BUDGET_NOISE,
    SMALLEST_LEVEL_SCALE,
    SOLVER_NOISE,
    SOLVER_TOLERANCE,
)
from policies.proofs.cost_curve import CostCurve
from policies.proofs.group_path import GroupPath
from policies.proofs.level_bounds import (
    RoundProof,
    budget_left,
    curve_at,
    lift_left,
    worth_left,
)
from policies.proofs.normal_form import LeximinProblem

# Prices of a program are right to this part of the largest.
PRICE_NOISE = 1e-12


def path_scale(position: float) -> float:
    """Return the size that tolerances of positions are relative to."""
    return max(position, SMALLEST_LEVEL_SCALE)


def lifts(share: FloatArray, part: FloatArray, position: float) -> FloatArray:
    """Return the amount (t,) to which the tolerance of a tenant's lift is relative.

    It is the tenant's share, or its part of all that is handed out if that is more.

    Args:
        share: (t,) at the position; part: (t,) of the pool that each tenant is entitled to.
    """
    return np.maximum(share, part * path_scale(position))


def path_bound(
    problem: LeximinProblem,
    path: GroupPath,
    prices: FloatArray,
    below: float = np.inf,
    reached: float = -np.inf,
    near: float | None = None,
) -> float:
    """Return the greatest position that prices (K + l, m) leave open, at most ``below``.

    Args:
        reached: a feasible position; infinity asks how far shares rise at no price.
        near: a position to which the bound may be near.
    """
    curve = curve_at(problem, prices)
    return _bound(problem, path, prices, curve, below, reached, near)


def path_end(problem: LeximinProblem, path: GroupPath, prices: FloatArray, near: float) -> float:
    """Return the position at which the costs of all shares are the worth at prices (K + l, m).

    Unlike a bound, it allows for no rounding, which is much of the amount of a small limit.

    Args:
        near: a position to which the end may be near.
    """
    curve = curve_at(problem, prices)
    budget = worth_left(problem, prices, curve, np.where(path.rising, 0.0, path.start))
    return path.furthest(curve.paid(path.rising), budget, near)


def paid_on_path(
    problem: LeximinProblem, path: GroupPath, prices: FloatArray, curve: CostCurve
) -> tuple[PaidShares, float]:
    """Return what shares of rising tenants cost at prices (K + l, m), and what they may cost.

    Args:
        curve: of these prices.
    """
    share = np.where(path.rising, 0.0, path.start)
    return curve.paid(path.rising), budget_left(problem, prices, curve, share)


def prove_on_path(
    problem: LeximinProblem, path: GroupPath, prices: FloatArray, position: float, part: FloatArray
) -> RoundProof:
    """Work out what prices prove about a position, by the solver's own tolerance.

    Args:
        problem: the normalised problem; path: of the round; prices: (K + l, m), at least 0.
        position: that the round reached; part: (t,) of the pool that tenants are entitled to.
    """
    curve = curve_at(problem, prices)
    bound = _bound(problem, path, prices, curve, reached=position, near=position)
    reached = path.shares(position)
    rising = path.rising
    # Without an allowance for rounding, which is more than the lifts of small tenants at a small limit.
    spent = curve.cost_of(np.where(rising, reached, path.start))
    gap = problem.worth(prices) - float(spent.sum())
    # Next to all its tasks a tenant wants nothing: a lift of it would have no price.
    wanting: BoolArray = rising & (problem.cap > reached * (1 + SOLVER_TOLERANCE))
    pays = np.where(wanting, curve.marginal(reached), 0.0)
    group = problem.interchangeable
    lift = pays * lifts(reached, part, position)
    together = grouped_sum(lift, group, problem.t)[group]
    gap = max(gap, 0.0) + SOLVER_NOISE * problem.worth(prices)
    return RoundProof(bound, lift_left(gap, together, wanting), curve)


def without_noise(problem: LeximinProblem, prices: FloatArray) -> FloatArray:
    """Return prices (K + l, m) without what only rounding explains.

    Prices of a resource that differ by at most ``PRICE_NOISE`` become equal, and next to nothing 0.
    """
    worth = problem.rooms * prices
    cleaned = np.where(worth > PRICE_NOISE * worth.max(initial=0.0), prices, 0.0)
    classes = cleaned[: problem.K]
    dearest = classes.max(axis=0, initial=0.0)
    classes[:] = np.where(classes >= dearest * (1 - PRICE_NOISE), dearest, classes)
    return cleaned


def _bound(
    problem: LeximinProblem,
    path: GroupPath,
    prices: FloatArray,
    curve: CostCurve,
    below: float = np.inf,
    reached: float = -np.inf,
    near: float | None = None,
) -> float:
    rising = path.rising
    budget = budget_left(problem, prices, curve, np.where(rising, 0.0, path.start))
    # Whether a given position is possible costs less than the search for the furthest.
    if below < np.inf:
        share = np.where(rising, path.shares(below), 0.0)
        if float(curve.cost_of(share).sum()) <= budget:
            return below
    paid = curve.paid(rising)
    bound = path.furthest(paid, budget, near)
    if bound < reached:
        # Where shares rise at no price, the rounding of what others have decides how far they come.
        further = path.furthest(paid, budget + BUDGET_NOISE * problem.worth(prices))
        if further >= reached or np.isinf(reached):
            bound = min(reached, further)
    return bound
