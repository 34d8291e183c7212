"""Checks of the history of a long-term answer.

It must be the history before the decision with the step added.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, TextArray
from policies.errors import ProblemError
from policies.model.allocation import Allocation
from policies.model.history import History, check_history_fits
from policies.model.problem import Problem
from policies.model.tolerance import AGREEMENT
from policies.verification import long_term
from policies.verification.checks import Check, check
from policies.verification.stated import Stated


def check_history(
    stated: Stated, allocation: Allocation, before: History, reasons: TextArray
) -> tuple[Check, ...]:
    """Check the history of an answer under a long-term policy.

    Args:
        stated: the problem; allocation: the answer, its shapes checked already.
        before: the history at the decision.
        reasons: (n,) why a workload cannot run at all; empty where it can.
    """
    problem = stated.problem
    readable = _is_readable(problem, allocation, before)
    if allocation.history is None or not readable.holds:
        return (readable,)
    stated_history = allocation.history
    derived = long_term.after(stated, long_term.ahead(stated, before, reasons), allocation.tasks)
    levels = long_term.levels(stated, derived, reasons)
    lengths = (
        np.array([[stated_history.step, stated_history.elapsed]]),
        np.array([[derived.step, derived.elapsed]]),
    )
    checks = [
        readable,
        _agree("history_length", *lengths, "the window grows by the step", ("window",)),
        _agree(
            "history_used",
            stated_history.used,
            derived.used,
            "what a tenant has used grows by its tasks in the step",
            problem.tenants,
        ),
        _agree(
            "history_alone",
            stated_history.alone,
            derived.alone,
            "alone, whole tasks would have filled the entitled partition",
            problem.tenants,
        ),
        _agree(
            "history_waiting",
            stated_history.waiting[:, None],
            derived.waiting[:, None],
            "who has pending tasks and received nothing has waited for a step more",
            problem.tenants,
        ),
        _agree(
            "levels",
            # Levels are at least 0, and NaN would not agree with NaN.
            np.nan_to_num(allocation.level, nan=-1.0)[:, None],
            np.nan_to_num(levels, nan=-1.0)[:, None],
            "every tenant stopped at what it has used over its weight",
            problem.tenants,
        ),
    ]
    if stated_history.literal_alone is not None and derived.literal_alone is not None:
        checks.append(
            _agree(
                "history_literal_alone",
                stated_history.literal_alone,
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
    """Check that numbers (t, c) agree, relative to the larger of each two."""
    size = np.maximum(np.maximum(np.abs(stated), np.abs(derived)), np.finfo(np.float64).tiny)
    return check(name, (np.abs(stated - derived) / size).max(axis=1), AGREEMENT, detail, places)
