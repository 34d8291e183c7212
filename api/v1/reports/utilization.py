"""Utilisation as a document and as rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.reporting.groups import TREE
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from allocator_service.ledger.reporting.pictures import utilization_chart
from allocator_service.ledger.reporting.utilization import (
    DEFINITIONS,
    NO_CAPACITY,
    OF_CLUSTERS,
    Use,
    UtilizationReport,
    group_utilization,
    utilization_report,
)
from allocator_service.pools.group_services import MAX_GROUPS
from api.auth import EVERY_SCOPE_AND_GROUP
from api.contract import documents
from api.contract.operations import reports
from api.v1.clusters import MAX_CLUSTERS
from api.v1.reports.documents import (
    MAX_TENANTS,
    AmountsField,
    GroupReportParameters,
    RatiosField,
    Report,
    ReportDocument,
    amounts_document,
)
from api.v1.reports.views import WholeReportView

COLUMNS = ("start", "end", "resource", "unit", "capacity", "used", "idle", "utilization", "reason")


class UseDocument(documents.Document):
    capacity = AmountsField()
    used = AmountsField()
    idle = AmountsField()
    utilization = RatiosField()
    reason = documents.ChoiceField(
        choices=[NO_CAPACITY], allow_null=True, description="Why a utilization is null."
    )


class UsePieceDocument(UseDocument):
    start = documents.TimestampField()
    end = documents.TimestampField()


class UsedIntervalDocument(documents.Document):
    start = documents.TimestampField()
    end = documents.TimestampField()
    used = AmountsField()


class GroupUseDocument(documents.Document):
    group = documents.SlugField()
    used = AmountsField()
    series = documents.ListField(UsedIntervalDocument, max_items=MAX_INTERVALS)


class TenantUseDocument(documents.Document):
    tenant = documents.SlugField()
    used = AmountsField()
    series = documents.ListField(UsedIntervalDocument, max_items=MAX_INTERVALS)


class ClusterUseDocument(documents.Document):
    cluster = documents.StringField(
        allow_null=True, description="null: use whose cluster is not known."
    )
    total = documents.DocumentField(UseDocument)
    series = documents.ListField(UsePieceDocument, max_items=MAX_INTERVALS)


class UtilizationDocument(ReportDocument):
    total = documents.DocumentField(UseDocument)
    series = documents.ListField(UsePieceDocument, max_items=MAX_INTERVALS)
    clusters = documents.ListField(
        ClusterUseDocument,
        min_items=0,
        max_items=MAX_CLUSTERS,
        required=False,
        description="In a pool with clusters: the same for each of them, which add up to the whole.",
    )
    group = documents.SlugField(
        required=False, description="With `group` in the query: the group whose use is `used`."
    )
    groups = documents.ListField(
        GroupUseDocument,
        min_items=0,
        max_items=MAX_GROUPS,
        required=False,
        description="With `group` in the query: the groups directly below it.",
    )
    tenants = documents.ListField(
        TenantUseDocument,
        min_items=0,
        max_items=MAX_TENANTS,
        required=False,
        description="With `group` in the query: the members directly below it.",
    )


def utilization_fields(report: UtilizationReport) -> dict[str, Any]:
    """Return the fields of the document after the common head."""
    clusters = [
        {"cluster": each.cluster, **_whole(each.totals, each.uses, report)}
        for each in report.clusters
    ]
    whole = _whole(report.totals, report.uses, report)
    return {**whole, "clusters": clusters} if clusters else whole


def _whole(
    totals: Sequence[Use], uses: Sequence[Sequence[Use]], report: UtilizationReport
) -> dict[str, Any]:
    return {
        "total": _uses(totals, report),
        "series": [
            {"start": start, "end": end, **_uses([row[interval] for row in uses], report)}
            for interval, (start, end) in enumerate(report.period.intervals)
        ],
    }


def group_utilization_fields(report: UtilizationReport) -> dict[str, Any]:
    """The same of a group, with the use of its children."""
    # Two lists, because a group and a tenant may have one slug.
    of: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for each in report.children:
        of[each.child.is_group].append(
            {
                "group" if each.child.is_group else "tenant": each.child.slug,
                "used": amounts_document(each.used, report.resources),
                "series": [
                    {"start": start, "end": end, "used": amounts_document(used, report.resources)}
                    for (start, end), used in zip(report.period.intervals, each.series, strict=True)
                ],
            }
        )
    whole = utilization_fields(report)
    return {**whole, "group": report.group, "groups": of[True], "tenants": of[False]}


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
    """Yield a row per interval and resource, which add up to the totals."""
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

GROUP_UTILIZATION = Report(
    "utilization",
    {**DEFINITIONS, "group": TREE},
    COLUMNS,
    group_utilization_fields,
    utilization_rows,
    utilization_chart,
)


def _presented(report: UtilizationReport, presentation: Report) -> Report:
    """Return the presentation with the definition of clusters, if the report has any."""
    if not report.clusters:
        return presentation
    return replace(presentation, definitions={**presentation.definitions, "clusters": OF_CLUSTERS})


class UtilizationView(WholeReportView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    report = UTILIZATION
    parameters = GroupReportParameters

    @reports(UtilizationDocument, "Report how much of the capacity was used")
    def get(self, request: Request, pool: str) -> Response:
        """Report how much of the contributed capacity was used, and how much was idle.

        Draining servers count as capacity. In a pool with clusters, JSON has `clusters`, which divide
        both. With `tenant`, `used` is that tenant's, and `capacity` stays the whole pool's. With
        `group`, `used` is that group's by the tree as it was at each instant, and its children are
        listed; operator, billing and group keys only. A tenant key can read it in a transparent pool
        only; elsewhere it gets 404 `report.not_found`. An empty period, or one of more than 1,000
        intervals, is 400 `report.period`; more than 200,000 values are 422 `report.too_long`.
        """
        period = self.period()
        group = self.group_named(period)
        if group is not None:
            used = group_utilization(group=group, period=period, within=self.within)
            return self.answer_report(used, _presented(used, GROUP_UTILIZATION))
        asked = self.query["tenant"] is not None
        report = utilization_report(
            pool=self.pool,
            period=period,
            # None lets sums over all tenants be read in the database instead of one by one.
            includes=(lambda slug: self.is_asked_for(self.name_of(slug))) if asked else None,
        )
        return self.answer_report(report, _presented(report, UTILIZATION))
