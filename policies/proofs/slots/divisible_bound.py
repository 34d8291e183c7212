"""The same pool with divisible tasks, which no schedule beats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.model.problem import Problem
from policies.model.server_classes import (
    ServerClasses,
    one_class,
    server_classes,
)
from policies.proofs.slots.slot_pool import SlotPool


def largest_prior_share(problem: Problem) -> float:
    """Return the greatest weighted share that a tenant is deemed to have received before.

    It is added to the bound.
    """
    return float((problem.prior_share / problem.effective_weight).max(initial=0.0))


def divisible_problem(
    problem: Problem, pool: SlotPool, *, pack: bool
) -> tuple[Problem, ServerClasses]:
    """Return the problem without tasks that cannot run whole, and the servers of its prices."""
    runnable = replace(problem, tasks=np.where(pool.reasons == "", problem.tasks, 0.0))
    if pack:
        return runnable, server_classes(runnable)
    return runnable, one_class(runnable)
