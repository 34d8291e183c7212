"""Borrow cap of long-term policies, the limit to use above the entitlement.

Source: Tang et al., TPDS 2018, §6.1 (tenants that pile up resources), as policies §4 states it.
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray
from policies.model.entitlement import entitled_partition
from policies.model.history import History
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.tolerance import DISCRETE_TOLERANCE


def borrow_limit(problem: Problem, choice: Choice, elapsed: float) -> FloatArray:
    """Return the borrow limits ``(1 + b) · S[i, r] · elapsed`` (t, m).

    A tenant at its limit receives nothing more. The limit is infinite without a ``borrow_cap``, and
    for tenants of the second stage, which have no entitlement and receive only what the others
    leave.

    Args:
        elapsed: length of the window, the step that is decided included.
    """
    limit = np.full((problem.t, problem.m), np.inf)
    cap = choice.option("borrow_cap")
    if cap is None:
        return limit
    entitled = entitled_partition(problem)
    np.multiply(entitled, (1.0 + float(cap)) * elapsed, out=limit, where=entitled > 0)
    limit[problem.second_stage] = np.inf
    return limit * (1.0 + DISCRETE_TOLERANCE)


def beyond_borrow_limit(problem: Problem, choice: Choice, history: History) -> BoolArray:
    """Return the tenants (t,) that have borrowed all that the cap allows.

    The history is that after the step.
    """
    limit = borrow_limit(problem, choice, history.elapsed)
    beyond: BoolArray = np.logical_or.reduce(history.used > limit, axis=1)
    return beyond
