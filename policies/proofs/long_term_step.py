"""One step of a long-term policy as arithmetic on its history.

The solver and ``verify`` call the same functions. The order of tenants is not decided here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.arrays import BoolArray, FloatArray, TextArray, grouped_sum
from policies.model.entitlement import literal_use_alone, tasks_alone
from policies.model.history import History
from policies.model.policy import Choice, Policy, ShareDefinition
from policies.model.problem import Problem
from policies.model.quantities import WholeServers
from policies.model.server_classes import each_row_alone
from policies.proofs.pool_of_tasks import whole_pool
from policies.proofs.saturation import filling_reasons


def reasons_not_to_run(problem: Problem, choice: Choice) -> TextArray:
    """Return the reason for which each workload cannot run at all.

    Parameters
    ----------
    problem : Problem
        The problem.
    choice : Choice
        The policy, which decides what counts as a server.

    Returns
    -------
    (n,) array of str
        The reason, such as ``out_of_range``; empty where the workload can run.

    Examples
    --------
    >>> from policies import Problem, choose, reasons_not_to_run
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A", "B"],
    ...     demand=[[1], [1]], tasks=[4, 0])
    >>> reasons_not_to_run(problem, choose("h-mrf")).tolist()
    ['', 'task_limit']
    """
    if choice.sees_one_pool:
        return whole_pool(problem).reasons
    return filling_reasons(problem, WholeServers.of(problem), each_row_alone(problem))


def used_in_step(problem: Problem, tasks: FloatArray, step: float) -> FloatArray:
    """Return the resource × time (t, m) of whole tasks (n,) that run for the step."""
    amount: FloatArray = tasks[:, None] * problem.demand * step
    columns = [
        grouped_sum(amount[:, r], problem.workload_tenant, problem.t) for r in range(problem.m)
    ]
    return np.stack(columns, axis=1)


def history_ahead(
    problem: Problem, choice: Choice, before: History, runnable: BoolArray
) -> History:
    """Return the history in force when the step's first task is handed out.

    ``alone`` has grown for the whole step.

    Args:
        problem: ``tasks`` are those that are pending.
        choice: its option ``literal_alone`` adds the paper's formula (2) read literally.
        before: the history at the decision.
        runnable: (n,) workloads that can be served at all.
    """
    step = before.step
    pending = grouped_sum(
        (runnable & (problem.tasks > 0)).astype(np.float64), problem.workload_tenant, problem.t
    )
    literal = None
    if choice.option("literal_alone"):
        literal = (
            np.zeros_like(before.used) if before.literal_alone is None else before.literal_alone
        )
        literal = literal + literal_use_alone(problem, runnable) * step
    return History(
        step=step,
        used=before.used,
        alone=before.alone + used_in_step(problem, tasks_alone(problem, runnable), step),
        waiting=np.where(pending > 0, before.waiting + step, 0.0),
        elapsed=before.elapsed + step,
        literal_alone=literal,
    )


def history_after(problem: Problem, ahead: History, tasks: FloatArray) -> History:
    """Return the history after the step.

    Args:
        problem: the problem.
        ahead: see :func:`history_ahead`.
        tasks: (n,) whole tasks handed out for the step.
    """
    received = grouped_sum(tasks, problem.workload_tenant, problem.t) > 0
    return replace(
        ahead,
        used=ahead.used + used_in_step(problem, tasks, ahead.step),
        waiting=np.where(received, 0.0, ahead.waiting),
    )


def step_added(problem: Problem, choice: Choice, before: History, tasks: FloatArray) -> History:
    """Return the history once a step is over.

    Parameters
    ----------
    problem : Problem
        The problem of the step.
    choice : Choice
        The long-term policy and its options.
    before : History
        The history before the step.
    tasks : (n,) float array
        Tasks that ran during the step.

    Returns
    -------
    History
        The history after the step.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import History, Problem, choose, step_added
    >>> problem = Problem.create(resources=["cpu"], capacity=[[10]], tenants=["A", "B"],
    ...     demand=[[1], [1]], tasks=[8, 8])
    >>> before = History.zeros(problem, step=60)
    >>> step_added(problem, choose("h-mrf"), before, np.array([6.0, 4.0])).used.tolist()
    [[360.0], [240.0]]
    """
    runnable = reasons_not_to_run(problem, choice) == ""
    return history_after(problem, history_ahead(problem, choice, before, runnable), tasks)


def levels_reached(
    problem: Problem, policy: Policy, after: History, runnable: BoolArray
) -> FloatArray:
    """Return the measure (t,) that orders tenants, over the weight, after the step.

    The accumulated dominant share for lt-drf, the aggregate for the others; NaN for tenants without
    a workload that can run.
    """
    share = np.zeros_like(after.used)
    np.divide(after.used, problem.totals, out=share, where=problem.totals > 0)
    measure = share.max(axis=1) if policy.share is ShareDefinition.DOMINANT else share.sum(axis=1)
    waiting = grouped_sum(runnable.astype(np.float64), problem.workload_tenant, problem.t) > 0
    level: FloatArray = np.where(waiting, measure / problem.effective_weight, np.nan)
    return level
