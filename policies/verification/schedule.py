"""Checking a schedule with arithmetic only: every slot, the averages, and the proof of the levels.

What is proven and how: at a round's prices of shares no slot is worth more than a knapsack's best
packing, which ``slots`` bounds; hence no average of slots is worth more, which bounds the round's level.
Where a search ended early, or task limits tie packed servers together, the bound is an upper bound
only, and the stated gap says how much is open. The bound of divisible tasks is what the prices of
its own first round prove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from policies import catalogue
from policies.arrays import BoolArray, FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.policy import Choice
from policies.model.schedule import Schedule
from policies.model.tolerance import (
    AGREEMENT,
    LEVEL_TOLERANCE,
    SMALLEST_LEVEL,
    SMALLEST_PART,
    SOLVER_NOISE,
    WHOLE_PERIOD,
)
from policies.verification.checks import Check, check
from policies.verification.form import form_of
from policies.verification.prices import bound_on_level
from policies.verification.slots import Slots
from policies.verification.stated import TASK_LIMIT, Places, Stated, by_resource
from policies.verification.stops import NOTHING
from policies.verification.whole_tasks import least_unsatisfied


def check_schedule(
    stated: Stated, places: Places, allocation: Allocation, schedule: Schedule
) -> Iterator[Check]:
    """What must hold in every slot and of the averages."""
    problem, slots = stated.problem, Slots.of(stated)
    shapes = _check_shapes(stated, slots, schedule)
    yield shapes
    if not shapes.holds:
        return
    names = [f"slot {position}" for position in range(len(schedule.fraction))]
    yield Check(
        "fractions",
        bool((schedule.fraction > 0).all())
        and abs(float(schedule.fraction.sum()) - 1) <= WHOLE_PERIOD,
        "the slots take the whole period, and each a part of it",
        abs(float(schedule.fraction.sum()) - 1),
    )
    runnable = slots.reasons == ""
    over = np.where(runnable, schedule.tasks - problem.tasks, schedule.tasks)
    yield check(
        "slot_limits",
        over.max(axis=1, initial=0.0),
        0.0,
        "no slot runs more tasks than there are, or any that cannot run",
        names,
    )
    on_server = _on_server(slots, schedule)
    left = [float((slots.capacity - tasks @ slots.demand).min(initial=0.0)) for tasks in on_server]
    misplaced = [int(tasks[~slots.allowed.T[slots.kind]].sum()) for tasks in on_server]
    unplaced = [
        int(np.abs(tasks.sum(axis=0) - schedule.tasks[position, slots.workloads]).sum())
        for position, tasks in enumerate(on_server)
    ]
    yield check(
        "slots_fit",
        np.maximum(-np.array(left), np.array(misplaced) + np.array(unplaced)),
        0.0,
        "every slot's tasks fit on the servers on which they may run",
        names,
    )
    blocking = [slots.blocking(tasks) for tasks in on_server]
    yield check(
        "slots_saturated",
        np.array(
            [
                ((tasks.sum(axis=0) < slots.limit) & (stops == NOTHING)).any()
                for tasks, stops in zip(on_server, blocking, strict=True)
            ]
        )
        * 1.0,
        0.0,
        "in no slot is there room for one more task",
        names,
    )
    average = schedule.fraction @ schedule.tasks
    yield check(
        "averages",
        np.abs(average - allocation.tasks) / np.maximum(average, 1.0),
        AGREEMENT,
        "tasks are the averages over the period",
        problem.workload_names,
    )
    if schedule.placements is not None:
        yield _check_average_placements(stated, places, slots, allocation, schedule, on_server)
    reasons = _reasons(stated, slots, schedule.fraction, on_server, blocking)
    yield check(
        "stopped_by",
        np.array([a != b for a, b in zip(allocation.limited_by, reasons, strict=True)]) * 1.0,
        0.0,
        "the reasons follow from what the longest slots leave",
        problem.workload_names,
    )
    yield _check_numbers(stated, allocation, schedule)


def check_division(
    stated: Stated, allocation: Allocation, schedule: Schedule, certificate: Certificate
) -> Iterator[Check]:
    """That no schedule is better: every level against the bound that its prices prove."""
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
    bounds, loose = np.zeros(len(proven)), np.zeros(len(names), dtype=np.bool_)
    open_gap = np.zeros(len(proven))
    for number, item in enumerate(certificate.rounds):
        prices = item.prices[slots.tenants]
        late = stated.late[slots.tenants] == bool(item.stage)
        rising = late & (frozen_in >= number)
        before = np.where(frozen_in < number, share, 0.0)
        bound = _bound_of_slots(slots, prices, weight, prior, rising, before, item.bound)
        bound = max(bound, item.level)
        of_level = max(item.level, SMALLEST_LEVEL)
        bounds[number] = abs(bound - item.bound) / of_level if np.isfinite(bound) else np.inf
        wanting = (frozen_in == number) & ~full
        if item.proven and wanting.any():
            open_gap[number] = (bound - item.level) / of_level
            part = np.where(rising, prices * weight, 0.0)
            part /= max(float(part.sum()), 1e-300)
            stuck = _stuck(part, item.level, bound - item.level)
            higher = share / weight - item.level > AGREEMENT * of_level
            stuck &= ~higher & ~(higher & late & ~rising).any()
            loose |= wanting & ~stuck
    rounds = [f"round {number}" for number in numbers]
    yield check(
        "bounds_stated",
        bounds,
        LEVEL_TOLERANCE,
        "the stated bounds are those that the prices give",
        rounds,
    )
    yield check(
        "levels_proven",
        open_gap,
        LEVEL_TOLERANCE,
        "the prices of each round that is not left open prove that its level cannot be higher",
        rounds,
    )
    yield check(
        "tenants_stuck",
        loose * 1.0,
        0.0,
        "every tenant of these has all its tasks or is proven to be stuck in its round",
        names,
    )
    yield _check_lp_bound(stated, slots, schedule, certificate, full, frozen_in)
    yield _check_divisible_bound(stated, slots, schedule, certificate)


def _bound_of_slots(
    slots: Slots,
    prices: FloatArray,
    weight: FloatArray,
    prior: FloatArray,
    rising: BoolArray,
    before: FloatArray,
    given: float,
) -> float:
    """No schedule lifts the rising tenants' level above it, those frozen before keeping their shares.

    Args:
        prices, weight, prior: (t',); rising: (t',) who rises; before: (t',) shares, prior ones
            included, of those frozen before, 0 for the rest.
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
    """(t',) whose own lift is next to nothing: ``unproven / part`` at most, relative to its weight.

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
    """The bound is that of the first round that freezes somebody who wants more, and is served first.

    Whoever was frozen before runs all its tasks, so it holds for every schedule.
    """
    wanting = ~full & ~stated.late[slots.tenants]
    bound = np.nan
    if wanting.any():
        bound = certificate.rounds[int(frozen_in[wanting].min())].bound
    return Check(
        "lp_bound",
        bool(np.isclose(schedule.lp_bound, bound, rtol=AGREEMENT, equal_nan=True)),
        "the bound over slots is that of the first round that leaves somebody wanting",
        0.0,
    )


def _check_divisible_bound(
    stated: Stated, slots: Slots, schedule: Schedule, certificate: Certificate
) -> Check:
    """The bound of divisible tasks is there where there is an objective, and its prices prove it."""
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


def _check_shapes(stated: Stated, slots: Slots, schedule: Schedule) -> Check:
    s = len(schedule.fraction)
    placements = schedule.placements
    fits = (
        schedule.fraction.shape == (s,)
        and schedule.tasks.shape == (s, stated.problem.n)
        and np.issubdtype(schedule.tasks.dtype, np.integer)
        and bool((schedule.tasks >= 0).all())
        and bool(np.isfinite(schedule.fraction).all())
        and 1 <= s <= max(len(slots.tenants), 1)
        and (placements is None) == stated.choice.sees_one_pool
        and (placements is None or len(placements) == s)
    )
    for item in placements or ():
        p = len(item.tasks)
        fits = (
            fits
            and item.workload.shape == item.server.shape == (p,)
            and bool((item.tasks > 0).all())
            and bool(np.isin(item.workload, slots.workloads).all())
            and bool(((item.server >= 0) & (item.server < len(slots.kind))).all())
            and len(set(zip(item.workload.tolist(), item.server.tolist(), strict=True))) == p
        )
    detail = "whole tasks per slot and workload, at most one slot per tenant, placed once if at all"
    return Check("schedule", fits, detail, 0.0)


def _on_server(slots: Slots, schedule: Schedule) -> list[IntArray]:
    """(s) tasks (L, q) of each slot on each server."""
    if schedule.placements is None:
        one = min(len(slots.kind), 1)
        return [tasks[None, slots.workloads][:one] for tasks in schedule.tasks]
    result = []
    for item in schedule.placements:
        tasks = np.zeros((len(slots.kind), len(slots.workloads)), dtype=np.int64)
        np.add.at(tasks, (item.server, np.searchsorted(slots.workloads, item.workload)), item.tasks)
        result.append(tasks)
    return result


def _check_average_placements(
    stated: Stated,
    places: Places,
    slots: Slots,
    allocation: Allocation,
    schedule: Schedule,
    on_server: Sequence[IntArray],
) -> Check:
    row = np.repeat(np.arange(places.count), places.servers)
    average = np.zeros((places.count, stated.problem.n))
    for part, tasks in zip(schedule.fraction.tolist(), on_server, strict=True):
        server, q = np.nonzero(tasks)
        np.add.at(average, (row[server], slots.workloads[q]), part * tasks[server, q])
    found = np.zeros_like(average)
    of = allocation.placement_class, allocation.placement_workload
    np.add.at(found, of, allocation.placement_tasks)
    return check(
        "average_placements",
        (np.abs(found - average) / np.maximum(average, 1.0)).max(axis=0, initial=0.0),
        AGREEMENT,
        "placements are the averages over the period of what the slots run on each row",
        stated.problem.workload_names,
    )


def _reasons(
    stated: Stated,
    slots: Slots,
    fraction: FloatArray,
    on_server: Sequence[IntArray],
    blocking: Sequence[IntArray],
) -> list[str]:
    """(n) what stops each workload in the longest slot in which it does not run all its tasks.

    ``task_limit`` where there is no such slot, or next to no time in it; equally long slots count in
    their order.
    """
    reasons: list[str] = slots.reasons.tolist()
    tasks = np.array([item.sum(axis=0) for item in on_server])
    unfinished = fraction @ tasks < slots.limit * (1 - AGREEMENT)
    order = np.argsort(-fraction, kind="stable").tolist()
    for q, j in enumerate(slots.workloads.tolist()):
        reasons[j] = TASK_LIMIT
        short = [s for s in order if tasks[s, q] < slots.limit[q]] if unfinished[q] else []
        if short and blocking[short[0]][q] != NOTHING:
            reasons[j] = by_resource(stated.problem.resources[int(blocking[short[0]][q])])
    return reasons


def _check_numbers(stated: Stated, allocation: Allocation, schedule: Schedule) -> Check:
    problem = stated.problem
    share = grouped_sum(allocation.tasks * stated.dominant, problem.workload_tenant, problem.t)
    level = (share + stated.prior) / stated.weight
    objective = least_unsatisfied(stated, level, allocation.limited_by)
    gap = 0.0
    if schedule.lp_bound != 0:
        gap = np.fmax((schedule.lp_bound - schedule.objective) / schedule.lp_bound, 0.0)
        gap = np.nan if np.isnan(schedule.lp_bound) or np.isnan(schedule.objective) else gap
    given = np.array(
        [schedule.objective, allocation.objective, allocation.bound, schedule.gap, allocation.gap]
    )
    derived = np.array([objective, objective, schedule.lp_bound, gap, gap])
    same = np.isclose(given, derived, rtol=AGREEMENT, atol=0, equal_nan=True)
    same[3:] = np.isclose(given[3:], derived[3:], rtol=0, atol=AGREEMENT, equal_nan=True)
    return check(
        "objective",
        ~same * 1.0,
        0.0,
        "objective, bound and gap are those of the averages",
        ("objective", "objective", "bound", "gap", "gap"),
    )


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
    return Check("certificate", holds, "one price and one round per tenant, no round without, in stages", 0.0)
