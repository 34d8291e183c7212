"""Compiling every numeric kernel before the first request needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from policies.compiled import is_complete, note_complete
from policies.explaining.gang_room import room_for_pieces
from policies.explaining.lending import tasks_by_owner
from policies.leximin.exchange import exchanged
from policies.model.gangs import Gang
from policies.model.problem import Problem
from policies.model.server_classes import server_classes
from policies.proofs.normal_form import normalise
from policies.properties.fairness import envy_free
from policies.registry import solve
from policies.selection import policies_available
from policies.simulation import POLICIES, Trace, simulate

# Of resources and of tenants, so that an option's value may name either.
_NAMES = ("a", "b", "c")
# Whole numbers: slots by the dynamic programme, where those of ``_problems`` are searched. The first
# tenant's workloads are dominated by different resources, so that weights per resource matter.
_WHOLE = Problem.create(
    resources=_NAMES[:2],
    capacity=[[9, 9], [9, 8], [4, 4]],
    tenants=_NAMES,
    contributed_by=[0, 1, 2],
    workload_tenant=[0, 0, 1, 2],
    demand=[[4, 1], [1, 2], [1, 2], [1, 1]],
)
_IN_GROUPS = Problem.create(
    resources=_NAMES[:2],
    capacity=[[9, 9], [9, 8], [4, 4]],
    tenants=_NAMES,
    demand=[[4, 1], [1, 2], [1, 1]],
    tasks=[1, np.inf, np.inf],
    groups=["g"],
    tenant_group=[0, 0, -1],
)
_GANGS = Problem.create(
    resources=_NAMES[:2],
    capacity=[[9, 9], [4, 4]],
    server_labels=[{"rack": "a"}, {"rack": "b"}],
    tenants=_NAMES[:2],
    demand=[[0, 0], [1, 1]],
    tasks=[2, 2],
    gangs={0: Gang(np.array([2, 1]), np.ones((2, 2)), per_server=2, together="rack", at_least=2)},
)


def warm(*policies: str) -> None:
    """Compile, or load from the cache, every numeric kernel before the first request.

    Parameters
    ----------
    *policies : str
        Prepare only what these policies need in their default mode.

    Examples
    --------
    >>> from policies import warm
    >>> warm("static")
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
    form = normalise(_WHOLE, server_classes(_WHOLE)).leximin
    exchanged(form, np.full((form.n, form.K), 0.01), None)  # what hundreds of classes need
    for info in policies_available():
        for mode, options in product(info.modes, _options_of(info.options_schema)):
            tasks_by_owner(solve(_WHOLE, info.name, mode=mode, options=options))
    for info in policies_available():
        if info.takes_groups:
            for mode in info.modes:
                solve(_IN_GROUPS, info.name, mode=mode)
    solve(_IN_GROUPS, "drfh", mode="indivisible", options={"share": "alone"})
    for placement in ("best-fit", "first-fit"):
        gangs = solve(_GANGS, "drfh", mode="indivisible", options={"placement": placement})
        room_for_pieces(gangs, 0, at_once=2)
    solve(_GANGS, "h-mrf")
    warm_simulations()
    note_complete()


def warm_simulations() -> None:
    """Compile, or load from the cache, the kernels of simulations, which are about half of all."""
    for name in POLICIES:
        simulate(_WHOLE, Trace.create(workload=[0, 1], submit=[0, 1], duration=[1, 1]), name)


def warm_compiled() -> None:
    """Load every kernel if all are compiled, or else prepare only those that drfh needs.

    It is for processes that start while another one compiles the rest.

    Examples
    --------
    >>> from policies import warm_compiled
    >>> warm_compiled()
    """
    if is_complete():
        warm()
    else:
        warm("drfh")


def _options_of(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield no options, then every value of every option by itself."""
    yield {}
    for name, option in schema.get("properties", {}).items():
        for value in _values_of(option):
            yield {name: value}


def _values_of(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return values of an option that take different paths through the code.

    A name is that of any tenant or resource.
    """
    if "enum" in schema:
        return list(schema["enum"])
    if schema["type"] == "boolean":
        return [False, True]
    if schema["type"] == "object":
        (value,) = _values_of(schema["additionalProperties"])
        return [{_NAMES[0]: value}]
    if schema["type"] == "string":
        return [_NAMES[0]]
    return [schema.get("default", 2)]


def _problems() -> Iterator[Problem]:
    """Yield a problem for each elimination of the interior point."""
    for tenants, servers in ((60, 4), (3, 80)):
        amounts = np.arange(1.0, 1 + max(tenants, servers))
        yield Problem.create(
            resources=("a", "b"),
            capacity=np.c_[amounts[:servers], amounts[:servers][::-1]],
            tenants=[str(i) for i in range(tenants)],
            demand=np.c_[amounts[:tenants] / 100, 1 / (100 * amounts[:tenants])],
        )
