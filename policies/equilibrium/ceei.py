"""CEEI on one pool: everybody spends an equal budget at prices that clear the market.

Sources: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, §4.3 and §6; the equilibrium is
the greatest weighted Nash product of shares (``eisenberg_gale``). Tenants of the second stage
are a market of their own for what is left.
"""

from __future__ import annotations

import math

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.equilibrium.eisenberg_gale import equilibrium
from policies.errors import SolveFailedError
from policies.leximin.priority_order import preferred_workloads
from policies.leximin.solve import placements_of
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate, Round
from policies.model.request import Request
from policies.model.server_classes import one_class
from policies.model.share_definition import share_units
from policies.model.tolerance import OVERFILL
from policies.proofs.consequences import limits, quality
from policies.proofs.market import Market, stage_of
from policies.proofs.normal_form import LeximinProblem, normalise

# Workloads this close to their limit have reached it, if the capacities allow.
AT_LIMIT = 1e-9
# Prices below this part of the greatest are those of resources that are not full.
FREE = 1e-9


def solve_divisible(request: Request) -> Allocation:
    """The competitive equilibrium, in fractions of tasks; no placements.

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
    x = np.zeros(form.leximin.n)
    rounds: list[Round] = []
    frozen_in = np.full(problem.t, -1, dtype=np.int64)
    for number in np.unique(form.leximin.stage).tolist():
        frozen_in[form.tenants[form.leximin.stage == number]] = len(rounds)
        rounds.append(clear_market(form.leximin, number, x, request.deadline))
        # Before the next stage, whose market is what this one leaves.
        mine = form.leximin.stage == number
        x = preferred_workloads(form.leximin, x[:, None], request.deadline, mine)[:, 0]
    certificate = Certificate(tuple(rounds), frozen_in)
    workload, _, share = placements_of(units, form, x[:, None], request.deadline)
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
        placement_workload=nothing,
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
    prices = stage.blocked * weight
    if stage.market is None:
        return Round(number, 0.0, 0.0, prices[None, :])
    shares, cleared = equilibrium(stage.market, deadline)
    shares = _up_to_limits(stage.market, shares)
    prices, log_bound = _without_noise(stage.market, cleared, prices)
    x[stage.workloads] = shares
    level = math.exp(stage.market.nash_welfare(stage.market.shares(shares)))
    bound = math.exp(log_bound)
    if not bound <= level * (1 + 1e-9 / 2):
        raise SolveFailedError("solve.failed", f"the prices prove {bound}, shares reach {level}")
    return Round(number, level, max(bound, level), prices[None, :])


def _up_to_limits(market: Market, x: FloatArray) -> FloatArray:
    full = np.where(x >= market.limit * (1 - AT_LIMIT), market.limit, x)
    size = np.where(market.capacity > 0, market.capacity, 1.0)
    fits = float((full @ market.demand / size).max()) <= 1 + OVERFILL
    return full if fits else x


def _without_noise(
    market: Market, cleared: FloatArray, others: FloatArray
) -> tuple[FloatArray, float]:
    """The prices with those of resources that are not full at 0 if that proves as much; the bound.

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
