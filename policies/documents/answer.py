"""The JSON shape of an evaluation's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from policies.documents.certificate import certificate_to_document
from policies.documents.explanation import explanation_to_document
from policies.documents.floors import floors_of_workloads, floors_to_document, guarantees_unmet
from policies.documents.history import history_to_document
from policies.documents.placements import placement_parts
from policies.documents.quantities import number_or_none, quantities
from policies.documents.schedule import schedule_to_document
from policies.explaining.explanations import explain
from policies.explaining.groups import GroupStanding, group_standings
from policies.model.allocation import Allocation
from policies.model.jain import jain_index
from policies.model.server_classes import server_classes


def allocation_to_document(allocation: Allocation, include: Sequence[str] = ()) -> dict[str, Any]:
    """Write an allocation as an evaluation answers it.

    Parameters
    ----------
    allocation : Allocation
        What ``solve`` returned.
    include : sequence of str, optional
        Parts to add: ``placements``, ``certificate``, ``schedule`` and so on.

    Returns
    -------
    dict
        ``allocations`` (one per workload, in order), ``groups`` of a problem that has any,
        ``summary``, ``history`` after the step of a
        long-term policy, and what was included. Numbers that do not exist (no bound, no weight)
        are None.

    Examples
    --------
    >>> from policies import Problem, allocation_to_document, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> row = allocation_to_document(solve(problem, "drf"))["allocations"][0]
    >>> row["tenant"], row["dominant_resource"], row["limited_by"]
    ('A', 'memory', 'resource:cpu')
    """
    document: dict[str, Any] = {
        "allocations": _allocation_rows(allocation),
        "summary": summary_document(allocation),
    }
    if allocation.problem.groups:
        document["groups"] = [_group_row(allocation, each) for each in group_standings(allocation)]
    if "placements" in include:
        document["placements"] = placement_parts(allocation).written
    if "certificate" in include:
        certificate = allocation.certificate
        document["certificate"] = (
            None if certificate is None else certificate_to_document(certificate)
        )
        if allocation.floors is not None:
            document["floors"] = floors_to_document(allocation.floors)
    if allocation.history is not None:
        document["history"] = history_to_document(
            allocation.history, allocation.problem.tenants, allocation.problem.resources
        )
    if "explanations" in include:
        document["explanations"] = [
            explanation_to_document(allocation, explain(allocation, tenant))
            for tenant in range(allocation.problem.t)
        ]
    if "schedule" in include:
        schedule = allocation.schedule
        document["schedule"] = (
            None if schedule is None else schedule_to_document(allocation.problem, schedule)
        )
    return document


def summary_document(allocation: Allocation) -> dict[str, Any]:
    """Return the numbers about the whole pool, such as sizes, fairness and utilisation.

    Parameters
    ----------
    allocation : Allocation
        What ``solve`` returned.

    Returns
    -------
    dict
        The ``summary`` of an answer; numbers that do not exist are None.

    Examples
    --------
    >>> from policies import Problem, solve, summary_document
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> round(summary_document(solve(problem, "drf"))["utilization"]["memory"], 4)
    0.7778
    """
    problem = allocation.problem
    shares = allocation.weighted_share[~np.isnan(allocation.weighted_share)]
    positive = problem.totals > 0
    stopped = allocation.statistics.get("stopped")
    unmet = guarantees_unmet(allocation)
    used = np.divide(allocation.used, problem.totals, out=np.zeros(problem.m), where=positive)
    return {
        "tenants": problem.t,
        "workloads": problem.n,
        "servers": int(problem.server_count[~problem.contributed_only].sum()),
        "server_classes": server_classes(problem).count,
        "min_weighted_share": float(shares.min()) if len(shares) else None,
        "mean_weighted_share": float(shares.mean()) if len(shares) else None,
        "jain_index": jain_index(shares),
        "utilization": quantities(problem.resources, used),
        "objective": number_or_none(allocation.objective),
        "bound": number_or_none(allocation.bound),
        "gap": number_or_none(allocation.gap),
        "moved_tasks": allocation.moved,
        **({"stopped": stopped} if stopped else {}),
        **({"guarantees_unmet": unmet} if unmet else {}),
    }


def _allocation_rows(allocation: Allocation) -> list[dict[str, Any]]:
    """Write one row for each workload, in order."""
    problem, owner = allocation.problem, allocation.problem.workload_tenant
    # Columns as lists: an element of an array costs ten times one of a list.
    columns = zip(
        owner.tolist(),
        problem.workload_names,
        allocation.tasks.tolist(),
        (allocation.tasks[:, None] * problem.demand).tolist(),
        allocation.dominant_resource.tolist(),
        allocation.dominant_share.tolist(),
        map(number_or_none, allocation.weighted_share[owner].tolist()),
        allocation.limited_by,
        floors_of_workloads(allocation),
        strict=True,
    )
    return [
        {
            "tenant": problem.tenants[tenant],
            "workload": {"id": None, "name": name},
            "tasks": int(tasks) if allocation.whole else tasks,
            "resources": dict(zip(problem.resources, used, strict=True)),
            "dominant_resource": problem.resources[dominant],
            "dominant_share": share,
            "weighted_share": weighted,
            "limited_by": limited_by,
            **({} if floor is None else {"floor": floor, "floor_met": met}),
        }
        for tenant, name, tasks, used, dominant, share, weighted, limited_by, (
            floor,
            met,
        ) in columns
    ]


def _group_row(allocation: Allocation, standing: GroupStanding) -> dict[str, Any]:
    problem = allocation.problem
    return {
        "name": problem.groups[standing.group],
        "level": standing.level,
        "resources": quantities(problem.resources, standing.used),
        "frozen_in": standing.frozen_in,
    }
