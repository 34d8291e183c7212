"""Explanations of what a tenant got."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Run
from allocator_service.allocation.what_if.counterfactuals import Binding
from allocator_service.allocation.what_if.explanations import Explanation, run_explain
from allocator_service.allocation.words import away_texts, spent_text
from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource, vector_to_document
from allocator_service.core.selecting import missing
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.enforcement.state import TenantUse, tenant_use
from allocator_service.pools.budgets import opening_of
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.group_tree import MAX_DEPTH
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenant_get, tenants_for
from allocator_service.workloads.reason_texts import Reader, reason_text
from api.auth import EVERY_SCOPE_AND_GROUP
from api.contract import documents
from api.contract.fields import is_slug
from api.contract.operations import shows
from api.pseudonyms import reason_known
from api.v1.budgets import EFFECTS, MAX_BALANCES
from api.v1.enforcement import EnforcementReader, JobsEndingDocument, ServersHeldDocument
from api.v1.evaluations import admitted_evaluation
from api.v1.run_documents import MAX_ROWS
from api.v1.runs import OneRunView


class BindingServersDocument(documents.Document):
    count = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    capacity = documents.PoolQuantitiesField()
    labels = documents.LabelsField()


class BindingDocument(documents.Document):
    resource = documents.TextField(max_length=63)
    unit = documents.TextField(max_length=20, blank=True)
    price = documents.NumberField(
        description="What one more unit would add to the least weighted share."
    )
    servers = documents.DocumentField(
        BindingServersDocument, allow_null=True, description="null: the pool as one server."
    )


class NeighboursDocument(documents.Document):
    above = documents.NumberField(
        allow_null=True, description="The next greater weighted share of a tenant."
    )
    below = documents.NumberField(allow_null=True, description="The next smaller one.")


class CounterfactualDocument(documents.Document):
    words = documents.TextField(max_length=2_000)
    changes = documents.ObjectField(description="As a simulation takes them.")
    workload = documents.TextField(max_length=253)
    tasks_before = documents.NumberField()
    tasks_after = documents.NumberField()


class ReasonDocument(documents.Document):
    workload = documents.TextField(max_length=253)
    limited_by = documents.LimitedByField()
    budget = documents.IdField(
        allow_null=True,
        description="Exhausted budget, of `budgets`, whose limit of 0 `limited_by` names. null: none.",
    )
    detail = documents.TextField(
        max_length=2_000, description="Sentence for people of `limited_by` or of the budget."
    )


class ExhaustedBudgetDocument(documents.Document):
    budget = documents.IdField()
    tenant = documents.SlugField(allow_null=True)
    group = documents.SlugField(allow_null=True)
    resource = documents.TextField(max_length=63)
    amount = documents.DecimalField(description="Hours of the period with what was carried over.")
    then = documents.ChoiceField(choices=EFFECTS)
    opens_at = documents.TimestampField(description="End of the budget's period.")


class KeptTasksDocument(documents.Document):
    workload = documents.TextField(max_length=253)
    tasks = documents.IntegerField(minimum=1, maximum=MAX_ROWS)
    until = documents.TimestampField(
        description="Instant from which a decision may give the servers to others."
    )


class BlockedDocument(documents.Document):
    since = documents.TimestampField()
    pending_tasks = documents.IntegerField(minimum=0, maximum=MAX_ROWS, allow_null=True)
    reason = documents.StringField(description="The scheduler's own reason; may be empty.")


class ExplanationDocument(documents.Document):
    tenant = documents.SlugField()
    groups = documents.ListField(
        documents.SlugField(),
        min_items=0,
        max_items=MAX_DEPTH,
        description="The tenant's group in the decision, then the groups above it.",
    )
    share = documents.NumberField(description="The tenant's dominant share.")
    weight = documents.NumberField()
    weighted_share = documents.NumberField(
        allow_null=True,
        description="The tenant's share, as the policy counts shares, over its weight; null for a tenant"
        " that is served last.",
    )
    level = documents.NumberField(
        allow_null=True, description="The weighted share at which it was frozen."
    )
    workloads = documents.ListField(ReasonDocument, min_items=1, max_items=MAX_ROWS)
    binding = documents.ListField(BindingDocument, min_items=0, max_items=MAX_ROWS)
    neighbours = documents.DocumentField(NeighboursDocument)
    counterfactuals = documents.ListField(CounterfactualDocument, min_items=0, max_items=MAX_ROWS)
    budgets = documents.ListField(
        ExhaustedBudgetDocument,
        min_items=0,
        max_items=MAX_BALANCES,
        description="Budgets of the tenant and of these groups that were exhausted in the decision.",
    )
    kept = documents.ListField(
        KeptTasksDocument,
        min_items=0,
        max_items=MAX_ROWS,
        description="Its tasks that keep their servers because they were placed there less than their"
        " minimum ago; none for a decision that is not in force.",
    )
    sentence = documents.TextField(max_length=5_000)
    blocked = documents.DocumentField(
        BlockedDocument,
        allow_null=True,
        description="Jobs that wait in the scheduler although more was decided than is used; null for a"
        " decision that is not in force.",
    )
    ending = documents.ListField(
        JobsEndingDocument,
        min_items=0,
        description="Its jobs above the decision that have notice, or that have just ended; none for a"
        " decision that is not in force.",
    )
    holds = documents.ListField(
        ServersHeldDocument,
        min_items=0,
        description="Servers held for its jobs which start together, until all have room; none for a"
        " decision that is not in force.",
    )


class ExplanationView(OneRunView):
    """The explanation of a tenant's share, which a tenant key reads of itself."""

    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}

    @shows(ExplanationDocument, "Explain a decision to a tenant", headers=(), problems=(409, 410))
    def get(self, request: Request, run: str, tenant: str) -> Response:
        """Explain why a tenant got what it got, by its share and level, what binds at which price, and
        a change that would give it more. `budgets` are exhausted ones that bind it. `blocked` states
        that the scheduler keeps its jobs waiting although more was decided than it uses.

        A tenant key can ask about its own tenant only, a group key about those that were below its
        group when the run began. The latter gets what the tenant would, without the groups above its
        own. Others, and tenants without a workload in the run, answer 404 `tenant.not_found`. Each
        counterfactual was computed from the run's input; there may be none. A run that did not succeed
        answers 409 `run.not_succeeded`; once its retention is over, the answer is 410 `run.pruned`. It
        takes one of the evaluations, by default two, that a key, or a tenant by all its keys, may have
        running (429 `evaluation.too_many`).
        """
        found = self.run(run)
        subtree = self.subtree(found)
        explained = (
            self._explained(tenant) if subtree is None else subtree.tenant_of_run(tenant, found)
        )
        caller = self.tenant if subtree is None else explained
        # Counterfactuals are solved anew, so that an explanation costs as much as evaluations.
        with admitted_evaluation(self.caller):
            within = None if subtree is None else subtree.group.slug
            explanation = run_explain(run=found, tenant=explained, within=within, now=utc_now())
        use = use_under(found, explained)
        is_tenant = caller is not None and subtree is None
        return Response(explanation_document(explanation, found, caller, use, is_tenant=is_tenant))

    def _explained(self, slug: str) -> Tenant:
        if not is_slug(slug):
            raise missing("tenant.not_found")
        return tenant_get(slug=slug, within=tenants_for(self.tenant))


def explanation_document(
    explanation: Explanation,
    run: Run,
    caller: Tenant | None,
    use: TenantUse | None = None,
    *,
    is_tenant: bool,
) -> dict[str, Any]:
    """Return the explanation as the caller may see it.

    `is_tenant` is True if the reader is the tenant itself, which sentences then address.
    """
    resources = resources_of(run.pool)
    reader = Reader(is_tenant, explanation.groups)
    enforced = EnforcementReader(run.pool, resources, caller)
    gone = away_texts(run, explanation.tenant, explanation.reasons)
    return {
        "tenant": explanation.tenant,
        "groups": explanation.groups,
        "share": explanation.share,
        "weight": explanation.weight,
        "weighted_share": explanation.weighted_share,
        "level": explanation.level,
        "workloads": [
            {
                "workload": workload,
                "limited_by": reason_known(reason, pool=run.pool, known=explanation.groups),
                "budget": explanation.spent.get(workload, {}).get("budget"),
                "detail": gone.get(workload)
                or _detail(explanation, workload, reason, run.pool, reader),
            }
            for workload, reason in explanation.reasons.items()
        ],
        "binding": [_binding(item, resources, caller) for item in explanation.binding],
        "neighbours": {"above": explanation.just_above, "below": explanation.just_below},
        "counterfactuals": [vars(item) for item in explanation.counterfactuals],
        "budgets": [_exhausted(each) for each in explanation.budgets],
        "kept": [
            {"workload": each.workload.name, "tasks": each.tasks, "until": each.until}
            for each in explanation.kept
        ],
        "sentence": explanation.sentence,
        "blocked": None if use is None else _blocked(use),
        "ending": []
        if use is None
        else [JobsEndingDocument.write(each, enforced) for each in use.ending],
        "holds": []
        if use is None
        else [ServersHeldDocument.write(held, enforced) for held in use.holds],
    }


def _detail(
    explanation: Explanation, workload: str, reason: str, pool: Pool, reader: Reader
) -> str:
    """Return why a workload got no more."""
    spent = explanation.spent.get(workload)
    if spent is not None:
        return spent_text(spent, pool.timezone, reader)
    return reason_text(reason, reader)


def _exhausted(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return an exhausted budget that a run stores."""
    return {
        "budget": stored["budget"],
        "tenant": stored["node"] if stored["scope"] == "tenant" else None,
        "group": stored["node"] if stored["scope"] == "group" else None,
        "resource": stored["resource"],
        "amount": stored["amount"],
        "then": stored["then"],
        "opens_at": opening_of(stored),
    }


def use_under(run: Run, tenant: Tenant) -> TenantUse | None:
    """Return what the tenant runs under a run in force, None for any other run."""
    now = utc_now()
    # Agents report what runs now, which explains nothing about an earlier decision.
    if decision_in_force(pool=run.pool, now=now) != run:
        return None
    return tenant_use(pool=run.pool, tenant=tenant, now=now)


def _blocked(use: TenantUse) -> dict[str, Any] | None:
    """Return since when and why the scheduler keeps the tenant's jobs waiting."""
    if use.blocked_since is None:
        return None
    return {
        "since": use.blocked_since,
        "pending_tasks": use.pending_tasks,
        "reason": use.pending_reason or "",
    }


def _binding(
    binding: Binding, resources: Sequence[Resource], caller: Tenant | None
) -> dict[str, Any]:
    servers = binding.servers
    document = {
        "resource": binding.resource.name,
        "unit": binding.resource.unit,
        "price": binding.price,
    }
    if servers is None:
        return {**document, "servers": None}
    # Labels of others' servers may name their owners. Operators name clusters.
    known = caller is None or (
        not servers.traits.shared and servers.traits.owner in (None, caller.pk)
    )
    return {
        **document,
        "servers": {
            "count": servers.count,
            "capacity": vector_to_document(servers.traits.capacity, resources),
            "labels": {
                name: value
                for name, value in servers.traits.labels.items()
                if known or name == CLUSTER_LABEL
            },
        },
    }
