"""Other placements of the same tasks."""

import numpy as np

from tests.forger.changes.base import change, one, some


def placed(case, workload, place, tasks):
    return case.with_answer(
        placement_piece=np.asarray(workload, dtype=np.int64),
        placement_class=np.asarray(place, dtype=np.int64),
        placement_tasks=np.asarray(tasks, dtype=np.float64),
    )


def columns(case):
    answer = case.answer
    return answer.placement_workload, answer.placement_class, answer.placement_tasks


@change
def no_placements(case, rng):
    return placed(case, [], [], []) if len(case.answer.placement_tasks) else None


@change
def one_placement_dropped(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    return None if p is None else placed(case, *(np.delete(column, p) for column in columns(case)))


@change
def one_placement_twice(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    return None if p is None else placed(case, *(np.append(c, c[p]) for c in columns(case)))


@change
def one_placement_in_two_rows(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    if p is None:
        return None
    workload, place, tasks = columns(case)
    half = tasks[p] / 2
    return placed(
        case,
        np.append(workload, workload[p]),
        np.append(place, place[p]),
        np.append(one(tasks, p, half), half),
    )


@change
def one_placement_more(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    if p is None:
        return None
    workload, place, tasks = columns(case)
    return placed(case, workload, place, one(tasks, p, tasks[p] + 1))


@change
def one_placement_elsewhere(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    count = case.answer.classes.count
    if p is None or count < 2:
        return None
    workload, place, tasks = columns(case)
    return placed(case, workload, one(place, p, (place[p] + rng.integers(1, count)) % count), tasks)


@change
def two_placements_swapped(case, rng):
    workload, place, tasks = columns(case)
    if len(tasks) < 2:
        return None
    a, b = rng.choice(len(tasks), 2, replace=False)
    order = np.arange(len(tasks))
    order[[a, b]] = b, a
    return placed(case, workload, place[order], tasks)


@change
def one_placement_of_another_workload(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    if p is None or case.problem.n < 2:
        return None
    workload, place, tasks = columns(case)
    return placed(case, one(workload, p, (workload[p] + 1) % case.problem.n), place, tasks)


@change
def one_placement_of_nothing(case, rng):
    if not case.answer.classes.count:
        return None
    workload, place, tasks = columns(case)
    return placed(case, np.append(workload, 0), np.append(place, 0), np.append(tasks, 0.0))


@change
def one_placement_beyond_the_servers(case, rng):
    p = some(rng, np.arange(len(case.answer.placement_tasks)))
    if p is None:
        return None
    workload, place, tasks = columns(case)
    return placed(case, workload, one(place, p, case.answer.classes.count), tasks)
