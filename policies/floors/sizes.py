"""Numbers of whole tasks in the pools of guarantees, before they are divided."""

from __future__ import annotations

from policies.model.problem import Problem


def certain_tasks(pool: Problem) -> float:
    """Return a number of whole tasks that the pool of a guarantee launches at least.

    At the end all workloads have all of their tasks, or one more task does not fit. Then the tasks
    use the amount of a resource but for the demand of that one, and none of them demands more of the
    resource than the largest does.

    Args:
        pool: one server with the guaranteed amount.
    """
    # A limit may stop tasks earlier, and a gang may be stopped by more than its demand.
    if pool.limits or pool.gangs:
        return 0.0
    largest = pool.demand.max(axis=0, initial=0.0)
    demanded = largest > 0
    fitting = pool.capacity[0][demanded] / largest[demanded] - 1.0
    return float(min(fitting.min(initial=float("inf")), pool.tasks.sum()))
