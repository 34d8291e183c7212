"""Comparison of several policies on one problem, with a column for each policy."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from policies.documents.evaluation import FOR_PROPERTIES, evaluate_document
from policies.documents.problem import problem_from_document, without_deficits
from policies.documents.request import AskedPolicyField
from policies.errors import PolicyError, ProblemError, SolveTimeoutError
from policies.fields import Mistakes, read_items
from policies.model.request import deadline_of
from policies.properties.properties import LONGEST_SEARCH
from policies.selection import choose, policies_available

# Fields of a column about the whole pool, named as in the summary of an evaluation.
SUMMARY = (
    "min_weighted_share",
    "mean_weighted_share",
    "jain_index",
    "utilization",
    "objective",
    "bound",
    "gap",
)


def compare_documents(
    document: Mapping[str, Any],
    policies: Sequence[str | Mapping[str, Any]],
    *,
    time_limit: float | None = None,
) -> dict[str, Any]:
    """Answer one evaluation document by several policies.

    Parameters
    ----------
    document : mapping
        An evaluation, as ``evaluate_document`` takes it. Its ``policy`` may be left out and is not
        used, its ``history`` is for the policies that have one, and its ``include`` applies to
        every column.
    policies : sequence of str or mapping
        Names, or objects ``{"name", "mode", "options"}`` as in an evaluation.
    time_limit : float, optional
        Seconds for all columns together; None is no limit.

    Returns
    -------
    dict
        ``{"columns": [...]}`` in the order of ``policies``. Every column has ``policy`` (name, mode
        and options as requested), ``seconds`` (how long the answer took), ``error`` and the parts of
        an answer: ``allocations``, ``min_weighted_share``, ``mean_weighted_share``, ``jain_index``,
        ``utilization``, ``objective``, ``bound``, ``gap``, ``sharing_degree`` (per tenant, of policies
        that keep a history; None for the others), and whatever ``include`` added. A policy that
        cannot answer (a selector, a mode or options that it does not have, too little time) has
        ``error`` ``{"code", "detail", "pointer"}`` and None in their place; the others are not
        affected.

    Raises
    ------
    ProblemError
        The problem itself cannot be read, or no policy is named.

    Examples
    --------
    >>> from policies import ParsedProblem, Problem, compare_documents, problem_to_document
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> document = problem_to_document(ParsedProblem(problem, "drf"))
    >>> columns = compare_documents(document, ["drf", "ceei"])["columns"]
    >>> [round(column["min_weighted_share"], 4) for column in columns]
    [0.6667, 0.5455]
    """
    if not policies:
        raise ProblemError("field.missing", "name at least one policy", "/policies")
    try:
        asked = read_items(AskedPolicyField(), policies)
    except Mistakes as wrong:
        raise ProblemError.of(wrong.under("policies")) from None
    # Mistakes of the problem are errors of the request, and not of each column.
    problem_from_document({**document, "policy": asked[0]})
    deadline = deadline_of(time_limit)
    columns = []
    for done, policy in enumerate(asked):
        left = None if deadline is None else deadline - time.monotonic()
        # Each column's checks have their part of what is left, so that the last one has as much.
        part = math.inf if left is None else FOR_PROPERTIES * left / (len(asked) - done)
        part = min(part, LONGEST_SEARCH)
        columns.append(_column({**document, "policy": policy}, policy, left, part))
    return {"columns": columns}


def _column(
    document: Mapping[str, Any],
    policy: Mapping[str, Any],
    time_limit: float | None,
    property_seconds: float,
) -> dict[str, Any]:
    column: dict[str, Any] = {"policy": _as_json(policy), "error": None}
    begin = time.perf_counter()
    try:
        # A limit of 0 would be refused as an argument, instead of reported as time that ran out.
        if time_limit is not None and time_limit <= 0:
            raise SolveTimeoutError(
                "solve.timeout", "the time limit passed before this policy started"
            )
        answer = evaluate_document(
            _without_what_is_not_taken(document),
            time_limit=time_limit,
            property_seconds=property_seconds,
        )
    except PolicyError as error:
        column["error"] = {"code": error.code, "detail": error.detail, "pointer": error.pointer}
        answer = {}
    column["seconds"] = time.perf_counter() - begin
    summary = answer.pop("summary", {})
    column["allocations"] = answer.pop("allocations", None)
    column |= {name: summary.get(name) for name in SUMMARY}
    column["sharing_degree"] = _sharing_degree(answer.get("history"))
    return column | answer


def _as_json(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy as requested, with numbers as floats.

    A reader may have kept them as decimals.
    """
    options = policy.get("options")
    if not isinstance(options, Mapping):
        return dict(policy)
    plain = {
        name: float(value) if isinstance(value, Decimal) else value
        for name, value in options.items()
    }
    return {**policy, "options": plain}


def _without_what_is_not_taken(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document without the history, deficits and kept tasks that its policy would refuse."""
    policy = document["policy"]
    known = [info for info in policies_available() if info.name == policy.get("name")]
    if known and not _keeps_tasks(policy):
        document = {key: value for key, value in document.items() if key != "kept"}
    if known and not known[0].long_term:
        document = {key: value for key, value in document.items() if key != "history"}
    return without_deficits(document) if known and not known[0].time_sharing else document


def _keeps_tasks(policy: Mapping[str, Any]) -> bool:
    """Return whether a policy with valid options keeps tasks on their servers."""
    try:
        return choose(
            policy["name"], policy.get("mode"), _as_json(policy).get("options")
        ).keeps_tasks
    except PolicyError:
        return False


def _sharing_degree(history: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return each tenant's sharing degree after the step, from the answer's history."""
    if history is None:
        return None
    return {name: tenant["sharing_degree"] for name, tenant in history["tenants"].items()}
