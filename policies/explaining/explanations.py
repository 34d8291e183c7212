"""Explanation of a tenant's allocation, with its share, its binding limits and one plain sentence.

Everything follows from the answer: shares and levels from its numbers, binding resources and their
prices from the round in which its certificate froze the tenant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from policies.arrays import FloatArray
from policies.explaining.groups import tenant_levels
from policies.explaining.numbers import counted_tasks, number, percent, weight_text
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.policy import ShareDefinition
from policies.model.problem import Problem
from policies.model.reasons import (
    GANG,
    LEVEL,
    LIMIT,
    NO_SERVER_LARGE_ENOUGH,
    REASONS,
    TASK_LIMIT,
    UNSERVED,
)
from policies.model.share_definition import shares_of

PRICE_NOISE = 1e-9
BINDINGS_SHOWN = 10
WORKLOADS_NAMED = 3
REASONS_NAMED = 3
_NOTHING_MORE = "gets nothing more"
_LARGE_PIECE = "one piece is larger than every server it may run on."


@dataclass(frozen=True)
class Binding:
    """A full resource that holds a tenant back, on servers where it would cost least.

    Attributes:
        server_class: index into the answer's classes; None where the pool counts as one server.
        resource: index of the resource.
        price: by how much the round's least weighted share would rise per unit of it.
    """

    server_class: int | None
    resource: int
    price: float


@dataclass(frozen=True)
class Explanation:
    """A tenant's part of an answer. Shares and level are None for tenants served last.

    Attributes:
        tenant: index of the tenant; share: its dominant share; weight: its effective weight.
        weighted_share, level: what it reached, as the policy counts shares, and at which level it was
            frozen.
        workloads: indices of its workloads.
        binding: what held it back, highest price first; empty without a certificate.
        just_above, just_below: the nearest other weighted shares; of the same group's tenants in a
            pool with groups, whose weights mean nothing to others.
        sentence: all of it in words.
    """

    tenant: int
    share: float
    weight: float
    weighted_share: float | None
    level: float | None
    workloads: tuple[int, ...]
    binding: tuple[Binding, ...]
    just_above: float | None
    just_below: float | None
    sentence: str


def explain(
    allocation: Allocation,
    tenant: int,
    *,
    within: int | None = None,
    limits: Mapping[int, str] = MappingProxyType({}),
    first: int | None = None,
) -> Explanation:
    """Explain an answer to one tenant.

    Parameters
    ----------
    allocation : Allocation
        Any answer.
    tenant : int
        Index of the tenant.
    within : int or None
        Index of the outermost group on the tenant's path that the sentence names. None names all.
    limits : mapping
        By index of a workload, another name of the limit that stopped it, for the sentence.
    first : int or None
        Index of the tenant's workload whose reason the sentence has before those of the others.

    Returns
    -------
    Explanation
        The tenant's share, what limits it, its neighbours, and a sentence.

    Examples
    --------
    >>> from policies import Problem, explain, solve
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> round(explain(solve(problem, "drf"), 0).share, 4)
    0.6667
    """
    problem = allocation.problem
    workloads = tuple(np.flatnonzero(problem.workload_tenant == tenant).tolist())
    share = float(_weighted_shares(allocation)[tenant])
    binding = _binding(allocation, tenant)
    above, below = _neighbours(allocation, tenant)
    return Explanation(
        tenant=tenant,
        share=float(allocation.tenant_share[tenant]),
        weight=float(problem.effective_weight[tenant]),
        weighted_share=_or_none(share),
        level=_or_none(float(allocation.level[tenant])),
        workloads=workloads,
        binding=binding,
        just_above=above,
        just_below=below,
        sentence=_sentence(allocation, tenant, workloads, binding, within, limits, first),
    )


def _binding(allocation: Allocation, tenant: int) -> tuple[Binding, ...]:
    """Return the full resources by price, highest first, where the tenant has an eligible workload."""
    problem, certificate = allocation.problem, allocation.certificate
    if not isinstance(certificate, Certificate) or certificate.frozen_in[tenant] < 0:
        return ()
    classes = allocation.classes
    prices = certificate.rounds[int(certificate.frozen_in[tenant])].prices[: classes.count]
    if prices.shape != (classes.count, problem.m):  # of shares, as time division has them
        return ()
    one_pool = allocation.choice.sees_one_pool
    mine = problem.workload_tenant == tenant
    eligible, demands = classes.allowed[mine], problem.demand[mine] > 0
    found = [
        Binding(None if one_pool else position, r, float(prices[position, r] / problem.totals[r]))
        for position, r in zip(*np.nonzero(prices > PRICE_NOISE), strict=True)
        if problem.totals[r] > 0 and (eligible[:, position] & demands[:, r]).any()
    ]
    return tuple(sorted(found, key=lambda item: -item.price)[:BINDINGS_SHOWN])


def _weighted_shares(allocation: Allocation) -> FloatArray:
    """Return the weighted shares (t,), of tasks over those alone where the policy counts these."""
    by_tasks = allocation.choice.share is ShareDefinition.ALONE
    return tenant_levels(allocation) if by_tasks else allocation.weighted_share


def _neighbours(allocation: Allocation, tenant: int) -> tuple[float | None, float | None]:
    """Return the least weighted share above and the greatest below, among siblings."""
    problem, shares = allocation.problem, _weighted_shares(allocation)
    share = float(shares[tenant])
    if problem.has_groups:
        shares = shares[problem.tenant_group == problem.tenant_group[tenant]]
    near = abs(share) * PRICE_NOISE
    above, below = shares[shares > share + near], shares[shares < share - near]
    return (
        float(above.min()) if len(above) else None,
        float(below.max()) if len(below) else None,
    )


def _sentence(
    allocation: Allocation,
    tenant: int,
    workloads: tuple[int, ...],
    binding: tuple[Binding, ...],
    within: int | None,
    limits: Mapping[int, str],
    first: int | None,
) -> str:
    problem = allocation.problem
    name = problem.tenants[tenant]
    if not workloads:
        return f"{name} runs nothing: it has no workload."
    shown = [
        f"{counted_tasks(float(allocation.tasks[j]))} of {problem.workload_names[j]}"
        for j in workloads[:WORKLOADS_NAMED]
    ]
    more = len(workloads) - len(shown)
    others = f" and {more:,} more workload{'s' * (more > 1)}" if more else ""
    tasks = ", ".join(shown) + others
    share = f"a dominant share of {percent(float(allocation.tenant_share[tenant]))}"
    if allocation.choice.share is ShareDefinition.ALONE:
        alone = float(shares_of(problem, allocation.choice, allocation.tasks)[tenant])
        share += f", {percent(alone)} of what it would run alone,"
    in_order = sorted(workloads, key=lambda j: j != first)
    why = _why(allocation, tenant, in_order, binding, within, limits)
    why = f"{_guaranteed(allocation, workloads)}{why}"
    standing = (
        f"{_standing(allocation, tenant)}{_shared_groups(allocation, tenant, workloads, within)}"
    )
    return f"{name} runs {tasks}, {share} {standing}; {why}"


def _shared_groups(
    allocation: Allocation, tenant: int, workloads: tuple[int, ...], within: int | None
) -> str:
    """Return a text about the groups that share with others on the tenant's path.

    The innermost comes first.
    """
    problem = allocation.problem
    wants = any(allocation.limited_by[j] != TASK_LIMIT for j in workloads)
    if not problem.has_groups or not wants:
        return ""
    parts = []
    for group in _groups_named(problem, tenant, within):
        used = np.zeros(problem.m)
        np.divide(
            allocation.used_by_group[group], problem.totals, out=used, where=problem.totals > 0
        )
        count = int(problem.tenants_below[group])
        tenants = f"{count:,} tenants" if count > 1 else "this tenant"
        most, weight = float(used.max(initial=0.0)), float(problem.group_weight[group])
        parts.append(
            f"; {problem.groups[group]} uses {percent(most)} of the pool at weight"
            f" {weight_text(weight)}, divided among {tenants}"
        )
    return "".join(parts)


def _standing(allocation: Allocation, tenant: int) -> str:
    """Return the tenant's weight, or why it is served only after all others."""
    problem = allocation.problem
    if not problem.second_stage[tenant]:
        return f"at weight {weight_text(float(problem.effective_weight[tenant]))}"
    if problem.best_effort[tenant]:
        return "of what the others leave, because it is best effort"
    return "of what the others leave, because it contributed nothing to this pool"


def _why(
    allocation: Allocation,
    tenant: int,
    workloads: Sequence[int],
    binding: tuple[Binding, ...],
    within: int | None,
    limits: Mapping[int, str],
) -> str:
    problem = allocation.problem
    waiting = [j for j in workloads if allocation.limited_by[j] != TASK_LIMIT]
    if not waiting:
        return "that is all it asked for."
    of_tenant = [_stop_of_tenant(problem, allocation.limited_by[j], binding) for j in waiting]
    if of_tenant[0] and len(set(of_tenant)) == 1:
        return f"it {of_tenant[0]}"
    named = [problem.groups[group] for group in _groups_named(problem, tenant, within)]
    stopped: dict[str, list[str]] = {}
    more = computed = 0
    for j, shared in zip(waiting, of_tenant, strict=True):
        is_gang = allocation.limited_by[j] == GANG
        stop = ""
        # Pieces are placed to count those that fit.
        if not is_gang or computed < REASONS_NAMED:
            stop = shared or _stop_of_workload(allocation, j, named, limits)
            computed += is_gang
        if stop in stopped or (stop and len(stopped) < REASONS_NAMED):
            stopped.setdefault(stop, []).append(problem.workload_names[j])
        else:
            more += 1
    clauses = []
    for stop, names in stopped.items():
        verb = stop.replace(_NOTHING_MORE, "get nothing more", 1) if len(names) > 1 else stop
        clauses.append(f"{_names(names)} {verb}".rstrip("."))
    if more:
        clauses.append(f"and {more:,} more workload{'s wait' if more > 1 else ' waits'}")
    return f"{'; '.join(clauses)}."


def _names(names: Sequence[str]) -> str:
    """Return some of the names, and the number of the others."""
    shown, more = list(names[:WORKLOADS_NAMED]), len(names) - WORKLOADS_NAMED
    if more > 0:
        shown.append(f"{more:,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _stop_of_tenant(problem: Problem, reason: str, binding: tuple[Binding, ...]) -> str:
    """Return where all work of a tenant stopped, or the empty string for a reason of one workload."""
    if reason in (*UNSERVED, GANG) or reason.startswith(f"{LIMIT}:"):
        return ""
    if binding:
        full = ", ".join(dict.fromkeys(problem.resources[item.resource] for item in binding))
        return f"stopped where {full} ran out on the servers where it costs least."
    if reason.startswith("resource:"):
        return f"stopped where {reason.removeprefix('resource:')} ran out."
    return f"stopped where {REASONS[LEVEL]}"


def _stop_of_workload(
    allocation: Allocation, workload: int, named: Collection[str], limits: Mapping[int, str]
) -> str:
    """Return where a workload stopped for a reason of its own."""
    reason = allocation.limited_by[workload]
    if reason in UNSERVED:
        text = REASONS[reason]
        if reason == NO_SERVER_LARGE_ENOUGH and workload in allocation.problem.gangs:
            text = _LARGE_PIECE
        return f"{_NOTHING_MORE}: {text}"
    if reason == GANG:
        # Loads the compiler, which most processes of the service never need.
        from policies.explaining.gangs import gang_sentence

        return f"stopped: {gang_sentence(allocation, workload)}"
    return f"stopped at {limits.get(workload, f'the limit of {_whose(reason, named)}')}."


def _guaranteed(allocation: Allocation, workloads: tuple[int, ...]) -> str:
    """Return the guaranteed tasks, and those of them that run, in words."""
    if allocation.floors is None:
        return ""
    mine = list(workloads)
    floor, met = (
        float(each[mine].sum()) for each in (allocation.floors.floor, allocation.floors.met)
    )
    if not floor:
        return ""
    if met >= floor * (1 - PRICE_NOISE):
        return f"{counted_tasks(floor)} of it guaranteed; "
    reasons = {allocation.floors.raised.limited_by[part] for part in _unmet_parts(allocation, mine)}
    why = f"beside {_beside(allocation, mine)}"
    if reasons == {GANG}:
        why = "as servers lack room for all pieces of one more task"
    return f"{counted_tasks(floor)} guaranteed, of which only {number(met)} run {why}; "


def _beside(allocation: Allocation, workloads: list[int]) -> str:
    """Return what the guaranteed tasks of some workloads lack room beside, in words."""
    assert allocation.floors is not None  # noqa: S101 - for mypy: the caller has floors
    raised = allocation.floors.raised.problem
    others = np.isin(raised.part_of, workloads, invert=True)
    found = []
    if (others & (raised.part_of >= 0)).any():
        found.append("other guarantees")
    if raised.kept_placements is not None:
        # Kept tasks of workloads and of their parts.
        kept = np.unique(raised.pieces.workload[raised.kept_placements.workload])
        whose = np.where(raised.part_of[kept] < 0, kept, raised.part_of[kept])
        if np.isin(whose, workloads, invert=True).any():
            found.append("kept tasks of others")
    return " and ".join(found) or "other guarantees"


def _unmet_parts(allocation: Allocation, workloads: list[int]) -> list[int]:
    """Return the workloads of the first step that are guaranteed parts of some and lack tasks."""
    assert allocation.floors is not None  # noqa: S101 - for mypy: the caller has floors
    raised = allocation.floors.raised
    lacks = np.isin(raised.problem.part_of, workloads) & (raised.tasks < raised.problem.tasks)
    found: list[int] = np.flatnonzero(lacks).tolist()
    return found


def _groups_named(problem: Problem, tenant: int, within: int | None) -> Iterator[int]:
    """Yield the groups on the tenant's path up to ``within``, the innermost first."""
    group = int(problem.tenant_group[tenant])
    while group >= 0:
        yield group
        group = -1 if group == within else int(problem.group_parent[group])


def _whose(reason: str, named: Collection[str]) -> str:
    """Return the node whose limit a reason names, by its name if that is one of ``named``."""
    _, scope, *name = reason.split(":", 2)
    if scope == "group":
        return f"group {name[0]}" if name[0] in named else "a group above"
    if scope == "lend":
        return "what a contributor lends"
    return "the tenant" if scope == "tenant" else "the workload itself"


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
