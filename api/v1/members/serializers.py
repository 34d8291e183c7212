"""Members of a pool as documents."""

from decimal import Decimal
from typing import Any

from allocator_service.core.quantities import LIMIT, json_number, parse_quantity
from allocator_service.pools.models import MembershipTerms, Pool
from allocator_service.tenants.models import Tenant
from api.contract.fields import SlugField, TimestampField
from api.pseudonyms import tenant_name
from api.v1.tenants.serializers import MAX_VERSION
from policies.fields import BooleanField, Document, IntegerField, NumberField


class MemberRequest(Document):
    weight = NumberField(default=Decimal(1))
    best_effort = BooleanField(default=False)


class MemberDocument(Document):
    pool = SlugField()
    tenant = SlugField()
    weight = NumberField()
    best_effort = BooleanField()
    weight_since = TimestampField()
    admitted_at = TimestampField()
    version = IntegerField(minimum=1, maximum=MAX_VERSION)


def member_document(terms: MembershipTerms, *, pool: Pool, caller: Tenant | None) -> dict[str, Any]:
    """A member under the terms in force, by the name that the caller may know it by."""
    return {
        "pool": pool.slug,
        "tenant": tenant_name(terms.membership.tenant.slug, pool=pool, caller=caller),
        "weight": json_number(terms.weight),
        "best_effort": terms.best_effort,
        "weight_since": terms.start,
        "admitted_at": terms.membership.admitted_at,
        "version": terms.membership.version,
    }


def member_weight(number: Decimal) -> Decimal:
    """The weight as it is stored: rounded as quantities are; what is out of range as it came."""
    return parse_quantity(number) if 0 < number < LIMIT else number
