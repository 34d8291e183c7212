"""Entitlements, with what is lent and borrowed of them."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.balances import Balance, budgets_for
from allocator_service.billing.balances import balances as balances_of
from allocator_service.billing.rating.projections import CurrentCost, current_costs
from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.entitlements import (
    DEFINITIONS,
    WHEN,
    Entitlement,
    Entitlements,
    GroupEntitlement,
    GroupEntitlements,
    group_entitlements,
    pool_entitlements,
)
from allocator_service.pools.group_services import MAX_GROUPS
from allocator_service.pools.selectors import group_missing
from allocator_service.tenants.models import Scope, Tenant
from allocator_service.tenants.selectors import tenants_with_retired
from api.auth import EVERY_SCOPE_GROUP_AND_AGENT
from api.contract import documents
from api.contract.operations import shows
from api.contract.parameters import Parameters
from api.pseudonyms import tenant_name
from api.v1.budgets import balance_document, balances_field
from api.v1.clusters import MAX_CLUSTERS
from api.v1.costs import CurrentCostDocument, cost_document
from api.v1.reports.documents import MAX_TENANTS, AmountsField, amounts_document
from api.views import PoolView

GROUP_DEFINITION = (
    "The tree is that of the decision in force. A group's amounts are the sums of all tenants below it:"
    " what they lend each other counts as lent and as borrowed."
)
_NO_COSTS: Mapping[str, CurrentCost] = {}


class LoanDocument(documents.Document):
    tenant = documents.TextField(
        max_length=63, description="A pseudonym for the keys of other tenants."
    )
    resources = AmountsField()


class ReturnsDocument(documents.Document):
    when = documents.ChoiceField(choices=WHEN)
    at = documents.TimestampField(allow_null=True, description="Null: at once, or in no slot.")


class ClusterPartDocument(documents.Document):
    cluster = documents.StringField()
    entitled = AmountsField(
        description="In proportion to what the servers of each cluster offer.",
    )
    has = AmountsField()


class EntitlementDocument(documents.Document):
    tenant = documents.TextField(max_length=63)
    entitled = AmountsField()
    has = AmountsField()
    lent = AmountsField()
    borrowed = AmountsField()
    unused = AmountsField()
    budgets = balances_field()
    clusters = documents.ListField(
        ClusterPartDocument,
        min_items=0,
        max_items=MAX_CLUSTERS,
        description="The parts of `entitled` and `has` by cluster; empty in a pool without clusters.",
    )
    lent_to = documents.ListField(LoanDocument, min_items=0, max_items=MAX_TENANTS)
    borrowed_from = documents.ListField(LoanDocument, min_items=0, max_items=MAX_TENANTS)
    returns = documents.DocumentField(
        ReturnsDocument, allow_null=True, description="Null where nothing is lent."
    )

    cost = documents.DocumentField(
        CurrentCostDocument,
        allow_null=True,
        description="Cost of the allocation at the prices in force, if it lasts. Null without a price"
        " plan, and without use and commitments.",
    )


class GroupEntitlementDocument(documents.Document):
    group = documents.SlugField()
    entitled = AmountsField()
    has = AmountsField()
    lent = AmountsField()
    borrowed = AmountsField()
    unused = AmountsField()
    budgets = balances_field()


class EntitlementsParameters(Parameters):
    group = documents.SlugField(
        required=False,
        description="This group of the decision in force only: its sum and its children.",
    )


class EntitlementsDocument(documents.Document):
    pool = documents.SlugField()
    run = documents.IdField()
    generation = documents.GenerationField()
    at = documents.TimestampField()
    definitions = documents.ObjectField(description="The definition of each figure, in a sentence.")
    group = documents.DocumentField(
        GroupEntitlementDocument,
        required=False,
        description="With `group` in the query: the sum of its children.",
    )
    groups = documents.ListField(
        GroupEntitlementDocument,
        min_items=0,
        max_items=MAX_GROUPS,
        required=False,
        description="With `group` in the query: the groups directly below it.",
    )
    tenants = documents.ListField(EntitlementDocument, min_items=0, max_items=MAX_TENANTS)


def entitlements_document(
    found: Entitlements,
    *,
    caller: Tenant | None,
    balances: Sequence[Balance] = (),
    costs: Mapping[str, CurrentCost] = _NO_COSTS,
) -> dict[str, Any]:
    """Return the entitlements that the caller may see, of a private pool a tenant's own.

    `balances` and `costs`, by slug, are those of the nodes that the caller may see.
    """
    own = None if caller is None or found.pool.transparent else caller.slug

    def name(slug: str) -> str:
        return tenant_name(slug, pool=found.pool, caller=caller)

    return {
        "pool": found.pool.slug,
        "run": found.run.pk,
        "generation": found.run.generation,
        "at": found.at,
        "definitions": DEFINITIONS,
        "tenants": [
            _row(row, found, name, balances, costs)
            for row in found.tenants
            if own is None or row.tenant == own
        ],
    }


def group_entitlements_document(
    found: GroupEntitlements,
    *,
    outsider: Callable[[str], str] | None = None,
    balances: Sequence[Balance] = (),
    costs: Mapping[str, CurrentCost] = _NO_COSTS,
) -> dict[str, Any]:
    """Return the entitlements of a group, with the balances of its nodes and the costs of its members.

    `outsider` names tenants outside the group. Without it they have their slugs.
    """
    members = found.members

    def name(slug: str) -> str:
        return slug if outsider is None or slug in found.inside else outsider(slug)

    def sums(row: GroupEntitlement) -> dict[str, Any]:
        amounts = {
            name: amounts_document(value, members.resources) if name != "group" else value
            for name, value in vars(row).items()
        }
        return {**amounts, "budgets": _balances(balances, "group", row.group)}

    return {
        **entitlements_document(members, caller=None),
        "tenants": [_row(row, members, name, balances, costs) for row in members.tenants],
        "definitions": {**DEFINITIONS, "group": GROUP_DEFINITION},
        "group": sums(found.group),
        "groups": [sums(row) for row in found.groups],
    }


def _balances(balances: Sequence[Balance], scope: str, slug: str) -> list[dict[str, Any]]:
    """Return the balances of a node."""
    return [
        balance_document(each)
        for each in balances
        if each.budget.scope == scope and each.budget.node.slug == slug
    ]


def _row(
    row: Entitlement,
    found: Entitlements,
    name: Callable[[str], str],
    balances: Sequence[Balance],
    costs: Mapping[str, CurrentCost],
) -> dict[str, Any]:
    def amounts(vector: Any) -> dict[str, str]:
        return {
            each.name: decimal_text(amount)
            for each, amount in zip(found.resources, vector, strict=True)
        }

    def loans(of: Mapping[str, Any]) -> list[dict[str, Any]]:
        named = sorted(
            ((name(slug), amounts(vector)) for slug, vector in of.items()),
            # By the names that are shown: the order of the slugs would reveal something of them.
            key=lambda loan: loan[0],
        )
        return [{"tenant": tenant, "resources": resources} for tenant, resources in named]

    returns, cost = row.returns, costs.get(row.tenant)
    nothing = [Decimal(0)] * len(found.resources)
    return {
        "tenant": name(row.tenant),
        "entitled": amounts(row.entitled),
        "has": amounts(row.has),
        "lent": amounts(row.lent),
        "borrowed": amounts(row.borrowed),
        "unused": amounts(row.unused),
        "budgets": _balances(balances, "tenant", row.tenant),
        "clusters": [
            {
                "cluster": cluster,
                "entitled": amounts(row.entitled_in.get(cluster, nothing)),
                "has": amounts(row.clusters.get(cluster, nothing)),
            }
            for cluster in sorted(row.clusters.keys() | row.entitled_in.keys())
        ],
        "lent_to": loans(row.lent_to),
        "borrowed_from": loans(row.borrowed_from),
        "returns": None if returns is None else {"when": returns.when, "at": returns.at},
        "cost": None if cost is None else cost_document(cost),
    }


class EntitlementsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_GROUP_AND_AGENT}
    parameters = EntitlementsParameters

    @shows(
        EntitlementsDocument,
        "Show who has what each tenant is entitled to, and when it has it back; a tenant sees its own",
        headers=(),
    )
    def get(self, request: Request, pool: str) -> Response:
        """Show what each tenant is entitled to by its weight, what it has, who borrows from whom,
        and when what it lent returns.

        `definitions` explains each figure, `budgets` are the balances of a node's own budgets, and
        `cost` is what a tenant's allocation costs now; agents' keys get neither of the two. A tenant
        key sees its own row; in a transparent pool it sees all of them. To a tenant key other tenants
        always appear under pseudonyms. `group` shows the sum of a group of the decision and then its
        children, to all keys but tenants' (404 `group.not_found`); a group key gets its group, or one
        below it. Before the first decision the answer is 404 `decision.none`.
        """
        slug, of_pool = self.query["group"], self.pool
        if self.subtree is not None:
            own = self.subtree.group
            of_group = group_entitlements(
                pool=of_pool, slug=slug or own.slug, now=utc_now(), within=own
            )
            outsider = self.subtree.outsider
            return Response(
                group_entitlements_document(of_group, outsider=outsider, **_money_below(of_group))
            )
        if slug is not None:
            # A tenant sees the groups above it, but not what all their members have together.
            if self.tenant is not None:
                raise group_missing()
            of_group = group_entitlements(pool=of_pool, slug=slug, now=utc_now())
            money = {} if self.caller.scope == Scope.AGENT else _money_below(of_group)
            return Response(group_entitlements_document(of_group, **money))
        found = pool_entitlements(pool=self.pool, now=utc_now())
        # An agent applies limits. Its key, on a machine of the scheduler, shows no money.
        money = {} if self.caller.scope == Scope.AGENT else self._money(found)
        return Response(entitlements_document(found, caller=self.tenant, **money))

    def _money(self, found: Entitlements) -> dict[str, Any]:
        """Return the balances and costs of the tenants that the caller may see."""
        of_tenants = budgets_for(found.pool, self.tenant).exclude(tenant=None)
        return {
            "balances": balances_of(
                pool=found.pool, budgets=list(of_tenants), now=found.at, rates=True
            ),
            "costs": _costs(found, self.tenant),
        }


def _costs(found: Entitlements, caller: Tenant | None) -> Mapping[str, CurrentCost]:
    """Return the costs of tenants by slug, for a tenant its own."""
    tenants = (
        tenants_with_retired().filter(slug__in=[row.tenant for row in found.tenants])
        if caller is None
        else [caller]
    )
    return current_costs(pool=found.pool, tenants=tenants, run=found.run, now=found.at)


def _money_below(found: GroupEntitlements) -> dict[str, Any]:
    """Return the balances below a group, and the costs of its members."""
    return {"balances": balances_below(found), "costs": _costs(found.members, None)}


def balances_below(found: GroupEntitlements) -> Sequence[Balance]:
    """Return the balances of a group and of the groups and members directly below it."""
    pool = found.members.pool
    groups = [found.group.group, *(row.group for row in found.groups)]
    nodes = Q(group__slug__in=groups) | Q(
        tenant__slug__in=[row.tenant for row in found.members.tenants]
    )
    budgets = list(budgets_for(pool, None).filter(nodes))
    return balances_of(pool=pool, budgets=budgets, now=found.members.at, rates=True)
