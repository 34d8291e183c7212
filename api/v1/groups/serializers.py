"""Groups as documents."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from allocator_service.core.quantities import json_number
from allocator_service.pools.group_services import GroupSettings
from allocator_service.pools.models import GroupTerms, Pool
from api.contract.fields import SlugField, TimestampField, VersionField, WeightField
from api.contract.parameters import PageParameters
from api.pseudonyms import group_name
from api.v1.members import member_weight, tier_field
from policies.fields import Document, NumberField, TextField


class GroupRequest(Document):
    slug = SlugField()
    name = TextField(max_length=200)
    parent = SlugField(
        required=False,
        allow_null=True,
        description="Slug of the group that it belongs to. null: the pool itself.",
    )
    weight = WeightField(default=Decimal(1))
    tier = tier_field(default=0)


class GroupDocument(Document):
    pool = SlugField()
    slug = SlugField()
    name = TextField(max_length=200)
    parent = SlugField(allow_null=True)
    weight = NumberField()
    tier = tier_field()
    terms_since = TimestampField(description="Start of the present parent, weight and tier.")
    version = VersionField()
    created_at = TimestampField()


class GroupTermsDocument(Document):
    group = SlugField()
    parent = SlugField(allow_null=True)
    weight = NumberField()
    tier = tier_field()
    start = TimestampField()
    end = TimestampField(allow_null=True, description="null: in force.")


class GroupParameters(PageParameters):
    parent = SlugField(required=False, description="Only groups directly below this group.")


def group_document(
    terms: GroupTerms, *, pool: Pool, known: Collection[str] | None = None
) -> dict[str, Any]:
    """A group under the terms in force, with the parent's name as the caller may know it."""
    parent = terms.parent
    return {
        "pool": pool.slug,
        "slug": terms.group.slug,
        "name": terms.group.name,
        "parent": group_name(parent.slug, pool=pool, known=known) if parent else None,
        "weight": json_number(terms.weight),
        "tier": terms.tier,
        "terms_since": terms.start,
        "version": terms.group.version,
        "created_at": terms.group.created_at,
    }


def group_terms_document(
    terms: GroupTerms, *, pool: Pool, known: Collection[str] | None
) -> dict[str, Any]:
    """The terms of a group over an interval, with the parent's name as the caller may know it."""
    parent = terms.parent
    return {
        "group": terms.group.slug,
        "parent": group_name(parent.slug, pool=pool, known=known) if parent else None,
        "weight": json_number(terms.weight),
        "tier": terms.tier,
        "start": terms.start,
        "end": terms.end,
    }


def group_fields(terms: GroupTerms) -> dict[str, Any]:
    """The fields that a merge patch changes, numbers exact."""
    return {
        "slug": terms.group.slug,
        "name": terms.group.name,
        "parent": terms.parent.slug if terms.parent else None,
        "weight": terms.weight,
        "tier": terms.tier,
    }


def group_settings(fields: Mapping[str, Any]) -> GroupSettings:
    """The settings in the fields of a request."""
    return GroupSettings(
        name=fields["name"],
        parent=fields["parent"],
        weight=member_weight(fields["weight"]),
        tier=fields["tier"],
    )
