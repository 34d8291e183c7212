"""Checks of the shapes, types and ranges of an answer's arrays.

Every other check relies on them, and none has to handle a value that is not a number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.arrays import IntArray
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.problem import Problem
from policies.model.schedule import Schedule, SlotPlacement
from policies.verification.checks import Check
from policies.verification.places import Places

# No count of tasks or servers is larger: beyond, float64 does not hold all whole numbers.
LARGEST_COUNT = 2**53


def check_shapes(problem: Problem, allocation: Allocation, places: Places, kinds: int) -> Check:
    """Check that each part of an answer is what it has to be, before its values are looked at.

    Args:
        kinds: number of kinds of pieces, to which placements refer.
    """
    p = len(allocation.placement_tasks)
    moved = allocation.moved
    fits = (
        _floats(allocation.tasks, (problem.n,))
        and _floats(allocation.level, (problem.t,), finite=False)
        and len(allocation.limited_by) == problem.n
        and _floats(allocation.placement_tasks, (p,))
        and _indices(allocation.placement_piece, p, kinds)
        and _indices(allocation.placement_class, p, places.count)
        and np.array_equal(allocation.classes.class_of_row, places.place_of_row)
        and np.array_equal(allocation.classes.servers, places.servers)
        and all(_is_number(x) for x in (allocation.objective, allocation.bound, allocation.gap))
        and (moved is None or (_is_whole(moved) and 0 <= moved <= LARGEST_COUNT))
        and (allocation.certificate is None or _certificate_fits(allocation.certificate))
        and (allocation.schedule is None or _schedule_fits(problem, allocation.schedule))
    )
    return Check("shapes", fits, "one row per workload, placements on the pool's servers", 0.0)


def _floats(values: Any, shape: tuple[int, ...], *, finite: bool = True) -> bool:
    """Return whether a value is an array of real numbers.

    Unless it must be ``finite`` it may have NaN, but not infinity.
    """
    if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype != np.float64:
        return False
    return bool((np.isfinite(values) if finite else ~np.isinf(values)).all())


def _indices(values: npt.NDArray[Any], count: int, size: int) -> bool:
    return (
        isinstance(values, np.ndarray)
        and values.shape == (count,)
        and np.issubdtype(values.dtype, np.integer)
        and _within(values, size)
    )


def _within(index: IntArray, size: int) -> bool:
    return bool(((index >= 0) & (index < size)).all())


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Return whether a value is a real number, or NaN for a number that does not exist."""
    is_real = isinstance(value, float | np.floating) or _is_whole(value)
    return is_real and not math.isinf(float(value))


def _certificate_fits(certificate: Certificate) -> bool:
    divisible = certificate.divisible
    frozen_in = certificate.frozen_in
    return (
        isinstance(frozen_in, np.ndarray)
        and np.issubdtype(frozen_in.dtype, np.integer)
        and (divisible is None or _floats(divisible, np.shape(divisible)))
        and all(
            _is_whole(item.stage)
            and _is_number(item.level)
            and _is_number(item.bound)
            and isinstance(item.proven, bool | np.bool_)
            and _floats(item.prices, np.shape(item.prices))
            for item in certificate.rounds
        )
    )


def _schedule_fits(problem: Problem, schedule: Schedule) -> bool:
    s = len(schedule.fraction)
    numbers = (schedule.objective, schedule.bound, schedule.lp_bound, schedule.gap)
    return (
        _floats(schedule.fraction, (s,))
        and isinstance(schedule.tasks, np.ndarray)
        and schedule.tasks.shape == (s, problem.n)
        and np.issubdtype(schedule.tasks.dtype, np.integer)
        and bool(((schedule.tasks >= 0) & (schedule.tasks <= LARGEST_COUNT)).all())
        and all(_is_number(value) for value in numbers)
        and isinstance(schedule.order_proven, bool)
        and all(_placement_fits(problem, item) for item in schedule.placements or ())
    )


def _placement_fits(problem: Problem, item: SlotPlacement) -> bool:
    p = len(item.tasks)
    servers = int(problem.server_count.sum())
    return (
        _indices(item.workload, p, problem.n)
        and _indices(item.server, p, servers)
        and _indices(item.tasks, p, LARGEST_COUNT)
    )
