"""Proofs of a leximin answer: the prices of its rounds, and the bound they give.

In the round in which a tenant was frozen, the round's prices ``p`` prove its level: with
everybody frozen before at its share, and everybody still rising at ``level * weight``, no
feasible allocation reaches more than ``bound`` (policies §3; ``merit_order`` for several
workloads per tenant).

Freezing needs more than a bound on the least level: a tenant is stuck only when the prices
bound *its own* lift. Tenants that are interchangeable (workloads over the same resources,
eligible on the same classes, no limits among several workloads) can hand any gain on to
each other, so in a leximin answer they share one level, and the lift of the whole group is
at most ``gap / sum over the group of w_i pi_i``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.errors import ProblemError
from policies.proofs.cost_curve import MeritOrder, unit_costs
from policies.proofs.normal_form import LeximinProblem

# Relative distance between a level and its proven bound that counts as optimal, and the
# part of 1 / sum of weights below which a level's own size no longer scales it.
LEVEL_TOLERANCE = 1e-9
# The solver asks more of itself than the verifier does, so that rounding or another order of
# summation never costs an answer its proof.
SOLVER_TOLERANCE = LEVEL_TOLERANCE / 2
SOLVER_NOISE = 2e-15
# What rounding may hide when costs are taken from the worth of all servers, relative to that.
ROUNDING = 1e-15
SMALLEST_LEVEL_SCALE = 1e-2
# A round whose bound is further from its level, relative, is not one that rounding leaves open.
OPEN_GAP = 1e-3
# Why an answer cannot be had, as far as one can tell.
TOO_FAR_APART = "demands, task limits or weights of the problem are too many powers of ten apart"


@dataclass(frozen=True, eq=False)
class Round:
    """One round of the leximin.

    Attributes:
        stage: 0 for tenants served first, 1 for those that share what is left.
        level: weighted level at which the round's stuck tenants were frozen.
        bound: no allocation lifts the least level of the round above it.
        prices: (K, m) price of each class's resources, per share of the pool.
        proven: do they prove that nobody frozen here can have more? Time division leaves rounds
            open where the search for slots ends early, leximins of divisible tasks where rounding
            hides what is left.
    """

    stage: int
    level: float
    bound: float
    prices: FloatArray
    proven: bool = True


@dataclass(frozen=True, eq=False)
class Certificate:
    """The rounds in order, and the round in which each tenant was frozen.

    Attributes:
        rounds: in the order in which they were solved.
        frozen_in: (t,) index into ``rounds``; -1 for tenants with nothing to run.
        divisible: (K, m) of a time division, prices that prove the bound of divisible tasks.
    """

    rounds: tuple[Round, ...]
    frozen_in: IntArray
    divisible: FloatArray | None = None


def certificate_to_document(certificate: Certificate) -> dict[str, Any]:
    """The certificate as plain JSON values."""
    return {
        "rounds": [
            {
                "stage": item.stage,
                "level": float(item.level),
                "bound": float(item.bound),
                "prices": item.prices.tolist(),
                **({} if item.proven else {"proven": False}),
            }
            for item in certificate.rounds
        ],
        "frozen_in": certificate.frozen_in.tolist(),
        **(
            {}
            if certificate.divisible is None
            else {"divisible_prices": certificate.divisible.tolist()}
        ),
    }


def certificate_from_document(document: Mapping[str, Any]) -> Certificate:
    """Read what :func:`certificate_to_document` wrote.

    Raises:
        ProblemError: ``certificate.malformed``.
    """
    try:
        rounds = tuple(
            Round(
                stage=int(item["stage"]),
                level=float(item["level"]),
                bound=float(item["bound"]),
                prices=np.array(item["prices"], dtype=np.float64),
                proven=bool(item.get("proven", True)),
            )
            for item in document["rounds"]
        )
        frozen_in = np.array(document["frozen_in"], dtype=np.int64)
        prices = document.get("divisible_prices")
        divisible = None if prices is None else np.array(prices, dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise ProblemError(
            "certificate.malformed", f"the certificate cannot be read: {error!r}", "/certificate"
        ) from error
    return Certificate(rounds, frozen_in, divisible)


@dataclass(frozen=True, eq=False)
class RoundProof:
    """What one round's prices prove.

    Attributes:
        bound: upper bound on the round's level.
        stuck: (t,) rising tenants whose own lift is proven to be within the tolerance.
        dearest: (t,) rising tenants that want more and for whom the prices prove most.
        order: the tenants' costs at these prices.
    """

    bound: float
    stuck: BoolArray
    dearest: BoolArray
    order: MeritOrder


def prove_round(
    problem: LeximinProblem,
    prices: FloatArray,
    *,
    level: float,
    share: FloatArray,
    rising: BoolArray,
) -> RoundProof:
    """What prices prove about a round, by the solver's own tolerance.

    Args:
        problem: the normalised problem.
        prices: (K, m) non-negative; any will do, good ones prove more.
        level: weighted level reached by all rising tenants that are not satisfied.
        share: (t,) shares of the tenants frozen earlier; 0 for the rest.
        rising: (t,) tenants of this round.
    """
    order = MeritOrder.of(
        problem.owner,
        problem.limit,
        unit_costs(problem.demand, problem.allowed, prices),
        problem.t,
    )
    budget = budget_left(problem, prices, order, np.where(rising, 0.0, share))
    nobody_wants_more = float((problem.cap / problem.weight)[rising].max(initial=0.0))
    bound = min(order.highest_level(problem.weight, rising, budget), nobody_wants_more)
    reached = np.where(rising, np.minimum(problem.cap, level * problem.weight), 0.0)
    gap = budget - float(order.cost_of(reached).sum())
    wanting = rising & (problem.cap > reached)
    pays = np.where(wanting, order.marginal(reached), 0.0)
    group = problem.interchangeable
    together = grouped_sum(pays * problem.weight, group, problem.t)[group]
    allowed_lift = SOLVER_TOLERANCE * level_scale(problem, rising, level)
    gap = max(gap, 0.0) + SOLVER_NOISE * float((problem.capacity_share * prices).sum())
    stuck = wanting & (together > 0) & (gap <= allowed_lift * together)
    dearest = wanting & (together >= together[wanting].max(initial=0.0))
    return RoundProof(bound, stuck, dearest, order)


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


def budget_left(
    problem: LeximinProblem, prices: FloatArray, order: MeritOrder, share: FloatArray
) -> float:
    """What the servers are worth beyond the cost of ``share`` (t,), and what rounding may hide.

    A bound holds for any budget at least as large as the true one. Without the allowance
    prices of very different sizes could cancel to nothing, and prove what is not so.
    """
    worth = float((problem.capacity_share * prices).sum())
    return max(worth - float(order.cost_of(share).sum()), 0.0) + ROUNDING * worth


def level_scale(problem: LeximinProblem, rising: BoolArray, level: float) -> float:
    """What a level's tolerance is relative to: itself, unless it is next to nothing."""
    weights = float(problem.weight[rising].sum())
    return max(level, SMALLEST_LEVEL_SCALE / weights if weights > 0 else 0.0)


def normalised_prices(
    problem: LeximinProblem, prices: FloatArray, rising: Sequence[bool] | BoolArray
) -> FloatArray:
    """Prices scaled so that the rising tenants' ``w_i pi_i`` add up to 1."""
    cheapest = unit_costs(problem.demand, problem.allowed, prices)
    pi = np.full(problem.t, np.inf)
    np.minimum.at(pi, problem.owner, cheapest)
    total = float((problem.weight * pi)[np.asarray(rising)].sum())
    return prices / total if total > 0 and np.isfinite(total) else prices
