"""The JSON shape of an evaluation: a document to a problem, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies.documents.current_placements import running_from_document, running_to_document
from policies.documents.fields import (
    as_amounts,
    as_flag,
    as_list,
    as_number,
    as_object,
    as_text,
    as_whole,
    check_fields,
    escaped,
)
from policies.documents.history import history_from_document, history_to_document
from policies.documents.quantities import quantities
from policies.errors import ProblemError
from policies.model.current_placements import Running
from policies.model.history import History
from policies.model.policy import Choice
from policies.model.problem import Problem
from policies.model.problem_fields import WeightsMode
from policies.model.validation import check_names
from policies.registry import choose

INCLUDES = ("placements", "certificate", "properties", "schedule", "explanations")
RESOURCE_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")


@dataclass(frozen=True)
class ParsedProblem:
    """An evaluation document, read.

    Attributes:
        problem: the arrays; policy, mode, options: what shall answer it, unchecked
            (``solve`` checks them).
        include: optional parts of the answer that were asked for.
        history: what long-term policies remember, or None.
        running: where tasks run now, or None.
    """

    problem: Problem
    policy: str
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    history: History | None = None
    running: Running | None = None

    @property
    def choice(self) -> Choice:
        """The policy with the mode that applies and the options, checked."""
        return choose(self.policy, self.mode, self.options)


def problem_from_document(document: Mapping[str, Any]) -> ParsedProblem:
    """Read an evaluation document.

    Quantities are JSON numbers or decimal strings. Besides the public fields, resources may
    be ``{"name", "unit"}``, servers ``"draining": true`` (contributed, but no capacity),
    workloads ``"priority"`` and tenants ``"best_effort"`` and ``"owed"``.

    Raises:
        ProblemError: ``field.*`` where the structure is wrong (unknown or missing field,
            wrong type), another code where a value is; ``pointer`` says where.
    """
    check_fields(
        document,
        "",
        required=("resources", "servers", "tenants", "workloads", "policy"),
        optional=("weights", "history", "include", "running"),
    )
    resources, units = _resources(as_list(document["resources"], "/resources"))
    tenants = as_list(document["tenants"], "/tenants")
    columns = _tenants(tenants)
    names = columns["tenants"]
    index = {name: i for i, name in enumerate(names)}
    policy = as_object(document["policy"], "/policy")
    check_fields(policy, "/policy", required=("name",), optional=("mode", "options"))
    mode = policy.get("mode")
    weights_mode = as_text(document.get("weights", "explicit"), "/weights")
    problem = Problem.create(
        resources=resources,
        units=units,
        **columns,
        weights_mode=_weights_mode(weights_mode),
        **_servers(as_list(document["servers"], "/servers"), resources, index),
        **_workloads(as_list(document["workloads"], "/workloads"), resources, index),
    )
    history = document.get("history")
    return ParsedProblem(
        problem=problem,
        policy=as_text(policy["name"], "/policy/name"),
        mode=None if mode is None else as_text(mode, "/policy/mode"),
        options=dict(as_object(policy.get("options", {}), "/policy/options")),
        include=_include(as_list(document.get("include", []), "/include")),
        running=running_from_document(document["running"], problem)
        if "running" in document
        else None,
        history=(
            None
            if history is None
            else history_from_document(as_object(history, "/history"), names, resources)
        ),
    )


def without_owed(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """An evaluation document as a policy that takes no turns reads it: nobody is owed anything."""
    tenants = document.get("tenants")
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
    """Write what :func:`problem_from_document` reads; reading it gives the same problem."""
    problem = parsed.problem
    document: dict[str, Any] = {
        "resources": [
            {"name": name, "unit": unit}
            for name, unit in zip(problem.resources, problem.units, strict=True)
        ],
        "servers": [_server_document(problem, row) for row in range(problem.k)],
        "tenants": [_tenant_document(problem, i) for i in range(problem.t)],
        "workloads": [_workload_document(problem, j) for j in range(problem.n)],
        "policy": {"name": parsed.policy, "options": dict(parsed.options)},
        "weights": problem.weights_mode,
        "include": list(parsed.include),
    }
    if parsed.mode is not None:
        document["policy"]["mode"] = parsed.mode
    if parsed.history is not None:
        document["history"] = history_to_document(
            parsed.history, problem.tenants, problem.resources
        )
    if parsed.running is not None:
        document["running"] = running_to_document(parsed.running, problem)
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


def _workload_document(problem: Problem, j: int) -> dict[str, Any]:
    return {
        "tenant": problem.tenants[problem.workload_tenant[j]],
        "name": problem.workload_names[j],
        "demand": quantities(problem.resources, problem.demand[j]),
        "tasks": int(problem.tasks[j]) if math.isfinite(problem.tasks[j]) else None,
        "priority": int(problem.priority[j]),
        "server_selector": {label: list(v) for label, v in problem.selectors[j].items()},
    }


def _resources(items: Sequence[Any]) -> tuple[list[str], list[str]]:
    names, units = [], []
    for i, item in enumerate(items):
        pointer = f"/resources/{i}"
        if isinstance(item, Mapping):
            check_fields(item, pointer, required=("name",), optional=("unit",))
            names.append(as_text(item["name"], f"{pointer}/name"))
            units.append(as_text(item.get("unit", ""), f"{pointer}/unit"))
        else:
            names.append(as_text(item, pointer))
            units.append("")
        if not RESOURCE_NAME.fullmatch(names[-1]):
            raise ProblemError(
                "resource.name",
                f"resource {i} is called {names[-1]!r}; a name is a lower-case letter followed "
                "by at most 62 lower-case letters, digits, '_', '.' or '-'",
                pointer,
            )
    check_names(names, "resource", "/resources")
    return names, units


def _tenant_document(problem: Problem, i: int) -> dict[str, Any]:
    document = {
        "name": problem.tenants[i],
        "weight": float(problem.weight[i]),
        "best_effort": bool(problem.best_effort[i]),
    }
    return document if problem.owed[i] == 0 else {**document, "owed": float(problem.owed[i])}


def _tenants(items: Sequence[Any]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"tenants": [], "weight": [], "best_effort": [], "owed": []}
    for i, item in enumerate(items):
        pointer = f"/tenants/{i}"
        tenant = as_object(item, pointer)
        optional = ("weight", "best_effort", "owed")
        check_fields(tenant, pointer, required=("name",), optional=optional)
        columns["tenants"].append(as_text(tenant["name"], f"{pointer}/name"))
        columns["weight"].append(as_number(tenant.get("weight", 1), f"{pointer}/weight", "weight"))
        columns["best_effort"].append(
            as_flag(tenant.get("best_effort", False), f"{pointer}/best_effort")
        )
        columns["owed"].append(as_number(tenant.get("owed", 0), f"{pointer}/owed", "owed"))
    check_names(columns["tenants"], "tenant", "/tenants")
    return columns


def _servers(
    items: Sequence[Any], resources: Sequence[str], tenants: Mapping[str, int]
) -> dict[str, Any]:
    width = max(4, len(str(len(items))))
    columns: dict[str, list[Any]] = {
        "server_names": [],
        "capacity": [],
        "server_count": [],
        "server_labels": [],
        "contributed_by": [],
        "contributed_only": [],
    }
    for i, item in enumerate(items):
        pointer = f"/servers/{i}"
        server = as_object(item, pointer)
        check_fields(
            server,
            pointer,
            required=("capacity",),
            optional=("name", "count", "labels", "contributed_by", "draining"),
        )
        owner = server.get("contributed_by")
        columns["server_names"].append(
            as_text(server.get("name", f"server-{i + 1:0{width}d}"), f"{pointer}/name")
        )
        columns["capacity"].append(
            as_amounts(server["capacity"], f"{pointer}/capacity", resources, "capacity")
        )
        columns["server_count"].append(as_whole(server.get("count", 1), f"{pointer}/count"))
        columns["server_labels"].append(_labels(server.get("labels", {}), f"{pointer}/labels"))
        columns["contributed_by"].append(
            -1 if owner is None else _tenant_index(owner, f"{pointer}/contributed_by", tenants)
        )
        columns["contributed_only"].append(
            as_flag(server.get("draining", False), f"{pointer}/draining")
        )
    return columns


def _workloads(
    items: Sequence[Any], resources: Sequence[str], tenants: Mapping[str, int]
) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {
        "workload_tenant": [],
        "workload_names": [],
        "demand": [],
        "tasks": [],
        "priority": [],
        "selectors": [],
    }
    for j, item in enumerate(items):
        pointer = f"/workloads/{j}"
        workload = as_object(item, pointer)
        check_fields(
            workload,
            pointer,
            required=("tenant", "name", "demand"),
            optional=("tasks", "priority", "server_selector"),
        )
        tasks = workload.get("tasks")
        columns["workload_tenant"].append(
            _tenant_index(workload["tenant"], f"{pointer}/tenant", tenants)
        )
        columns["workload_names"].append(as_text(workload["name"], f"{pointer}/name"))
        columns["demand"].append(
            as_amounts(workload["demand"], f"{pointer}/demand", resources, "demand")
        )
        columns["tasks"].append(
            math.inf if tasks is None else float(as_whole(tasks, f"{pointer}/tasks"))
        )
        columns["priority"].append(as_whole(workload.get("priority", 0), f"{pointer}/priority"))
        columns["selectors"].append(
            _selector(workload.get("server_selector", {}), f"{pointer}/server_selector")
        )
    return columns


def _labels(value: Any, pointer: str) -> dict[str, str]:
    return {
        label: as_text(text, f"{pointer}/{escaped(label)}")
        for label, text in as_object(value, pointer).items()
    }


def _selector(value: Any, pointer: str) -> dict[str, list[str]]:
    selector = {}
    for label, wanted in as_object(value, pointer).items():
        where = f"{pointer}/{escaped(label)}"
        values = [wanted] if isinstance(wanted, str) else as_list(wanted, where)
        if not values:
            raise ProblemError("selector.empty", "a selector names at least one value", where)
        selector[label] = [as_text(text, where) for text in values]
    return selector


def _tenant_index(value: Any, pointer: str, tenants: Mapping[str, int]) -> int:
    name = as_text(value, pointer)
    if name not in tenants:
        raise ProblemError("tenant.unknown", f"there is no tenant {name!r}", pointer)
    return tenants[name]


def _weights_mode(value: str) -> WeightsMode:
    if value == "explicit":
        return "explicit"
    if value == "contribution":
        return "contribution"
    raise ProblemError(
        "weights.unknown",
        f"weights is {value!r}; it must be 'explicit' or 'contribution'",
        "/weights",
    )


def _include(items: Sequence[Any]) -> tuple[str, ...]:
    for i, item in enumerate(items):
        if item not in INCLUDES:
            raise ProblemError(
                "include.unknown",
                f"{item!r} cannot be included; there are {', '.join(INCLUDES)}",
                f"/include/{i}",
            )
    return tuple(dict.fromkeys(items))
