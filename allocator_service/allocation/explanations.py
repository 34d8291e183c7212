"""Why a tenant got what it got, in figures and one sentence, and what would give it more.

Everything is read from the stored decision: shares and levels from its rows, binding resources and
their prices from its certificate. Each counterfactual has been tried: the decision's own input with
the change made, solved again, gives the effect that is told.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator_service.allocation.evaluations import answer_document
from allocator_service.allocation.models import Allocation, Run, RunStatus, ServerClass
from allocator_service.allocation.selectors import certificate_of, input_of
from allocator_service.core.errors import Conflict, Missing, Unavailable
from allocator_service.core.quantities import Resource
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from policies import (
    Problem,
    certificate_from_document,
    classes_of_decision,
    problem_from_document,
)

PRICE_NOISE = 1e-9
BINDINGS_SHOWN = 10
GAIN = 1e-6


@dataclass(frozen=True)
class Binding:
    """A full resource that holds the tenant back, on servers where it could run.

    `server_class` is null for a policy that sees the pool as one server. `price`: by how much the
    round's least weighted share would rise per unit of it.
    """

    resource: Resource
    server_class: ServerClass | None
    price: float


@dataclass(frozen=True)
class Counterfactual:
    """A change, in the shape of a simulation's, and what it was found to give the workload."""

    words: str
    changes: Mapping[str, Any]
    workload: str
    tasks_before: float
    tasks_after: float


@dataclass(frozen=True)
class Explanation:
    """A tenant's part of a decision, explained. Shares are null for tenants served last."""

    tenant: str
    share: float
    weight: float
    weighted_share: float | None
    level: float | None
    reasons: Mapping[str, str]
    binding: Sequence[Binding]
    just_above: float | None
    just_below: float | None
    counterfactuals: Sequence[Counterfactual]
    sentence: str


def run_explain(*, run: Run, tenant: Tenant) -> Explanation:
    """Explain a succeeded run to a tenant that had workloads in it.

    Raises `Conflict` for a run without a decision, `Missing` for a tenant without a workload in it,
    `Gone` once its input is pruned.
    """
    if run.status != RunStatus.SUCCEEDED:
        raise Conflict(f"The run is {run.status}: it decided nothing.", code="run.not_succeeded")
    rows = list(
        Allocation.objects.filter(run=run, tenant=tenant)
        .select_related("workload")
        .order_by("position")
    )
    if not rows:
        raise Missing("The run has no workload of this tenant.", code="tenant.not_found")
    document = input_of(run)
    problem = problem_from_document(document).problem
    index = problem.tenants.index(tenant.slug)
    resources = resources_of(run.pool)
    binding = _binding(run, problem, index, resources)
    above, below = _neighbours(run, rows[0].weighted_share)
    return Explanation(
        tenant=tenant.slug,
        share=rows[0].tenant_share,
        weight=float(problem.effective_weight[index]),
        weighted_share=rows[0].weighted_share,
        level=rows[0].level,
        reasons={row.workload.name: row.limited_by for row in rows},
        binding=binding,
        just_above=above,
        just_below=below,
        counterfactuals=list(_counterfactuals(document, problem, rows, binding)),
        sentence=_sentence(rows, binding, float(problem.effective_weight[index])),
    )


def _binding(
    run: Run, problem: Problem, tenant: int, resources: Sequence[Resource]
) -> list[Binding]:
    """The full resources by price, highest first, where the tenant has an eligible workload."""
    try:
        certificate = certificate_from_document(certificate_of(run))
    except Missing:
        return []
    frozen_in = int(certificate.frozen_in[tenant])
    if frozen_in < 0:
        return []
    prices = certificate.rounds[frozen_in].prices
    classes = classes_of_decision(problem, run.policy["name"], run.policy["mode"])
    mine = problem.workload_tenant == tenant
    eligible = classes.allowed[mine]
    demands = problem.demand[mine] > 0
    stored = {row.position: row for row in ServerClass.objects.filter(run=run)}
    found = [
        Binding(resource, stored.get(position), float(prices[position, r] / problem.totals[r]))
        for position in range(classes.count)
        for r, resource in enumerate(resources[: problem.m])
        if problem.totals[r] > 0
        and prices[position, r] > PRICE_NOISE
        and (eligible[:, position] & demands[:, r]).any()
    ]
    return sorted(found, key=lambda item: -item.price)[:BINDINGS_SHOWN]


def _neighbours(run: Run, weighted_share: float | None) -> tuple[float | None, float | None]:
    """The least weighted share above the tenant's and the greatest below it, of whomever."""
    if weighted_share is None:
        return None, None
    shares = Allocation.objects.filter(run=run, weighted_share__isnull=False)
    near = abs(weighted_share) * PRICE_NOISE
    above = shares.filter(weighted_share__gt=weighted_share + near).order_by("weighted_share")
    below = shares.filter(weighted_share__lt=weighted_share - near).order_by("-weighted_share")
    return (
        above.values_list("weighted_share", flat=True).first(),
        below.values_list("weighted_share", flat=True).first(),
    )


def _counterfactuals(
    document: Mapping[str, Any],
    problem: Problem,
    rows: Sequence[Allocation],
    binding: Sequence[Binding],
) -> Iterator[Counterfactual]:
    """For each workload that wanted more, the first change that was found to give it more."""
    for row in rows:
        if row.limited_by == "task_limit":
            continue
        for words, changes, changed in _candidates(document, problem, rows, row, binding):
            try:
                answer = answer_document(changed)
            except Unavailable:
                return
            after = answer["allocations"][row.position]["tasks"]
            if after > row.tasks + GAIN * max(row.tasks, 1.0):
                yield Counterfactual(words, changes, row.workload.name, row.tasks, after)
                break


_Candidate = tuple[str, dict[str, Any], dict[str, Any]]


def _candidates(
    document: Mapping[str, Any],
    problem: Problem,
    rows: Sequence[Allocation],
    row: Allocation,
    binding: Sequence[Binding],
) -> Iterator[_Candidate]:
    """Changes that may help the workload, the smallest first, each in words, as change and made."""
    workload = document["workloads"][row.position]
    if row.limited_by == "no_eligible_server" and workload["server_selector"]:
        yield _without_selector(document, row, workload)
    for item in binding:
        if item.server_class is None:
            continue
        capacity = {
            resource: float(amount)
            for resource, amount in zip(problem.resources, item.server_class.capacity, strict=False)
            if amount
        }
        yield _with_server(document, row.tenant.slug, capacity, workload["server_selector"])
    yield _with_server(
        document, row.tenant.slug, dict(workload["demand"]), workload["server_selector"]
    )
    if len(rows) > 1:
        yield _instead_of_the_others(document, rows, row)


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


def _instead_of_the_others(
    document: Mapping[str, Any], rows: Sequence[Allocation], row: Allocation
) -> _Candidate:
    """A tenant's share goes where it goes furthest; without that workload, to this one."""
    workloads = list(document["workloads"])
    others = [other for other in rows if other.position != row.position]
    for other in others:
        workloads[other.position] = {**workloads[other.position], "tasks": 0}
    names = ", ".join(other.workload.name for other in others)
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
) -> _Candidate:
    """One more server, contributed by the tenant, that its selector would choose."""
    labels = {
        label: wanted if isinstance(wanted, str) else next(iter(wanted), "")
        for label, wanted in selector.items()
    }
    server = {
        "name": "one-more",
        "capacity": dict(capacity),
        "count": 1,
        "labels": labels,
        "contributed_by": tenant,
    }
    size = ", ".join(f"{resource} {amount}" for resource, amount in capacity.items())
    with_labels = f" labelled {labels}" if labels else ""
    return (
        f"one more server with {size}{with_labels}, contributed by {tenant}",
        {"servers": {"add": [server]}},
        {**document, "servers": [*document["servers"], server]},
    )


def _sentence(rows: Sequence[Allocation], binding: Sequence[Binding], weight: float) -> str:
    first = rows[0]
    tasks = ", ".join(f"{row.tasks:.6g} tasks of {row.workload.name}" for row in rows[:3])
    more = f" and {len(rows) - 3} more workloads" if len(rows) > 3 else ""
    share = f"a dominant share of {first.tenant_share:.4g} at weight {weight:.4g}"
    return f"{first.tenant.slug} runs {tasks}{more}, {share}; {_why(rows, binding)}"


def _why(rows: Sequence[Allocation], binding: Sequence[Binding]) -> str:
    reasons = {row.limited_by for row in rows}
    if reasons == {"task_limit"}:
        return "that is all it asked for."
    unmet = next(row for row in rows if row.limited_by != "task_limit")
    fixed = {
        "resource_absent": "no server of the pool has a resource that it demands.",
        "no_eligible_server": "no server of the pool matches what it selects and demands.",
        "no_server_large_enough": "one task is larger than every server it may run on.",
        "out_of_range": "its demand is too small or too large for this pool to be computed.",
    }
    if unmet.limited_by in fixed:
        return f"{unmet.workload.name} gets nothing more: {fixed[unmet.limited_by]}"
    if binding:
        full = ", ".join(dict.fromkeys(item.resource.name for item in binding))
        return f"it stopped where {full} ran out on the servers it can use."
    return "it stopped where everybody who waits is equally far."
