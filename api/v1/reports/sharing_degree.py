"""The sharing degree as a document, as rows and as a picture."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.amounts.clusters import DEFINITION as CLUSTERS_DEFINITION
from allocator_service.ledger.reporting.amounts import exact_sum
from allocator_service.ledger.reporting.groups import TREE
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from allocator_service.ledger.reporting.pictures import sharing_degree_chart
from allocator_service.ledger.reporting.sharing_degree import (
    BASELINE,
    DEFINITIONS,
    REASONS,
    Degree,
    SharingDegreeReport,
    TenantDegree,
    group_sharing_degree,
    sharing_degree_report,
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
from api.v1.reports.views import ReportView

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


class DegreeDocument(documents.Document):
    resources = RatiosField()
    min = documents.NumberField(allow_null=True)


class SharedFields(documents.Document):
    used = AmountsField()
    alone = AmountsField()
    sharing_degree = documents.DocumentField(DegreeDocument)
    reasons = documents.ObjectField(
        description="Why a resource has no sharing degree, by its name."
    )
    reason = documents.ChoiceField(
        choices=list(REASONS), allow_null=True, description="Why there is no min."
    )


class SharedPieceDocument(SharedFields):
    start = documents.TimestampField()
    end = documents.TimestampField()


class UsedOnClusterDocument(documents.Document):
    cluster = documents.StringField(
        allow_null=True, description="null: use whose cluster is not known."
    )
    used = AmountsField()


class SharedOverPeriodFields(SharedFields):
    benefit = documents.BooleanField(allow_null=True, description="Whether min is 1 or more.")
    series = documents.ListField(SharedPieceDocument, max_items=MAX_INTERVALS)
    clusters = documents.ListField(
        UsedOnClusterDocument,
        min_items=0,
        max_items=MAX_CLUSTERS,
        required=False,
        description="In a pool with clusters: the use of each in the period, which add up to `used`.",
    )


class SharedDocument(SharedOverPeriodFields):
    tenant = documents.TextField(max_length=63)


class SharedByGroupDocument(SharedOverPeriodFields):
    group = documents.SlugField()


class SharingDegreeDocument(ReportDocument):
    baseline = documents.ChoiceField(
        choices=[BASELINE], description="The partition that `alone` is of."
    )
    alone_from = documents.TimestampField(
        allow_null=True,
        description="Beginning of the first decision, from which on `alone` is known.",
    )
    total = AmountsField(description="What the tenants and groups below used together.")
    group = documents.DocumentField(
        SharedByGroupDocument,
        required=False,
        description="With `group` in the query: the sum of its children.",
    )
    groups = documents.ListField(
        SharedByGroupDocument,
        min_items=0,
        max_items=MAX_GROUPS,
        required=False,
        description="With `group` in the query: the groups directly below it.",
    )
    tenants = documents.ListField(SharedDocument, min_items=0, max_items=MAX_TENANTS)


def sharing_degree_fields(report: SharingDegreeReport) -> dict[str, Any]:
    """Return the fields of the document after the common head."""
    # With the groups, whose members are not among the tenants of a group's report.
    rows = [*report.groups, *report.tenants]
    total = [exact_sum(each.total.used[r] for each in rows) for r in range(len(report.resources))]
    document = {
        "baseline": BASELINE,
        "alone_from": report.alone_from,
        "total": amounts_document(total, report.resources),
        "tenants": [_row(each, report, "tenant") for each in report.tenants],
    }
    if report.group is None:
        return document
    groups = [_row(each, report, "group") for each in report.groups]
    return {**document, "group": _row(report.group, report, "group"), "groups": groups}


def _row(each: TenantDegree, report: SharingDegreeReport, of: str) -> dict[str, Any]:
    least = each.total.least
    clusters = [
        {"cluster": cluster, "used": amounts_document(used, report.resources)}
        for cluster, used in (each.clusters or {}).items()
    ]
    return {
        of: each.tenant,
        **_degree(each.total, report.resources),
        "benefit": None if least is None else least >= 1,
        "series": [
            {"start": start, "end": end, **_degree(degree, report.resources)}
            for (start, end), degree in zip(report.period.intervals, each.series, strict=True)
        ],
        **({} if each.clusters is None else {"clusters": clusters}),
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
    """Yield a row per tenant, interval and resource, which add up to the totals."""
    for each in report.tenants:
        yield from _rows(each, report)


def group_sharing_degree_rows(report: SharingDegreeReport) -> Iterator[dict[str, Any]]:
    """Yield a row per child of a group, interval and resource.

    Their sums are the group's.
    """
    for each in report.groups:
        for row in _rows(each, report):
            yield {**row, "group": each.tenant, "tenant": None}
    for each in report.tenants:
        for row in _rows(each, report):
            yield {**row, "group": None}


def _rows(each: TenantDegree, report: SharingDegreeReport) -> Iterator[dict[str, Any]]:
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

GROUP_SHARING_DEGREE = Report(
    "sharing-degree",
    {**DEFINITIONS, "group": TREE},
    ("group", *COLUMNS),
    sharing_degree_fields,
    group_sharing_degree_rows,
    sharing_degree_chart,
)


def _presented(report: SharingDegreeReport, presentation: Report) -> Report:
    """Return the presentation with the definition of clusters, if the report has any."""
    rows = [*report.tenants, *report.groups]
    if all(each.clusters is None for each in rows):
        return presentation
    return replace(
        presentation, definitions={**presentation.definitions, "clusters": CLUSTERS_DEFINITION}
    )


class SharingDegreeView(ReportView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    report = SHARING_DEGREE
    parameters = GroupReportParameters

    @reports(SharingDegreeDocument, "Report what sharing gave each tenant; a tenant sees itself")
    def get(self, request: Request, pool: str) -> Response:
        """Report what each tenant used, beside what it would have used alone in its part of the pool.

        The sharing degree is `used` / `alone` per resource; `min` is the least of them, and below 1 the
        tenant lost by sharing. A ratio that does not exist is null with a reason. In a pool with
        clusters, JSON has the use of each in `clusters`. A tenant key sees itself, and in a transparent
        pool the others under pseudonyms. `group` reports the sum of a group and then its children, by
        the tree as it was at each instant, to operator, billing and group keys. An empty period, or one
        of more than 1,000 intervals, is 400 `report.period`; more than 200,000 values are 422
        `report.too_long`.
        """
        period = self.period()
        group = self.group_named(period)
        if group is not None:
            of_group = group_sharing_degree(
                # Only JSON has clusters, and to divide by them reads the use once more.
                group=group,
                period=period,
                within=self.within,
                by_cluster=self.answers_document,
            )
            return self.answer_report(of_group, _presented(of_group, GROUP_SHARING_DEGREE))
        compute = partial(sharing_degree_report, by_cluster=self.answers_document)
        report = self.visible_part(compute)
        return self.answer_report(report, _presented(report, SHARING_DEGREE))
