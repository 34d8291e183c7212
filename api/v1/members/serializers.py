"""Members of a pool as documents."""

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from allocator_service.core.quantities import LIMIT, json_number, parse_quantity
from allocator_service.pools.models import LARGEST_TIER, MembershipTerms, Pool
from allocator_service.tenants.models import Tenant
from api.contract.fields import SlugField, TimestampField, VersionField
from api.contract.parameters import PageParameters
from api.pseudonyms import group_name, tenant_name
from policies.fields import BooleanField, Document, IntegerField, NumberField


def tier_field(**options: Any) -> IntegerField:
    """Describe the order among siblings."""
    return IntegerField(
        minimum=-LARGEST_TIER,
        maximum=LARGEST_TIER,
        code="tier.out_of_range",
        description="Order among siblings: the allocation of a member or group does not rise while"
        " that of a sibling of a lower tier can.",
        **options,
    )


class MemberRequest(Document):
    weight = NumberField(default=Decimal(1))
    best_effort = BooleanField(default=False)
    group = SlugField(
        required=False,
        allow_null=True,
        description="Slug of the group that it belongs to. null: the pool itself.",
    )
    tier = tier_field(default=0)


class MemberDocument(Document):
    pool = SlugField()
    tenant = SlugField()
    weight = NumberField()
    best_effort = BooleanField()
    group = SlugField(allow_null=True)
    tier = tier_field()
    weight_since = TimestampField(description="Start of the present terms: weight, group and tier.")
    admitted_at = TimestampField()
    version = VersionField()


class MemberParameters(PageParameters):
    group = SlugField(required=False, description="Only members of the group of this slug.")


def member_document(
    terms: MembershipTerms, *, pool: Pool, caller: Tenant | None, known: Collection[str] | None
) -> dict[str, Any]:
    """A member under the terms in force, by the name that the caller may know it by.

    `known` are the groups that the caller may know by name, None for all.
    """
    group = terms.group
    return {
        "pool": pool.slug,
        "tenant": tenant_name(terms.membership.tenant.slug, pool=pool, caller=caller),
        "weight": json_number(terms.weight),
        "best_effort": terms.best_effort,
        "group": group_name(group.slug, pool=pool, known=known) if group else None,
        "tier": terms.tier,
        "weight_since": terms.start,
        "admitted_at": terms.membership.admitted_at,
        "version": terms.membership.version,
    }


def member_weight(number: Decimal) -> Decimal:
    """The weight as it is stored: rounded as quantities are; what is out of range as it came."""
    return parse_quantity(number) if 0 < number < LIMIT else number
