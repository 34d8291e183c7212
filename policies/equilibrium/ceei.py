"""CEEI on one pool, where tenants spend equal budgets at prices that clear the market.

Sources: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, §4.3 and §6; the equilibrium is the
greatest weighted Nash product of shares (``eisenberg_gale``). Tenants of the second stage are a
market of their own for what is left, in the mix of workloads that leaves most to them
(``best_mix``): a tenant's priorities choose between mixes that give every tenant the same shares.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.equilibrium.best_mix import best_mix, leaves_most
from policies.equilibrium.eisenberg_gale import equilibrium
from policies.equilibrium.mix_prices import mix_prices
from policies.errors import SolveFailedError
from policies.leximin.dust import above_dust
from policies.leximin.priority_order import preferred_workloads
from policies.leximin.solve import placements_of
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate, Round
from policies.model.request import Request
from policies.model.server_classes import one_class
from policies.model.share_definition import share_units
from policies.model.tolerance import OVERFILL, SOLVER_TOLERANCE
from policies.proofs.consequences import limits, quality
from policies.proofs.market import Market, stage_of
from policies.proofs.normal_form import LeximinProblem, normalise

# Workloads this close to their limit have reached it, if the capacities allow.
AT_LIMIT = 1e-9
# Prices below this part of the greatest are those of resources that are not full.
FREE = 1e-9
# Prices of resources that are full before a stage, relative to its budgets. Any will do; what rounding
# left of these resources is worth too much at the first one where few of the stage can buy anything.
FULL_PRICES = (1.0, 1e-3, 1e-6)


def solve_divisible(request: Request) -> Allocation:
    """Return the competitive equilibrium in fractions of tasks.

    The answer has no placements.

    Returns:
        The allocation. Its objective is the weighted geometric mean of the shares of the first
        stage; the certificate has a round per stage with the equilibrium prices.

    Raises:
        SolveTimeoutError, SolveFailedError.
    """
    problem = request.problem
    classes = one_class(problem)
    units = share_units(problem, request.choice)
    form = normalise(problem, classes, units, adjacent=True)
    x, preferred, rounds = _clear_stages(form.leximin, request.deadline)
    stages = np.array([item.stage for item in rounds], dtype=np.int64)
    frozen_in = np.full(problem.t, -1, dtype=np.int64)
    frozen_in[form.tenants] = np.searchsorted(stages, form.leximin.stage)
    certificate = Certificate(tuple(rounds), frozen_in)
    workload, _, share = placements_of(units, form, preferred[:, None], request.deadline)
    tasks = grouped_sum(share / units.per_task[workload], workload, problem.n)
    objective, bound, gap = quality(form.leximin, certificate, frozen_in[form.tenants])
    nothing = np.zeros(0, dtype=np.int64)
    level = np.full(problem.t, np.nan)
    level[form.tenants] = form.leximin.tenant_sums(x[:, None]) / form.leximin.weight
    return Allocation(
        problem=problem,
        choice=request.choice,
        tasks=tasks,
        classes=classes,
        placement_piece=nothing,
        placement_class=nothing,
        placement_tasks=np.zeros(0),
        level=level,
        limited_by=limits(problem, form, certificate, tasks),
        objective=objective,
        bound=bound,
        gap=gap,
        certificate=certificate,
        statistics={"rounds": len(rounds)},
    )


def _clear_stages(
    form: LeximinProblem, deadline: float | None
) -> tuple[FloatArray, FloatArray, list[Round]]:
    """Clear each stage's market, after the mix of earlier ones that leaves most to it.

    Returns:
        (n,) shares of all workloads, the same through preferred ones, and a round per stage.
    """
    x = np.zeros(form.n)
    rounds: list[Round] = []
    for number in np.unique(form.stage).tolist():
        item = clear_market(form, number, x, deadline)
        if rounds and not leaves_most(form, number, x, item.prices[0], rounds[-1].prices[0]):
            x = _without_dust(form, best_mix(form, number, x, deadline))
            rounds[-1] = _restated(form, rounds[-1], x)
            item = clear_market(form, number, x, deadline)
        rounds.append(item)
    preferred = _preferred(form, x, deadline)
    if len(rounds) > 1 and not _proven(form, rounds[1], x, preferred):
        # Another mix fills other resources, or by rounding not quite the same: prices follow it.
        x = np.where(form.stage[form.owner] == 0, preferred, 0.0)
        rounds[1] = clear_market(form, 1, x, deadline)
        preferred = _preferred(form, x, deadline)
    proof = mix_prices(form, preferred, rounds, deadline)
    if proof is not None:
        rounds[1] = replace(rounds[1], mix_prices=proof)
    return x, preferred, rounds


def _preferred(form: LeximinProblem, x: FloatArray, deadline: float | None) -> FloatArray:
    return _without_dust(form, preferred_workloads(_with_room(form, x), x[:, None], deadline)[:, 0])


def _without_dust(form: LeximinProblem, x: FloatArray) -> FloatArray:
    """Return the shares (n,) without rounding errors, before a later market is cleared beside them."""
    return np.where(above_dust(x, np.arange(form.n), form.owner, form.limit), x, 0.0)


def _proven(form: LeximinProblem, item: Round, x: FloatArray, preferred: FloatArray) -> bool:
    """Return whether a second round's prices, found for shares x (n,), prove the preferred ones too."""
    first = form.stage[form.owner] == 0
    before = stage_of(form, 1, np.where(first, x, 0.0))
    after = stage_of(form, 1, np.where(first, preferred, 0.0))
    if (before.blocked != after.blocked).any():
        return False
    if after.market is None:
        return True
    bound = after.market.bound(item.prices[0])
    return bound <= math.log(item.level) + SOLVER_TOLERANCE


def clear_market(form: LeximinProblem, number: int, x: FloatArray, deadline: float | None) -> Round:
    """Fill in the shares of one stage in place, and prove them.

    Parameters
    ----------
    form : LeximinProblem
        The normalised problem on one pool.
    number : int
        The stage.
    x : (n,) float array
        Dominant shares of the workloads; those of the stage are written.
    deadline : float or None
        ``time.monotonic()`` seconds at which to give up.

    Returns
    -------
    Round
        Prices of the resources and the bound that they prove.

    Raises
    ------
    SolveTimeoutError
        The deadline passed.
    SolveFailedError
        The method did not converge, or the proof failed.

    References
    ----------
    Eisenberg and Gale, "Consensus of subjective probabilities: the pari-mutuel method", 1959.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Problem, clear_market, normalise, one_class
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> shares = np.zeros(2)
    >>> market = clear_market(normalise(problem, one_class(problem)).leximin, 0, shares, None)
    >>> shares.round(6).tolist()
    [0.909091, 0.545455]
    """
    stage = stage_of(form, number, x)
    weight = float(form.weight[form.stage == number].sum())
    if stage.market is None:
        return Round(number, 0.0, 0.0, (stage.blocked * weight)[None, :])
    market = stage.market
    shares, cleared = equilibrium(market, deadline)
    shares = _up_to_limits(market, shares)
    level = math.exp(market.nash_welfare(market.shares(shares)))
    bound = math.inf
    for part in FULL_PRICES:
        prices, log_bound = _without_noise(market, cleared, stage.blocked * (weight * part))
        bound = math.exp(log_bound)
        if bound <= level * (1 + SOLVER_TOLERANCE):
            break
    else:
        raise SolveFailedError("solve.failed", f"the prices prove {bound}, shares reach {level}")
    workloads = np.arange(len(shares))
    stays = above_dust(shares, workloads, market.owner, market.limit)
    shares = np.where(stays, shares, 0.0)
    x[stage.workloads] = shares
    level = math.exp(market.nash_welfare(market.shares(shares)))
    return Round(number, level, max(bound, level), prices[None, :])


def _restated(form: LeximinProblem, item: Round, x: FloatArray) -> Round:
    """Return a round with the level that shares (n,) reach now.

    Rounding may have scaled them.
    """
    market = stage_of(form, item.stage, np.where(form.stage[form.owner] < item.stage, x, 0.0))
    if market.market is None:
        return item
    level = math.exp(market.market.nash_welfare(market.market.shares(x[market.workloads])))
    return replace(item, level=min(level, item.bound))


def _with_room(form: LeximinProblem, x: FloatArray) -> LeximinProblem:
    """Return the problem without classes on which earlier stages left a workload no room.

    What rounding leaves of a resource that is full could be next to nothing, and yet much of a share.
    """
    allowed = form.allowed.copy()
    for number in np.unique(form.stage)[1:].tolist():
        later = form.stage[form.owner] >= number
        stage = stage_of(form, number, np.where(later, 0.0, x))
        allowed[form.stage[form.owner] == number] = False
        allowed[stage.workloads] = True
    return replace(form, allowed=allowed)


def _up_to_limits(market: Market, x: FloatArray) -> FloatArray:
    full = np.where(x >= market.limit * (1 - AT_LIMIT), market.limit, x)
    size = np.where(market.capacity > 0, market.capacity, 1.0)
    fits = float((full @ market.demand / size).max()) <= 1 + OVERFILL
    return full if fits else x


def _without_noise(
    market: Market, cleared: FloatArray, others: FloatArray
) -> tuple[FloatArray, float]:
    """Return the prices without those of resources that are not full, and the bound.

    The prices stay as they are if the cleaned ones prove less.

    Args:
        market: of the stage.
        cleared: (m,) its prices; others: (m,) those of resources that are full before it.
    """
    prices = cleared + others
    bound = market.bound(prices)
    noise = (cleared <= FREE * cleared.max()) & (cleared > 0)
    if noise.any():
        clean = np.where(noise, 0.0, cleared) + others
        clean_bound = market.bound(clean)
        if clean_bound <= bound + 1e-12:
            return clean, clean_bound
    return prices, bound
