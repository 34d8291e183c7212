"""The sharing degree as a document, as rows and as a picture."""

from collections.abc import Iterator, Sequence
from typing import Any

from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.reporting.amounts import exact_sum
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from allocator_service.ledger.reporting.pictures import sharing_degree_chart
from allocator_service.ledger.reporting.sharing_degree import (
    BASELINE,
    DEFINITIONS,
    REASONS,
    Degree,
    SharingDegreeReport,
    TenantDegree,
)
from api.contract.fields import TimestampField
from api.v1.reports.documents import (
    MAX_TENANTS,
    AmountsField,
    RatiosField,
    Report,
    ReportDocument,
    amounts_document,
)
from policies.fields import (
    BooleanField,
    ChoiceField,
    Document,
    DocumentField,
    ListField,
    NumberField,
    ObjectField,
    TextField,
)

COLUMNS = (
    "tenant",
    "start",
    "end",
    "resource",
    "unit",
    "used",
    "alone",
    "sharing_degree",
    "reason",
)


class DegreeDocument(Document):
    resources = RatiosField()
    min = NumberField(allow_null=True)


class SharedFields(Document):
    used = AmountsField()
    alone = AmountsField()
    sharing_degree = DocumentField(DegreeDocument)
    reasons = ObjectField(description="Why a resource has no sharing degree, by its name.")
    reason = ChoiceField(choices=list(REASONS), allow_null=True, description="Why there is no min.")


class SharedPieceDocument(SharedFields):
    start = TimestampField()
    end = TimestampField()


class SharedDocument(SharedFields):
    tenant = TextField(max_length=63)
    benefit = BooleanField(allow_null=True, description="Whether min is 1 or more.")
    series = ListField(SharedPieceDocument, max_items=MAX_INTERVALS)


class SharingDegreeDocument(ReportDocument):
    baseline = ChoiceField(choices=[BASELINE], description="The partition that `alone` is of.")
    alone_from = TimestampField(
        allow_null=True,
        description="Beginning of the first decision, from which on `alone` is known.",
    )
    total = AmountsField(description="What the tenants below used together.")
    tenants = ListField(SharedDocument, min_items=0, max_items=MAX_TENANTS)


def sharing_degree_fields(report: SharingDegreeReport) -> dict[str, Any]:
    """What the document holds beside what every report begins with."""
    total = [
        exact_sum(each.total.used[r] for each in report.tenants)
        for r in range(len(report.resources))
    ]
    return {
        "baseline": BASELINE,
        "alone_from": report.alone_from,
        "total": amounts_document(total, report.resources),
        "tenants": [_tenant(each, report) for each in report.tenants],
    }


def _tenant(each: TenantDegree, report: SharingDegreeReport) -> dict[str, Any]:
    least = each.total.least
    return {
        "tenant": each.tenant,
        **_degree(each.total, report.resources),
        "benefit": None if least is None else least >= 1,
        "series": [
            {"start": start, "end": end, **_degree(degree, report.resources)}
            for (start, end), degree in zip(report.period.intervals, each.series, strict=True)
        ],
    }


def _degree(degree: Degree, resources: Sequence[Resource]) -> dict[str, Any]:
    names = [resource.name for resource in resources]
    return {
        "used": amounts_document(degree.used, resources),
        "alone": amounts_document(degree.alone, resources),
        "sharing_degree": {
            "resources": dict(zip(names, degree.ratios, strict=True)),
            "min": degree.least,
        },
        "reasons": {
            name: reason for name, reason in zip(names, degree.reasons, strict=True) if reason
        },
        "reason": degree.reason,
    }


def sharing_degree_rows(report: SharingDegreeReport) -> Iterator[dict[str, Any]]:
    """A row per tenant, interval and resource: their sums are the totals."""
    for each in report.tenants:
        for (start, end), degree in zip(report.period.intervals, each.series, strict=True):
            for r, resource in enumerate(report.resources):
                yield {
                    "tenant": each.tenant,
                    "start": start,
                    "end": end,
                    "resource": resource.name,
                    "unit": resource.unit,
                    "used": decimal_text(degree.used[r]),
                    "alone": decimal_text(degree.alone[r]),
                    "sharing_degree": degree.ratios[r],
                    "reason": degree.reasons[r],
                }


SHARING_DEGREE = Report(
    "sharing-degree",
    DEFINITIONS,
    COLUMNS,
    sharing_degree_fields,
    sharing_degree_rows,
    sharing_degree_chart,
)
