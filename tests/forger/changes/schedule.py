"""Another division of time."""

from dataclasses import replace

import numpy as np

from tests.forger.changes.base import SMALL, change, one


def scheduled(case, **parts):
    return case.with_answer(schedule=replace(case.answer.schedule, **parts))


@change
def no_schedule(case, rng):
    return case.with_answer(schedule=None) if case.answer.schedule is not None else None


@change
def slots_of_other_length(case, rng):
    schedule = case.answer.schedule
    if schedule is None or len(schedule.fraction) < 2:
        return None
    shift = min(SMALL, schedule.fraction.min() / 2) * one(
        np.zeros(len(schedule.fraction)), [0, 1], [1, -1]
    )
    return scheduled(case, fraction=schedule.fraction + shift)


@change
def slots_reordered(case, rng):
    schedule = case.answer.schedule
    if schedule is None or len(schedule.fraction) < 2:
        return None
    where = schedule.placements
    return scheduled(
        case,
        fraction=schedule.fraction[::-1],
        tasks=schedule.tasks[::-1],
        placements=None if where is None else where[::-1],
    )


@change
def a_slot_dropped(case, rng):
    schedule = case.answer.schedule
    if schedule is None or len(schedule.fraction) < 2:
        return None
    fraction = schedule.fraction[1:] / schedule.fraction[1:].sum()
    where = schedule.placements
    left = None if where is None else where[1:]
    changed = scheduled(case, fraction=fraction, tasks=schedule.tasks[1:], placements=left)
    return changed.with_answer(tasks=fraction @ schedule.tasks[1:])


@change
def a_slot_in_two(case, rng):
    schedule = case.answer.schedule
    if schedule is None:
        return None
    half = schedule.fraction[:1] / 2
    where = schedule.placements
    return scheduled(
        case,
        fraction=np.concatenate([half, half, schedule.fraction[1:]]),
        tasks=np.concatenate([schedule.tasks[:1], schedule.tasks]),
        placements=None if where is None else (where[0], *where),
    )


def in_slot(case, rng, more):
    schedule = case.answer.schedule
    if schedule is None or not schedule.tasks.any():
        return None
    slots, workloads = np.nonzero(schedule.tasks)
    at = rng.integers(len(slots))
    tasks = schedule.tasks.copy()
    tasks[slots[at], workloads[at]] += more
    changed = scheduled(case, tasks=tasks)
    return changed.with_answer(tasks=schedule.fraction @ tasks)


@change
def a_task_more_in_a_slot(case, rng):
    return in_slot(case, rng, 1)


@change
def a_task_less_in_a_slot(case, rng):
    return in_slot(case, rng, -1)


@change
def a_task_of_a_slot_elsewhere(case, rng):
    schedule = case.answer.schedule
    if schedule is None or schedule.placements is None or not len(schedule.placements[0].tasks):
        return None
    item = schedule.placements[0]
    moved = replace(item, server=one(item.server, 0, item.server[0] + 1))
    return scheduled(case, placements=(moved, *schedule.placements[1:]))


@change
def slots_that_do_not_say_where(case, rng):
    schedule = case.answer.schedule
    if schedule is None or schedule.placements is None:
        return None
    return scheduled(case, placements=None)


@change
def lp_bound_lower(case, rng):
    if case.answer.schedule is None or np.isnan(case.answer.schedule.lp_bound):
        return None
    return scheduled(case, lp_bound=case.answer.schedule.lp_bound * (1 - SMALL))


@change
def slots_in_another_order(case, rng):
    schedule = case.answer.schedule
    if schedule is None or len(schedule.fraction) < 4:
        return None
    order = rng.permutation(len(schedule.fraction))
    where = schedule.placements
    return scheduled(
        case,
        fraction=schedule.fraction[order],
        tasks=schedule.tasks[order],
        placements=None if where is None else tuple(where[k] for k in order),
    )


@change
def slots_of_a_part_of_a_task(case, rng):
    schedule = case.answer.schedule
    return None if schedule is None else scheduled(case, tasks=schedule.tasks + 0.9)


@change
def one_tenant_never_runs(case, rng):
    """All time for the others, in slots with room; every round is left open."""
    schedule, certificate = case.answer.schedule, case.answer.certificate
    if schedule is None or not certificate.rounds:
        return None
    i = rng.integers(case.problem.t)
    mine = case.problem.workload_tenant == i
    if not schedule.tasks[:, mine].any():
        return None
    tasks = np.where(mine, 0, schedule.tasks)
    rounds = tuple(
        replace(item, level=0.0 if certificate.frozen_in[i] == number else item.level, proven=False)
        for number, item in enumerate(certificate.rounds)
    )
    where = schedule.placements and tuple(
        replace(
            item,
            workload=item.workload[~mine[item.workload]],
            server=item.server[~mine[item.workload]],
            tasks=item.tasks[~mine[item.workload]],
        )
        for item in schedule.placements
    )
    changed = scheduled(case, tasks=tasks, placements=where)
    return changed.with_answer(
        tasks=np.where(mine, 0.0, case.answer.tasks),
        level=one(case.answer.level, i, 0.0),
        certificate=replace(certificate, rounds=rounds),
    )
