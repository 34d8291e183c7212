"""How far above its entitlement a tenant may go: the borrow cap of long-term policies.

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
    """(t, m) ``(1 + b) · S[i, r] · elapsed``: beyond it a tenant is handed nothing more.

    Infinite without a ``borrow_cap``, and for tenants of the second stage, who are entitled to
    nothing and only take what everybody else leaves.

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
    """(t,) tenants who have borrowed all that the cap allows, by the history after the step."""
    limit = borrow_limit(problem, choice, history.elapsed)
    beyond: BoolArray = np.logical_or.reduce(history.used > limit, axis=1)
    return beyond
