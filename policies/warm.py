"""Compiling every numeric kernel before the first request needs it."""

from __future__ import annotations

import numpy as np

from policies.explaining.lending import tasks_by_owner
from policies.model.problem import Problem
from policies.properties.fairness import envy_free
from policies.registry import policies_available, solve
from policies.simulation import Trace, simulate


def warm() -> None:
    """Compile, or load from the cache, every numeric kernel before the first request."""
    for tenants, servers in ((60, 4), (3, 80)):  # both eliminations of the interior point
        amounts = np.arange(1.0, 1 + max(tenants, servers))
        problem = Problem.create(
            resources=("a", "b"),
            capacity=np.c_[amounts[:servers], amounts[:servers][::-1]],
            tenants=[str(i) for i in range(tenants)],
            demand=np.c_[amounts[:tenants] / 100, 1 / (100 * amounts[:tenants])],
        )
        for info in policies_available():
            for mode in info.modes:
                answer = solve(problem, info.name, mode=mode)
    envy_free(answer)
    shared = Problem.create(
        resources=("a", "b"),
        capacity=np.ones((3, 2)),
        tenants=["0", "1", "2"],
        contributed_by=[0, 1, 2],
        demand=[[0.1, 0.2], [0.2, 0.1], [0.1, 0.1]],
    )
    tasks_by_owner(solve(shared, "drfh"))
    # Whole numbers: slots by the dynamic programme, where those above are searched.
    whole = Problem.create(
        resources=("a", "b"), capacity=[[9, 9]], tenants=["0", "1", "2"], demand=np.eye(3, 2) + 1
    )
    solve(whole, "tda")
    simulate(whole, Trace.create(workload=[0, 1], submit=[0, 1], duration=[1, 1]), "h-mrf")
