"""Checking what a long-term answer remembers: the step added to what was remembered before it."""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray
from policies.errors import ProblemError
from policies.model.allocation import Allocation
from policies.model.history import History, check_history_fits
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT
from policies.proofs.long_term_step import (
    levels_reached,
    reasons_not_to_run,
    step_added,
)
from policies.verification.checks import Check, check


def check_history(
    problem: Problem, allocation: Allocation, before: History | None
) -> tuple[Check, ...]:
    """What must hold of the history of an answer.

    Args:
        problem: the problem.
        allocation: the answer, its shapes checked already.
        before: what was remembered at the decision; None is nothing, and a step of length 1.
    """
    if not allocation.policy.long_term:
        if allocation.history is None:
            return ()
        detail = "a memoryless policy remembers nothing"
        return (Check("history", False, detail, np.inf),)
    before = History.zeros(problem) if before is None else before
    readable = _is_readable(problem, allocation, before)
    if allocation.history is None or not readable.holds:
        return (readable,)
    stated = allocation.history
    runnable = reasons_not_to_run(problem, allocation.choice) == ""
    derived = step_added(problem, allocation.choice, before, allocation.tasks)
    levels = levels_reached(problem, allocation.policy, derived, runnable)
    lengths = np.array([[stated.step, stated.elapsed]]), np.array([[derived.step, derived.elapsed]])
    checks = [
        readable,
        _agree("history_length", *lengths, "the window grows by the step", ("window",)),
        _agree(
            "history_used",
            stated.used,
            derived.used,
            "what a tenant has used grows by its tasks in the step",
            problem.tenants,
        ),
        _agree(
            "history_alone",
            stated.alone,
            derived.alone,
            "alone, whole tasks would have filled the entitled partition",
            problem.tenants,
        ),
        _agree(
            "history_waiting",
            stated.waiting[:, None],
            derived.waiting[:, None],
            "who has pending tasks and received nothing has waited for a step more",
            problem.tenants,
        ),
        _agree(
            "levels",
            np.nan_to_num(allocation.level, nan=-1.0)[:, None],
            np.nan_to_num(levels, nan=-1.0)[:, None],
            "every tenant stopped at what it has used over its weight",
            problem.tenants,
        ),
    ]
    if stated.literal_alone is not None and derived.literal_alone is not None:
        checks.append(
            _agree(
                "history_literal_alone",
                stated.literal_alone,
                derived.literal_alone,
                "alone, by formula (2) read literally",
                problem.tenants,
            )
        )
    return tuple(checks)


def _is_readable(problem: Problem, allocation: Allocation, before: History) -> Check:
    detail = "a row per tenant and a column per resource, before and after the step"
    history = allocation.history
    holds = history is not None and (
        (history.literal_alone is not None) == bool(allocation.choice.option("literal_alone"))
    )
    if history is not None:
        try:
            check_history_fits(problem, before)
            check_history_fits(problem, history)
        except ProblemError:
            holds = False
    return Check("history", holds, detail, 0.0 if holds else np.inf)


def _agree(
    name: str, stated: FloatArray, derived: FloatArray, detail: str, places: tuple[str, ...]
) -> Check:
    """(t, c) numbers agree, relative to the larger of each two."""
    size = np.maximum(np.maximum(np.abs(stated), np.abs(derived)), np.finfo(np.float64).tiny)
    return check(name, (np.abs(stated - derived) / size).max(axis=1), AGREEMENT, detail, places)
