"""Reasons why no task of a scenario fits on empty servers."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from allocator_service.backtests.scenarios import Scenario, gang_from


def obstacles_text(scenario: Scenario) -> str:
    """Return why no task fits, a clause for each reason.

    Such as "tasks need cpu 64 or more; no server has the label rack".
    """
    clauses = list[str]()
    tasks, pieces = list[npt.NDArray[np.float64]](), list[npt.NDArray[np.float64]]()
    for kind, (demand, rows) in enumerate(
        zip(scenario.arrays["demand"], scenario.allowed, strict=True)
    ):
        gang = scenario.gangs.get(str(kind))
        if not rows:
            clauses.append("no server has the labels that tasks ask for")
        elif gang is None:
            tasks.append(demand)
        elif (together := gang_from(gang).together) and not any(
            together in scenario.head["labels"][row] for row in rows
        ):
            clauses.append(f"no server has the label {together}")
        else:
            # Pieces that fit nowhere by themselves are named. Otherwise there are too few places.
            large = [each for each in gang_from(gang).demand if not scenario.has_place(each, rows)]
            pieces += large
            if not large:
                where = f"servers with one value of {together}" if together else "servers"
                clauses.append(f"the {where} have too little room for all pieces of a task")
    resources = scenario.head["resources"]
    if pieces:
        clauses.insert(0, f"pieces of tasks need {_least(pieces, resources)} or more")
    if tasks:
        clauses.insert(0, f"tasks need {_least(tasks, resources)} or more")
    # Thousands of kinds of tasks have few obstacles between them.
    return "; ".join(dict.fromkeys(clauses))


def _least(demands: Sequence[npt.NDArray[np.float64]], resources: Sequence[str]) -> str:
    amounts = np.min(demands, axis=0)
    return ", ".join(f"{name} {amount:g}" for name, amount in zip(resources, amounts, strict=True))
