"""Lending as a document and as rows."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.reporting.groups import TREE
from allocator_service.ledger.reporting.lending import (
    DEFINITIONS,
    GroupFlow,
    GroupLendingReport,
    LendingReport,
    Traffic,
    group_lending,
    lending_report,
)
from allocator_service.ledger.reporting.periods import MAX_INTERVALS
from allocator_service.ledger.reporting.pictures import group_lending_chart, lending_chart
from allocator_service.pools.group_services import MAX_GROUPS
from api.auth import EVERY_SCOPE_AND_GROUP
from api.contract import documents
from api.contract.operations import reports
from api.v1.reports.documents import (
    MAX_TENANTS,
    AmountsField,
    GroupReportParameters,
    Report,
    ReportDocument,
    amounts_document,
)
from api.v1.reports.views import ReportView

COLUMNS = ("owner", "tenant", "start", "end", "resource", "unit", "used")


class FlowPieceDocument(documents.Document):
    start = documents.TimestampField()
    end = documents.TimestampField()
    used = AmountsField()


class FlowDocument(documents.Document):
    owner = documents.TextField(
        max_length=63,
        allow_null=True,
        description="Null is the pool itself, or not known, unless `owner_group` is set.",
    )
    owner_group = documents.SlugField(
        required=False,
        allow_null=True,
        description="With `group` in the query: group below it that the owner belonged to.",
    )
    owner_inside = documents.BooleanField(
        required=False,
        description="With `group` in the query: whether the owner belonged to the group then.",
    )
    tenant = documents.TextField(
        max_length=63, allow_null=True, description="Null only if `tenant_group` is set."
    )
    tenant_group = documents.SlugField(
        required=False,
        allow_null=True,
        description="With `group` in the query: group below it that the tenant belonged to.",
    )
    tenant_inside = documents.BooleanField(
        required=False,
        description="With `group` in the query: whether the tenant belonged to the group then.",
    )
    used = AmountsField()
    series = documents.ListField(FlowPieceDocument, max_items=MAX_INTERVALS)


class BalanceDocument(documents.Document):
    tenant = documents.TextField(max_length=63)
    other = documents.TextField(max_length=63)
    lent = AmountsField()
    borrowed = AmountsField()
    balance = AmountsField(description="lent − borrowed")


class TrafficFields(documents.Document):
    used = AmountsField()
    lent = AmountsField(description="Use of its members' servers by tenants outside the group.")
    borrowed = AmountsField(description="Use of servers of tenants outside the group.")
    balance = AmountsField(description="lent − borrowed")


class GroupTrafficDocument(TrafficFields):
    group = documents.SlugField()


class TenantTrafficDocument(TrafficFields):
    tenant = documents.SlugField()


class LendingDocument(ReportDocument):
    total = AmountsField(description="The sum of the flows below.")
    group = documents.DocumentField(
        GroupTrafficDocument,
        required=False,
        description="With `group` in the query: the sum of its children.",
    )
    groups = documents.ListField(
        GroupTrafficDocument,
        min_items=0,
        max_items=MAX_GROUPS,
        required=False,
        description="With `group` in the query: the groups directly below it.",
    )
    tenants = documents.ListField(
        TenantTrafficDocument,
        min_items=0,
        max_items=MAX_TENANTS,
        required=False,
        description="With `group` in the query: the members directly below it.",
    )
    flows = documents.ListField(FlowDocument, min_items=0, max_items=MAX_TENANTS)
    balances = documents.ListField(
        BalanceDocument,
        min_items=0,
        max_items=MAX_TENANTS,
        required=False,
        description="Of every two tenants; not in the report of a group.",
    )


def lending_fields(report: LendingReport) -> dict[str, Any]:
    """Return the fields of the document after the common head."""
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
    """Yield a row per owner, tenant, interval and resource, which add up to the totals."""
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


def group_lending_fields(report: GroupLendingReport) -> dict[str, Any]:
    """The fields of a group's report, with its sum, its children and the flows between them."""
    resources = report.resources
    of: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for child in report.children:
        name = "group" if child.is_group else "tenant"
        # Two lists in the document, because a group and a tenant may have one slug.
        of[child.is_group].append({name: child.slug, **_traffic(report.of(child), resources)})
    return {
        "total": amounts_document(report.total, resources),
        "group": {"group": report.group.slug, **_traffic(report.sum, resources)},
        "groups": of[True],
        "tenants": of[False],
        "flows": [
            {
                **_ends(flow),
                "used": amounts_document(flow.used, resources),
                "series": [
                    {"start": start, "end": end, "used": amounts_document(used, resources)}
                    for (start, end), used in zip(report.period.intervals, flow.series, strict=True)
                ],
            }
            for flow in report.flows
        ],
    }


def _traffic(traffic: Traffic, resources: Sequence[Resource]) -> dict[str, dict[str, str]]:
    return {
        name: amounts_document(getattr(traffic, name), resources)
        for name in ("used", "lent", "borrowed", "balance")
    }


def _ends(flow: GroupFlow) -> dict[str, str | bool | None]:
    return {
        "owner": None if flow.owner.is_group else flow.owner.slug,
        "owner_group": flow.owner.slug if flow.owner.is_group else None,
        "owner_inside": flow.owner.inside,
        "tenant": None if flow.user.is_group else flow.user.slug,
        "tenant_group": flow.user.slug if flow.user.is_group else None,
        "tenant_inside": flow.user.inside,
    }


def group_lending_rows(report: GroupLendingReport) -> Iterator[dict[str, Any]]:
    """Yield a row per flow, interval and resource.

    Their sums are the total.
    """
    for flow in report.flows:
        for (start, end), used in zip(report.period.intervals, flow.series, strict=True):
            for resource, amount in zip(report.resources, used, strict=True):
                yield {
                    **_ends(flow),
                    "start": start,
                    "end": end,
                    "resource": resource.name,
                    "unit": resource.unit,
                    "used": decimal_text(amount),
                }


GROUP_DEFINITIONS = {
    **{name: DEFINITIONS[name] for name in ("used", "rounding")},
    "lent": "Use of servers of the group's members by tenants outside the group.",
    "borrowed": "Use by the group's members of servers of tenants outside the group.",
    "balance": "What was lent less what was borrowed.",
    "group": TREE,
}

GROUP_LENDING = Report(
    "lending",
    GROUP_DEFINITIONS,
    ("owner_group", "owner_inside", "tenant_group", "tenant_inside", *COLUMNS),
    group_lending_fields,
    group_lending_rows,
    group_lending_chart,
)


class LendingView(ReportView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    report = LENDING
    parameters = GroupReportParameters

    @reports(LendingDocument, "Report who ran on whose servers; a tenant sees what concerns it")
    def get(self, request: Request, pool: str) -> Response:
        """Report who ran on whose servers, and what every two tenants lent each other.

        An `owner` of null is the pool itself or not known: reported usage does not state on which
        servers it ran. A tenant key sees the flows from and to itself, in a transparent pool all of
        them, with the others under pseudonyms. `group` reports the sum of a group, its children and
        the flows between them, by the tree as it was at each instant, to operator, billing and
        group keys. An empty period, or one of more than 1,000 intervals, is 400 `report.period`;
        more than 200,000 values are 422 `report.too_long`.
        """
        period = self.period()
        group = self.group_named(period)
        if group is not None:
            found = group_lending(group=group, period=period, within=self.within)
            if self.subtree is not None:
                # A group's key sees that its members lend, but not to whom outside.
                found = found.under(self.subtree.outsider)
            return self.answer_report(found, GROUP_LENDING)
        return self.answer_report(self.visible_part(lending_report))
