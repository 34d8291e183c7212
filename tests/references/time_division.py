"""Time division by brute force: every saturated allocation as a column of one linear program."""

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from tests.references.numbers import exact

LIFT = 1e-7


def servers_of(problem, pack):
    """Capacities, and the row of each server; one big server unless tasks are packed."""
    capacity, row_of = [], []
    for row in range(problem.k):
        if not problem.contributed_only[row] and problem.capacity[row].any():
            for _ in range(int(problem.server_count[row])):
                capacity.append([exact(c) for c in problem.capacity[row]])
                row_of.append(row)
    if not pack and capacity:
        capacity = [[sum(server[r] for server in capacity) for r in range(problem.m)]]
    return capacity, row_of


def saturated_allocations(problem, pack=False):
    """{(tasks per workload)} of all saturated allocations, and which workloads can run."""
    capacity, row_of = servers_of(problem, pack)
    demand = [[exact(d) for d in row] for row in problem.demand]

    def may(j, server):
        selector = problem.selectors[j] if pack else {}
        labels = problem.server_labels[row_of[server]] if pack else {}
        return all(labels.get(label) in values for label, values in selector.items())

    def fits(j, server, left):
        return may(j, server) and all(d <= c for d, c in zip(demand[j], left, strict=True))

    runs = [
        j
        for j in range(problem.n)
        if problem.tasks[j] > 0
        and not problem.out_of_range[j]
        and any(fits(j, server, left) for server, left in enumerate(capacity))
    ]
    start = (tuple(tuple(server) for server in capacity), (0,) * problem.n)
    seen, waiting, found = {start}, [start], set()
    while waiting:
        state = waiting.pop()
        left, count = state
        more = False
        for j, server in itertools.product(runs, range(len(left))):
            if count[j] < problem.tasks[j] and fits(j, server, left[server]):
                more = True
                rest = tuple(c - d for c, d in zip(left[server], demand[j], strict=True))
                after = (
                    (*left[:server], rest, *left[server + 1 :]),
                    (*count[:j], count[j] + 1, *count[j + 1 :]),
                )
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        if not more:
            found.add(count)
    return sorted(found), runs


def leximin_shares(problem, pack=False):
    """(t,) average dominant shares of the weighted leximin over all saturated allocations.

    Deficits are repaid: a tenant begins with as much more as its deficit is below the largest one.
    """
    columns, runs = saturated_allocations(problem, pack)
    per_task = problem.dominant_share_per_task
    shares = np.zeros((problem.t, len(columns)))
    for c, tasks in enumerate(columns):
        np.add.at(shares[:, c], problem.workload_tenant, np.array(tasks) * per_task)
    most = max(
        0.0, *(o / w for o, w in zip(problem.deficit, problem.effective_weight, strict=True))
    )
    had = most * problem.effective_weight - problem.deficit
    shares += had[:, None]
    takes_part = np.isin(np.arange(problem.t), problem.workload_tenant[runs])
    share = np.zeros(problem.t)
    for stage in (False, True):
        active = (problem.second_stage == stage) & takes_part
        while active.any():
            weight = np.where(active, problem.effective_weight, 0.0)
            kept = np.where(active, 0.0, share)
            level = -_optimum(shares, np.r_[np.zeros(len(columns)), -1.0], weight, kept)
            floor = np.where(active, level * weight, share)
            stuck = [
                i
                for i in np.flatnonzero(active)
                if -_optimum(shares, np.r_[-shares[i], 0.0], 0 * weight, floor) <= floor[i] + LIFT
            ]
            assert stuck
            share[active] = floor[active]
            active[stuck] = False
    return np.where(takes_part, share - had, 0.0)


def _optimum(shares, objective, weight, floor):
    result = linprog(
        objective,
        A_ub=np.c_[-shares, weight],
        b_ub=1e-9 - floor,
        A_eq=np.r_[np.ones(shares.shape[1]), 0.0][None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * shares.shape[1] + [(None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    return float(result.fun)


def equal_shares_optimum(columns, shares):
    """Algorithm 3.1's objective for two users, in fractions: over all pairs from G1 and G2."""
    scored = [(Fraction(a) * shares[0], Fraction(b) * shares[1]) for a, b in columns]
    best = max(min(pair) for pair in scored)
    for a, b in itertools.product(scored, scored):
        if a[0] > a[1] and b[0] < b[1]:
            part = (b[1] - b[0]) / ((a[0] - a[1]) + (b[1] - b[0]))
            best = max(best, part * a[0] + (1 - part) * b[0])
    return best
