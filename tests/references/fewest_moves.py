"""Fewest tasks that must leave their servers, by an integer program over all of them."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


def fewest_taken(problem, tasks, before, kept):
    """Return how many of the tasks on servers leave them, at least, for decided numbers of tasks.

    Args:
        problem: without gangs and limits, whose servers all offer something and serve all workloads.
        tasks: (n,) decided.
        before, kept: {(workload, server): tasks}, servers numbered row by row.
    """
    row_of = np.repeat(np.arange(problem.k), problem.server_count)
    capacity, demand = problem.capacity[row_of], problem.demand
    servers, n, m = len(row_of), problem.n, problem.m
    wants = [j for j in range(n) if tasks[j] < problem.tasks[j]]
    # Tasks by workload and server, those of them that stay, and resources that are short there.
    runs = np.arange(n * servers).reshape(n, servers)
    stays = runs + n * servers
    short = 2 * n * servers + np.arange(len(wants) * servers * m).reshape(len(wants), servers, m)
    columns = 2 * n * servers + short.size
    rows, lower, upper = [], [], []

    def condition(entries, least, most):
        row = np.zeros(columns)
        for column, value in entries:
            row[column] = value
        rows.append(row)
        lower.append(least)
        upper.append(most)

    for j in range(n):
        condition([(runs[j, s], 1) for s in range(servers)], tasks[j], tasks[j])
    for s in range(servers):
        for r in range(m):
            used = [(runs[j, s], demand[j, r]) for j in range(n)]
            condition(used, -np.inf, capacity[s, r])
            for w, i in enumerate(wants):
                # Short means that less is left than the task needs: of whole numbers, one less.
                least = capacity[s, r] - demand[i, r] + 1
                condition([*used, (short[w, s, r], -least)], 0, np.inf)
        for w in range(len(wants)):
            condition([(short[w, s, r], 1) for r in range(m)], 1, np.inf)
        for j in range(n):
            condition([(stays[j, s], 1), (runs[j, s], -1)], -np.inf, 0)
    least, most = np.zeros(columns), np.ones(columns)
    most[: n * servers] = np.inf
    most[stays] = [[before.get((j, s), 0) for s in range(servers)] for j in range(n)]
    least[runs] = [[kept.get((j, s), 0) for s in range(servers)] for j in range(n)]
    weight = np.zeros(columns)
    weight[stays] = -1
    found = milp(
        weight,
        integrality=np.ones(columns),
        bounds=Bounds(least, most),
        constraints=LinearConstraint(np.array(rows), lower, upper),
    )
    assert found.success, found.message
    return sum(before.values()) - round(-found.fun)
