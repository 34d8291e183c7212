"""Checking an answer with arithmetic only: no solver, time linear in its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from policies.allocation import Allocation
from policies.problem import Problem

CAPACITY_TOLERANCE = 1e-12
SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Check:
    """One thing that must hold.

    Attributes:
        name: what is checked; holds: whether it does.
        detail: a sentence that names the worst place; worst: its size (relative).
    """

    name: str
    holds: bool
    detail: str
    worst: float


@dataclass(frozen=True)
class Verification:
    """All checks of one answer; ``valid`` when each holds."""

    valid: bool
    checks: tuple[Check, ...]


def verify(problem: Problem, allocation: Allocation) -> Verification:
    """Check a decision against the problem it claims to answer.

    Args:
        problem: the problem, for example from a stored input.
        allocation: the answer; its own ``problem`` is not looked at.
    """
    checks = tuple(check_feasible(allocation, problem))
    return Verification(all(check.holds for check in checks), checks)


def check_feasible(allocation: Allocation, problem: Problem | None = None) -> Iterator[Check]:
    """Checks that hold for every policy: non-negative, in capacity, within limits."""
    problem = allocation.problem if problem is None else problem
    negative = float(-allocation.tasks.min(initial=0.0))
    yield Check("tasks_nonnegative", negative <= 0, "every workload has 0 or more tasks", negative)
    over = allocation.used / np.where(problem.totals > 0, problem.totals, 1.0) - 1
    worst = float(over.max(initial=-1.0))
    yield Check("pool_capacity", worst <= CAPACITY_TOLERANCE, "the pool is not overfilled", worst)
