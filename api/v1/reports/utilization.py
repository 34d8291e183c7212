"""Utilisation as a document and as rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from allocator_service.ledger.reporting.pictures import utilization_chart
from allocator_service.ledger.reporting.utilization import (
    DEFINITIONS,
    NO_CAPACITY,
    Use,
    UtilizationReport,
)
from api.contract.fields import TimestampField
from api.v1.reports.documents import (
    AmountsField,
    RatiosField,
    Report,
    ReportDocument,
    amounts_document,
)
from policies.fields import ChoiceField, Document, DocumentField, ListField

COLUMNS = ("start", "end", "resource", "unit", "capacity", "used", "idle", "utilization", "reason")


class UseDocument(Document):
    capacity = AmountsField()
    used = AmountsField()
    idle = AmountsField()
    utilization = RatiosField()
    reason = ChoiceField(
        choices=[NO_CAPACITY], allow_null=True, description="Why a utilization is null."
    )


class UsePieceDocument(UseDocument):
    start = TimestampField()
    end = TimestampField()


class UtilizationDocument(ReportDocument):
    total = DocumentField(UseDocument)
    series = ListField(UsePieceDocument, max_items=MAX_INTERVALS)


def utilization_fields(report: UtilizationReport) -> dict[str, Any]:
    """What the document holds beside what every report begins with."""
    return {
        "total": _uses(report.totals, report),
        "series": [
            {"start": start, "end": end, **_uses([uses[interval] for uses in report.uses], report)}
            for interval, (start, end) in enumerate(report.period.intervals)
        ],
    }


def _uses(uses: Sequence[Use], report: UtilizationReport) -> Mapping[str, Any]:
    amounts = {
        name: amounts_document([getattr(use, name) for use in uses], report.resources)
        for name in ("capacity", "used", "idle")
    }
    ratios = {
        resource.name: use.utilization for resource, use in zip(report.resources, uses, strict=True)
    }
    reason = NO_CAPACITY if None in ratios.values() else None
    return {**amounts, "utilization": ratios, "reason": reason}


def utilization_rows(report: UtilizationReport) -> Iterator[dict[str, Any]]:
    """A row per interval and resource: their sums are the totals."""
    for interval, (start, end) in enumerate(report.period.intervals):
        for resource, uses in zip(report.resources, report.uses, strict=True):
            use = uses[interval]
            yield {
                "start": start,
                "end": end,
                "resource": resource.name,
                "unit": resource.unit,
                "capacity": decimal_text(use.capacity),
                "used": decimal_text(use.used),
                "idle": decimal_text(use.idle),
                "utilization": use.utilization,
                "reason": NO_CAPACITY if use.utilization is None else None,
            }


UTILIZATION = Report(
    "utilization", DEFINITIONS, COLUMNS, utilization_fields, utilization_rows, utilization_chart
)
