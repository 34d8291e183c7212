"""Other numbers of tasks, with the placements that go with them."""

from dataclasses import replace

import numpy as np

from policies.verification.levels import levels_of
from policies.verification.stated import Stated
from tests.forger.changes.base import LARGE, TINY, change, one, rescaled, scaled_one, some


@change
def one_share_up(case, rng):
    return scaled_one(case, rng, 1 + TINY)


@change
def one_share_down(case, rng):
    return scaled_one(case, rng, 1 - TINY)


@change
def one_share_up_another_down(case, rng):
    return scaled_one(case, rng, 1 + TINY, 1 - TINY)


@change
def much_up_another_down(case, rng):
    return scaled_one(case, rng, 1 + LARGE, 1 - LARGE)


def with_rounds(case, turn):
    """Every round put through a function of its number and itself."""
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    rounds = tuple(turn(number, item) for number, item in enumerate(certificate.rounds))
    return case.with_answer(certificate=replace(certificate, rounds=rounds))


def lowered(case, part, **said):
    """Everything lower by a part, said in every place where it can be said."""
    answer = case.answer
    if answer.certificate is None or answer.schedule is not None or not answer.certificate.rounds:
        return None
    lower = rescaled(case, np.full(case.problem.n, 1 - part))
    lower = with_rounds(lower, lambda _, item: replace(item, level=item.level * (1 - part), **said))
    rounds = lower.answer.certificate.rounds
    gap = max((item.bound - item.level) / max(item.level, 1e-300) for item in rounds)
    return lower.with_answer(
        level=answer.level * (1 - part), objective=rounds[0].level, bound=rounds[0].bound, gap=gap
    )


@change
def all_lower_and_left_open(case, rng):
    return lowered(case, 9e-4, proven=False)


@change
def all_lower_by_little_and_left_open(case, rng):
    return lowered(case, 1e-6, proven=False)


@change
def all_lower_as_if_proven(case, rng):
    return lowered(case, 9e-4)


@change
def left_open(case, rng):
    return with_rounds(case, lambda _, item: replace(item, proven=False))


@change
def proven_after_all(case, rng):
    return with_rounds(case, lambda _, item: replace(item, proven=True))


@change
def halved_without_certificate(case, rng):
    answer = case.answer
    half = rescaled(case, np.full(case.problem.n, 0.5))
    return half.with_answer(
        level=answer.level / 2, objective=answer.objective / 2, certificate=None
    )


@change
def tasks_of_two_swapped(case, rng):
    if case.problem.n < 2:
        return None
    a, b = rng.choice(case.problem.n, 2, replace=False)
    order = np.arange(case.problem.n)
    order[[a, b]] = b, a
    return case.with_answer(tasks=case.answer.tasks[order])


@change
def two_workloads_swapped(case, rng):
    if case.problem.n < 2:
        return None
    a, b = rng.choice(case.problem.n, 2, replace=False)
    order = np.arange(case.problem.n)
    order[[a, b]] = b, a
    answer = case.answer
    return case.with_answer(
        tasks=answer.tasks[order],
        placement_piece=order[answer.placement_workload],
        limited_by=tuple(answer.limited_by[j] for j in order.tolist()),
    )


def task_more(case, rng, more, placed=True):
    j = some(rng, np.flatnonzero(case.answer.tasks > 0))
    if j is None:
        return None
    tasks = case.answer.tasks.copy()
    tasks[j] += more
    where = np.flatnonzero(case.answer.placement_workload == j)
    on = case.answer.placement_tasks.copy()
    if placed and len(where):
        on[where[0]] += more
    return case.with_answer(tasks=tasks, placement_tasks=on)


@change
def one_task_more(case, rng):
    return task_more(case, rng, 1)


@change
def one_task_less(case, rng):
    return task_more(case, rng, -1)


@change
def one_task_more_placed_nowhere(case, rng):
    return task_more(case, rng, 1, placed=False)


@change
def half_a_task_less(case, rng):
    return task_more(case, rng, -0.5)


@change
def one_workload_gets_nothing(case, rng):
    j = some(rng, np.flatnonzero(case.answer.tasks > 0))
    if j is None:
        return None
    kept = case.answer.placement_workload != j
    return case.with_answer(
        tasks=one(case.answer.tasks, j, 0.0),
        placement_piece=case.answer.placement_workload[kept],
        placement_class=case.answer.placement_class[kept],
        placement_tasks=case.answer.placement_tasks[kept],
    )


@change
def one_workload_not_a_number(case, rng):
    return case.with_answer(tasks=one(case.answer.tasks, rng.integers(case.problem.n), np.nan))


@change
def one_workload_below_zero(case, rng):
    return case.with_answer(tasks=one(case.answer.tasks, rng.integers(case.problem.n), -1.0))


@change
def everything_twice(case, rng):
    return rescaled(case, np.full(case.problem.n, 2.0)) if case.answer.tasks.any() else None


@change
def tasks_of_the_preferred_for_another(case, rng):
    """A tenant's tasks go to another of its workloads that is alike, and less preferred or more."""
    problem, answer = case.problem, case.answer
    pairs = [
        (a, b)
        for a in range(problem.n)
        for b in range(problem.n)
        if a != b
        and problem.workload_tenant[a] == problem.workload_tenant[b]
        and (problem.demand[a] == problem.demand[b]).all()
        and problem.selectors[a] == problem.selectors[b]
        and problem.tasks[a] == problem.tasks[b]
    ]
    at = some(rng, np.arange(len(pairs)))
    if at is None:
        return None
    order = np.arange(problem.n)
    order[list(pairs[at])] = order[list(pairs[at])][::-1]
    schedule = answer.schedule
    if schedule is not None:
        where = schedule.placements and tuple(
            replace(item, workload=order[item.workload]) for item in schedule.placements
        )
        schedule = replace(schedule, tasks=schedule.tasks[:, order], placements=where)
    return case.with_answer(
        tasks=answer.tasks[order],
        placement_piece=order[answer.placement_workload],
        limited_by=tuple(answer.limited_by[j] for j in order.tolist()),
        schedule=schedule,
    )


@change
def other_counts(case, rng):
    """Any whole numbers of tasks, with the levels and the objective that follow from them."""
    problem, answer = case.problem, case.answer
    if not answer.choice.sees_one_pool or answer.schedule is not None or not answer.whole:
        return None
    most = np.minimum(problem.tasks, answer.tasks + 2)
    counts = rng.integers(0, most.astype(np.int64) + 1).astype(np.float64)
    level = levels_of(Stated(problem, answer.choice), counts, answer.history)
    reasons = tuple(
        "task_limit" if run >= limit else f"resource:{problem.resources[0]}"
        for run, limit in zip(counts, problem.tasks, strict=True)
    )
    wanting = [
        level[i]
        for i, reason in zip(problem.workload_tenant, reasons, strict=True)
        if reason != "task_limit" and not problem.second_stage[i]
    ]
    return case.with_answer(
        tasks=counts, level=level, limited_by=reasons, objective=min(wanting, default=np.nan)
    )
