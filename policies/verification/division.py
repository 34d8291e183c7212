"""Checks that no schedule of a period has better levels, round by round.

At a round's prices of shares no slot is worth more than a knapsack's best packing, which ``slots``
bounds. Hence no average of slots is worth more, which bounds the round's level. Where a search
ended early, or task limits tie packed servers together, the bound is an upper bound only: such a
round is left open. It bounds what the tenants that rise in it can have at least, so that none of
them may have less than its level, and its gap must not exceed ``OPEN_TIME_GAP``. The bound of
divisible tasks is the one that the prices of its own first round prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from policies import catalogue
from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate, Round
from policies.model.policy import Choice
from policies.model.schedule import Schedule
from policies.model.tolerance import (
    AGREEMENT,
    LEVEL_TOLERANCE,
    OPEN_TIME_GAP,
    SMALLEST_LEVEL,
    SMALLEST_PART,
    SOLVER_NOISE,
)
from policies.verification.checks import Check, check
from policies.verification.form import form_of
from policies.verification.prices import bound_on_level
from policies.verification.slots import Slots
from policies.verification.stated import Stated


def check_division(
    stated: Stated, allocation: Allocation, schedule: Schedule, certificate: Certificate
) -> Iterator[Check]:
    """Check every level against the bound that its prices prove.

    If all hold, no schedule is better.
    """
    problem, slots = stated.problem, Slots.of(stated)
    readable = _check_certificate(stated, slots, certificate)
    yield readable
    if not readable.holds:
        return
    names = [problem.tenants[i] for i in slots.tenants.tolist()]
    weight, prior = stated.weight[slots.tenants], stated.prior[slots.tenants]
    average = allocation.tasks * stated.dominant
    share = grouped_sum(average, problem.workload_tenant, problem.t)[slots.tenants] + prior
    frozen_in = certificate.frozen_in[slots.tenants]
    numbers = range(len(certificate.rounds))
    full = share >= (slots.everything + prior) * (1 - LEVEL_TOLERANCE)
    proven = np.array([item.proven for item in certificate.rounds], dtype=np.bool_)
    level_of_round = np.array([item.level for item in certificate.rounds])
    expected = level_of_round[frozen_in] if len(names) else np.zeros(0)
    scale = np.maximum(expected, SMALLEST_LEVEL)
    above = (share / weight - expected) / scale
    free = full | ~proven[frozen_in] if len(names) else full
    stated_level = np.abs(allocation.level[slots.tenants] - share / weight) / scale
    yield check(
        "levels",
        np.where(free, np.maximum(-above, 0.0), np.abs(above)) + stated_level,
        AGREEMENT,
        "every tenant has its round's level; more where it runs all its tasks or that is left open",
        names,
    )
    least = [np.abs(above[frozen_in == number].min(initial=np.inf)) for number in numbers]
    yield check(
        "levels_reached",
        np.array(least),
        AGREEMENT,
        "each round's level is that of its least tenant",
        [f"round {number}" for number in numbers],
    )
    rounds_found = _Rounds.of(stated, slots, certificate, share, full)
    rounds = [f"round {number}" for number in numbers]
    yield check(
        "bounds_stated",
        rounds_found.misstated,
        LEVEL_TOLERANCE,
        "the stated bounds are those that the prices give",
        rounds,
    )
    yield check(
        "levels_proven",
        rounds_found.unproven,
        LEVEL_TOLERANCE,
        "the prices of each round that is not left open prove that its level cannot be higher",
        rounds,
    )
    yield check(
        "tenants_stuck",
        rounds_found.loose * 1.0,
        0.0,
        "every tenant of these has all its tasks or is proven to be stuck in its round",
        names,
    )
    yield check(
        "open_rounds",
        rounds_found.wide,
        0.0,
        "the prices of a round that is left open count every tenant frozen in it with tasks left, "
        "no tenant that rises in it has less than its level, and its gap is at most "
        f"{OPEN_TIME_GAP:.0%}",
        rounds,
    )
    yield _check_lp_bound(stated, slots, schedule, certificate, full, frozen_in)
    yield _check_divisible_bound(stated, slots, schedule, certificate)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """Results of the prices of each round.

    Attributes:
        misstated: (rounds,) how far the stated bound is from what the prices give.
        unproven: (rounds,) how far the level is below its bound, of rounds that are not left open.
        wide: (rounds,) above 0 for those that are left open and may not be.
        loose: (t',) tenants with tasks left that are not proven to be stuck, of the other rounds.
    """

    misstated: FloatArray
    unproven: FloatArray
    wide: FloatArray
    loose: BoolArray

    @classmethod
    def of(
        cls,
        stated: Stated,
        slots: Slots,
        certificate: Certificate,
        share: FloatArray,
        full: BoolArray,
    ) -> _Rounds:
        """Evaluate every round of a certificate.

        share and full (t',) are the shares of the schedule and the tenants that run all their
        tasks.
        """
        weight, prior = stated.weight[slots.tenants], stated.prior[slots.tenants]
        frozen_in = certificate.frozen_in[slots.tenants]
        count = len(certificate.rounds)
        found = cls(
            np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(len(share), dtype=np.bool_)
        )
        for number, item in enumerate(certificate.rounds):
            prices = item.prices[slots.tenants]
            alike = stated.late[slots.tenants] == bool(item.stage)
            rising = alike & (frozen_in >= number)
            before = np.where(frozen_in < number, share, 0.0)
            bound = _bound_of_slots(slots, prices, weight, prior, rising, before, item.bound)
            # Rounding may put a bound just below a level that is reached.
            bound = max(bound, item.level)
            of_level = max(item.level, SMALLEST_LEVEL)
            found.misstated[number] = (
                abs(bound - item.bound) / of_level if np.isfinite(bound) else np.inf
            )
            wanting = (frozen_in == number) & ~full
            higher = share / weight - item.level > AGREEMENT * of_level
            part = np.where(rising, prices * weight, 0.0)
            # The least positive number, because prices may all be 0.
            part /= max(float(part.sum()), 1e-300)
            # Tenants with all their tasks need no proof that they cannot have more.
            if not wanting.any():
                continue
            if item.proven:
                found.unproven[number] = (bound - item.level) / of_level
                stuck = _stuck(part, item.level, bound - item.level)
                stuck &= ~higher & ~(higher & alike & ~rising).any()
                found.loose[wanting & ~stuck] = True
                continue
            passed_over = bool((higher & alike & ~rising).any())
            uncounted = bool((part[wanting] <= SMALLEST_PART).any())
            found.wide[number] = max(open_gap(item, bound) - OPEN_TIME_GAP, 0.0)
            found.wide[number] += passed_over or uncounted
        return found


def open_gap(item: Round, bound: float) -> float:
    """Return the relative distance of a round's level from its bound."""
    return (bound - item.level) / max(bound, LEVEL_TOLERANCE)


def _bound_of_slots(
    slots: Slots,
    prices: FloatArray,
    weight: FloatArray,
    prior: FloatArray,
    rising: BoolArray,
    before: FloatArray,
    given: float,
) -> float:
    """Return a bound on the rising tenants' level in any schedule.

    Tenants frozen before keep their shares.

    Args:
        prices, weight, prior: (t',); rising: (t',) tenants that rise; before: (t',) shares, prior ones
            included, of tenants frozen before, 0 for the rest.
        given: the bound that is claimed.
    """
    together = float((prices * weight)[rising].sum())
    if together <= 0:
        return np.inf
    had = float(prices @ prior)
    kept = float(prices @ np.where(rising, 0.0, before))
    worth = slots.worth(prices, max(given * together + kept - had, 0.0))
    return max(worth + had - kept, 0.0) / together


def _stuck(part: FloatArray, level: float, unproven: float) -> BoolArray:
    """Return the tenants (t',) whose own lift is next to nothing.

    A lift is at most ``unproven / part``, relative to the tenant's weight.

    Args:
        part: (t',) prices × weights of the rising tenants, adding up to 1; 0 for the others.
    """
    lift = max(unproven, 0.0) + SOLVER_NOISE * level
    enough = lift <= LEVEL_TOLERANCE * max(level, SMALLEST_LEVEL) * part
    stuck: BoolArray = enough & (part > SMALLEST_PART)
    return stuck


def _check_lp_bound(
    stated: Stated,
    slots: Slots,
    schedule: Schedule,
    certificate: Certificate,
    full: BoolArray,
    frozen_in: IntArray,
) -> Check:
    """Check that the bound is that of the first round that freezes a tenant with tasks left.

    Tenants of the second stage do not count. All tenants frozen before run all their tasks, so the
    bound holds for every schedule.
    """
    wanting = ~full & ~stated.late[slots.tenants]
    bound = np.nan
    if wanting.any():
        bound = certificate.rounds[int(frozen_in[wanting].min())].bound
    return Check(
        "lp_bound",
        bool(np.isclose(schedule.lp_bound, bound, rtol=AGREEMENT, equal_nan=True)),
        "the bound over slots is that of the first round that leaves a tenant with tasks left",
        0.0,
    )


def _check_divisible_bound(
    stated: Stated, slots: Slots, schedule: Schedule, certificate: Certificate
) -> Check:
    """Check that the bound of divisible tasks exists if an objective does.

    Its prices must prove it.
    """
    detail = "the bound of divisible tasks is the one that its prices give"
    if np.isnan(schedule.bound) or np.isnan(schedule.objective):
        neither = np.isnan(schedule.bound) and np.isnan(schedule.objective)
        return Check("divisible_bound", bool(neither), detail, 0.0)
    prices = certificate.divisible
    tasks = np.where(slots.reasons == "", stated.problem.tasks, 0.0)
    policy = catalogue.DRF if stated.choice.sees_one_pool else catalogue.DRFH
    divisible = Stated(replace(stated.problem, tasks=tasks), Choice(policy, "divisible"))
    form = form_of(divisible, divisible.places())
    if prices is None or prices.shape != form.capacity.shape or not (prices >= 0).all():
        return Check("divisible_bound", False, detail, np.inf)
    rising = form.stage == form.stage.min(initial=1)
    bound = bound_on_level(form, prices, np.zeros(form.t), rising)
    bound += float((stated.prior / stated.weight).max(initial=0.0))
    deviation = abs(schedule.bound - bound) / max(schedule.bound, SMALLEST_LEVEL)
    return Check("divisible_bound", deviation <= LEVEL_TOLERANCE, detail, deviation)


def _check_certificate(stated: Stated, slots: Slots, certificate: Certificate) -> Check:
    rounds, frozen_in = certificate.rounds, certificate.frozen_in
    tenants = stated.problem.t
    holds = frozen_in.shape == (tenants,) and all(
        item.prices.shape == (tenants,)
        and bool((np.isfinite(item.prices) & (item.prices >= 0)).all())
        and item.stage in (0, 1)
        and 0 <= item.level < np.inf
        for item in rounds
    )
    if holds:
        mine = frozen_in[slots.tenants]
        stages = np.array([item.stage for item in rounds], dtype=np.int64)
        holds = (
            bool(((mine >= 0) & (mine < len(rounds))).all())
            and bool((np.delete(frozen_in, slots.tenants) == -1).all())
            and bool((np.bincount(mine, minlength=len(rounds)) > 0).all())
            and bool((stages[mine] == stated.late[slots.tenants]).all())
            and bool((np.diff(stages) >= 0).all())
        )
    return Check(
        "certificate", holds, "one price and one round per tenant, no round without, in stages", 0.0
    )
