"""Parameters and documents that all reports share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from allocator_service.core.charts import Chart
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.reporting.periods import MAX_INTERVALS, Period
from allocator_service.pools.services import MAX_RESOURCES
from api.contract import documents
from api.contract.parameters import Parameters
from api.v1.pools import ResourceFields

DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
MAX_TENANTS = 10**6


class ReportParameters(Parameters):
    """The period, the last 7 days by default, and the tenant."""

    from_ = documents.TimestampField(
        required=False, description="Inclusive; by default 7 days before `to`."
    )
    to = documents.TimestampField(
        required=False, description="Exclusive; now by default, and at most now."
    )
    tenant = documents.TextField(
        max_length=63,
        required=False,
        description="This tenant only: its slug, or the pseudonym by which a tenant key knows it; any"
        " other text is 404 `tenant.not_found`.",
    )
    step = documents.DurationField(
        required=False,
        description=f"Cuts the period into at most {MAX_INTERVALS} intervals, in the pool's time zone.",
    )


class GroupReportParameters(ReportParameters):
    """The period, and the tenant or the group."""

    group = documents.SlugField(
        required=False,
        description="This group only: its sum and its children. An unknown group is 404"
        " `group.not_found`; together with `tenant` it is 400 `report.one_of`.",
    )


class AmountsField(documents.SchemaField):
    """Exact amounts keyed by the pool's resources."""

    def __init__(self, **options: Any) -> None:
        schema = {"type": "object", "additionalProperties": DECIMAL}
        super().__init__(schema=schema, **options)

    def write(self, value: Any, context: Any) -> dict[str, str] | None:
        return None if value is None else amounts_document(value, context.resources)


class RatiosField(documents.SchemaField):
    """A number per resource, null where there is none."""

    def __init__(self, **options: Any) -> None:
        number = {"type": ["number", "null"]}
        super().__init__(schema={"type": "object", "additionalProperties": number}, **options)


class ReportDocument(documents.Document):
    """The head of every report."""

    report = documents.TextField(max_length=20)
    pool = documents.SlugField()
    from_ = documents.TimestampField()
    to = documents.TimestampField()
    step = documents.DurationField(allow_null=True)
    definitions = documents.ObjectField(description="The definition of each figure, in a sentence.")
    resources = documents.ListField(
        ResourceFields, max_items=MAX_RESOURCES, description="Amounts: unit × seconds."
    )


@dataclass(frozen=True)
class Report:
    """The presentation of a report, as definitions, document, rows and picture."""

    name: str
    definitions: Mapping[str, str]
    columns: Sequence[str]
    fields: Callable[[Any], Mapping[str, Any]]
    rows: Callable[[Any], Iterable[Mapping[str, Any]]]
    chart: Callable[[Any], Chart]


def head_document(
    shown: Report, *, pool: str, period: Period, step: str | None, resources: Sequence[Resource]
) -> dict[str, Any]:
    """Return the head of a report."""
    return {
        "report": shown.name,
        "pool": pool,
        "from": period.start,
        "to": period.end,
        "step": step,
        "definitions": dict(shown.definitions),
        "resources": [{"name": each.name, "unit": each.unit} for each in resources],
    }


def amounts_document(amounts: Sequence[Decimal], resources: Sequence[Resource]) -> dict[str, str]:
    """Return exact amounts as decimal texts."""
    return {each.name: decimal_text(a) for each, a in zip(resources, amounts, strict=True)}
