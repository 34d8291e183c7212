"""Entitlements, with what is lent and borrowed of them."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

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
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE_GROUP_AND_AGENT
from api.contract import documents
from api.contract.operations import shows
from api.contract.parameters import Parameters
from api.pseudonyms import tenant_name
from api.v1.reports.documents import MAX_TENANTS, AmountsField, amounts_document
from api.views import PoolView

GROUP_DEFINITION = (
    "The tree is that of the decision in force. A group's amounts are the sums of all tenants below it:"
    " what they lend each other counts as lent and as borrowed."
)


class LoanDocument(documents.Document):
    tenant = documents.TextField(
        max_length=63, description="A pseudonym for the keys of other tenants."
    )
    resources = AmountsField()


class ReturnsDocument(documents.Document):
    when = documents.ChoiceField(choices=WHEN)
    at = documents.TimestampField(allow_null=True, description="Null: at once, or in no slot.")


class EntitlementDocument(documents.Document):
    tenant = documents.TextField(max_length=63)
    entitled = AmountsField()
    has = AmountsField()
    lent = AmountsField()
    borrowed = AmountsField()
    unused = AmountsField()
    lent_to = documents.ListField(LoanDocument, min_items=0, max_items=MAX_TENANTS)
    borrowed_from = documents.ListField(LoanDocument, min_items=0, max_items=MAX_TENANTS)
    returns = documents.DocumentField(
        ReturnsDocument, allow_null=True, description="Null where nothing is lent."
    )


class GroupEntitlementDocument(documents.Document):
    group = documents.SlugField()
    entitled = AmountsField()
    has = AmountsField()
    lent = AmountsField()
    borrowed = AmountsField()
    unused = AmountsField()


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


def entitlements_document(found: Entitlements, *, caller: Tenant | None) -> dict[str, Any]:
    """Return the entitlements that the caller may see, of a private pool a tenant's own."""
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
            _row(row, found, name) for row in found.tenants if own is None or row.tenant == own
        ],
    }


def group_entitlements_document(
    found: GroupEntitlements, *, outsider: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """The entitlements of a group, with a name for tenants outside it, None for their slugs."""
    members = found.members

    def name(slug: str) -> str:
        return slug if outsider is None or slug in found.inside else outsider(slug)

    def sums(row: GroupEntitlement) -> dict[str, Any]:
        return {
            name: amounts_document(value, members.resources) if name != "group" else value
            for name, value in vars(row).items()
        }

    return {
        **entitlements_document(members, caller=None),
        "tenants": [_row(row, members, name) for row in members.tenants],
        "definitions": {**DEFINITIONS, "group": GROUP_DEFINITION},
        "group": sums(found.group),
        "groups": [sums(row) for row in found.groups],
    }


def _row(row: Entitlement, found: Entitlements, name: Callable[[str], str]) -> dict[str, Any]:
    def amounts(vector: Any) -> dict[str, str]:
        return {
            each.name: decimal_text(amount)
            for each, amount in zip(found.resources, vector, strict=True)
        }

    def loans(of: Mapping[str, Any]) -> list[dict[str, Any]]:
        named = sorted(
            ((name(slug), amounts(vector)) for slug, vector in of.items()),
            key=lambda loan: loan[0],
        )
        return [{"tenant": tenant, "resources": resources} for tenant, resources in named]

    returns = row.returns
    return {
        "tenant": name(row.tenant),
        "entitled": amounts(row.entitled),
        "has": amounts(row.has),
        "lent": amounts(row.lent),
        "borrowed": amounts(row.borrowed),
        "unused": amounts(row.unused),
        "lent_to": loans(row.lent_to),
        "borrowed_from": loans(row.borrowed_from),
        "returns": None if returns is None else {"when": returns.when, "at": returns.at},
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

        `definitions` explains each figure. A tenant key sees its own row; in a transparent pool it sees
        all of them. To a tenant key other tenants always appear under pseudonyms. `group` shows the sum
        of a group of the decision and then its children, to all keys but tenants' (404
        `group.not_found`); a group key gets its group, or one below it. Before the first decision the
        answer is 404 `decision.none`.
        """
        slug, of_pool = self.query["group"], self.pool
        if self.subtree is not None:
            own = self.subtree.group
            of_group = group_entitlements(
                pool=of_pool, slug=slug or own.slug, now=utc_now(), within=own
            )
            return Response(group_entitlements_document(of_group, outsider=self.subtree.outsider))
        if slug is not None:
            if self.tenant is not None:
                raise group_missing()
            of_group = group_entitlements(pool=of_pool, slug=slug, now=utc_now())
            return Response(group_entitlements_document(of_group))
        found = pool_entitlements(pool=self.pool, now=utc_now())
        return Response(entitlements_document(found, caller=self.tenant))
