"""The JSON shape of how guarantees were met: the answers of all steps, as far as they prove it."""

from __future__ import annotations

from typing import Any

import numpy as np

from policies.documents.certificate import certificate_to_document
from policies.documents.placements import placement_rows
from policies.documents.quantities import number_or_none
from policies.model.allocation import Allocation, Floors


def floors_to_document(floors: Floors) -> dict[str, Any]:
    """Write the answers by which floors and what is beyond them are proven.

    Parameters
    ----------
    floors : Floors
        Of an answer to a problem with guarantees.

    Returns
    -------
    dict
        ``pools``, one answer for each guarantee and each tenant's own servers; ``raised``, the parts
        of workloads that are guaranteed; ``rest``, the rest of the workloads beside these parts.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, floors_to_document, solve
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], tenants=["A"], demand=[[1]],
    ...     guarantees=[Guarantee("tenant", 0, np.array([4.0]))])
    >>> document = floors_to_document(solve(problem, "drfh").floors)
    >>> document["pools"][0]["allocations"][0]["tasks"]
    4.0
    """
    return {
        "pools": [_step_document(answer) for answer in floors.pools],
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
                owners, problem.workload_names, answer.tasks.tolist(), answer.limited_by, strict=True
            )
        ],
        "summary": {
            "objective": number_or_none(answer.objective),
            "bound": number_or_none(answer.bound),
            "gap": number_or_none(answer.gap),
        },
        "placements": placement_rows(answer),
    }
    if answer.certificate is not None:
        document["certificate"] = certificate_to_document(answer.certificate)
    if answer.floors is not None:
        document["floors"] = floors_to_document(answer.floors)
    return document


def floor_fields(floors: Floors, workload: int) -> dict[str, Any]:
    """Return what a workload's row says of its floor, nothing without one."""
    floor = float(floors.floor[workload])
    if not floor:
        return {}
    return {"floor": floor, "floor_met": float(np.minimum(floors.met[workload] / floor, 1.0))}
