"""Renderings of decisions as documents."""

from typing import Any

from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.rendering.limits import HARD, TenantLimits
from allocator_service.enforcement.rendering.targets import (
    CLASS_LABEL,
    QUOTAS,
    TARGETS,
    Rendering,
)
from api.contract.fields import (
    GenerationField,
    IdField,
    SchemaField,
    SlugField,
    TimestampField,
    texts_field,
)
from api.contract.parameters import Parameters
from api.v1.reports.documents import MAX_TENANTS, AmountsField
from policies.fields import (
    ChoiceField,
    Document,
    ListField,
    MapField,
    StringField,
    TextField,
)

_WHOLE = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}


class RenderingParameters(Parameters):
    class_label = TextField(
        max_length=253,
        default=CLASS_LABEL,
        description="The server label whose values are the classes of servers.",
    )
    quota = ChoiceField(
        choices=QUOTAS,
        default=HARD,
        description="hard: never above the decision; soft (kueue, volcano, kai): what is not used is"
        " lent; effective (kueue): in `status.effectiveQuota`.",
    )


class RenderedTenantDocument(Document):
    tenant = SlugField()
    decided = AmountsField(description="In the pool's units.")
    rendered = SchemaField(schema=_WHOLE, description="In the target's units.")
    lost = AmountsField(description="To rounding, in the pool's units; below 0: gained.")
    notes = texts_field(description="What cannot be enforced.")


class RenderingDocument(Document):
    pool = SlugField()
    run = IdField()
    generation = GenerationField()
    policy = TextField(max_length=63)
    mode = TextField(max_length=63)
    target = ChoiceField(choices=list(TARGETS))
    class_label = TextField(max_length=253)
    rendered_from = TimestampField()
    next_boundary = TimestampField(
        allow_null=True,
        description="When what it gives changes next without a change: the next slot or interval.",
    )
    units = MapField(StringField(), description="What 1 means to the target, by resource.")
    notes = texts_field()
    tenants = ListField(RenderedTenantDocument, min_items=0, max_items=MAX_TENANTS)
    objects = ListField(
        SchemaField(schema={"type": "object", "additionalProperties": True}),
        min_items=0,
        description="The target's objects: docs/enforcement.md has their shapes.",
    )


def rendering_document(rendering: Rendering, *, next_boundary: Any) -> dict[str, Any]:
    """The rendering with what was decided, rendered and lost per tenant."""
    run, limits = rendering.run, rendering.limits
    return {
        "pool": run.pool.slug,
        "run": run.pk,
        "generation": run.generation,
        "policy": run.policy["name"],
        "mode": run.policy["mode"],
        "target": rendering.target.name,
        "class_label": limits.label,
        "rendered_from": run.effective_from,
        "next_boundary": next_boundary,
        "units": {unit.resource.name: unit.text for unit in limits.units},
        "notes": limits.notes,
        "tenants": [_tenant(tenant, rendering) for tenant in limits.tenants],
        "objects": rendering.objects,
    }


def _tenant(tenant: TenantLimits, rendering: Rendering) -> dict[str, Any]:
    names = [unit.resource.name for unit in rendering.limits.units]
    return {
        "tenant": tenant.slug,
        "decided": dict(zip(names, map(decimal_text, tenant.decided), strict=True)),
        "rendered": dict(zip(names, tenant.rendered, strict=True)),
        "lost": dict(zip(names, map(decimal_text, tenant.lost), strict=True)),
        "notes": tenant.notes,
    }
