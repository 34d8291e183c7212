"""Effects of exhausted budgets on the input of a decision, and when a pool decides again.

A pool with budgets that bind decides again when the present rate of use exhausts a budget, when the
period of an exhausted one ends, and when the ledger no longer agrees with the last decision.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from allocator_service.allocation.models import Run
from allocator_service.pools.budgets import (
    BudgetState,
    Then,
    budget_states,
    next_start_of_budgets,
    opening_of,
    pools_with_budgets,
)
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.recompute import decision_request, interval_around
from policies import Allocation

_TICK = timedelta(microseconds=1)
_PART = {"tenant": "tenants", "group": "groups"}


def with_budgets(document: Mapping[str, Any], states: Iterable[BudgetState]) -> dict[str, Any]:
    """Return an evaluation document in which exhausted budgets have their effect.

    `last` makes every tenant below the node best-effort. `stop` limits the node to 0 of the resource.
    """
    changed = dict(document)
    exhausted = [state for state in states if state.is_exhausted]
    nodes = {(each.scope, each.node) for each in exhausted if each.then == Then.LAST}
    # Best effort is a field of tenants: a group that is served last passes it to all below.
    if nodes:
        paths = _paths(document)
        changed["tenants"] = [
            {**tenant, "best_effort": True} if nodes & paths[tenant["name"]] else tenant
            for tenant in document["tenants"]
        ]
    stopped = {(each.scope, each.node): set[str]() for each in exhausted if each.then == Then.STOP}
    for each in exhausted:
        if each.then == Then.STOP:
            stopped[each.scope, each.node].add(each.resource)
    for scope, part in _PART.items():
        if any(of == scope for of, _ in stopped):
            changed[part] = [
                _stopped(node, stopped.get((scope, node["name"]), ()))
                for node in changed.get(part, ())
            ]
    return changed


def _stopped(node: Mapping[str, Any], resources: Iterable[str]) -> Mapping[str, Any]:
    """Return a node of a document with a limit of 0 of each resource."""
    # Beside the node's own limits, of which all hold.
    rows = stop_limits(resources)
    return {**node, "limit": [*node.get("limit", ()), *rows]} if rows else node


def stop_limits(resources: Iterable[str]) -> list[dict[str, Any]]:
    """Return a limit of 0 of each resource, as a document has them."""
    return [{"where": {}, "amount": {resource: 0}} for resource in sorted(resources)]


def stops_by_node(
    stored: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], dict[str, Mapping[str, Any]]]:
    """Return the budgets of a run that stop a node, by scope and slug, and by resource.

    Of several budgets of one resource the last one to open counts.
    """
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for each in sorted(stored, key=opening_of):
        if each["then"] == Then.STOP:
            found.setdefault((each["scope"], each["node"]), {})[each["resource"]] = each
    return found


def _paths(document: Mapping[str, Any]) -> dict[str, set[tuple[str, str]]]:
    """Return each tenant with the nodes from it to the pool, by scope and slug."""
    parents = {group["name"]: group["parent"] for group in document.get("groups", ())}
    paths = {}
    for tenant in document["tenants"]:
        path, group = {("tenant", tenant["name"])}, tenant.get("group")
        while group is not None:
            path.add(("group", group))
            group = parents[group]
        paths[tenant["name"]] = path
    return paths


@dataclass(frozen=True)
class _Rates:
    """Use per second under a decision, by node and resource."""

    by_node: Mapping[tuple[str, str], Mapping[str, float]]

    def of(self, state: BudgetState) -> float:
        return self.by_node.get((state.scope, state.node), {}).get(state.resource, 0.0)


def _rates(document: Mapping[str, Any], allocation: Allocation) -> _Rates:
    problem, paths = allocation.problem, _paths(document)
    used = allocation.tasks[:, None] * problem.demand
    by_node: dict[tuple[str, str], dict[str, float]] = {}
    for owner, row in zip(problem.workload_tenant.tolist(), used.tolist(), strict=True):
        for node in paths[problem.tenants[owner]]:
            held = by_node.setdefault(node, {})
            for resource, amount in zip(problem.resources, row, strict=True):
                held[resource] = held.get(resource, 0.0) + amount
    return _Rates(by_node)


def next_change_of_budgets(
    pool: Pool,
    *,
    states: Sequence[BudgetState],
    document: Mapping[str, Any],
    allocation: Allocation,
    read_at: datetime,
) -> datetime | None:
    """Return the first instant after a decision at which a budget is exhausted, or a period starts.

    The former is the end of the decision interval in which the rate of the decision exhausts it, when
    the ledger has that interval. Where use is reported, the ledger alone determines it. At the start of
    a period, a decision looks ahead again.
    """
    starts = next_start_of_budgets(pool, after=read_at)
    edges = [state.opens_at for state in states] + ([] if starts is None else [starts])
    if pool.metering == Metering.ALLOCATION and not all(each.is_exhausted for each in states):
        problem, rates = allocation.problem, _rates(document, allocation)
        # The decision before may have used everything since the last boundary, which is not metered yet.
        elapsed = (read_at - interval_around(pool, read_at)[0]).total_seconds()
        unmetered = dict(zip(problem.resources, (problem.totals * elapsed).tolist(), strict=True))
        edges += [
            at
            for state in states
            if not state.is_exhausted
            and (at := _exhausted_at(pool, state, rates.of(state), read_at, unmetered)) is not None
        ]
    return min((edge for edge in edges if edge > read_at), default=None)


def _exhausted_at(
    pool: Pool,
    state: BudgetState,
    rate: float,
    read_at: datetime,
    unmetered: Mapping[str, float],
) -> datetime | None:
    """Return the end of the interval in which a rate may exhaust a budget, None if not in its period."""
    left = max(float(state.left) - unmetered.get(state.resource, 0.0), 0.0)
    if rate <= 0 < left:
        return None
    seconds = left / rate if left else 0.0
    if seconds >= (state.opens_at - read_at).total_seconds():
        return None
    # An instant at a boundary belongs to the interval that it ends.
    at = max(read_at + timedelta(seconds=seconds) - _TICK, read_at)
    return interval_around(pool, at)[1]


def budgets_watch(*, now: datetime) -> None:
    """Request a decision in each pool whose exhausted budgets are others than in its last run."""
    for pool in Pool.objects.filter(pk__in=pools_with_budgets()):
        last = Run.objects.filter(pool=pool, snapshot__isnull=False).first()
        # The key includes the period, so that a budget exhausted again counts as new.
        known = set() if last is None else {_key(each) for each in last.budgets}
        if {_key(each) for each in exhausted_stored(budget_states(pool, at=now))} != known:
            decision_request(pool, now=now)


def exhausted_stored(states: Iterable[BudgetState]) -> list[dict[str, Any]]:
    """Return the exhausted budgets as a run stores them."""
    return [state.stored for state in states if state.is_exhausted]


def _key(stored: Mapping[str, Any]) -> tuple[str, str]:
    return stored["budget"], stored["opens_at"]
