"""Conversion between evaluation documents and problems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from policies.arrays import FloatArray
from policies.documents.current_placements import (
    current_placements_from_columns,
    current_placements_to_document,
)
from policies.documents.gangs import gang_to_document, gangs_from_columns
from policies.documents.history import history_from_fields, history_to_document
from policies.documents.quantities import quantities
from policies.documents.request import request_for
from policies.errors import ProblemError
from policies.fields import Mistakes, is_object
from policies.model.current_placements import CurrentPlacements
from policies.model.group_tree import POOL
from policies.model.history import History
from policies.model.limits import GUARANTEED, SCOPES
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import Guarantee, Limit, Selector
from policies.selection import choose


@dataclass(frozen=True)
class ParsedProblem:
    """An evaluation document, read.

    Attributes
    ----------
    problem : Problem
        The servers, tenants and workloads as arrays.
    policy, mode, options
        What shall answer it, unchecked (``solve`` checks them).
    include : tuple of str
        Optional parts of the answer that were requested.
    history : History or None
        State of long-term policies before the step.
    running : CurrentPlacements or None
        Where tasks run now.

    Examples
    --------
    >>> from policies import ParsedProblem, Problem
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]])
    >>> ParsedProblem(problem, "drf").mode is None
    True
    """

    problem: Problem
    policy: str
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    history: History | None = None
    running: CurrentPlacements | None = None

    @property
    def choice(self) -> Choice:
        """The policy with the mode that applies and the options, checked."""
        return choose(self.policy, self.mode, self.options)


def problem_from_document(document: Mapping[str, Any]) -> ParsedProblem:
    """Read an evaluation document.

    ``policies.documents.request`` declares what it may hold.

    Parameters
    ----------
    document : mapping
        The evaluation, as parsed from JSON.

    Returns
    -------
    ParsedProblem
        The problem and its policy.

    Raises
    ------
    ProblemError
        ``field.*`` where the structure is wrong (unknown or missing field, wrong type), another code
        where a value is; ``pointer`` has the place, and ``mistakes`` has everything that is wrong
        with the fields.

    Examples
    --------
    >>> from policies import problem_from_document
    >>> parsed = problem_from_document({
    ...     "resources": ["cpu"], "servers": [{"capacity": {"cpu": 9}}], "tenants": [{"name": "A"}],
    ...     "workloads": [{"tenant": "A", "name": "web", "demand": {"cpu": 3}}],
    ...     "policy": {"name": "drf"}})
    >>> parsed.problem.demand.tolist(), parsed.policy
    ([[3.0]], 'drf')
    """
    if not is_object(document):
        raise ProblemError("field.type", "Expected an object.")
    try:
        given = request_for(document).read(document)
        resources = [each["name"] for each in given["resources"]]
        problem = Problem.create(
            resources=resources,
            units=[each["unit"] for each in given["resources"]],
            weights_mode=given["weights"],
            limits=_limits(given),
            guarantees=[
                Guarantee(scope, node, amount, where)
                for scope in GUARANTEED
                for node, amount, where in _amount_rows(given, f"{scope}s", "guarantee")
            ],
            own_servers=[
                given["own_servers"] if has_own is None else has_own
                for has_own in given["tenants"]["own_servers"]
            ],
            count_guaranteed=given["count"] == "total",
            **_groups(given["groups"]),
            **_tenants(given["tenants"]),
            **_servers(given["servers"]),
            **_workloads(given["workloads"], len(resources)),
        )
        running = given["running"]
        if given["kept"]["tasks"]:
            kept = current_placements_from_columns(given["kept"], problem, "kept")
            problem = replace(problem, kept_placements=kept)
        return ParsedProblem(
            problem=problem,
            policy=given["policy"]["name"],
            mode=given["policy"]["mode"],
            options=given["policy"]["options"],
            # Without repetitions, in the order of the request.
            include=tuple(dict.fromkeys(given["include"])),
            running=None if running is None else current_placements_from_columns(running, problem),
            history=None
            if given["history"] is None
            else history_from_fields(given["history"], problem.t, problem.m),
        )
    except Mistakes as wrong:
        # From None: the reader's exception adds nothing to its mistakes.
        raise ProblemError.of(wrong.found) from None


def without_deficits(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an evaluation document without deficits, which only time-sharing policies accept.

    Parameters
    ----------
    document : mapping
        An evaluation document; it is not changed.

    Returns
    -------
    mapping
        The document without the field ``owed`` of its tenants.

    Examples
    --------
    >>> from policies import without_deficits
    >>> without_deficits({"tenants": [{"name": "A", "owed": 0.5}]})
    {'tenants': [{'name': 'A'}]}
    """
    tenants = document.get("tenants")
    # Its reader reports what is wrong.
    if not isinstance(tenants, list):
        return document
    kept = [
        {key: value for key, value in tenant.items() if key != "owed"}
        if isinstance(tenant, Mapping)
        else tenant
        for tenant in tenants
    ]
    return {**document, "tenants": kept}


def problem_to_document(parsed: ParsedProblem) -> dict[str, Any]:
    """Return the evaluation document of a problem.

    :func:`problem_from_document` reads it as the same problem.

    Parameters
    ----------
    parsed : ParsedProblem
        The problem and what shall answer it.

    Returns
    -------
    dict
        An evaluation document of plain JSON values.

    Examples
    --------
    >>> from policies import ParsedProblem, Problem, problem_to_document
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]])
    >>> problem_to_document(ParsedProblem(problem, "drf"))["servers"][0]["capacity"]
    {'cpu': 9.0}
    """
    problem = parsed.problem
    document: dict[str, Any] = {
        "resources": [
            {"name": name, "unit": unit}
            for name, unit in zip(problem.resources, problem.units, strict=True)
        ],
        "servers": [_server_document(problem, row) for row in range(problem.k)],
        **({"groups": _group_documents(problem)} if problem.groups else {}),
        "tenants": [_tenant_document(problem, i) for i in range(problem.t)],
        "workloads": [_workload_document(problem, j) for j in range(problem.n)],
        "policy": {"name": parsed.policy, "options": dict(parsed.options)},
        "weights": problem.weights_mode,
        "include": list(parsed.include),
    }
    for limit in problem.limits:
        kind, name = ("tenants", "lend") if limit.scope == "lend" else (f"{limit.scope}s", "limit")
        rows = document[kind][limit.node].setdefault(name, [])
        rows.append(_amount_document(problem, limit))
    for each in problem.guarantees:
        rows = document[f"{each.scope}s"][each.node].setdefault("guarantee", [])
        rows.append(_amount_document(problem, each))
    for tenant in np.flatnonzero(problem.own_servers).tolist():
        document["tenants"][tenant]["own_servers"] = True
    if not problem.count_guaranteed:
        document["count"] = "above"
    if parsed.mode is not None:
        document["policy"]["mode"] = parsed.mode
    if parsed.history is not None:
        document["history"] = history_to_document(
            parsed.history, problem.tenants, problem.resources
        )
    if parsed.running is not None:
        document["running"] = current_placements_to_document(parsed.running, problem)
    if problem.kept_placements is not None:
        document["kept"] = current_placements_to_document(problem.kept_placements, problem)
    return document


def _server_document(problem: Problem, row: int) -> dict[str, Any]:
    owner = int(problem.contributed_by[row])
    return {
        "name": problem.server_names[row],
        "capacity": quantities(problem.resources, problem.capacity[row]),
        "count": int(problem.server_count[row]),
        "labels": dict(problem.server_labels[row]),
        "contributed_by": problem.tenants[owner] if owner >= 0 else None,
        "draining": bool(problem.contributed_only[row]),
    }


def _amount_document(problem: Problem, given: Limit | Guarantee) -> dict[str, Any]:
    named = np.flatnonzero(np.isfinite(given.amount)).tolist()
    return {
        "where": {label: list(values) for label, values in given.where.items()},
        "amount": {problem.resources[r]: float(given.amount[r]) for r in named},
    }


def _workload_document(problem: Problem, j: int) -> dict[str, Any]:
    return {
        "tenant": problem.tenants[problem.workload_tenant[j]],
        "name": problem.workload_names[j],
        "demand": quantities(problem.resources, problem.demand[j]),
        **gang_to_document(problem, j),
        "tasks": int(problem.tasks[j]) if math.isfinite(problem.tasks[j]) else None,
        "priority": int(problem.priority[j]),
        "server_selector": {label: list(v) for label, v in problem.selectors[j].items()},
    }


def _tenant_document(problem: Problem, i: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": problem.tenants[i],
        "weight": float(problem.weight[i]),
        "best_effort": bool(problem.best_effort[i]),
    }
    if problem.tenant_group[i] >= 0:
        document["group"] = problem.groups[problem.tenant_group[i]]
    if problem.tenant_tier[i] != 0:
        document["tier"] = int(problem.tenant_tier[i])
    if problem.deficit[i] != 0:
        document["owed"] = float(problem.deficit[i])
    return document


def _group_documents(problem: Problem) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "parent": problem.groups[parent] if parent >= 0 else None,
            "weight": weight,
            "tier": tier,
        }
        for name, parent, weight, tier in zip(
            problem.groups,
            problem.group_parent.tolist(),
            problem.group_weight.tolist(),
            problem.group_tier.tolist(),
            strict=True,
        )
    ]


def _limits(given: Mapping[str, Any]) -> list[Limit]:
    """Limits of groups, of tenants and of workloads, then what tenants lend."""
    limits = [
        Limit(scope, node, amount, where)
        for scope in SCOPES
        if scope != "lend"
        for node, amount, where in _amount_rows(given, f"{scope}s", "limit")
    ]
    lent = _amount_rows(given, "tenants", "lend")
    return [*limits, *(Limit("lend", node, amount, where) for node, amount, where in lent)]


def _amount_rows(
    given: Mapping[str, Any], kind: str, name: str
) -> list[tuple[int, FloatArray, Selector]]:
    """Return node, amount and selector of each row, in the order of the document."""
    return [
        (node, np.array(row["amount"]), row["where"])
        for node, rows in enumerate(given[kind][name])
        for row in rows
    ]


_Columns = Mapping[str, Sequence[Any]]


def _indices_or_pool(indices: Sequence[int | None]) -> list[int]:
    return [POOL if index is None else index for index in indices]


def _groups(columns: _Columns) -> dict[str, Any]:
    return {
        "groups": columns["name"],
        "group_parent": _indices_or_pool(columns["parent"]),
        "group_weight": columns["weight"],
        "group_tier": columns["tier"],
    }


def _tenants(columns: _Columns) -> dict[str, Any]:
    return {
        "tenants": columns["name"],
        "weight": columns["weight"],
        "best_effort": columns["best_effort"],
        "tenant_group": _indices_or_pool(columns["group"]),
        "tenant_tier": columns["tier"],
        "deficit": columns["owed"],
    }


def _servers(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # As wide as the last number, so that names sort in the order of the servers.
    width = max(4, len(str(len(rows))))
    owners = [row["contributed_by"] for row in rows]
    return {
        "server_names": [
            row["name"] or f"server-{position:0{width}d}" for position, row in enumerate(rows, 1)
        ],
        "capacity": [row["capacity"] for row in rows],
        "server_count": [row["count"] for row in rows],
        "server_labels": [row["labels"] for row in rows],
        "contributed_by": [-1 if owner is None else owner for owner in owners],
        "contributed_only": [row["draining"] for row in rows],
    }


def _workloads(columns: _Columns, resources: int) -> dict[str, Any]:
    return {
        "workload_tenant": columns["tenant"],
        "workload_names": columns["name"],
        # ``Problem.create`` sums the demands of pieces.
        "demand": [demand or (0.0,) * resources for demand in columns["demand"]],
        "gangs": gangs_from_columns(columns),
        "tasks": [math.inf if limit is None else float(limit) for limit in columns["tasks"]],
        "priority": columns["priority"],
        "selectors": columns["server_selector"],
    }
