"""A slow, plain leximin to compare the fast one with: cold linear programs, nothing clever.

The rounds of Wang et al. (TPDS 2015, §5.1), every server row by itself: maximise the least
weighted share of the active tenants, then ask of each of them, with a program of its own,
whether it could have more while nobody has less; whoever cannot is inactive.
"""

import math

import numpy as np
from scipy.optimize import linprog

from tests.references.limits import is_below, matches

LIFT = 1e-6


def reference_shares(problem, *, pooled=False, summed=False, each=None):
    """(t,) global dominant shares of the weighted leximin; ``pooled`` makes one server of all.

    ``summed`` counts the shares of all resources together, as asset fairness does; ``each`` (n) is what
    one task adds to its tenant's share, where that is something else.
    """
    model = _Model(problem, pooled, summed, each)
    share = np.zeros(problem.t)
    for stage in (False, True):
        active = (problem.second_stage == stage) & model.runs
        while active.any():
            level = model.highest_level(active, share)
            floor = np.where(active, level * problem.effective_weight, share)
            stuck = [
                i
                for i in np.flatnonzero(active)
                if model.highest_share(i, floor) <= floor[i] + LIFT
            ]
            assert stuck, "a round in which nobody stops has not found the highest level"
            share[active] = floor[active]
            active[stuck] = False
    return share


class _Model:
    def __init__(self, problem, pooled, summed, each):
        self.problem = problem
        capacity = problem.row_capacity / np.where(problem.totals > 0, problem.totals, 1)
        eligible = problem.selector_matches[problem.selector_group]
        if pooled:
            capacity = capacity.sum(axis=0, keepdims=True)
            eligible = np.ones((problem.n, 1), dtype=bool)
        lacking = (problem.demand > 0) @ (capacity <= 0).T
        servable = ~problem.out_of_range & ~problem.resource_absent & (problem.tasks > 0)
        allowed = eligible & (lacking == 0) & servable[:, None]
        self.pairs = np.argwhere(allowed)
        self.runs = np.isin(np.arange(problem.t), problem.workload_tenant[self.pairs[:, 0]])
        j, row = self.pairs[:, 0], self.pairs[:, 1]
        size = len(self.pairs)
        self.of_tenant = np.zeros((problem.t, size))
        self.of_tenant[problem.workload_tenant[j], np.arange(size)] = 1
        limits = np.zeros((problem.n, size))
        limits[j, np.arange(size)] = 1
        use = np.zeros((len(capacity) * problem.m, size))
        share = problem.demand_share.sum(axis=1) if summed else problem.demand_share.max(axis=1)
        if each is not None:
            share = np.array([float(part) for part in each])
        tasks = problem.tasks.tolist()
        for r in range(problem.m):
            use[row * problem.m + r, np.arange(size)] = problem.demand_share[j, r] / share[j]
        limit = np.array(
            [math.inf if math.isinf(T) else T * s for T, s in zip(tasks, share, strict=True)]
        )
        limited = np.isfinite(limit)
        amounts, bounds = [np.zeros((0, size))], [np.zeros(0)]
        for item in problem.limits:
            below = [is_below(problem, item, int(of)) for of in j]
            here = [matches(problem, item, int(of)) or pooled for of in row]
            counts = np.array(below, dtype=bool) & np.array(here, dtype=bool)
            for r in np.flatnonzero(np.isfinite(item.amount) & (problem.totals > 0)):
                taken = problem.demand_share[j, r] / share[j]
                amounts.append(np.where(counts, taken, 0.0)[None, :])
                bounds.append(np.array([item.amount[r] / problem.totals[r]]))
        scale = np.where(capacity > 0, capacity, 1.0).ravel()
        self.rows = np.vstack([use / scale[:, None], limits[limited], *amounts])
        self.right = np.r_[np.ones(len(use)), limit[limited], np.concatenate(bounds)]

    def highest_level(self, active, share):
        """Largest level that all active tenants reach while the others keep their share."""
        weight = self.problem.effective_weight
        at_least = np.where(active, 0.0, share)
        gain = np.where(active, weight, 0.0)
        answer = self._solve(np.r_[np.zeros(len(self.pairs)), -1.0], at_least, gain)
        return answer[-1]

    def highest_share(self, tenant, floor):
        """Largest share of one tenant while everybody has at least ``floor``."""
        objective = np.r_[-self.of_tenant[tenant], 0.0]
        answer = self._solve(objective, floor * (1 - 1e-10), np.zeros(self.problem.t))
        return float(self.of_tenant[tenant] @ answer[:-1])

    def _solve(self, objective, at_least, gain):
        rows = np.vstack(
            [
                np.c_[self.rows, np.zeros(len(self.rows))],
                np.c_[-self.of_tenant, gain],
            ]
        )
        right = np.r_[self.right, -at_least]
        result = linprog(
            objective,
            A_ub=rows,
            b_ub=right,
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert result.status == 0, result.message
        return result.x
