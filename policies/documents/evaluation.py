"""Answers to evaluation documents in one step, for services and the command line."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from policies.documents.answer import allocation_to_document
from policies.documents.problem import problem_from_document
from policies.documents.quantities import quantities
from policies.model.allocation import Allocation
from policies.model.request import deadline_of
from policies.properties.properties import (
    LONGEST_SEARCH,
    PROPERTY_NAMES,
    Properties,
    properties_of,
)
from policies.registry import solve

# The part of the time left that checks of properties may take, as the answer is written after them.
FOR_PROPERTIES = 0.5


def evaluate_document(
    document: Mapping[str, Any],
    *,
    time_limit: float | None = None,
    property_seconds: float = LONGEST_SEARCH,
) -> dict[str, Any]:
    """Solve the problem that a document describes by the policy that it names.

    Parameters
    ----------
    document : mapping
        The shape of ``problem_from_document``.
    time_limit : float, optional
        Seconds after which to give up; None is no limit.
    property_seconds : float, default 5
        Seconds for the checks of properties that solve again, if ``include`` requests them; at most
        half of what is left of the time limit. Verdicts that run out of time are undecided.

    Returns
    -------
    dict
        The answer in the shape of ``allocation_to_document``, with what the document's ``include``
        requests.

    Raises
    ------
    PolicyError
        Any of the family, with the place in the document as its ``pointer``.

    Examples
    --------
    >>> from policies import evaluate_document
    >>> answer = evaluate_document({
    ...     "resources": ["cpu"], "servers": [{"capacity": {"cpu": 9}}], "tenants": [{"name": "A"}],
    ...     "workloads": [{"tenant": "A", "name": "web", "demand": {"cpu": 3}}],
    ...     "policy": {"name": "drf", "mode": "indivisible"}})
    >>> answer["allocations"][0]["tasks"]
    3
    """
    deadline = deadline_of(time_limit)
    parsed = problem_from_document(document)
    allocation = solve(
        parsed.problem,
        parsed.policy,
        mode=parsed.mode,
        options=parsed.options,
        running=parsed.running,
        time_limit=time_limit,
        history=parsed.history,
    )
    answer = allocation_to_document(allocation, include=parsed.include)
    if "properties" in parsed.include:
        left = math.inf if deadline is None else max(deadline - time.monotonic(), 0.0)
        seconds = min(property_seconds, FOR_PROPERTIES * left)
        checked = properties_of(allocation, history=parsed.history, seconds=seconds)
        answer["properties"] = properties_to_document(allocation, checked)
    return answer


def properties_to_document(allocation: Allocation, properties: Properties) -> dict[str, Any]:
    """Return the JSON form of properties, with a verdict per name and three numbers."""
    ratio = properties.contribution_ratio
    return {name: properties.verdicts[name].to_document() for name in PROPERTY_NAMES} | {
        "resource_as_you_contributed": None if ratio is None or np.isinf(ratio) else ratio,
        "jain_index": properties.jain_index,
        "utilization": quantities(allocation.problem.resources, properties.utilization),
    }
