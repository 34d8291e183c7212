"""From an evaluation document to its answer, in one step: what services and the command line call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.documents.answer import allocation_to_document
from policies.documents.problem import problem_from_document
from policies.documents.properties import properties_to_document
from policies.properties.properties import properties_of
from policies.registry import solve


def evaluate_document(
    document: Mapping[str, Any], *, time_limit: float | None = None
) -> dict[str, Any]:
    """Solve the problem that a document describes by the policy that it names.

    Parameters
    ----------
    document : mapping
        The shape of ``problem_from_document``.
    time_limit : float, optional
        Seconds after which to give up; None is no limit.

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
        checked = properties_of(allocation, history=parsed.history)
        answer["properties"] = properties_to_document(allocation, checked)
    return answer
