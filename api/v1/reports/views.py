"""Reports: what the ledger tells of a stretch of time, as JSON, rows or a picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.reports import fairness
from allocator_service.allocation.reports.fairness import fairness_chart, fairness_report
from allocator_service.core.charts import Chart
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.ledger.reporting import lending, sharing_degree, utilization
from allocator_service.ledger.reporting.lending import lending_report
from allocator_service.ledger.reporting.periods import Period, report_period
from allocator_service.ledger.reporting.pictures import (
    lending_chart,
    sharing_degree_chart,
    utilization_chart,
)
from allocator_service.ledger.reporting.sharing_degree import sharing_degree_report
from allocator_service.ledger.reporting.utilization import utilization_report
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for
from api.auth import EVERY_SCOPE
from api.describing import reports
from api.pseudonyms import tenant_name
from api.renderers import CSVRenderer, NDJSONRenderer, OrjsonRenderer, SVGRenderer
from api.v1 import reports as documents
from api.v1.reports.documents import ReportParameters, head_document
from api.v1.reports.fairness import FairnessDocument, fairness_fields, fairness_rows
from api.v1.reports.lending import LendingDocument, lending_fields, lending_rows
from api.v1.reports.sharing_degree import (
    SharingDegreeDocument,
    sharing_degree_fields,
    sharing_degree_rows,
)
from api.v1.reports.utilization import (
    UtilizationDocument,
    utilization_fields,
    utilization_rows,
)
from api.v1.runs.views import sees_whole
from api.views import PoolView, keep_content_type


class ReportView(PoolView):
    """A report of a pool. A tenant sees its own part, of a transparent pool all by pseudonyms."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = ReportParameters
    name: ClassVar[str]
    definitions: ClassVar[Mapping[str, str]]
    table: ClassVar[Sequence[str]]

    @classmethod
    def renderers_for(cls, method: str) -> list[type[BaseRenderer]]:
        if method in ("GET", "HEAD"):
            return [OrjsonRenderer, CSVRenderer, NDJSONRenderer, SVGRenderer]
        return [OrjsonRenderer]

    def period(self) -> Period:
        """The period that is asked for."""
        return report_period(
            pool=self.pool,
            start=self.query["from"],
            end=self.query["to"],
            step=self.query["step"],
            now=utc_now(),
        )

    def shown_as(self, slug: str) -> str:
        """By which name the caller knows a tenant."""
        return tenant_name(slug, pool=self.pool, caller=self.tenant)

    def limit(self) -> Tenant | None:
        """The tenant whose part alone is computed; None is all."""
        if not sees_whole(self.pool, self.tenant):
            return self.tenant
        if self.tenant is None and self.query["tenant"] is not None:
            return tenants_for(None).filter(slug=self.query["tenant"]).first()
        return None

    def wanted(self, name: str) -> bool:
        """Whether the tenant that the caller knows by a name is asked for."""
        return self.query["tenant"] in (None, name)

    def answer(
        self,
        fields: Callable[[], Mapping[str, Any]],
        rows: Callable[[], Iterable[Mapping[str, Any]]],
        chart: Callable[[], Chart],
        period: Period,
    ) -> Response:
        """The report in the format that is asked for."""
        chosen = self.request.accepted_renderer.format
        if chosen == SVGRenderer.format:
            return Response(chart().svg)
        if chosen in (CSVRenderer.format, NDJSONRenderer.format):
            self.columns = self.table
            response = Response({"results": list(rows())})
            response.add_post_render_callback(keep_content_type)
            return response
        head = head_document(
            self.name,
            pool=self.pool.slug,
            period=period,
            step=self.query["step"],
            resources=resources_of(self.pool),
            definitions=self.definitions,
        )
        return Response({**head, **fields()})


class WholeReportView(ReportView):
    """A report of a whole pool, absent for whoever may not see all of it."""

    def period(self) -> Period:
        if not sees_whole(self.pool, self.tenant):
            raise Missing("There is no such report.", code="report.not_found")
        return super().period()


class SharingDegreeView(ReportView):
    name = "sharing-degree"
    definitions = sharing_degree.DEFINITIONS
    table = documents.sharing_degree.COLUMNS

    @reports(SharingDegreeDocument, "Report what sharing gave each tenant; a tenant sees itself")
    def get(self, request: Request, pool: str) -> Response:
        period = self.period()
        report = sharing_degree_report(pool=self.pool, period=period, tenant=self.limit())
        report = report.under(self.shown_as, self.wanted)
        return self.answer(
            lambda: sharing_degree_fields(report),
            lambda: sharing_degree_rows(report),
            lambda: sharing_degree_chart(report),
            period,
        )


class LendingView(ReportView):
    name = "lending"
    definitions = lending.DEFINITIONS
    table = documents.lending.COLUMNS

    @reports(LendingDocument, "Report who ran on whose servers; a tenant sees what concerns it")
    def get(self, request: Request, pool: str) -> Response:
        period = self.period()
        report = lending_report(pool=self.pool, period=period, tenant=self.limit())
        report = report.under(self.shown_as, self.wanted)
        return self.answer(
            lambda: lending_fields(report),
            lambda: lending_rows(report),
            lambda: lending_chart(report),
            period,
        )


class UtilizationView(WholeReportView):
    name = "utilization"
    definitions = utilization.DEFINITIONS
    table = documents.utilization.COLUMNS

    @reports(UtilizationDocument, "Report how much of the capacity was used")
    def get(self, request: Request, pool: str) -> Response:
        period = self.period()
        asked = self.query["tenant"] is not None
        report = utilization_report(
            pool=self.pool,
            period=period,
            wanted=(lambda slug: self.wanted(self.shown_as(slug))) if asked else None,
        )
        return self.answer(
            lambda: utilization_fields(report),
            lambda: utilization_rows(report),
            lambda: utilization_chart(report),
            period,
        )


class FairnessView(WholeReportView):
    name = "fairness"
    definitions = fairness.DEFINITIONS
    table = documents.fairness.COLUMNS

    @reports(FairnessDocument, "Report shares, Jain's index and envy")
    def get(self, request: Request, pool: str) -> Response:
        period = self.period()
        report = fairness_report(pool=self.pool, period=period)
        report = report.under(self.shown_as, self.wanted)
        return self.answer(
            lambda: fairness_fields(report),
            lambda: fairness_rows(report),
            lambda: fairness_chart(report),
            period,
        )
