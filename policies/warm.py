"""Compiling every numeric kernel before the first request needs it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.compiled import is_complete, note_complete
from policies.explaining.lending import tasks_by_owner
from policies.model.problem import Problem
from policies.properties.fairness import envy_free
from policies.registry import policies_available, solve
from policies.simulation import Trace, simulate


def warm(*policies: str) -> None:
    """Compile, or load from the cache, every numeric kernel before the first request.

    Args:
        policies: only what these policies need in their default mode.
    """
    answers = [
        solve(problem, info.name, mode=mode)
        for problem in _problems()
        for info in policies_available()
        if not policies or info.name in policies
        for mode in info.modes[: 1 if policies else None]
    ]
    if policies:
        return
    envy_free(answers[-1])
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
    note_complete()


def warm_compiled() -> None:
    """Load every kernel where all are compiled, else only make sure of what drfh needs.

    For processes that start while another one compiles the rest.
    """
    if is_complete():
        warm()
    else:
        warm("drfh")


def _problems() -> Iterator[Problem]:
    """One for either elimination of the interior point."""
    for tenants, servers in ((60, 4), (3, 80)):
        amounts = np.arange(1.0, 1 + max(tenants, servers))
        yield Problem.create(
            resources=("a", "b"),
            capacity=np.c_[amounts[:servers], amounts[:servers][::-1]],
            tenants=[str(i) for i in range(tenants)],
            demand=np.c_[amounts[:tenants] / 100, 1 / (100 * amounts[:tenants])],
        )
