"""The one front door: policies by name, their modes, options and the checks on answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import jsonschema
import numpy as np

from policies.equilibrium import ceei
from policies.errors import (
    PolicyModeError,
    PolicyNotApplicableError,
    PolicyOptionsError,
    PolicyUnknownError,
    SolveFailedError,
)
from policies.filling import mrfs, static
from policies.filling import pool as pool_tasks
from policies.filling import servers as drfh_tasks
from policies.finishing.feasibility_rounding import fitted
from policies.finishing.placement_stickiness import keeps_places, stay_in_place
from policies.leximin import asset, drf, drfh
from policies.long_term import hand_out as longterm
from policies.long_term import policies as longterm_policies
from policies.model.allocation import Allocation
from policies.model.current_placements import Running
from policies.model.history import History, check_history_fits
from policies.model.policy import NO_OPTIONS, PolicyInfo, options_schema
from policies.model.problem import Problem
from policies.model.server_classes import sees_one_pool
from policies.time_division import tda
from policies.verification.verify import check_feasible, with_proofs

Solver = Callable[[Problem, Mapping[str, Any], float | None], Allocation]
LongTermSolver = Callable[[Problem, str, Mapping[str, Any], History, float | None], Allocation]

PLACEMENT_OPTIONS = options_schema(
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
class _Policy:
    """``solvers`` by mode; of long-term policies one that also takes the history."""

    info: PolicyInfo
    solvers: Mapping[str, Solver]
    long_term_solver: LongTermSolver | None = None


_POLICIES: dict[str, _Policy] = {}


def _register(info: PolicyInfo, **solvers: Solver) -> None:
    _POLICIES[info.name] = _Policy(info, MappingProxyType(solvers))


_register(
    PolicyInfo(
        name="drf",
        description="Dominant Resource Fairness: the pool as one big server, dominant shares "
        "rise together until a resource is full",
        modes=("divisible", "indivisible"),
        options_schema=options_schema(
            resource_weights={
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": {"type": "number", "minimum": 1e-6, "maximum": 1e6},
                },
                "description": "{tenant: {resource: factor}}: by how much the tenant's weight "
                "differs in a resource; 1 where nothing is said",
            },
        ),
        complexity="divisible: O(rounds × tenants × resources), rounds ≤ resources + limits; "
        "indivisible: O(tenants × log(1 / tolerance)), then O(log tenants) for each last pick",
        source="Ghodsi et al., NSDI 2011, §4, Algorithm 1 and §4.3 (weights per resource)",
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
        description="Asset fairness: equal sums of the shares of all resources",
        modes=("divisible", "indivisible"),
        options_schema=NO_OPTIONS,
        complexity="as drf",
        source="Ghodsi et al., NSDI 2011, §4.2",
        places=False,
    ),
    divisible=asset.solve_divisible,
    indivisible=pool_tasks.solve_asset,
)
_register(
    PolicyInfo(
        name="ceei",
        description="Competitive equilibrium from equal incomes: the greatest weighted product of "
        "shares, and the prices at which everybody's budget buys its share",
        modes=("divisible",),
        options_schema=NO_OPTIONS,
        complexity="20 to 40 steps, each O(workloads × resources²)",
        source="Ghodsi et al., NSDI 2011, §4.3; Eisenberg, Gale, 1959",
        places=False,
    ),
    divisible=ceei.solve_divisible,
)
_register(
    PolicyInfo(
        name="single-resource",
        description="Max-min fairness of one resource (the first, or the option resource), "
        "whatever the others",
        modes=("indivisible",),
        options_schema=options_schema(
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
        options_schema=options_schema(
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
_register(
    PolicyInfo(
        name="tda",
        description="Time division: slots of whole tasks whose average weighted dominant shares "
        "are leximin over the period",
        modes=("indivisible",),
        options_schema=options_schema(
            pack={
                "type": "boolean",
                "description": "every slot's tasks fit on the real servers; default false: the "
                "pool counts as one server",
            },
            period_seconds={
                "type": "integer",
                "minimum": 1,
                "maximum": 31_536_000,
                "description": "the slots take turns within so many seconds; default 3600",
            },
            effort={
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 100,
                "description": "how many times the usual work is done before the best schedule so "
                "far is taken, with the gap that its bound leaves; default 1, some seconds",
            },
            replan={
                "enum": ["slot", "at-once"],
                "description": "when a change to a pool begins a new period: at the end of the slot "
                "in force, which is not cut short, or at once; default slot",
            },
        ),
        complexity="about two programs of tenants + 1 rows per tenant, each with one knapsack over the "
        "grid of capacities (or near its divisible relaxation where that is large)",
        source="the TDA thesis, 2015, chapters 3 and 4",
        places=False,
        takes_turns=True,
    ),
    indivisible=tda.solve_indivisible,
)

_register(
    PolicyInfo(
        name="mrfs",
        description="MRFS: requests go where a server hosts equally many dominated by each resource",
        modes=("indivisible",),
        options_schema=NO_OPTIONS,
        complexity="linear in tasks, each O(log tenants) and the servers that run something",
        source="Hamzeh et al., MRFS, 2020, Algorithm 1",
    ),
    indivisible=mrfs.solve_indivisible,
)
for _info in longterm_policies.INFOS:
    _POLICIES[_info.name] = _Policy(_info, MappingProxyType({}), longterm.solve_step)


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


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(policy_info(name).options_schema)


def options_of(name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options, checked against the policy's schema and completed with its defaults.

    Raises:
        PolicyUnknownError, PolicyOptionsError: no such policy, or options that do not fit.
    """
    schema = policy_info(name).options_schema
    given = dict(options or {})
    errors = sorted(_validator(name).iter_errors(given), key=lambda e: list(e.path))
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
    running: Running | None = None,
    history: History | None = None,
) -> Allocation:
    """Allocate the pool by the named policy.

    Args:
        problem: servers, tenants, workloads.
        policy: a name from :func:`policies_available`.
        mode: one of the policy's modes; None is its default.
        options: see the policy's ``options_schema``.
        time_limit: seconds after which to give up; None is no limit.
        running: where tasks run now; they stay there where that gives the same counts.
        history: what long-term policies remember before this step; None is nothing, and a
            step of length 1.

    Returns:
        An allocation that is feasible exactly; so is the proof of its levels for divisible tasks
        of ``drf``, ``drfh`` and ``asset``, or the certificate's rounds say which are left open.
        The same input gives the same answer, to the last bit.

    Raises:
        PolicyUnknownError, PolicyModeError, PolicyOptionsError: what was asked for.
        PolicyNotApplicableError: a selector under a policy that does not place, a history under
            one that remembers nothing, what is owed under one that takes no turns.
        ProblemError: a history that is not about the problem's tenants and resources.
        ProblemTooLargeError, SolveTimeoutError: it would take, or took, too much.
        SolveFailedError: no answer passed its checks.
    """
    entry = _policy(policy)
    chosen_mode = mode_of(policy, mode)
    chosen_options = options_of(policy, options)
    if problem.has_selectors and sees_one_pool(policy, chosen_options):
        first = next(j for j, selector in enumerate(problem.selectors) if selector)
        raise PolicyNotApplicableError(
            "policy.no_placement",
            f"policy {policy!r} sees the pool as one server: workload {first} "
            f"({problem.workload_names[first]!r}) cannot have a server_selector",
            f"/workloads/{first}/server_selector",
        )
    if history is not None:
        _check_history(problem, entry.info, history)
    if problem.owed.any() and not entry.info.takes_turns:
        raise PolicyNotApplicableError(
            "policy.owed",
            f"policy {policy!r} gives no turns and cannot make up for what is owed",
            f"/tenants/{int(np.flatnonzero(problem.owed)[0])}/owed",
        )
    deadline = None if time_limit is None else time.monotonic() + time_limit
    if entry.long_term_solver is not None:
        before = History.zeros(problem) if history is None else history
        allocation = entry.long_term_solver(problem, policy, chosen_options, before, deadline)
    else:
        allocation = fitted(entry.solvers[chosen_mode](problem, chosen_options, deadline))
    if running is not None and keeps_places(allocation):
        allocation = stay_in_place(problem, allocation, running, deadline)
    failed = [item for item in check_feasible(problem, allocation, history) if not item.holds]
    if failed:
        raise SolveFailedError(
            "solve.failed", f"policy {policy!r}: {failed[0].name}: {failed[0].detail}"
        )
    return with_proofs(problem, allocation)


def _check_history(problem: Problem, info: PolicyInfo, history: History) -> None:
    if not info.long_term:
        raise PolicyNotApplicableError(
            "policy.history",
            f"policy {info.name!r} remembers nothing and takes no history",
            "/history",
        )
    check_history_fits(problem, history)


def _policy(name: str) -> _Policy:
    try:
        return _POLICIES[name]
    except KeyError:
        known = ", ".join(sorted(_POLICIES))
        raise PolicyUnknownError(
            "policy.unknown", f"there is no policy {name!r}; there are {known}", "/policy/name"
        ) from None
