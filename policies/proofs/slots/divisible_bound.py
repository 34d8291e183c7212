"""The bound that prices prove of the same pool with divisible tasks, which no schedule beats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.arrays import FloatArray
from policies.model.problem import Problem
from policies.model.server_classes import (
    ServerClasses,
    one_class,
    server_classes,
)
from policies.proofs.level_bounds import prove_round
from policies.proofs.normal_form import normalise
from policies.proofs.slots.slot_pool import SlotPool


def bound_at(problem: Problem, pool: SlotPool, prices: FloatArray, *, pack: bool) -> float:
    """The upper bound on the first level that prices prove; NaN where they fit no problem.

    Args:
        problem: what is scheduled; pool: with ``pack`` or without; prices: (K, m), any.
    """
    runnable, classes = _divisible_problem(problem, pool, pack=pack)
    form = normalise(runnable, classes).leximin
    if prices.shape != (form.K, form.m) or not form.t or not (prices >= 0).all():
        return float("nan")
    nothing = np.zeros(form.t)
    rising = form.stage == form.stage.min()
    return prove_round(form, prices, level=0.0, share=nothing, rising=rising).bound


def largest_prior_share(problem: Problem) -> float:
    """The greatest weighted share that a tenant counts as having had: it is added to the bound."""
    return float((problem.prior_share / problem.effective_weight).max(initial=0.0))


def _divisible_problem(
    problem: Problem, pool: SlotPool, *, pack: bool
) -> tuple[Problem, ServerClasses]:
    runnable = replace(problem, tasks=np.where(pool.reasons == "", problem.tasks, 0.0))
    if pack:
        return runnable, server_classes(runnable)
    return runnable, one_class(runnable)
