"""The one front door: policies by name, their modes, options and the checks on answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jsonschema
import numpy as np

from policies import drf, drfh, drfh_tasks, pool_tasks, static
from policies.allocation import Allocation
from policies.errors import (
    PolicyModeError,
    PolicyNotApplicableError,
    PolicyOptionsError,
    PolicyUnknownError,
    SolveFailedError,
)
from policies.problem import Problem
from policies.verification import check_feasible

Solver = Callable[[Problem, Mapping[str, Any], float | None], Allocation]

NO_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"type": "object", "properties": {}, "additionalProperties": False}
)


def _options(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


PLACEMENT_OPTIONS = _options(
    placement={
        "enum": ["best-fit", "first-fit", "affinity", "two-choices"],
        "description": "indivisible: which server a task goes to; default best-fit",
    },
    seed={
        "type": "integer",
        "minimum": 0,
        "maximum": 2**53,
        "description": "indivisible, two-choices: of the random probes; default 0",
    },
)


@dataclass(frozen=True)
class PolicyInfo:
    """What a caller may know about a policy.

    Attributes:
        name, description: for lists; ``source`` is the paper it comes from.
        modes: the first is the default.
        options_schema: JSON Schema that ``options`` must fit; unknown options never fit.
        complexity: running time in words.
        long_term: does it read and write a history?
        places: does it decide on servers (and so honours selectors)?
    """

    name: str
    description: str
    modes: tuple[str, ...]
    options_schema: Mapping[str, Any]
    complexity: str
    source: str
    long_term: bool = False
    places: bool = True


@dataclass(frozen=True)
class _Policy:
    info: PolicyInfo
    solvers: Mapping[str, Solver]


_POLICIES: dict[str, _Policy] = {}


def _register(info: PolicyInfo, **solvers: Solver) -> None:
    _POLICIES[info.name] = _Policy(info, MappingProxyType(solvers))


_register(
    PolicyInfo(
        name="drf",
        description="Dominant Resource Fairness: the pool as one big server, dominant shares "
        "rise together until a resource is full",
        modes=("divisible", "indivisible"),
        options_schema=NO_OPTIONS,
        complexity="divisible: O(rounds × tenants × resources), rounds ≤ resources + limits; "
        "indivisible: O(tenants × log(1 / tolerance)), then O(log tenants) for each last pick",
        source="Ghodsi et al., NSDI 2011, §4 and Algorithm 1",
        places=False,
    ),
    divisible=drf.solve_divisible,
    indivisible=pool_tasks.solve_drf,
)
_register(
    PolicyInfo(
        name="drfh",
        description="DRF in heterogeneous servers: weighted leximin of global dominant shares "
        "over real servers and placement constraints",
        modes=("divisible", "indivisible"),
        options_schema=PLACEMENT_OPTIONS,
        complexity="divisible: a few linear programs of tenants × server classes, each linear "
        "in tenants; indivisible: linear in tasks, each O(log tenants) and a few servers",
        source="Wang, Liang, Li, TPDS 2015, §4, §5.1 (divisible) and §5.2 (indivisible)",
    ),
    divisible=drfh.solve_divisible,
    indivisible=drfh_tasks.solve_indivisible,
)
_register(
    PolicyInfo(
        name="static",
        description="Static partitioning: each tenant alone on the servers it contributed, "
        "the pool's own split by weight",
        modes=("indivisible",),
        options_schema=NO_OPTIONS,
        complexity="O(workloads × servers)",
        source="the baseline of Tang et al., TPDS 2018, and Ghodsi et al., NSDI 2011",
    ),
    indivisible=static.solve_indivisible,
)
_register(
    PolicyInfo(
        name="asset",
        description="Asset fairness: equal sums of the shares of all resources, in whole tasks",
        modes=("indivisible",),
        options_schema=NO_OPTIONS,
        complexity="as drf indivisible",
        source="Ghodsi et al., NSDI 2011, §4.2",
        places=False,
    ),
    indivisible=pool_tasks.solve_asset,
)
_register(
    PolicyInfo(
        name="single-resource",
        description="Max-min fairness of one resource (the first, or the option resource), "
        "whatever the others",
        modes=("indivisible",),
        options_schema=_options(
            resource={"type": "string", "description": "the one that counts; default the first"}
        ),
        complexity="as drf indivisible",
        source="the baseline of Ghodsi et al., NSDI 2011, §6 (CPU-only fair sharing)",
        places=False,
    ),
    indivisible=pool_tasks.solve_single_resource,
)
_register(
    PolicyInfo(
        name="slots",
        description="Hadoop's slots: servers cut into equal slots, max-min on the number of "
        "slots that tasks take",
        modes=("indivisible",),
        options_schema=_options(
            slots_per_largest_server={
                "type": "integer",
                "minimum": 1,
                "maximum": 1000,
                "description": "the largest server is cut into so many; default 14",
            },
            slot={
                "type": "object",
                "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
                "minProperties": 1,
                "description": "amount of each resource in one slot, instead",
            },
        )
        | {"not": {"required": ["slot", "slots_per_largest_server"]}},
        complexity="as drf indivisible",
        source="the baseline of Ghodsi et al., NSDI 2011, §6, and Wang et al., TPDS 2015, §6",
        places=False,
    ),
    indivisible=pool_tasks.solve_slots,
)


def policies_available() -> tuple[PolicyInfo, ...]:
    """Every policy, in the order of their names."""
    return tuple(_POLICIES[name].info for name in sorted(_POLICIES))


def policy_info(name: str) -> PolicyInfo:
    """What is known about one policy.

    Raises:
        PolicyUnknownError: there is none of that name.
    """
    return _policy(name).info


def mode_of(name: str, mode: str | None) -> str:
    """The mode that applies: the given one, or the policy's default for None.

    Raises:
        PolicyUnknownError, PolicyModeError: no such policy, or it lacks the mode.
    """
    modes = policy_info(name).modes
    if mode is None:
        return modes[0]
    if mode not in modes:
        raise PolicyModeError(
            "policy.mode",
            f"policy {name!r} has no mode {mode!r}; it has {', '.join(modes)}",
            "/policy/mode",
        )
    return mode


def options_of(name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options, checked against the policy's schema and completed with its defaults.

    Raises:
        PolicyUnknownError, PolicyOptionsError: no such policy, or options that do not fit.
    """
    schema = policy_info(name).options_schema
    given = dict(options or {})
    errors = sorted(
        jsonschema.Draft202012Validator(schema).iter_errors(given), key=lambda e: list(e.path)
    )
    if errors:
        where = "".join(f"/{part}" for part in errors[0].absolute_path)
        raise PolicyOptionsError(
            "policy.options",
            f"options of policy {name!r}: {errors[0].message}",
            f"/policy/options{where}",
        )
    defaults = {
        key: value["default"] for key, value in schema["properties"].items() if "default" in value
    }
    return defaults | given


def solve(
    problem: Problem,
    policy: str,
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
) -> Allocation:
    """Allocate the pool by the named policy.

    Args:
        problem: servers, tenants, workloads.
        policy: a name from :func:`policies_available`.
        mode: one of the policy's modes; None is its default.
        options: see the policy's ``options_schema``.
        time_limit: seconds after which to give up; None is no limit.

    Returns:
        An allocation whose feasibility has been checked; the same input gives the same
        answer, to the last bit.

    Raises:
        PolicyUnknownError, PolicyModeError, PolicyOptionsError: what was asked for.
        PolicyNotApplicableError: a selector under a policy that does not place.
        ProblemTooLargeError, SolveTimeoutError: it would take, or took, too much.
        SolveFailedError: no answer passed its checks.
    """
    entry = _policy(policy)
    chosen_mode = mode_of(policy, mode)
    chosen_options = options_of(policy, options)
    if problem.has_selectors and not entry.info.places:
        first = next(j for j, selector in enumerate(problem.selectors) if selector)
        raise PolicyNotApplicableError(
            "policy.no_placement",
            f"policy {policy!r} sees the pool as one server: workload {first} "
            f"({problem.workload_names[first]!r}) cannot have a server_selector",
            f"/workloads/{first}/server_selector",
        )
    deadline = None if time_limit is None else time.monotonic() + time_limit
    allocation = entry.solvers[chosen_mode](problem, chosen_options, deadline)
    failed = [check for check in check_feasible(problem, allocation) if not check.holds]
    if failed:
        raise SolveFailedError(
            "solve.failed", f"policy {policy!r}: {failed[0].name}: {failed[0].detail}"
        )
    return allocation


def warm() -> None:
    """Compile, or load from the cache, every numeric kernel before the first request."""
    for tenants, servers in ((60, 4), (3, 80)):  # both eliminations of the interior point
        amounts = np.arange(1.0, 1 + max(tenants, servers))
        problem = Problem.create(
            resources=("a", "b"),
            capacity=np.c_[amounts[:servers], amounts[:servers][::-1]],
            tenants=[str(i) for i in range(tenants)],
            demand=np.c_[amounts[:tenants] / 100, 1 / (100 * amounts[:tenants])],
        )
        for name, policy in _POLICIES.items():
            for mode in policy.solvers:
                solve(problem, name, mode=mode)


def _policy(name: str) -> _Policy:
    try:
        return _POLICIES[name]
    except KeyError:
        known = ", ".join(sorted(_POLICIES))
        raise PolicyUnknownError(
            "policy.unknown", f"there is no policy {name!r}; there are {known}", "/policy/name"
        ) from None
