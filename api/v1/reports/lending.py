"""Lending as a document and as rows."""

from collections.abc import Iterator
from typing import Any

from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.reporting.lending import DEFINITIONS, LendingReport
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from allocator_service.ledger.reporting.pictures import lending_chart
from api.contract.fields import TimestampField
from api.v1.reports.documents import (
    MAX_TENANTS,
    AmountsField,
    Report,
    ReportDocument,
    amounts_document,
)
from policies.fields import Document, ListField, TextField

COLUMNS = ("owner", "tenant", "start", "end", "resource", "unit", "used")


class FlowPieceDocument(Document):
    start = TimestampField()
    end = TimestampField()
    used = AmountsField()


class FlowDocument(Document):
    owner = TextField(
        max_length=63, allow_null=True, description="Null is the pool itself, or not known."
    )
    tenant = TextField(max_length=63)
    used = AmountsField()
    series = ListField(FlowPieceDocument, max_items=MAX_INTERVALS)


class BalanceDocument(Document):
    tenant = TextField(max_length=63)
    other = TextField(max_length=63)
    lent = AmountsField()
    borrowed = AmountsField()
    balance = AmountsField(description="lent − borrowed")


class LendingDocument(ReportDocument):
    total = AmountsField(description="The sum of the flows below.")
    flows = ListField(FlowDocument, min_items=0, max_items=MAX_TENANTS)
    balances = ListField(BalanceDocument, min_items=0, max_items=MAX_TENANTS)


def lending_fields(report: LendingReport) -> dict[str, Any]:
    """What the document holds beside what every report begins with."""
    resources = report.resources
    return {
        "total": amounts_document(report.total, resources),
        "flows": [
            {
                "owner": flow.owner,
                "tenant": flow.tenant,
                "used": amounts_document(flow.used, resources),
                "series": [
                    {"start": start, "end": end, "used": amounts_document(used, resources)}
                    for (start, end), used in zip(report.period.intervals, flow.series, strict=True)
                ],
            }
            for flow in report.flows
        ],
        "balances": [
            {
                "tenant": each.tenant,
                "other": each.other,
                "lent": amounts_document(each.lent, resources),
                "borrowed": amounts_document(each.borrowed, resources),
                "balance": amounts_document(each.balance, resources),
            }
            for each in report.balances
        ],
    }


def lending_rows(report: LendingReport) -> Iterator[dict[str, Any]]:
    """A row per owner, tenant, interval and resource: their sums are the totals."""
    for flow in report.flows:
        for (start, end), used in zip(report.period.intervals, flow.series, strict=True):
            for resource, amount in zip(report.resources, used, strict=True):
                yield {
                    "owner": flow.owner,
                    "tenant": flow.tenant,
                    "start": start,
                    "end": end,
                    "resource": resource.name,
                    "unit": resource.unit,
                    "used": decimal_text(amount),
                }


LENDING = Report("lending", DEFINITIONS, COLUMNS, lending_fields, lending_rows, lending_chart)
