"""Checks of a schedule with arithmetic only, for every slot, their order and the averages.

``division`` checks that no schedule is fairer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.schedule import Schedule
from policies.model.tolerance import (
    AGREEMENT,
    WHOLE_PERIOD,
)
from policies.verification.checks import Check, check
from policies.verification.handed_out import least_unsatisfied
from policies.verification.places import Places
from policies.verification.preference import check_preference_in_slots
from policies.verification.reasons import TASK_LIMIT, by_resource
from policies.verification.slot_order import check_order
from policies.verification.slots import Slots
from policies.verification.stated import Stated
from policies.verification.stops import NOTHING


def check_schedule(
    stated: Stated, places: Places, allocation: Allocation, schedule: Schedule
) -> Iterator[Check]:
    """Check every slot and the averages."""
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
    yield check_preference_in_slots(slots, problem.workload_names, schedule.tasks, problem.priority)
    yield from check_order(schedule, on_server, _repays(stated, schedule))
    yield _check_numbers(stated, allocation, schedule)


def _repays(stated: Stated, schedule: Schedule) -> FloatArray | None:
    """Return the worth of each slot (s,) to tenants with deficits, weighted by these.

    None without deficits.
    """
    problem = stated.problem
    if not problem.deficit.any():
        return None
    worth = stated.dominant * problem.deficit[problem.workload_tenant]
    repays: FloatArray = schedule.tasks @ worth
    return repays


def _check_shapes(stated: Stated, slots: Slots, schedule: Schedule) -> Check:
    s = len(schedule.fraction)
    placements = schedule.placements
    fits = (
        schedule.fraction.shape == (s,)
        and schedule.tasks.shape == (s, stated.problem.n)
        and np.issubdtype(schedule.tasks.dtype, np.integer)
        and bool((schedule.tasks >= 0).all())
        and bool(np.isfinite(schedule.fraction).all())
        # A basic optimum of the program over slots has at most one per tenant.
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
    """Return the tasks (L, q) of each slot (s) on each server."""
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
    of = allocation.placement_class, allocation.placement_piece
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
    """Return what stops each workload (n) in the longest slot in which it does not run all its tasks.

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
    # Gaps may be 0, to which nothing is relative.
    same[3:] = np.isclose(given[3:], derived[3:], rtol=0, atol=AGREEMENT, equal_nan=True)
    return check(
        "objective",
        ~same * 1.0,
        0.0,
        "objective, bound and gap are those of the averages",
        ("objective", "objective", "bound", "gap", "gap"),
    )
