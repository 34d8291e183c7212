"""Changes that would increase a tenant's part of a decision, each tried by a solution."""

import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.utils.text import get_text_list

from allocator_service.allocation.models import Allocation
from allocator_service.allocation.placements import ServerRange
from allocator_service.allocation.reasons import group_of_reason
from allocator_service.allocation.runs.budgets import stop_limits
from allocator_service.allocation.runs.document_parts import in_one_cluster
from allocator_service.allocation.what_if.changes import has_clusters
from allocator_service.allocation.what_if.evaluations import SECONDS, answer_document
from allocator_service.core.display import exact_resource_text
from allocator_service.core.errors import Unavailable
from allocator_service.core.quantities import Resource
from allocator_service.pools.budgets import Then
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.limits import selector_text
from policies import Allocation as Decision
from policies import Problem

GAIN = 1e-6
NO_SERVER_LARGE_ENOUGH = "no_server_large_enough"  # one of `policies.UNSERVED`
_LIMIT = "limit:"
_SEVERAL = 8
_VALUES_TRIED = 4
# Of the rounding of a scaled demand, so that a task is not larger than its server by the last digit.
_MARGIN = 0.999999


@dataclass(frozen=True)
class Binding:
    """A full resource that holds the tenant back, on servers where it could run.

    `servers` is None for a policy that sees the pool as one server. `price` is the amount by which the
    round's least weighted share would rise per unit of it.
    """

    resource: Resource
    servers: ServerRange | None
    price: float


@dataclass(frozen=True)
class Counterfactual:
    """A change, in the shape of a simulation's, with its effect on the workload."""

    words: str
    changes: Mapping[str, Any]
    workload: str
    tasks_before: float
    tasks_after: float


def counterfactuals(
    document: Mapping[str, Any],
    decision: Decision,
    rows: Sequence[Allocation],
    binding: Sequence[Binding],
    groups: Collection[str],
    only: UUID | None,
) -> Iterator[Counterfactual]:
    """Yield the first change found to increase each workload that had requested more.

    No change names a group other than `groups`. All of them together have the time of one evaluation.
    """
    deadline = time.monotonic() + SECONDS
    for row in rows:
        if row.limited_by == "task_limit" or only not in (None, row.workload_id):
            continue
        for words, changes, changed in _candidates(document, decision, rows, row, binding, groups):
            # One deadline for all, or many workloads would occupy a process for as many solutions.
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                return
            try:
                answer = answer_document(changed, seconds)
            # Busy, or out of time: an explanation without further changes is better than none.
            except Unavailable:
                return
            after = answer["allocations"][row.position]["tasks"]
            # Solvers differ in the last digits: a gain within them is none.
            if after > row.tasks + GAIN * max(row.tasks, 1.0):
                yield Counterfactual(words, changes, row.workload.name, row.tasks, after)
                break


_Candidate = tuple[str, dict[str, Any], dict[str, Any]]


def _candidates(
    document: Mapping[str, Any],
    decision: Decision,
    rows: Sequence[Allocation],
    row: Allocation,
    binding: Sequence[Binding],
    groups: Collection[str],
) -> Iterator[_Candidate]:
    """Yield changes that may help the workload, the smallest first, as text, change and document."""
    workload, problem = document["workloads"][row.position], decision.problem
    if row.limited_by == "no_eligible_server" and workload["server_selector"]:
        yield _without_selector(document, row, workload)
    is_loan = row.limited_by == f"{_LIMIT}lend"  # another tenant's amount
    if (
        row.limited_by.startswith(_LIMIT)
        and not is_loan
        and group_of_reason(row.limited_by) in (None, *groups)
    ):
        yield from _with_higher_limits(document, row, workload)
    for item in binding:
        if item.servers is None:
            continue
        capacity = {
            resource: float(amount)
            for resource, amount in zip(
                problem.resources, item.servers.traits.capacity, strict=False
            )
            if amount
        }
        yield _with_server(document, row.tenant.slug, capacity, workload["server_selector"])
    demand, selector = dict(workload["demand"]), workload["server_selector"]
    if workload.get("pieces"):
        yield from _with_servers_for_pieces(document, decision, row, workload)
        yield from _without_together(document, row, workload)
    yield _with_server(document, row.tenant.slug, demand, selector)
    if row.limited_by == NO_SERVER_LARGE_ENOUGH:
        # Tasks of others may take the first such server, as they are smaller.
        yield _with_server(document, row.tenant.slug, demand, selector, count=_SEVERAL)
        if not workload.get("pieces"):
            yield from _with_smaller_tasks(document, problem, row, workload)
    if len(rows) > 1:
        instead = _instead_of_the_others(document, rows, row)
        yield instead
        if row.limited_by == NO_SERVER_LARGE_ENOUGH:
            # Neither helps alone if the tenant's other work is served first.
            larger = _with_server(document, row.tenant.slug, demand, selector, count=_SEVERAL)
            yield (
                f"{larger[0]}, and {instead[0]}",
                {**larger[1], **instead[1]},
                {**instead[2], "servers": larger[2]["servers"]},
            )


def _with_servers_for_pieces(
    document: Mapping[str, Any],
    decision: Decision,
    row: Allocation,
    workload: Mapping[str, Any],
) -> Iterator[_Candidate]:
    """Yield one more server, one for each missing piece, and one for each piece."""
    at_once = 1 if row.tasks else workload["at_least"]
    kinds = [(each["count"] * at_once, dict(each["demand"])) for each in workload["pieces"]]
    missing = _missing_pieces(decision, row.position, at_once)
    numbers = {1, *(count for count, _ in kinds), *(min(missing, count) for count, _ in kinds)}
    for number in sorted(numbers):
        for labels in _labels_together(document, workload):
            for count, size in kinds:
                if number <= count:
                    yield _with_server(
                        document, row.tenant.slug, size, workload["server_selector"], count=number,
                        together=labels,
                    )  # fmt: skip


def _missing_pieces(decision: Decision, position: int, at_once: int) -> int:
    """Return how many pieces of tasks that start at once have no room, at least 1."""
    choice = decision.choice
    if choice.sees_one_pool or choice.mode != "indivisible":
        return 1
    # Loads the compiler, which most processes of the service never need.
    from policies import missing_pieces

    return max(missing_pieces(decision, position, at_once), 1)


def _labels_together(
    document: Mapping[str, Any], workload: Mapping[str, Any]
) -> Sequence[Mapping[str, str]]:
    """Return the labels of one more server for a gang, by the values that most servers have."""
    label = workload.get("together")
    if not label:
        return [{}]
    allowed = workload["server_selector"].get(label)
    servers = Counter[tuple[tuple[str, str], ...]]()
    for server in document["servers"]:
        labels = server["labels"]
        if label in labels and (allowed is None or labels[label] in allowed):
            named = {each: labels[each] for each in (CLUSTER_LABEL, label) if each in labels}
            servers[tuple(named.items())] += server["count"]
    # Each value costs a solution, and most servers are where one more helps most likely.
    return [dict(labels) for labels, _ in servers.most_common(_VALUES_TRIED)]


def _without_together(
    document: Mapping[str, Any], row: Allocation, workload: Mapping[str, Any]
) -> Iterator[_Candidate]:
    """Yield the workload without the label that keeps its pieces together."""
    label = workload.get("together")
    # That of the cluster is no setting of a workload in pools with clusters.
    if not label or label == CLUSTER_LABEL:
        return
    workloads = list(document["workloads"])
    anywhere = {**workload, "together": None}
    workloads[row.position] = in_one_cluster(anywhere, has_clusters(document["servers"]))
    yield (
        f"{workload['name']} without together on {label}",
        {"workloads": {"change": [{"id": str(row.workload_id), "together": ""}]}},
        {**document, "workloads": workloads},
    )


def _without_selector(
    document: Mapping[str, Any], row: Allocation, workload: Mapping[str, Any]
) -> _Candidate:
    workloads = list(document["workloads"])
    workloads[row.position] = {**workload, "server_selector": {}}
    return (
        f"{workload['name']} without its server selector",
        {"workloads": {"change": [{"id": str(row.workload_id), "server_selector": {}}]}},
        {**document, "workloads": workloads},
    )


def _with_higher_limits(
    document: Mapping[str, Any], row: Allocation, workload: Mapping[str, Any]
) -> Iterator[_Candidate]:
    """Yield twice the limits of the node that stops the workload, and at least one task more.

    The limits of its exhausted budgets stay: no change raises them before their period ends.
    """
    _, scope, *name = row.limited_by.split(":", 2)
    part = f"{scope}s"
    nodes = list(document[part])
    at = row.position
    if scope != "workload":
        slug = name[0] if name else row.tenant.slug
        at = next(position for position, node in enumerate(nodes) if node["name"] == slug)
    spent = _stops(row, scope, nodes[at]["name"])
    limits = [
        {
            "where": limit["where"],
            "amount": {
                resource: _number(
                    2 * _decimal(amount) + _decimal(workload["demand"].get(resource, 0))
                )
                for resource, amount in limit["amount"].items()
            },
        }
        for limit in nodes[at]["limit"]
        if limit not in spent
    ]
    if not limits:
        return
    nodes[at] = {**nodes[at], "limit": [*limits, *spent]}
    changes: dict[str, Any] = {"groups": [{"group": nodes[at]["name"], "limit": limits}]}
    whose = f"group {nodes[at]['name']}"
    if scope == "tenant":
        changes = {"members": [{"tenant": nodes[at]["name"], "limit": limits}]}
        whose = nodes[at]["name"]
    if scope == "workload":
        changes = {"workloads": {"change": [{"id": str(row.workload_id), "limit": limits}]}}
        whose = workload["name"]
    sizes = " and ".join(_limit_text(document, limit) for limit in limits)
    yield f"a limit of {sizes} for {whose}", changes, {**document, part: nodes}


def _limit_text(document: Mapping[str, Any], limit: Mapping[str, Any]) -> str:
    size, servers = _size(document, limit["amount"]), selector_text(limit["where"])
    return f"{size} on {servers}" if servers else size


def _decimal(amount: float | str) -> Decimal:
    """Return an amount of a document without the digits that binary fractions add."""
    return Decimal(str(amount))


def _number(amount: Decimal) -> float:
    return int(amount) if amount == int(amount) else float(amount)


def _stops(row: Allocation, scope: str, node: str) -> list[dict[str, Any]]:
    """Return the limits of 0 that exhausted budgets give a node of the run of a workload."""
    resources = {
        each["resource"]
        for each in row.run.budgets
        if each["then"] == Then.STOP and (each["scope"], each["node"]) == (scope, node)
    }
    return stop_limits(resources)


def _with_smaller_tasks(
    document: Mapping[str, Any], problem: Problem, row: Allocation, workload: Mapping[str, Any]
) -> Iterator[_Candidate]:
    """Yield tasks that are just small enough for the server that they miss by the least factor."""
    demand = problem.demand[row.position]
    needed = demand > 0
    matches = problem.selector_matches[problem.selector_group[row.position]]
    eligible = problem.capacity[matches & ~problem.contributed_only]
    factors = (eligible[:, needed] / demand[needed]).min(axis=1, initial=math.inf)
    factor = float(factors.max(initial=0.0))
    if not 0 < factor < 1:
        return
    smaller = {
        # Few digits, since people read the number; the margin keeps it below the server all the same.
        name: float(f"{float(amount) * factor:.6g}") * _MARGIN
        for name, amount in zip(problem.resources, demand, strict=True)
        if amount > 0
    }
    workloads = list(document["workloads"])
    workloads[row.position] = {**workload, "demand": smaller}
    size = _size(document, smaller)
    yield (
        f"tasks of {workload['name']} that need {size}",
        {"workloads": {"change": [{"id": str(row.workload_id), "demand": smaller}]}},
        {**document, "workloads": workloads},
    )


def _size(document: Mapping[str, Any], amounts: Mapping[str, Any]) -> str:
    """Return amounts of resources, such as 64 cores, 256 GiB memory."""
    units = {each["name"]: each.get("unit", "") for each in document["resources"]}
    return ", ".join(
        exact_resource_text(Decimal(str(amount)), Resource(name, units[name]))
        for name, amount in amounts.items()
    )


def _instead_of_the_others(
    document: Mapping[str, Any], rows: Sequence[Allocation], row: Allocation
) -> _Candidate:
    """Return the change that gives the tenant's other tasks to this workload.

    A tenant's share goes where it goes furthest. Without the other workloads, it goes to this one.
    """
    workloads = list(document["workloads"])
    others = [other for other in rows if other.position != row.position]
    for other in others:
        # Kept with 0 tasks, because answers are read by the positions of the input.
        workloads[other.position] = {**workloads[other.position], "tasks": 0}
    names = get_text_list([other.workload.name for other in others], "and")
    changes = [{"id": str(other.workload_id), "tasks": 0} for other in others]
    return (
        f"{row.workload.name} instead of {names}",
        {"workloads": {"change": changes}},
        {**document, "workloads": workloads},
    )


def _with_server(
    document: Mapping[str, Any],
    tenant: str,
    capacity: Mapping[str, Any],
    selector: Mapping[str, str | Sequence[str]],
    *,
    count: int = 1,
    together: Mapping[str, str] = MappingProxyType({}),
) -> _Candidate:
    """Return one or several more servers, contributed by the tenant, that its selector would choose.

    Args:
        together: labels of the servers on which the pieces of a task run.
    """
    labels = {
        label: accepted if isinstance(accepted, str) else next(iter(accepted), "")
        for label, accepted in selector.items()
    } | dict(together)
    server = {
        "name": "one-more",
        "capacity": dict(capacity),
        "count": count,
        "labels": labels,
        "contributed_by": tenant,
    }
    size = _size(document, capacity)
    number = "one more server" if count == 1 else f"{count} more servers"
    with_labels = f" labelled {selector_text(labels)}" if labels else ""
    return (
        f"{number} with {size}{with_labels}, contributed by {tenant}",
        {"servers": {"add": [server]}},
        {**document, "servers": [*document["servers"], server]},
    )
