"""Validation of a problem when it is built.

Every error names the row, the value and what would be right, with a JSON pointer into the
evaluation document (rows are in the same order there).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.errors import ProblemError
from policies.model.current_placements import GONE
from policies.model.gangs import check_gangs
from policies.model.group_tree import GREATEST_DEPTH, LARGEST_TIER, MOST_GROUPS, POOL, depths
from policies.model.problem_fields import Guarantee, Limit, ProblemFields

LARGEST_QUANTITY = 1e12
LARGEST_DEFICIT = 1000
# Below it numbers lose digits.
SMALLEST_WEIGHT = float(np.finfo(np.float64).tiny)
LARGEST_SERVER_COUNT = 10**6


def check_problem(problem: ProblemFields) -> None:
    """Raise ProblemError for the first thing about ``problem`` that cannot be accepted."""
    # In this order, because later checks index by what earlier ones have accepted.
    _check_lengths(problem)
    check_names(problem.resources, "resource", "/resources")
    check_names(problem.server_names, "server", "/servers")
    check_names(problem.tenants, "tenant", "/tenants")
    _check_servers(problem)
    _check_tenants(problem)
    _check_groups(problem)
    check_gangs(problem.gangs, problem.n, problem.m)
    _check_workloads(problem)
    _check_amounts_of_nodes(problem)
    _check_kept_placements(problem)


def _check_lengths(problem: ProblemFields) -> None:
    if not problem.resources:
        raise ProblemError("resource.none", "a pool has at least one resource", "/resources")
    k, n, m, t, g = problem.k, problem.n, problem.m, problem.t, len(problem.groups)
    expected: list[tuple[str, Any, tuple[int, ...]]] = [
        ("units", problem.units, (m,)),
        ("capacity", problem.capacity, (k, m)),
        ("server_count", problem.server_count, (k,)),
        ("server_labels", problem.server_labels, (k,)),
        ("contributed_by", problem.contributed_by, (k,)),
        ("contributed_only", problem.contributed_only, (k,)),
        ("weight", problem.weight, (t,)),
        ("best_effort", problem.best_effort, (t,)),
        ("tenant_group", problem.tenant_group, (t,)),
        ("tenant_tier", problem.tenant_tier, (t,)),
        ("group_parent", problem.group_parent, (g,)),
        ("group_weight", problem.group_weight, (g,)),
        ("group_tier", problem.group_tier, (g,)),
        ("owed", problem.deficit, (t,)),
        ("workload_tenant", problem.workload_tenant, (n,)),
        ("demand", problem.demand, (n, m)),
        ("tasks", problem.tasks, (n,)),
        ("own_servers", problem.own_servers, (t,)),
        ("part_of", problem.part_of, (n,)),
        ("kept", problem.kept, (t,)),
        ("priority", problem.priority, (n,)),
        ("selectors", problem.selectors, (n,)),
    ]
    for what, values, shape in expected:
        actual = values.shape if isinstance(values, np.ndarray) else (len(values),)
        if actual != shape:
            raise ProblemError("problem.shape", f"{what} has shape {actual}; it needs {shape}")
    if problem.weights_mode not in ("explicit", "contribution"):
        raise ProblemError(
            "weights.unknown",
            f"weights is {problem.weights_mode!r}; it must be 'explicit' or 'contribution'",
            "/weights",
        )


def check_names(names: Sequence[str], kind: str, pointer: str) -> None:
    """Raise ProblemError unless every name is a non-empty string and none comes twice."""
    if _are_distinct(names):
        return
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ProblemError(
                f"{kind}.name", f"{kind} {i} is named {name!r}; it needs a name", f"{pointer}/{i}"
            )
        if first.setdefault(name, i) != i:
            raise ProblemError(
                f"{kind}.duplicate",
                f"{kind} {i} is called {name!r} like {kind} {first[name]}; names are unique",
                f"{pointer}/{i}",
            )


def _are_distinct(names: Sequence[str], owners: Sequence[int] | None = None) -> bool:
    """Return whether names, with an owner each, are texts that are not empty and come once."""
    if not set(map(type, names)) <= {str}:
        return False
    pairs = set(names) if owners is None else set(zip(owners, names, strict=True))
    return len(pairs) == len(names) and "" not in names


def _check_servers(problem: ProblemFields) -> None:
    _check_amounts(problem, problem.capacity, problem.server_names, "server", "capacity")
    i = _first((problem.server_count < 1) | (problem.server_count > LARGEST_SERVER_COUNT))
    if i is not None:
        raise ProblemError(
            "server.count",
            f"server {i} ({problem.server_names[i]!r}): count is {problem.server_count[i]}; "
            f"it must be between 1 and {LARGEST_SERVER_COUNT}",
            f"/servers/{i}/count",
        )
    i = _first((problem.contributed_by < -1) | (problem.contributed_by >= problem.t))
    if i is not None:
        raise ProblemError(
            "server.contributed_by",
            f"server {i} ({problem.server_names[i]!r}): contributed by tenant number "
            f"{problem.contributed_by[i]}; it must be one of the {problem.t} tenants or -1",
            f"/servers/{i}/contributed_by",
        )


def _check_tenants(problem: ProblemFields) -> None:
    # Negated, because comparisons with NaN are false.
    i = _first(~(np.isfinite(problem.weight) & (problem.weight >= SMALLEST_WEIGHT)))
    if i is not None:
        raise ProblemError(
            "weight.not_positive",
            f"tenant {i} ({problem.tenants[i]!r}): weight is {problem.weight[i]}; "
            "it must be a number above 0",
            f"/tenants/{i}/weight",
        )
    i = _first(~(np.abs(problem.deficit) <= LARGEST_DEFICIT))
    if i is not None:
        raise ProblemError(
            "owed.out_of_range",
            f"tenant {i} ({problem.tenants[i]!r}): owed is {problem.deficit[i]}; it must be a number "
            f"of periods between -{LARGEST_DEFICIT} and {LARGEST_DEFICIT}",
            f"/tenants/{i}/owed",
        )


def _check_groups(problem: ProblemFields) -> None:
    names, g = problem.groups, len(problem.groups)
    # In problems with floors tenants are groups, which are not counted.
    if g > MOST_GROUPS and not problem.floors:
        raise ProblemError(
            "group.too_many", f"{g} groups; a pool has at most {MOST_GROUPS}", "/groups"
        )
    check_names(names, "group", "/groups")
    for rows, values, what in (
        ("tenants", problem.tenant_group, "group"),
        ("groups", problem.group_parent, "parent"),
    ):
        i = _first((values < POOL) | (values >= g))
        if i is not None:
            raise ProblemError(
                "group.unknown",
                f"{rows[:-1]} {i}: {what} is group number {values[i]}; it must be one of the {g} "
                "groups, or -1 for the pool",
                f"/{rows}/{i}/{what}",
            )
    for rows, tiers in (("tenants", problem.tenant_tier), ("groups", problem.group_tier)):
        i = _first(np.abs(tiers) > LARGEST_TIER)
        if i is not None:
            raise ProblemError(
                "tier.out_of_range",
                f"{rows[:-1]} {i}: tier is {tiers[i]}; it must be a whole number from "
                f"-{LARGEST_TIER} to {LARGEST_TIER}",
                f"/{rows}/{i}/tier",
            )
    i = _first(~(np.isfinite(problem.group_weight) & (problem.group_weight >= SMALLEST_WEIGHT)))
    if i is not None:
        raise ProblemError(
            "weight.not_positive",
            f"group {i} ({names[i]!r}): weight is {problem.group_weight[i]}; it must be a number "
            "above 0",
            f"/groups/{i}/weight",
        )
    depth = depths(problem.group_parent)
    # Groups on a cycle, or below one, have no depth.
    below = np.flatnonzero(depth == 0)
    if len(below):
        # The first of them may hang below the cycle, and is not at fault.
        i = _on_cycle(problem, int(below[0]))
        raise ProblemError(
            "group.cycle",
            f"group {i} ({names[i]!r}) is on a cycle of parents; following parents must end at the "
            "pool",
            f"/groups/{i}/parent",
        )
    # A tenant with guaranteed parts is a group in a problem with floors.
    i = _first(depth > GREATEST_DEPTH + bool(problem.floors))
    if i is not None:
        raise ProblemError(
            "group.too_deep",
            f"group {i} ({names[i]!r}) is {depth[i]} levels below the pool; at most "
            f"{GREATEST_DEPTH} are allowed",
            f"/groups/{i}/parent",
        )


def _check_amounts_of_nodes(problem: ProblemFields) -> None:
    """Check limits, what tenants lend, and guarantees."""
    nodes = {
        "group": len(problem.groups),
        "tenant": problem.t,
        "workload": problem.n,
        "lend": problem.t,
    }
    amounts: list[Limit | Guarantee] = [*problem.limits, *problem.guarantees]
    valid = _are_amounts(amounts, problem.m)
    for i, each in enumerate(amounts):
        kind = "limit" if i < len(problem.limits) else "guarantee"
        if each.scope == "lend":
            kind = "lend"
        takes = nodes if kind != "guarantee" else ("group", "tenant")
        exists = each.scope in takes and 0 <= each.node < nodes[each.scope]
        if exists and valid:
            continue
        owner = "tenant" if kind == "lend" else each.scope
        pointer = f"/{owner}s/{each.node}/{kind}"
        what = f"{kind} of {each.scope} {each.node}"
        if not exists:
            raise ProblemError(
                f"{kind}.node",
                f"{what}: it must be for a {', a '.join(takes)} of the problem",
                f"/{kind}s",
            )
        if each.amount.shape != (problem.m,):
            raise ProblemError(
                "problem.shape",
                f"{what}: amount has shape {each.amount.shape}; it needs ({problem.m},)",
                pointer,
            )
        if not np.isfinite(each.amount).any():
            raise ProblemError(
                f"{kind}.empty", f"{what} names no resource; it must name at least one", pointer
            )
        beyond = np.isfinite(each.amount) & (each.amount > LARGEST_QUANTITY)
        if np.isnan(each.amount).any() or (each.amount < 0).any() or beyond.any():
            raise ProblemError(
                f"{kind}.amount",
                f"{what}: amount is {each.amount.tolist()}; amounts must be numbers from 0 to "
                f"{LARGEST_QUANTITY:.0e}",
                pointer,
            )


def _are_amounts(amounts: Sequence[Limit | Guarantee], resources: int) -> bool:
    """Return whether all amounts are valid, tested at once because most problems have no other."""
    if any(each.amount.shape != (resources,) for each in amounts):
        return False
    table = np.array([each.amount for each in amounts]).reshape(-1, resources)
    named = np.isfinite(table)
    # Infinity stands for a resource that is not named.
    numbers = (table >= 0) & ((table <= LARGEST_QUANTITY) | ~named)
    return bool(named.any(axis=1).all() and numbers.all())


def _on_cycle(problem: ProblemFields, group: int) -> int:
    """Return a group on the cycle to which the parents of a group lead."""
    seen = set()
    while group not in seen:
        seen.add(group)
        group = int(problem.group_parent[group])
    return group


def _check_workloads(problem: ProblemFields) -> None:
    names = problem.workload_names
    j = _first((problem.workload_tenant < 0) | (problem.workload_tenant >= problem.t))
    if j is not None:
        raise ProblemError(
            "workload.tenant",
            f"workload {j} ({names[j]!r}): belongs to tenant number {problem.workload_tenant[j]}; "
            f"it must be one of the {problem.t} tenants",
            f"/workloads/{j}/tenant",
        )
    owners = problem.workload_tenant.tolist()
    if not _are_distinct(names, owners):
        _refuse_names(problem, owners)
    _check_amounts(problem, problem.demand, names, "workload", "demand")
    j = _first(problem.demand.max(axis=1, initial=0.0) <= 0)
    if j is not None:
        raise ProblemError(
            "demand.zero",
            f"workload {j} ({names[j]!r}): demands nothing; it must demand at least one resource",
            f"/workloads/{j}/demand",
        )
    whole = np.isposinf(problem.tasks) | (problem.tasks == np.floor(problem.tasks))
    if problem.floors:  # a guaranteed part of a workload may be a fraction of a task
        whole |= np.isfinite(problem.tasks)
    j = _first(~(whole & (problem.tasks >= 0)))
    if j is not None:
        raise ProblemError(
            "tasks.not_whole",
            f"workload {j} ({names[j]!r}): tasks is {problem.tasks[j]}; "
            "it must be a whole number, 0 or more, or unbounded",
            f"/workloads/{j}/tasks",
        )


def _refuse_names(problem: ProblemFields, owners: Sequence[int]) -> None:
    first: dict[tuple[int, str], int] = {}
    for j, key in enumerate(zip(owners, problem.workload_names, strict=True)):
        if not isinstance(key[1], str) or not key[1]:
            raise ProblemError(
                "workload.name", f"workload {j} needs a name", f"/workloads/{j}/name"
            )
        if first.setdefault(key, j) != j:
            raise ProblemError(
                "workload.duplicate",
                f"workload {j} is called {key[1]!r} like workload {first[key]} of tenant "
                f"{problem.tenants[key[0]]!r}; names are unique per tenant",
                f"/workloads/{j}/name",
            )


def _check_kept_placements(problem: ProblemFields) -> None:
    kept = problem.kept_placements
    if kept is None:
        return
    kinds = problem.n + sum(len(gang.count) - 1 for gang in problem.gangs.values())
    bad = (kept.workload < 0) | (kept.workload >= kinds)
    bad |= (kept.row < GONE) | (kept.row >= problem.k) | (kept.offset < 0) | (kept.servers < 0)
    bad |= ~((kept.tasks >= 0) & (kept.tasks == np.floor(kept.tasks)) & np.isfinite(kept.tasks))
    entry = _first(bad)
    if entry is not None:
        raise ProblemError(
            "kept.placement",
            f"kept placement {entry}: expected a workload, a server row, an offset and a number of "
            "servers of the problem, and a whole number of tasks, 0 or more",
            f"/kept/{entry}",
        )


def _check_amounts(
    problem: ProblemFields,
    table: npt.NDArray[np.float64],
    names: Sequence[str],
    kind: str,
    what: str,
) -> None:
    bad = ~((table >= 0) & (table < LARGEST_QUANTITY))
    if not bad.any():
        return
    i, r = (int(index) for index in np.argwhere(bad)[0])
    value = table[i, r]
    code = "negative" if value < 0 else ("too_large" if value >= LARGEST_QUANTITY else "not_finite")
    raise ProblemError(
        f"{what}.{code}",
        f"{kind} {i} ({names[i]!r}): {what} of {problem.resources[r]} is {value}; "
        "it must be a number from 0 to below 1e12",
        f"/{kind}s/{i}/{what}/{problem.resources[r]}",
    )


def _first(bad: npt.NDArray[np.bool_]) -> int | None:
    return int(bad.argmax()) if bad.any() else None
