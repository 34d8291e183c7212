"""Levels derived from tasks, which answers written as JSON do not repeat."""

from __future__ import annotations

import numpy as np

from policies.arrays import FloatArray, grouped_sum
from policies.model.history import History
from policies.model.policy import HandOut
from policies.verification import long_term
from policies.verification.pool import pool_tasks
from policies.verification.stated import Stated
from policies.verification.whole_tasks import server_reasons


def levels_of(stated: Stated, tasks: FloatArray, history: History | None) -> FloatArray:
    """Return the levels (t,) of tenants that run so many tasks (n,).

    Args:
        stated: the problem; tasks: (n,); history: after the step of a long-term policy.

    Raises:
        PolicyOptionsError: an option names what the problem does not have.
    """
    problem, choice = stated.problem, stated.choice
    if choice.policy.long_term and history is not None:
        one_pool = choice.sees_one_pool
        reasons = pool_tasks(stated).reasons if one_pool else server_reasons(stated)
        return long_term.levels(stated, history, reasons)
    if choice.promises_certificate:
        per_task = stated.columns.max(axis=1, initial=0.0)
        share = grouped_sum(tasks * per_task, problem.workload_tenant, problem.t)
        levels: FloatArray = (share + stated.prior) / stated.weight
        return levels
    columns = pool_tasks(stated).columns if choice.sees_one_pool else stated.columns
    if choice.policy.hands_out is HandOut.FEWEST_REQUESTS:
        columns = np.ones((problem.n, 1))
    share = stated.tenant_shares(columns, tasks) + stated.counted_floors
    return share / stated.weight
