"""The JSON shape of an evaluation: a document to a problem, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from policies.errors import ProblemError
from policies.problem import Problem, WeightsMode
from policies.validation import check_names

INCLUDES = ("placements", "certificate", "properties", "schedule", "explanations")
RESOURCE_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True)
class ParsedProblem:
    """An evaluation document, read.

    Attributes:
        problem: the arrays; policy, mode, options: what shall answer it, unchecked
            (``solve`` checks them).
        include: optional parts of the answer that were asked for.
        history: the document's ``history`` as it stands, or None.
    """

    problem: Problem
    policy: str
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    history: Mapping[str, Any] | None = None


def problem_from_document(document: Mapping[str, Any]) -> ParsedProblem:
    """Read an evaluation document.

    Quantities are JSON numbers or decimal strings. Besides the public fields, resources may
    be ``{"name", "unit"}``, servers ``"draining": true`` (contributed, but no capacity),
    workloads ``"priority"`` and tenants ``"best_effort"``.

    Raises:
        ProblemError: ``field.*`` where the structure is wrong (unknown or missing field,
            wrong type), another code where a value is; ``pointer`` says where.
    """
    _fields(
        document,
        "",
        required=("resources", "servers", "tenants", "workloads", "policy"),
        optional=("weights", "history", "include"),
    )
    resources, units = _resources(_list(document["resources"], "/resources"))
    tenants = _list(document["tenants"], "/tenants")
    names, weights, best_effort = _tenants(tenants)
    index = {name: i for i, name in enumerate(names)}
    policy = _object(document["policy"], "/policy")
    _fields(policy, "/policy", required=("name",), optional=("mode", "options"))
    mode = policy.get("mode")
    weights_mode = _text(document.get("weights", "explicit"), "/weights")
    problem = Problem.create(
        resources=resources,
        units=units,
        tenants=names,
        weight=weights,
        best_effort=best_effort,
        weights_mode=_weights_mode(weights_mode),
        **_servers(_list(document["servers"], "/servers"), resources, index),
        **_workloads(_list(document["workloads"], "/workloads"), resources, index),
    )
    history = document.get("history")
    return ParsedProblem(
        problem=problem,
        policy=_text(policy["name"], "/policy/name"),
        mode=None if mode is None else _text(mode, "/policy/mode"),
        options=dict(_object(policy.get("options", {}), "/policy/options")),
        include=_include(_list(document.get("include", []), "/include")),
        history=None if history is None else _object(history, "/history"),
    )


def problem_to_document(parsed: ParsedProblem) -> dict[str, Any]:
    """Write what :func:`problem_from_document` reads; reading it gives the same problem."""
    problem = parsed.problem
    document: dict[str, Any] = {
        "resources": [
            {"name": name, "unit": unit}
            for name, unit in zip(problem.resources, problem.units, strict=True)
        ],
        "servers": [_server_document(problem, row) for row in range(problem.k)],
        "tenants": [
            {
                "name": problem.tenants[i],
                "weight": float(problem.weight[i]),
                "best_effort": bool(problem.best_effort[i]),
            }
            for i in range(problem.t)
        ],
        "workloads": [_workload_document(problem, j) for j in range(problem.n)],
        "policy": {"name": parsed.policy, "options": dict(parsed.options)},
        "weights": problem.weights_mode,
        "include": list(parsed.include),
    }
    if parsed.mode is not None:
        document["policy"]["mode"] = parsed.mode
    if parsed.history is not None:
        document["history"] = dict(parsed.history)
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


def quantities(resources: Sequence[str], amounts: Any) -> dict[str, float]:
    """An object keyed by resource names."""
    return dict(zip(resources, np.asarray(amounts).tolist(), strict=True))


def _resources(items: Sequence[Any]) -> tuple[list[str], list[str]]:
    names, units = [], []
    for i, item in enumerate(items):
        pointer = f"/resources/{i}"
        if isinstance(item, Mapping):
            _fields(item, pointer, required=("name",), optional=("unit",))
            names.append(_text(item["name"], f"{pointer}/name"))
            units.append(_text(item.get("unit", ""), f"{pointer}/unit"))
        else:
            names.append(_text(item, pointer))
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


def _tenants(items: Sequence[Any]) -> tuple[list[str], list[float], list[bool]]:
    names, weights, best_effort = [], [], []
    for i, item in enumerate(items):
        pointer = f"/tenants/{i}"
        tenant = _object(item, pointer)
        _fields(tenant, pointer, required=("name",), optional=("weight", "best_effort"))
        names.append(_text(tenant["name"], f"{pointer}/name"))
        weights.append(_number(tenant.get("weight", 1), f"{pointer}/weight", "weight"))
        best_effort.append(_flag(tenant.get("best_effort", False), f"{pointer}/best_effort"))
    check_names(names, "tenant", "/tenants")
    return names, weights, best_effort


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
        server = _object(item, pointer)
        _fields(
            server,
            pointer,
            required=("capacity",),
            optional=("name", "count", "labels", "contributed_by", "draining"),
        )
        owner = server.get("contributed_by")
        columns["server_names"].append(
            _text(server.get("name", f"server-{i + 1:0{width}d}"), f"{pointer}/name")
        )
        columns["capacity"].append(
            _amounts(server["capacity"], f"{pointer}/capacity", resources, "capacity")
        )
        columns["server_count"].append(_whole(server.get("count", 1), f"{pointer}/count"))
        columns["server_labels"].append(_labels(server.get("labels", {}), f"{pointer}/labels"))
        columns["contributed_by"].append(
            -1 if owner is None else _tenant_index(owner, f"{pointer}/contributed_by", tenants)
        )
        columns["contributed_only"].append(
            _flag(server.get("draining", False), f"{pointer}/draining")
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
        workload = _object(item, pointer)
        _fields(
            workload,
            pointer,
            required=("tenant", "name", "demand"),
            optional=("tasks", "priority", "server_selector"),
        )
        tasks = workload.get("tasks")
        columns["workload_tenant"].append(
            _tenant_index(workload["tenant"], f"{pointer}/tenant", tenants)
        )
        columns["workload_names"].append(_text(workload["name"], f"{pointer}/name"))
        columns["demand"].append(
            _amounts(workload["demand"], f"{pointer}/demand", resources, "demand")
        )
        columns["tasks"].append(
            math.inf if tasks is None else float(_whole(tasks, f"{pointer}/tasks"))
        )
        columns["priority"].append(_whole(workload.get("priority", 0), f"{pointer}/priority"))
        columns["selectors"].append(
            _selector(workload.get("server_selector", {}), f"{pointer}/server_selector")
        )
    return columns


def _fields(
    item: Mapping[str, Any], pointer: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    for name in required:
        if name not in item:
            raise ProblemError("field.missing", f"{name!r} is missing", f"{pointer}/{name}")
    for name in item:
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise ProblemError(
                "field.unknown",
                f"{name!r} is not known here; there are {known}",
                f"{pointer}/{_escaped(name)}",
            )


def _object(value: Any, pointer: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ProblemError("field.type", "this must be an object", pointer)
    return value


def _list(value: Any, pointer: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ProblemError("field.type", "this must be an array", pointer)
    return value


def _text(value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        raise ProblemError("field.type", "this must be a string", pointer)
    return value


def _flag(value: Any, pointer: str) -> bool:
    if not isinstance(value, bool):
        raise ProblemError("field.type", "this must be true or false", pointer)
    return value


def _whole(value: Any, pointer: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProblemError("field.type", "this must be a whole number", pointer)
    if abs(value) >= 2**53:
        raise ProblemError(
            "number.too_large", f"{value} is too large; whole numbers stay below 2^53", pointer
        )
    return value


def _number(value: Any, pointer: str, what: str) -> float:
    """A JSON number or decimal string; signs, NaN and infinities are refused by the problem."""
    if isinstance(value, str):
        if not DECIMAL.fullmatch(value.removeprefix("-")):
            raise ProblemError(
                f"{what}.not_a_number", f"{value!r} is not a decimal number", pointer
            )
        try:
            return float(Decimal(value))
        except (InvalidOperation, OverflowError) as error:
            raise ProblemError(
                f"{what}.not_a_number", f"{value!r} is not a decimal number", pointer
            ) from error
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ProblemError("field.type", "this must be a number or a decimal string", pointer)
    try:
        return float(value)
    except OverflowError as error:
        raise ProblemError(f"{what}.too_large", f"{what} is too large", pointer) from error


def _amounts(value: Any, pointer: str, resources: Sequence[str], what: str) -> list[float]:
    amounts = _object(value, pointer)
    for name in amounts:
        if name not in resources:
            raise ProblemError(
                f"{what}.unknown_resource",
                f"the pool has no resource {name!r}; it has {', '.join(resources)}",
                f"{pointer}/{_escaped(name)}",
            )
    return [_number(amounts.get(name, 0), f"{pointer}/{name}", what) for name in resources]


def _labels(value: Any, pointer: str) -> dict[str, str]:
    return {
        label: _text(text, f"{pointer}/{_escaped(label)}")
        for label, text in _object(value, pointer).items()
    }


def _selector(value: Any, pointer: str) -> dict[str, list[str]]:
    selector = {}
    for label, wanted in _object(value, pointer).items():
        where = f"{pointer}/{_escaped(label)}"
        values = [wanted] if isinstance(wanted, str) else _list(wanted, where)
        if not values:
            raise ProblemError("selector.empty", "a selector names at least one value", where)
        selector[label] = [_text(text, where) for text in values]
    return selector


def _tenant_index(value: Any, pointer: str, tenants: Mapping[str, int]) -> int:
    name = _text(value, pointer)
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


def _escaped(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
