"""Checks that an answer is feasible, whatever its policy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.arrays import grouped_sum
from policies.model.allocation import Allocation
from policies.model.history import History
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT
from policies.verification.checks import Check, exactly
from policies.verification.checks import check as _check
from policies.verification.fits import Fits
from policies.verification.history import check_history
from policies.verification.places import Places
from policies.verification.reasons import TASK_LIMIT
from policies.verification.schedule import check_schedule
from policies.verification.shapes import check_shapes
from policies.verification.stated import Stated
from policies.verification.whole_tasks import Whole, check_whole_tasks


def places_of(stated: Stated, allocation: Allocation) -> Places:
    """Return the places to which the placements of an answer refer."""
    ranges = allocation.classes.offset is not None
    return stated.places(allocation.classes.servers if ranges else None)


def check_feasible(
    problem: Problem,
    allocation: Allocation,
    history: History | None = None,
    stated: Stated | None = None,
) -> Iterator[Check]:
    """Check what must hold under every policy.

    The checks cover shapes, limits, eligibility, capacity, sums and history. Consequences of the
    tasks are checked once the tasks are feasible.

    Args:
        stated: the problem under the answer's choice, if it was read already.
    """
    if stated is None:
        stated = Stated(problem, allocation.choice)
    places = places_of(stated, allocation)
    shapes = check_shapes(problem, allocation, places, len(stated.pieces.owner))
    yield shapes
    # All that follows indexes arrays of the answer.
    if not shapes.holds:
        return
    found = tuple(_check_tasks(stated, places, allocation))
    yield from found
    if not all(item.holds for item in found):
        return
    if allocation.schedule is not None:
        yield from check_schedule(stated, places, allocation, allocation.schedule)
        return
    remembered: tuple[Check, ...] = ()
    whole = Whole.of(stated, places, allocation) if allocation.whole else None
    if allocation.policy.long_term and whole is not None:
        before = History.zeros(problem) if history is None else history
        remembered = check_history(stated, allocation, before, whole.reasons)
        yield from remembered
    if whole is not None and all(item.holds for item in remembered):
        yield from check_whole_tasks(whole)


def _check_tasks(stated: Stated, places: Places, allocation: Allocation) -> Iterator[Check]:
    """Tasks are feasible, and those that run in full are limited by their number."""
    problem = stated.problem
    tasks = allocation.tasks
    fits = Fits.of(stated, places, allocation)
    yield _check(
        "task_limits",
        exactly(
            np.maximum(tasks / np.where(tasks > 0, problem.tasks, 1.0) - 1, -np.sign(tasks)),
            (tasks < 0) | (tasks > problem.tasks) | fits.beyond_limits(),
        ),
        0.0,
        "no workload runs less than nothing or more tasks than it has",
        problem.workload_names,
    )
    totals = np.where(stated.totals > 0, stated.totals, 1.0)
    yield _check(
        "pool_capacity",
        exactly((tasks @ problem.demand) / totals - 1, fits.pool_overfilled()),
        0.0,
        "the pool's resources are not overfilled",
        problem.resources,
    )
    yield from _check_placements(stated, allocation, fits)
    if problem.limits:
        yield _check(
            "limits",
            fits.limits_exceeded() * 1.0,
            0.0,
            "what counts in a limit takes no more than its amount",
            [limit.reason for limit in stated.limits],
        )
    unserved = stated.unserved(places) != ""
    yield _check(
        "unservable",
        np.where(unserved, tasks, 0.0),
        0.0,
        "workloads that cannot be served have no tasks",
        problem.workload_names,
    )
    at_limit = tasks >= problem.tasks * (1 - AGREEMENT)
    named = np.array([reason == TASK_LIMIT for reason in allocation.limited_by], dtype=np.bool_)
    yield _check(
        "limited_by_tasks",
        (named != (at_limit & ~(unserved & (problem.tasks > 0)))) * 1.0,
        0.0,
        "exactly the workloads that run all their tasks are limited by them",
        problem.workload_names,
    )


def _check_placements(stated: Stated, allocation: Allocation, fits: Fits) -> Iterator[Check]:
    """Tasks run where they may, all of them, and no server has too many.

    Where the pool counts as one server, nothing is placed.
    """
    problem, places = stated.problem, fits.places
    pieces, place = stated.pieces, allocation.placement_class
    piece, tasks = allocation.placement_piece, allocation.placement_tasks
    workload = pieces.owner[piece]
    if stated.choice.sees_one_pool:
        detail = "nothing is placed where the pool counts as one server"
        yield Check("placements", not len(tasks), detail, float(len(tasks)))
        return
    # Sorted, two equal pairs are neighbours.
    pairs = np.sort(piece * max(places.count, 1) + place)
    twice = np.count_nonzero(pairs[1:] == pairs[:-1])
    detail = "no workload is placed twice at one place"
    yield Check("placements", not twice, detail, float(twice))
    yield _check(
        "placements_positive",
        -np.sign(tasks) + 1,
        0.0,
        "every placement has tasks",
        problem.workload_names,
        workload,
    )
    placed = grouped_sum(tasks, piece, len(pieces.owner))
    run = allocation.tasks[pieces.owner] * pieces.count
    # The least positive size, because 0 of 0 agree.
    size = np.maximum(np.maximum(placed, run), 1e-300)
    yield _check(
        "placements_add_up",
        np.abs(placed - run) / size,
        AGREEMENT,
        "a workload's placements add up to its tasks",
        problem.workload_names,
        pieces.owner,
    )
    yield _check(
        "eligibility",
        ~places.allowed[piece, place] * 1.0,
        0.0,
        "tasks run only where they may",
        problem.workload_names,
        workload,
    )
    used = np.empty((places.count, problem.m))
    for r in range(problem.m):
        used[:, r] = grouped_sum(tasks * pieces.demand[piece, r], place, places.count)
    capacity = problem.capacity[places.row] * places.servers[:, None]
    excess = used / np.where(capacity > 0, capacity, 1.0) - (capacity > 0)
    over = fits.servers_overfilled()
    yield _check(
        "server_capacity",
        exactly(excess.max(axis=1, initial=-1.0), np.logical_or.reduce(over, axis=1)),
        0.0,
        "no server is overfilled",
        problem.server_names,
        places.row,
    )
