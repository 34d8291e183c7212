"""JSON shape of the answers by which guarantees are proven to be met."""

from __future__ import annotations

from typing import Any

import numpy as np

from policies.arrays import BoolArray, IntArray
from policies.documents.certificate import certificate_to_document
from policies.documents.placements import placement_parts
from policies.documents.quantities import number_or_none
from policies.model.allocation import Allocation, Floors
from policies.model.problem import Problem
from policies.model.reasons import NO_ELIGIBLE_SERVER, OUT_OF_RANGE
from policies.model.tolerance import AGREEMENT


def floors_to_document(floors: Floors) -> dict[str, Any]:
    """Write the answers by which floors and what is beyond them are proven.

    Parameters
    ----------
    floors : Floors
        Of an answer to a problem with guarantees.

    Returns
    -------
    dict
        ``pools``, one answer for each guarantee and each tenant's own servers, None for a pool that one
        workload has for itself; ``raised``, the parts
        of workloads that are guaranteed; ``rest``, the rest of the workloads beside these parts.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, floors_to_document, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], tenants=["A"], demand=[[1]],
    ...     guarantees=[Guarantee("tenant", 0, np.array([4.0]))])
    >>> document = floors_to_document(solve(problem, "drfh").floors)
    >>> document["pools"], document["raised"]["allocations"][1]["tasks"]
    ([None], 4.0)
    """
    return {
        "pools": [None if each is None else _step_document(each) for each in floors.pools],
        "raised": _step_document(floors.raised),
        "rest": _step_document(floors.rest),
    }


def _step_document(answer: Allocation) -> dict[str, Any]:
    problem = answer.problem
    owners = problem.workload_tenant.tolist()
    document: dict[str, Any] = {
        "allocations": [
            {
                "tenant": problem.tenants[owner],
                "workload": {"id": None, "name": name},
                "tasks": int(tasks) if answer.whole else tasks,
                "limited_by": reason,
            }
            for owner, name, tasks, reason in zip(
                owners,
                problem.workload_names,
                answer.tasks.tolist(),
                answer.limited_by,
                strict=True,
            )
        ],
        "summary": {
            "objective": number_or_none(answer.objective),
            "bound": number_or_none(answer.bound),
            "gap": number_or_none(answer.gap),
        },
        "placements": placement_parts(answer).written,
    }
    if answer.certificate is not None:
        document["certificate"] = certificate_to_document(answer.certificate)
    if answer.floors is not None:
        document["floors"] = floors_to_document(answer.floors)
    return document


def floors_of_workloads(allocation: Allocation) -> list[tuple[float | None, float | None]]:
    """Return the guaranteed tasks of each workload, and the part of them that runs.

    Parameters
    ----------
    allocation : Allocation
        Any answer.

    Returns
    -------
    list of (float or None, float or None)
        One pair per workload, None without a guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, floors_of_workloads, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], tenants=["A", "B"],
    ...     demand=[[1], [1]], guarantees=[Guarantee("tenant", 0, np.array([4.0]))])
    >>> floors_of_workloads(solve(problem, "drfh"))
    [(4.0, 1.0), (None, None)]
    """
    floors = allocation.floors
    if floors is None:
        return [(None, None)] * allocation.problem.n
    return [
        # Nearly all is all: divisible tasks are rounded.
        (floor, met / floor if met < floor * (1 - AGREEMENT) else 1.0) if floor else (None, None)
        for floor, met in zip(floors.floor.tolist(), floors.met.tolist(), strict=True)
    ]


def guarantees_unmet(allocation: Allocation) -> list[dict[str, Any]]:
    """Return the guarantees that an answer does not meet in full, with what they lack.

    Parameters
    ----------
    allocation : Allocation
        Any answer.

    Returns
    -------
    list of dict
        ``node`` (``group`` or ``tenant`` and its name), ``where`` and ``amount`` of a guarantee, or
        ``own_servers`` of a tenant; ``met``, the least part of a floor that runs; ``limited_by``, the
        reasons of the workloads that miss a part. Guarantees that collide have the same reasons.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, guarantees_unmet, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], tenants=["A", "B"],
    ...     demand=[[1], [1]],
    ...     guarantees=[Guarantee("tenant", i, np.array([8.0])) for i in (0, 1)])
    >>> found = guarantees_unmet(solve(problem, "drfh"))
    >>> [(each["node"], each["met"], each["limited_by"]) for each in found]
    [({'tenant': 'A'}, 0.5, ['resource:gpu']), ({'tenant': 'B'}, 0.5, ['resource:gpu'])]
    """
    floors, problem = allocation.floors, allocation.problem
    if floors is None:
        return []
    raised, n = floors.raised, problem.n
    guaranteed = raised.problem.tasks[n:]
    met = raised.tasks[n:] / np.where(guaranteed > 0, guaranteed, 1.0)
    found = []
    tenants = np.flatnonzero(problem.own_servers).tolist()
    # Without floors they have no parts, and would be missing from what is not met.
    without = _without_floors(problem, floors)
    short = floors.pool_of_part[met < 1 - AGREEMENT]
    for pool in sorted({*short.tolist(), *without}):
        parts = np.flatnonzero(floors.pool_of_part == pool)
        missed = parts[met[parts] < 1 - AGREEMENT]
        if pool < len(problem.guarantees):
            given = problem.guarantees[pool]
            names = problem.groups if given.scope == "group" else problem.tenants
            named = np.flatnonzero(np.isfinite(given.amount)).tolist()
            what: dict[str, Any] = {
                "node": {given.scope: names[given.node]},
                "where": {label: list(values) for label, values in given.where.items()},
                "amount": {problem.resources[r]: float(given.amount[r]) for r in named},
            }
        else:
            owner = tenants[pool - len(problem.guarantees)]
            what = {"node": {"tenant": problem.tenants[owner]}, "own_servers": True}
        least = float(met[missed].min()) if len(missed) else 0.0
        reasons = {raised.limited_by[n + part] for part in missed.tolist()}
        if pool in without:
            least, reasons = 0.0, reasons | {without[pool]}
        found.append({**what, "met": least, "limited_by": sorted(reasons)})
    return found


def _without_floors(problem: Problem, floors: Floors) -> dict[int, str]:
    """Return the guarantees under which a workload has no floor although it is to have one.

    The reason is that no server which matches has what the workload demands, or that its demand is too
    small beside the amount. A guarantee whose node has no task that it could be for is met.
    """
    found: dict[int, str] = {}
    have_floors, left_out = set(floors.pool_of_part.tolist()), set(floors.left_out.tolist())
    for number, item in enumerate(problem.guaranteed):
        waiting = item.workloads[problem.tasks[item.workloads] > 0]
        if not len(waiting) or not (item.limit.amount[item.limited] > 0).all():
            continue
        answer = floors.pools[number]
        if number in left_out or (answer is not None and OUT_OF_RANGE in answer.limited_by):
            found[number] = OUT_OF_RANGE
        elif number not in have_floors and _lack_servers(problem, item.rows, waiting):
            found[number] = NO_ELIGIBLE_SERVER
    return found


def _lack_servers(problem: Problem, rows: BoolArray, workloads: IntArray) -> bool:
    """Return whether some of the workloads may run on rows (k,), all of which lack what these demand.

    Rows that nothing matches, or that are draining, have nothing.
    """
    matching = rows & (problem.server_count > 0)
    if not matching.any():
        return True
    if problem.has_selectors:
        # What a workload does not select is not guaranteed to it.
        selected = problem.selector_matches[problem.selector_group[workloads]]
        workloads = workloads[(selected & matching).any(axis=1)]
    offered: BoolArray = np.unique(problem.row_capacity[matching] > 0, axis=0)
    needs: BoolArray = problem.pieces.demand[problem.pieces.kinds_of(workloads)] > 0
    lacking = np.any(needs[:, None] & ~offered[None], axis=2)
    return bool(np.all(lacking, axis=1).any())
