"""Pools as documents."""

from typing import Any

from allocator_service.allocation.policies import policy_choose
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import (
    RESOURCE_NAME_PATTERN,
    Metering,
    Pool,
    WeightsMode,
    WindowKind,
)
from allocator_service.pools.policy import DEFAULT_ANCHOR, Window
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.services import MAX_RESOURCES, PoolSettings
from api.contract.documents import read_document
from api.contract.fields import (
    DurationField,
    GenerationField,
    SlugField,
    TimestampField,
    VersionField,
)
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    ListField,
    ObjectField,
    PatternField,
    TextField,
)


class ResourceFields(Document):
    name = PatternField(pattern=RESOURCE_NAME_PATTERN, code="resource.syntax")
    unit = TextField(max_length=20, blank=True, default="")


class PolicyFields(Document):
    name = TextField(max_length=63)
    mode = TextField(max_length=63, required=False, allow_null=True)
    options = ObjectField(required=False)


class WindowFields(Document):
    kind = ChoiceField(choices=WindowKind.values, default="tumbling")
    length = DurationField(required=False, allow_null=True)
    anchor = TimestampField(required=False)
    half_life = DurationField(required=False, allow_null=True)


class PoolRequest(Document):
    slug = SlugField()
    name = TextField(max_length=200)
    resources = ListField(ResourceFields, max_items=MAX_RESOURCES)
    policy = DocumentField(PolicyFields)
    window = DocumentField(WindowFields, required=False)
    weights = ChoiceField(choices=WeightsMode.values, default="contribution")
    decision_interval = DurationField(default="PT1M")
    metering = ChoiceField(choices=Metering.values, default="allocation")
    currency = PatternField(pattern="^[A-Z]{3}$", code="currency.syntax", default="EUR")
    timezone = TextField(max_length=63, default="UTC")
    transparent = BooleanField(default=False)


class PolicyDocument(Document):
    name = TextField(max_length=63)
    mode = TextField(max_length=63)
    options = ObjectField()


class WindowDocument(Document):
    kind = ChoiceField(choices=WindowKind.values)
    length = DurationField(allow_null=True)
    anchor = TimestampField()
    half_life = DurationField(allow_null=True)


class PoolDocument(Document):
    slug = SlugField()
    name = TextField(max_length=200)
    resources = ListField(ResourceFields, max_items=MAX_RESOURCES)
    policy = DocumentField(PolicyDocument)
    window = DocumentField(WindowDocument)
    weights = ChoiceField(choices=WeightsMode.values)
    decision_interval = DurationField()
    metering = ChoiceField(choices=Metering.values)
    currency = PatternField(pattern="^[A-Z]{3}$", code="currency.syntax")
    timezone = TextField(max_length=63)
    transparent = BooleanField()
    generation = GenerationField()
    version = VersionField()
    created_at = TimestampField()


def pool_document(pool: Pool) -> dict[str, Any]:
    return {
        **pool_fields(pool),
        "generation": pool.generation,
        "version": pool.version,
        "created_at": pool.created_at,
    }


def pool_fields(pool: Pool) -> dict[str, Any]:
    """What a merge-patch changes."""
    return {
        "slug": pool.slug,
        "name": pool.name,
        "resources": [
            {"name": resource.name, "unit": resource.unit} for resource in resources_of(pool)
        ],
        "policy": {
            "name": pool.policy_name,
            "mode": pool.policy_mode,
            "options": pool.policy_options,
        },
        "window": {
            "kind": pool.window_kind,
            "length": pool.window_length or None,
            "anchor": pool.window_anchor.isoformat().replace("+00:00", "Z"),
            "half_life": pool.window_half_life or None,
        },
        "weights": pool.weights,
        "decision_interval": pool.decision_interval,
        "metering": pool.metering,
        "currency": pool.currency,
        "timezone": pool.timezone,
        "transparent": pool.transparent,
    }


def pool_settings(fields: dict[str, Any]) -> PoolSettings:
    """The settings that a request's fields spell. Raises `Unacceptable` for the policy."""
    policy = fields["policy"]
    window = fields["window"] or read_document(WindowFields, {})
    anchor = window["anchor"] or DEFAULT_ANCHOR
    return PoolSettings(
        name=fields["name"],
        resources=[Resource(item["name"], item["unit"]) for item in fields["resources"]],
        policy=policy_choose(policy["name"], policy["mode"], policy["options"]),
        window=Window(window["kind"], anchor, window["length"] or "P7D", window["half_life"] or ""),
        weights=fields["weights"],
        decision_interval=fields["decision_interval"],
        metering=fields["metering"],
        currency=fields["currency"],
        timezone=fields["timezone"],
        transparent=fields["transparent"],
    )
