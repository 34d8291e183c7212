"""Ways to change an answer, or the problem under it: functions of a ``Case`` and a random generator.

It gives the changed case, or None where there is nothing of the kind to change. Some changes are
harmless (prices in another unit say the same): whether one is false is for ``tests.references.truth``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

TINY, SMALL, LARGE = 1e-7, 1e-3, 0.1


@dataclass(frozen=True)
class Case:
    """A problem, what was remembered of it, and an answer."""

    problem: object
    answer: object
    history: object = None

    def with_answer(self, **parts):
        return replace(self, answer=replace(self.answer, **parts))

    def with_problem(self, **parts):
        return replace(self, problem=replace(self.problem, **parts))


CHANGES: dict[str, Callable[[Case, np.random.Generator], Case | None]] = {}


def change(function):
    CHANGES[function.__name__] = function
    return function


def some(rng, indices):
    return int(rng.choice(indices)) if len(indices) else None


def one(values, at, value):
    changed = np.array(values, copy=True)
    changed[at] = value
    return changed


def rescaled(case, factor):
    """Tasks of each workload (n,) times a factor, and their placements with them."""
    answer = case.answer
    return case.with_answer(
        tasks=answer.tasks * factor,
        placement_tasks=answer.placement_tasks * factor[answer.placement_workload],
    )


def scaled_one(case, rng, *factors):
    runs = np.flatnonzero(case.answer.tasks > 0)
    if len(runs) < len(factors):
        return None
    factor = np.ones(case.problem.n)
    factor[rng.choice(runs, len(factors), replace=False)] = factors
    return rescaled(case, factor)


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
        placement_workload=order[answer.placement_workload],
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
        placement_workload=case.answer.placement_workload[kept],
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


def placed(case, workload, place, tasks):
    return case.with_answer(
        placement_workload=np.asarray(workload, dtype=np.int64),
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


@change
def no_certificate(case, rng):
    return case.with_answer(certificate=None) if case.answer.certificate is not None else None


def priced(case, turn):
    return with_rounds(case, lambda _, item: replace(item, prices=turn(item.prices)))


@change
def prices_scaled(case, rng):
    return priced(case, lambda prices: prices * 2.0)


@change
def prices_zeroed(case, rng):
    return priced(case, lambda prices: prices * 0.0)


@change
def prices_of_classes_reordered(case, rng):
    return priced(case, lambda prices: prices[::-1])


@change
def prices_of_resources_reordered(case, rng):
    return priced(case, lambda prices: prices[..., ::-1])


@change
def prices_all_alike(case, rng):
    return priced(case, lambda prices: np.ones_like(prices))


@change
def prices_below_zero(case, rng):
    return priced(case, lambda prices: -prices)


@change
def prices_not_numbers(case, rng):
    return priced(case, lambda prices: prices * np.nan)


@change
def prices_of_fewer_places(case, rng):
    return priced(case, lambda prices: prices[:-1])


@change
def one_price_higher(case, rng):
    return priced(
        case,
        lambda prices: prices * np.where(rng.random(prices.shape) < 0.5, 1.01, 1.0),
    )


@change
def rounds_reordered(case, rng):
    certificate = case.answer.certificate
    if certificate is None or len(certificate.rounds) < 2:
        return None
    return case.with_answer(certificate=replace(certificate, rounds=certificate.rounds[::-1]))


@change
def rounds_and_tenants_reordered(case, rng):
    certificate = case.answer.certificate
    if certificate is None or len(certificate.rounds) < 2:
        return None
    last = len(certificate.rounds) - 1
    frozen = np.where(certificate.frozen_in < 0, -1, last - certificate.frozen_in)
    reordered = replace(certificate, rounds=certificate.rounds[::-1], frozen_in=frozen)
    return case.with_answer(certificate=reordered)


@change
def first_round_twice(case, rng):
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    rounds = (certificate.rounds[0], *certificate.rounds)
    return case.with_answer(certificate=replace(certificate, rounds=rounds))


@change
def last_round_dropped(case, rng):
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    return case.with_answer(certificate=replace(certificate, rounds=certificate.rounds[:-1]))


@change
def tenants_frozen_in_other_rounds(case, rng):
    certificate = case.answer.certificate
    if certificate is None or len(certificate.frozen_in) < 2:
        return None
    frozen = np.roll(certificate.frozen_in, 1)
    return case.with_answer(certificate=replace(certificate, frozen_in=frozen))


@change
def levels_of_rounds_higher(case, rng):
    return with_rounds(case, lambda _, item: replace(item, level=item.level * (1 + 1e-6)))


@change
def bounds_of_rounds_lower(case, rng):
    return with_rounds(case, lambda _, item: replace(item, bound=item.bound * (1 - 1e-6)))


@change
def stages_of_rounds_swapped(case, rng):
    return with_rounds(case, lambda _, item: replace(item, stage=1 - item.stage))


def number(case, name, turn):
    was = getattr(case.answer, name)
    return case.with_answer(**{name: turn(was)})


@change
def objective_higher(case, rng):
    return number(case, "objective", lambda was: 0.5 if np.isnan(was) else was * (1 + 1e-6) + 1e-9)


@change
def objective_not_said(case, rng):
    return number(case, "objective", lambda was: np.nan if not np.isnan(was) else 0.0)


@change
def bound_lower(case, rng):
    return number(case, "bound", lambda was: 0.5 if np.isnan(was) else was * (1 - 1e-6) - 1e-9)


@change
def gap_not_said(case, rng):
    return number(case, "gap", lambda was: np.nan if not np.isnan(was) else 0.0)


@change
def one_level_higher(case, rng):
    return number(case, "level", lambda was: one(was, rng.integers(len(was)), was.max() + 0.1))


@change
def reasons_all_task_limit(case, rng):
    return case.with_answer(limited_by=("task_limit",) * case.problem.n)


@change
def reasons_all_the_first_resource(case, rng):
    return case.with_answer(limited_by=(f"resource:{case.problem.resources[0]}",) * case.problem.n)


@change
def something_moved(case, rng):
    return case.with_answer(moved=1)


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
def no_history(case, rng):
    return case.with_answer(history=None) if case.answer.history is not None else None


def remembered(case, rng, name):
    history = case.answer.history
    if history is None:
        return None
    was = getattr(history, name)
    if name == "elapsed":
        return case.with_answer(history=replace(history, elapsed=was + 1))
    at = tuple(rng.integers(size) for size in was.shape)
    return case.with_answer(history=replace(history, **{name: one(was, at, was[at] * 1.5 + 1)}))


@change
def more_used(case, rng):
    return remembered(case, rng, "used")


@change
def more_alone(case, rng):
    return remembered(case, rng, "alone")


@change
def longer_waited(case, rng):
    return remembered(case, rng, "waiting")


@change
def longer_elapsed(case, rng):
    return remembered(case, rng, "elapsed")


@change
def a_server_left(case, rng):
    problem = case.problem
    if problem.k < 2:
        return None
    kept = np.arange(problem.k) != rng.integers(problem.k)
    rows = np.flatnonzero(kept).tolist()
    return case.with_problem(
        server_names=tuple(problem.server_names[row] for row in rows),
        capacity=problem.capacity[kept],
        server_count=problem.server_count[kept],
        server_labels=tuple(problem.server_labels[row] for row in rows),
        contributed_by=problem.contributed_by[kept],
        contributed_only=problem.contributed_only[kept],
    )


@change
def a_server_drains(case, rng):
    row = rng.integers(case.problem.k)
    return case.with_problem(contributed_only=one(case.problem.contributed_only, row, True))


@change
def a_row_has_a_server_more(case, rng):
    count = case.problem.server_count
    row = rng.integers(len(count))
    return case.with_problem(server_count=one(count, row, count[row] + 1))


@change
def servers_smaller(case, rng):
    return case.with_problem(capacity=case.problem.capacity * np.where(rng.random() < 2, 0.5, 1.0))


@change
def a_server_larger(case, rng):
    at = rng.integers(case.problem.k)
    return case.with_problem(capacity=one(case.problem.capacity, at, case.problem.capacity[at] * 2))


@change
def a_demand_larger(case, rng):
    at = rng.integers(case.problem.n)
    return case.with_problem(demand=one(case.problem.demand, at, case.problem.demand[at] * 1.5))


@change
def a_demand_smaller(case, rng):
    at = rng.integers(case.problem.n)
    return case.with_problem(demand=one(case.problem.demand, at, case.problem.demand[at] * 0.5))


@change
def a_weight_doubled(case, rng):
    at = rng.integers(case.problem.t)
    return case.with_problem(weight=one(case.problem.weight, at, case.problem.weight[at] * 2))


@change
def a_tenant_served_last(case, rng):
    at = rng.integers(case.problem.t)
    return case.with_problem(best_effort=one(case.problem.best_effort, at, True))


@change
def fewer_tasks_asked_for(case, rng):
    at = rng.integers(case.problem.n)
    return case.with_problem(tasks=one(case.problem.tasks, at, np.floor(case.answer.tasks[at] / 2)))


@change
def more_tasks_asked_for(case, rng):
    at = rng.integers(case.problem.n)
    limit = case.problem.tasks[at]
    return case.with_problem(tasks=one(case.problem.tasks, at, limit + 3)) if limit < 99 else None


@change
def a_workload_of_another_tenant(case, rng):
    problem = case.problem
    if problem.t < 2:
        return None
    at = rng.integers(problem.n)
    owner = (problem.workload_tenant[at] + 1) % problem.t
    return case.with_problem(workload_tenant=one(problem.workload_tenant, at, owner))


@change
def another_past(case, rng):
    history = case.history
    if history is None:
        return None
    used = history.used * 2 + 1
    return replace(case, history=replace(history, used=used))
