"""Checking a schedule with arithmetic only: every slot, the averages, and the proof of the levels.

What is proven and how: a round's prices of shares make no slot worth more than the knapsack's
optimum at these prices, which is worked out again by the same dynamic programme or search (exact
counting, not a solver); hence no average of slots is worth more, which bounds the round's level.
Where a search ends early, or task limits tie packed servers together, the bound is an upper bound
only, and the stated gap says how much is open. The bound of divisible tasks is what the prices of
its own first round prove (``divisible_bound``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray, IntArray
from policies.model.allocation import Allocation, gap_of, least_average
from policies.model.certificate import Certificate
from policies.model.problem import Problem
from policies.model.schedule import Schedule
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE, SMALLEST_LEVEL, WHOLE_PERIOD
from policies.proofs.slots.divisible_bound import bound_at, largest_prior_share
from policies.proofs.slots.rounds import proof_of_round, proven_bound, satisfied_at
from policies.proofs.slots.slot_pool import SlotPool
from policies.proofs.slots.stop_reasons import has_room, stops_over_time
from policies.verification.checks import Check, check


def check_schedule(problem: Problem, allocation: Allocation, schedule: Schedule) -> Iterator[Check]:
    """What must hold in every slot and of the averages."""
    pool = SlotPool.of(problem, pack=not allocation.choice.sees_one_pool)
    shapes = _check_shapes(problem, pool, schedule)
    yield shapes
    if not shapes.holds:
        return
    slots = [f"slot {position}" for position in range(len(schedule.fraction))]
    yield Check(
        "fractions",
        bool((schedule.fraction > 0).all())
        and abs(float(schedule.fraction.sum()) - 1) <= WHOLE_PERIOD,
        "the slots take the whole period, and each a part of it",
        abs(float(schedule.fraction.sum()) - 1),
    )
    runnable = pool.reasons == ""
    over = np.where(runnable, schedule.tasks - problem.tasks, schedule.tasks)
    yield check(
        "slot_limits",
        over.max(axis=1, initial=0.0),
        0.0,
        "no slot runs more tasks than there are, or any that cannot run",
        slots,
    )
    on_server = _on_server(pool, schedule)
    left = [float((pool.capacity - tasks @ pool.demand).min(initial=0.0)) for tasks in on_server]
    misplaced = [int(tasks[~pool.allowed_on_kind.T[pool.kind]].sum()) for tasks in on_server]
    unplaced = [
        int(np.abs(tasks.sum(axis=0) - schedule.tasks[position, pool.workloads]).sum())
        for position, tasks in enumerate(on_server)
    ]
    yield check(
        "slots_fit",
        np.maximum(-np.array(left), np.array(misplaced) + np.array(unplaced)),
        0.0,
        "every slot's tasks fit on the servers on which they may run",
        slots,
    )
    yield check(
        "slots_saturated",
        np.array([has_room(pool, tasks) for tasks in on_server]) * 1.0,
        0.0,
        "in no slot is there room for one more task",
        slots,
    )
    average = schedule.fraction @ schedule.tasks
    yield check(
        "averages",
        np.abs(average - allocation.tasks) / np.maximum(average, 1.0),
        AGREEMENT,
        "tasks are the averages over the period",
        problem.workload_names,
    )
    limited_by = stops_over_time(problem, pool, schedule.fraction, on_server)
    yield check(
        "stopped_by",
        np.array([a != b for a, b in zip(allocation.limited_by, limited_by, strict=True)]) * 1.0,
        0.0,
        "the reasons follow from what the longest slots leave",
        problem.workload_names,
    )
    yield from _check_numbers(problem, allocation, schedule)


def check_division(
    problem: Problem, allocation: Allocation, schedule: Schedule, certificate: Certificate
) -> Iterator[Check]:
    """That no schedule is better: every level against the bound that its prices prove."""
    pool = SlotPool.of(problem, pack=not allocation.choice.sees_one_pool)
    readable = _check_certificate(problem, pool, certificate)
    yield readable
    if not readable.holds:
        return
    names = [problem.tenants[i] for i in pool.tenants.tolist()]
    weight = problem.effective_weight[pool.tenants]
    share = allocation.tenant_share[pool.tenants] + pool.prior_share
    frozen_in = certificate.frozen_in[pool.tenants]
    numbers = range(len(certificate.rounds))
    full = share >= satisfied_at(pool) * (1 - LEVEL_TOLERANCE)
    proven = np.array([item.proven for item in certificate.rounds], dtype=np.bool_)
    level_of_round = np.array([item.level for item in certificate.rounds])
    expected = level_of_round[frozen_in] if len(names) else np.zeros(0)
    scale = np.maximum(expected, SMALLEST_LEVEL)
    above = (share / weight - expected) / scale
    free = full | ~proven[frozen_in] if len(names) else full
    stated = np.abs(allocation.level[pool.tenants] - share / weight) / scale
    yield check(
        "levels",
        np.where(free, np.maximum(-above, 0.0), np.abs(above)) + stated,
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
        mine = replace(item, prices=item.prices[pool.tenants])
        bound, stuck = proof_of_round(problem, pool, number, mine, frozen_in, share)
        of_level = max(item.level, SMALLEST_LEVEL)
        bounds[number] = abs(bound - item.bound) / of_level if np.isfinite(bound) else np.inf
        wanting = (frozen_in == number) & ~full
        if item.proven and wanting.any():
            open_gap[number] = (bound - item.level) / of_level
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
    lp_bound = proven_bound(problem, pool, certificate.rounds, frozen_in, share)
    same = np.isclose(schedule.lp_bound, lp_bound, rtol=AGREEMENT, equal_nan=True)
    above = pool.exact and schedule.lp_bound > schedule.bound * (1 + AGREEMENT)
    yield Check(
        "lp_bound",
        bool(same) and not (above and proven.all()),
        "the bound over slots is that of the rounds; where these are proven it is not above the "
        "divisible bound",
        0.0,
    )
    if certificate.divisible is not None and not np.isnan(schedule.bound):
        pack = not allocation.choice.sees_one_pool
        bound = bound_at(problem, pool, certificate.divisible, pack=pack)
        yield check(
            "divisible_bound",
            np.array([abs(schedule.bound - largest_prior_share(problem) - bound)])
            / max(schedule.bound, SMALLEST_LEVEL),
            LEVEL_TOLERANCE,
            "the bound of divisible tasks is the one that its prices give",
            ("bound",),
        )


def _check_shapes(problem: Problem, pool: SlotPool, schedule: Schedule) -> Check:
    s = len(schedule.fraction)
    placements = schedule.placements
    fits = (
        schedule.fraction.shape == (s,)
        and schedule.tasks.shape == (s, problem.n)
        and np.issubdtype(schedule.tasks.dtype, np.integer)
        and bool((schedule.tasks >= 0).all())
        and bool(np.isfinite(schedule.fraction).all())
        and 1 <= s <= max(len(pool.tenants), 1)
        and (placements is None or len(placements) == s)
    )
    for item in placements or ():
        p = len(item.tasks)
        fits = (
            fits
            and item.workload.shape == item.server.shape == (p,)
            and bool((item.tasks > 0).all())
            and bool(np.isin(item.workload, pool.workloads).all())
            and bool(((item.server >= 0) & (item.server < len(pool.kind))).all())
        )
    return Check(
        "schedule", fits, "whole tasks per slot and workload, at most one slot per tenant", 0.0
    )


def _on_server(pool: SlotPool, schedule: Schedule) -> list[IntArray]:
    """(s) tasks (L, q) of each slot on each server."""
    if schedule.placements is None:
        one = min(len(pool.kind), 1)
        return [tasks[None, pool.workloads][:one] for tasks in schedule.tasks]
    order = np.argsort(pool.workloads)
    result = []
    for item in schedule.placements:
        tasks = np.zeros((len(pool.kind), len(pool.workloads)), dtype=np.int64)
        q = order[np.searchsorted(pool.workloads[order], item.workload)]
        np.add.at(tasks, (item.server, q), item.tasks)
        result.append(tasks)
    return result


def _check_numbers(problem: Problem, allocation: Allocation, schedule: Schedule) -> Iterator[Check]:
    objective = least_average(problem, allocation.tasks, allocation.limited_by)
    stated = np.array(
        [
            schedule.objective,
            allocation.objective,
            allocation.bound,
            schedule.gap,
            allocation.gap,
        ]
    )
    gap = gap_of(schedule.objective, schedule.lp_bound)
    derived: FloatArray = np.array([objective, objective, schedule.lp_bound, gap, gap])
    same = np.isclose(stated, derived, rtol=AGREEMENT, atol=0, equal_nan=True)
    same[3:] = np.isclose(stated[3:], derived[3:], rtol=0, atol=AGREEMENT, equal_nan=True)
    yield check(
        "objective",
        ~same * 1.0,
        0.0,
        "objective, bound and gap are those of the averages",
        ("objective", "objective", "bound", "gap", "gap"),
    )


def _check_certificate(problem: Problem, pool: SlotPool, certificate: Certificate) -> Check:
    rounds, frozen_in = certificate.rounds, certificate.frozen_in
    holds = frozen_in.shape == (problem.t,) and all(
        item.prices.shape == (problem.t,)
        and bool((np.isfinite(item.prices) & (item.prices >= 0)).all())
        and item.stage in (0, 1)
        and 0 <= item.level < np.inf
        for item in rounds
    )
    if holds:
        mine = frozen_in[pool.tenants]
        stages = np.array([item.stage for item in rounds], dtype=np.int64)
        holds = (
            bool(((mine >= 0) & (mine < len(rounds))).all())
            and bool((np.delete(frozen_in, pool.tenants) == -1).all())
            and bool((stages[mine] == problem.second_stage[pool.tenants]).all())
            and bool((np.diff(stages) >= 0).all())
        )
    return Check("certificate", holds, "one price and one round per tenant, in stages", 0.0)
