"""Fairness as a document and as rows."""

from collections.abc import Iterator
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.reports.fairness import (
    DEFINITIONS,
    PAIRS_SHOWN,
    REASONS,
    FairnessReport,
    fairness_chart,
    fairness_report,
)
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from api.contract import documents
from api.contract.operations import reports
from api.v1.reports.documents import (
    MAX_TENANTS,
    AmountsField,
    Report,
    ReportDocument,
    amounts_document,
)
from api.v1.reports.views import WholeReportView

COLUMNS = ("tenant", "start", "end", "weighted_share", "jain_index")


class SharePieceDocument(documents.Document):
    start = documents.TimestampField()
    end = documents.TimestampField()
    weighted_share = documents.NumberField(allow_null=True)


class ShareDocument(documents.Document):
    tenant = documents.TextField(max_length=63)
    used = AmountsField()
    dominant_share = documents.NumberField(allow_null=True)
    weight = documents.NumberField(allow_null=True)
    weighted_share = documents.NumberField(allow_null=True)
    reason = documents.ChoiceField(
        choices=list(REASONS), allow_null=True, description="Why there is no weighted share."
    )
    counts = documents.BooleanField(description="Whether it counts in Jain's index.")
    series = documents.ListField(SharePieceDocument, max_items=MAX_INTERVALS)


class JainPieceDocument(documents.Document):
    start = documents.TimestampField()
    end = documents.TimestampField()
    jain_index = documents.NumberField(allow_null=True)


class EnvyDocument(documents.Document):
    tenant = documents.TextField(max_length=63)
    other = documents.TextField(max_length=63)
    times = documents.NumberField(
        allow_null=True, description="How much more it would have run; null: any."
    )


class FairnessDocument(ReportDocument):
    jain_index = documents.NumberField(allow_null=True)
    envy_pairs = documents.IntegerField(
        minimum=0,
        maximum=MAX_TENANTS**2,
        allow_null=True,
        description="Number of all pairs. null, and no pairs, if some 20,000 tenants of which no two"
        " are alike would have to be compared.",
    )
    envy = documents.ListField(
        EnvyDocument, min_items=0, max_items=PAIRS_SHOWN, description="The worst of the pairs."
    )
    series = documents.ListField(JainPieceDocument, max_items=MAX_INTERVALS)
    tenants = documents.ListField(ShareDocument, min_items=0, max_items=MAX_TENANTS)


def fairness_fields(report: FairnessReport) -> dict[str, Any]:
    """Return the fields of the document after the common head."""
    intervals = report.period.intervals
    return {
        "jain_index": report.jain_index,
        "envy_pairs": report.envy_pairs,
        "envy": [
            {"tenant": each.tenant, "other": each.other, "times": each.times}
            for each in report.pairs
        ],
        "series": [
            {"start": start, "end": end, "jain_index": value}
            for (start, end), value in zip(intervals, report.series, strict=True)
        ],
        "tenants": [
            {
                "tenant": share.tenant,
                "used": amounts_document(share.used, report.resources),
                "dominant_share": share.dominant_share,
                "weight": share.weight,
                "weighted_share": share.weighted_share,
                "reason": share.reason,
                "counts": share.counts,
                "series": [
                    {"start": start, "end": end, "weighted_share": value}
                    for (start, end), value in zip(intervals, share.intervals, strict=True)
                ],
            }
            for share in report.shares
        ],
    }


def fairness_rows(report: FairnessReport) -> Iterator[dict[str, Any]]:
    """A row per tenant and interval, with the interval's index beside it."""
    for share in report.shares:
        for interval, (start, end) in enumerate(report.period.intervals):
            yield {
                "tenant": share.tenant,
                "start": start,
                "end": end,
                "weighted_share": share.intervals[interval],
                "jain_index": report.series[interval],
            }


FAIRNESS = Report("fairness", DEFINITIONS, COLUMNS, fairness_fields, fairness_rows, fairness_chart)


class FairnessView(WholeReportView):
    report = FAIRNESS

    @reports(FairnessDocument, "Report shares, Jain's index and envy")
    def get(self, request: Request, pool: str) -> Response:
        """Report each tenant's weighted dominant share, Jain's index over them, and who would envy whom.

        `envy` lists the worst 100 pairs and `envy_pairs` counts all. With `tenant`, only that tenant's
        share and pairs are listed, while the index and the count stay those of the whole pool. A tenant
        key can read it in a transparent pool only, with the others under pseudonyms; elsewhere it gets
        404 `report.not_found`. An empty period, or one of more than 1,000 intervals, is 400
        `report.period`; more than 200,000 values are 422 `report.too_long`.
        """
        report = fairness_report(pool=self.pool, period=self.period())
        # Selected after the computation: the index and envy are of all members, also those not shown.
        return self.answer_report(report.under(self.name_of, self.is_asked_for))
