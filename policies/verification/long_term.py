"""One step of a long-term policy, as the verifier computes it.

It covers the use of a tenant alone and the history after the step.

Source: Tang et al., TPDS 2018, §4 and §6.1, as docs/policies/long-term.md reads them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, TextArray, grouped_sum
from policies.model.history import History
from policies.model.policy import ShareDefinition
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.verification.stated import Stated


def entitled(stated: Stated) -> FloatArray:
    """Return each tenant's part of the pool by its weight (t, m), 0 for second-stage tenants."""
    if stated.groups is not None:
        counted = ~stated.late if not stated.late.all() else stated.late
        return np.outer(stated.groups.parts(counted), stated.totals)
    weight = np.where(stated.late, 0.0, stated.weight)
    if not weight.any():
        weight = stated.weight
    part = weight / max(float(weight.sum()), np.finfo(np.float64).tiny)
    return np.outer(part, stated.totals)


def tasks_alone(stated: Stated, reasons: TextArray) -> FloatArray:
    """Return the whole tasks (n,) that each workload would run in its tenant's own part.

    Priority decides, then age.
    """
    problem = stated.problem
    room, alone = entitled(stated).tolist(), [0.0] * problem.n
    tenant, demand = problem.workload_tenant.tolist(), problem.demand.tolist()
    pending, served = problem.tasks.tolist(), (reasons == "").tolist()
    for j in np.lexsort((np.arange(problem.n), -problem.priority)).tolist():
        if not served[j]:
            continue
        mine = room[tenant[j]]
        fitting = min(left / each for left, each in zip(mine, demand[j], strict=True) if each > 0)
        alone[j] = min(pending[j], _whole_part(fitting))
        # A whole part is rounded up within the tolerance, so that a little less than 0 may be left.
        room[tenant[j]] = [
            max(left - alone[j] * each, 0.0) for left, each in zip(mine, demand[j], strict=True)
        ]
    return np.array(alone)


def _whole_part(amount: float) -> float:
    """Return the whole part of one amount, as :func:`policies.model.tolerance.whole_part`."""
    nearest = float(round(amount))
    close = abs(amount - nearest) <= DISCRETE_TOLERANCE * max(1.0, abs(nearest))
    return nearest if close else float(math.floor(amount))


def _by_tenant(stated: Stated, amounts: FloatArray) -> FloatArray:
    """Return the sums (t, m) of amounts (n, m)."""
    problem = stated.problem
    columns = [grouped_sum(c, problem.workload_tenant, problem.t) for c in amounts.T]
    return np.stack(columns, axis=1)


def ahead(stated: Stated, before: History, reasons: TextArray) -> History:
    """Return the history in force when the step's first task is handed out.

    ``alone`` has grown for the whole step.
    """
    problem, step = stated.problem, before.step
    grown = tasks_alone(stated, reasons)[:, None] * problem.demand * step
    runs = (reasons == "") & (problem.tasks > 0)
    pending = np.bincount(problem.workload_tenant[runs], minlength=problem.t) > 0
    literal = None
    if stated.choice.option("literal_alone"):
        requested = np.zeros((problem.n, problem.m))
        some = runs[:, None] & (problem.demand > 0)
        # Not where the demand is 0: the number of tasks may be infinite, and the product NaN.
        np.multiply(problem.tasks[:, None], problem.demand, out=requested, where=some)
        literal = np.minimum(_by_tenant(stated, requested), entitled(stated)) * step
        if before.literal_alone is not None:
            literal = literal + before.literal_alone
    return History(
        step=step,
        used=before.used,
        alone=before.alone + _by_tenant(stated, grown),
        waiting=np.where(pending, before.waiting + step, 0.0),
        elapsed=before.elapsed + step,
        literal_alone=literal,
    )


def after(stated: Stated, ahead_: History, tasks: FloatArray) -> History:
    """Return the history after tasks (n,) have run for the step."""
    problem = stated.problem
    received = grouped_sum(tasks, problem.workload_tenant, problem.t) > 0
    added = _by_tenant(stated, tasks[:, None] * problem.demand * ahead_.step)
    return replace(
        ahead_, used=ahead_.used + added, waiting=np.where(received, 0.0, ahead_.waiting)
    )


def levels(stated: Stated, after_: History, reasons: TextArray) -> FloatArray:
    """Return the measure (t,) that orders tenants after the step.

    It is the accumulated dominant share over the weight if the policy counts dominant shares, and
    else the sum of all shares. NaN without a workload that can run.
    """
    problem = stated.problem
    share = stated.shares(after_.used)
    dominant = stated.choice.policy.share is ShareDefinition.DOMINANT
    measure = share.max(axis=1) if dominant else share.sum(axis=1)
    runs = np.bincount(problem.workload_tenant[reasons == ""], minlength=problem.t) > 0
    return np.where(runs, measure / stated.weight, np.nan)


def borrow_limit(stated: Stated, elapsed: float) -> FloatArray:
    """Return the resource × time (t, m) beyond which a tenant receives nothing more.

    Infinite without a cap.
    """
    cap = stated.choice.option("borrow_cap")
    limit = np.full((stated.problem.t, stated.problem.m), np.inf)
    if cap is not None:
        part = entitled(stated)
        np.multiply(part, (1 + float(cap)) * elapsed, out=limit, where=part > 0)
        # Without a part of the pool all that they have is borrowed, and a cap would leave nothing.
        limit[stated.late] = np.inf
    return limit * (1 + DISCRETE_TOLERANCE)


def starved(stated: Stated, before: History) -> BoolArray:
    """Return the tenants (t,) that have waited for the timeout and go first."""
    timeout = stated.choice.option("starvation_timeout")
    if timeout is None:
        return np.zeros(stated.problem.t, dtype=np.bool_)
    first: BoolArray = before.waiting >= float(timeout) * (1 - DISCRETE_TOLERANCE)
    return first
