"""Tasks of a workload that has all servers to itself, one server after the other."""

from fractions import Fraction

from tests.references.numbers import exact


def tasks_alone(problem, *, whole):
    """(n) tasks of each workload on all servers, whatever its selector and number of tasks."""
    found = []
    for j, row in enumerate(problem.demand.tolist()):
        needs = [(r, exact(d)) for r, d in enumerate(row) if d > 0]
        tasks = Fraction(0)
        for k, server in enumerate(problem.capacity.tolist()):
            if problem.contributed_only[k] or problem.out_of_range[j]:
                continue
            on_one = min(exact(server[r]) / d for r, d in needs)
            tasks += int(problem.server_count[k]) * (on_one // 1 if whole else on_one)
        found.append(tasks)
    return found


def shares_alone(problem, *, whole):
    """(n) what one task of each workload adds to its tenant's share."""
    return [1 / tasks if tasks else Fraction(0) for tasks in tasks_alone(problem, whole=whole)]
