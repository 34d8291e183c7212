"""What the reports have in common: their parameters, and how a document begins."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.reporting.periods import MAX_PIECES, Period
from allocator_service.pools.services import MAX_RESOURCES
from api.documents import ListField, StrictSerializer
from api.fields import DurationField, SlugField, StrictField, TextField, TimestampField
from api.parameters import Parameters
from api.structures import ObjectField, SchemaField
from api.v1.pools.serializers import ResourceFields

DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
MAX_TENANTS = 10**6


class ReportParameters(Parameters):
    """The period, which is the 7 days until now unless told, and of which tenant."""

    to = TimestampField(required=False, help_text="Exclusive; now if it is left out or ahead.")
    tenant = TextField(max_length=63, required=False, help_text="Its slug; only this one.")
    step = DurationField(
        required=False,
        help_text=f"Cuts the period into at most {MAX_PIECES} pieces, in the pool's time zone.",
    )

    @classmethod
    def strict_fields(cls) -> dict[str, StrictField]:
        # `from` is a word of Python: it cannot be an attribute.
        since = TimestampField(
            required=False, help_text="Inclusive; 7 days before `to` unless told."
        )
        return {"from": since, **super().strict_fields()}


class AmountsField(SchemaField):
    """Exact amounts keyed by the pool's resources."""

    def __init__(self, **options: Any) -> None:
        schema = {"type": "object", "additionalProperties": DECIMAL}
        super().__init__(schema=schema, **options)


class RatiosField(SchemaField):
    """A number per resource, null where there is none."""

    def __init__(self, **options: Any) -> None:
        number = {"type": ["number", "null"]}
        super().__init__(schema={"type": "object", "additionalProperties": number}, **options)


class ReportDocument(StrictSerializer):
    """What every report says of itself. `from` is added as in `ReportParameters`."""

    report = TextField(max_length=20)
    pool = SlugField()
    to = TimestampField()
    step = DurationField(allow_null=True)
    definitions = ObjectField(help_text="What each figure is, in a sentence.")
    resources = ListField(
        ResourceFields, max_items=MAX_RESOURCES, help_text="Amounts: unit × seconds."
    )

    @classmethod
    def strict_fields(cls) -> dict[str, StrictField]:
        return {"from": TimestampField(), **super().strict_fields()}


def head_document(
    report: str,
    *,
    pool: str,
    period: Period,
    step: str | None,
    resources: Sequence[Resource],
    definitions: Mapping[str, str],
) -> dict[str, Any]:
    """What every report begins with."""
    return {
        "report": report,
        "pool": pool,
        "from": period.start,
        "to": period.end,
        "step": step,
        "definitions": dict(definitions),
        "resources": [{"name": each.name, "unit": each.unit} for each in resources],
    }


def amounts_document(amounts: Sequence[Decimal], resources: Sequence[Resource]) -> dict[str, str]:
    """Exact amounts as decimal texts."""
    return {each.name: decimal_text(a) for each, a in zip(resources, amounts, strict=True)}
