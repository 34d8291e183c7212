"""Explanations of a tenant's part of a decision, with changes that would increase it.

Everything is read from the stored decision: shares and levels from its rows, binding resources and their
prices from its certificate. Each counterfactual has been tried: the decision's own input with the
change, solved again, gives the stated effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np

from allocator_service.allocation.audit.decisions import stored_decision
from allocator_service.allocation.models import Allocation, Run, RunStatus
from allocator_service.allocation.reasons import budget_of_reason
from allocator_service.allocation.runs.placement_dates import (
    KeptTasks,
    kept_sentences,
    tasks_kept,
)
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.allocation.what_if.counterfactuals import (
    Binding,
    Counterfactual,
    counterfactuals,
)
from allocator_service.core.errors import Conflict, Missing
from allocator_service.pools.budgets import exhausted_sentence, spent_text
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from policies import UNSERVED, Problem, explain


@dataclass(frozen=True)
class Explanation:
    """A tenant's part of a decision, explained. Shares are null for tenants served last.

    `groups` are the slugs of its group at that time and of those above it, the nearest first.
    `budgets` are the exhausted budgets of the tenant and of these groups, as the run stores them, and
    `spent` those that stop a workload, by its name. `kept` are its tasks that keep their servers, and
    until when; empty for a decision that is not in force.
    """

    tenant: str
    groups: Sequence[str]
    share: float
    weight: float
    weighted_share: float | None
    level: float | None
    reasons: Mapping[str, str]
    binding: Sequence[Binding]
    just_above: float | None
    just_below: float | None
    counterfactuals: Sequence[Counterfactual]
    budgets: Sequence[Mapping[str, Any]]
    spent: Mapping[str, Mapping[str, Any]]
    kept: Sequence[KeptTasks]
    sentence: str


def groups_above(document: Mapping[str, Any], tenant: str) -> list[str]:
    """Return the groups on the path from a tenant of a run's input to the pool."""
    parents = {row["name"]: row["parent"] for row in document.get("groups", ())}
    rows = (row for row in document["tenants"] if row["name"] == tenant)
    group = next((row.get("group") for row in rows), None)
    path = []
    while group is not None:
        path.append(group)
        group = parents[group]
    return path


def run_explain(
    *,
    run: Run,
    tenant: Tenant,
    workload: UUID | None = None,
    most: int | None = None,
    within: str | None = None,
    now: datetime | None = None,
) -> Explanation:
    """Explain a succeeded run to a tenant that had workloads in it.

    Counterfactuals are sought for all of its workloads, or for the one of the id `workload` alone,
    until `most` are found. Groups above the group of the slug `within` are not named. Tasks that keep
    their servers are those at the instant `now`, by default when the decision came into force.
    Raises `Conflict` for a run without a decision, `Missing` for a tenant without a workload in it,
    `Gone` once its input is pruned.
    """
    if run.status != RunStatus.SUCCEEDED:
        raise Conflict(f"The run is {run.status}: it has no decision.", code="run.not_succeeded")
    rows = list(
        run.allocations.filter(tenant=tenant).select_related("workload").order_by("position")
    )
    if not rows:
        raise Missing("The run has no workload of this tenant.", code="tenant.not_found")
    decision = stored_decision(run).allocation
    problem = decision.problem
    document = input_of(run)
    groups = groups_above(document, tenant.slug)
    if within is not None:
        # The tenant may have left while the run began.
        if within not in groups:
            raise Missing("The run has no such tenant below the group.", code="tenant.not_found")
        groups = groups[: groups.index(within) + 1]
    outermost = None if within is None else problem.groups.index(within)
    budgets = exhausted_budgets(run, tenant.slug, groups)
    spent = _spent(rows, problem, budgets)
    found = explain(
        decision,
        problem.tenants.index(tenant.slug),
        within=outermost,
        limits={at: spent_text(each, run.pool.timezone) for at, each in spent.items()},
        first=next((row.position for row in rows if row.workload_id == workload), None),
    )
    kept = tasks_kept(run, now=now or run.effective_from or run.created_at)
    waits = any(row.limited_by not in {"task_limit", *UNSERVED} for row in rows)
    ranges = stored_placements(run).ranges
    resources = resources_of(run.pool)
    binding = [
        Binding(
            resources[item.resource],
            None if item.server_class is None else ranges[item.server_class],
            item.price,
        )
        for item in found.binding
    ]
    return Explanation(
        tenant=tenant.slug,
        groups=groups,
        share=found.share,
        weight=found.weight,
        weighted_share=found.weighted_share,
        level=found.level,
        reasons={row.workload.name: row.limited_by for row in rows},
        binding=binding,
        just_above=found.just_above,
        just_below=found.just_below,
        counterfactuals=list(
            # Each change is solved when it is asked for, which takes most of the time.
            islice(counterfactuals(document, decision, rows, binding, groups, workload), most)
        ),
        budgets=budgets,
        spent={row.workload.name: spent[row.position] for row in rows if row.position in spent},
        kept=[each for each in kept if each.workload.tenant_id == tenant.pk],
        sentence=" ".join(
            [
                found.sentence,
                *(exhausted_sentence(each, run.pool.timezone) for each in budgets),
                *kept_sentences(kept, tenant, run.pool.timezone, waits=waits),
            ]
        ),
    )


def _spent(
    rows: Sequence[Allocation], problem: Problem, budgets: Sequence[Mapping[str, Any]]
) -> dict[int, Mapping[str, Any]]:
    """Return the exhausted budget that stops each workload, by the workload's position."""
    found = {}
    for row in rows:
        demanded = np.flatnonzero(problem.demand[row.position] > 0).tolist()
        budget = budget_of_reason(
            row.limited_by,
            tenant=row.tenant.slug,
            demands={problem.resources[resource] for resource in demanded},
            budgets=budgets,
        )
        if budget is not None:
            found[row.position] = budget
    return found


def exhausted_budgets(run: Run, tenant: str, groups: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return the exhausted budgets of a tenant and of the groups above it, as a run stores them."""
    nodes = {("tenant", tenant), *(("group", group) for group in groups)}
    return [each for each in run.budgets if (each["scope"], each["node"]) in nodes]
