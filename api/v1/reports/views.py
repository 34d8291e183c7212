"""Reports of the ledger over a period, as JSON, rows or a picture."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.reports.fairness import fairness_report
from allocator_service.billing.tie_out import billing_report, group_billing
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unreadable
from allocator_service.core.selecting import missing
from allocator_service.ledger.reporting.lending import group_lending, lending_report
from allocator_service.ledger.reporting.periods import Period, report_period
from allocator_service.ledger.reporting.sharing_degree import (
    group_sharing_degree,
    sharing_degree_report,
)
from allocator_service.ledger.reporting.utilization import group_utilization, utilization_report
from allocator_service.pools.models import Group
from allocator_service.pools.selectors import group_missing, resources_of
from allocator_service.pools.tree_history import group_named
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for, tenants_with_retired
from api.auth import EVERY_SCOPE, EVERY_SCOPE_AND_GROUP
from api.contract.operations import reports
from api.contract.parameters import Parameters
from api.contract.renderers import CSVRenderer, NDJSONRenderer, SVGRenderer
from api.pseudonyms import tenant_name
from api.v1.reports.billing import BILLING, GROUP_BILLING, BillingDocument, BillingParameters
from api.v1.reports.documents import GroupReportParameters, Report, ReportParameters, head_document
from api.v1.reports.fairness import FAIRNESS, FairnessDocument
from api.v1.reports.lending import GROUP_LENDING, LENDING, LendingDocument
from api.v1.reports.sharing_degree import (
    GROUP_SHARING_DEGREE,
    SHARING_DEGREE,
    SharingDegreeDocument,
)
from api.v1.reports.utilization import GROUP_UTILIZATION, UTILIZATION, UtilizationDocument
from api.v1.run_inputs import sees_whole, sees_whole_of
from api.views import PoolView


class ReportView(PoolView):
    """A report of a pool. A tenant sees its own part, of a transparent pool all by pseudonyms."""

    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters: ClassVar[type[Parameters]] = ReportParameters
    report: ClassVar[Report]

    def period(self) -> Period:
        """Return the period of the query. Raises `Missing` for a tenant unknown to the caller."""
        self.refuse_unknown()
        return report_period(
            pool=self.pool,
            start=self.query["from"],
            end=self.query["to"],
            step=self.query["step"],
            now=utc_now(),
        )

    def refuse_unknown(self) -> None:
        """Raise `Missing` where `tenant` is no name by which the caller knows one, retired ones too.

        The answer to a tenant does not depend on whether another slug exists.
        """
        asked, pool = self.query["tenant"], self.pool
        if asked is None or self.caller.group is not None:
            return
        slugs = tenants_with_retired().values_list("slug", flat=True)
        if self.tenant is None:
            known = slugs.filter(slug=asked).exists()
        elif sees_whole(pool, self.tenant):
            known = any(self.name_of(slug) == asked for slug in slugs)
        else:
            known = asked == self.tenant.slug
        if not known:
            raise missing("tenant.not_found")

    def name_of(self, slug: str) -> str:
        """Return the name by which the caller knows a tenant."""
        return tenant_name(slug, pool=self.pool, caller=self.tenant)

    def limit(self) -> Tenant | None:
        """Return the tenant to whose part the report is limited, None for all."""
        if not sees_whole(self.pool, self.tenant):
            return self.tenant
        if self.tenant is None and self.query["tenant"] is not None:
            return tenants_for(None).filter(slug=self.query["tenant"]).first()
        return None

    def visible_part(self, compute: Callable[..., Any]) -> Any:
        """A report of what the caller may see, by the names that it knows."""
        report = compute(pool=self.pool, period=self.period(), tenant=self.limit())
        return report.under(self.name_of, self.is_asked_for)

    def is_asked_for(self, name: str) -> bool:
        """Return whether the query asks for the tenant that the caller knows by a name."""
        return self.query["tenant"] in (None, name)

    def group_named(self, period: Period) -> Group | None:
        """The group that is asked for, None without any.

        Raises `Missing` for a group that the caller does not know, `Unreadable` together with `tenant`.
        """
        slug, pool = self.query["group"], self.pool
        subtree = self.subtree
        if slug is None and subtree is None:
            return None
        if self.query["tenant"] is not None:
            raise Unreadable(
                'Only one of "group" and "tenant" can be asked for; a key of a group asks for groups.',
                code="report.one_of",
                extra={"parameter": "group"},
            )
        if subtree is not None:
            asked = slug or subtree.group.slug
            return subtree.group_at(asked, utc_now())
        if self.tenant is not None:
            raise group_missing()
        return group_named(pool=pool, slug=slug, before=period.end)

    @property
    def within(self) -> Group | None:
        """The group that limits the report, or None."""
        return None if self.subtree is None else self.subtree.group

    def answer_report(self, report: Any, presentation: Report | None = None) -> Response:
        """Answer the report in the negotiated format."""
        presentation, chosen = presentation or self.report, self.request.accepted_renderer.format
        if chosen == SVGRenderer.format:
            return Response(presentation.chart(report).svg)
        if chosen in (CSVRenderer.format, NDJSONRenderer.format):
            return self.rows_answer(list(presentation.rows(report)), presentation.columns)
        head = head_document(
            presentation,
            pool=self.pool.slug,
            period=report.period,
            step=self.query["step"],
            resources=resources_of(self.pool),
        )
        return Response({**head, **presentation.fields(report)})


class BillingView(ReportView):
    """A report of money, of which a tenant sees its own even in a transparent pool."""

    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    retired = True
    report = BILLING
    parameters = BillingParameters

    @reports(BillingDocument, "Report what was billed, and that it is what the ledger holds")
    def get(self, request: Request, pool: str) -> Response:
        """Report what each tenant was billed, and reconcile it with the ledger.

        For each month, tenant and resource, `ledger` = `statements` + `not_yet_billed` +
        `not_billable`, to the last digit. The period is widened to whole months of the pool's time
        zone, at most 36 (422 `report.too_long`); open months are computed as of now. `group` reports
        the sum of a group and the tenants below it at the end of each month, to operator and billing
        keys. A tenant key sees itself only, in a transparent pool too. The report stays readable after
        the pool is retired.
        """
        self.refuse_unknown()
        of_period = report_period(
            pool=self.pool,
            start=self.query["from"],
            end=self.query["to"],
            step=None,
            now=utc_now(),
        )
        group = self.group_named(of_period)
        if group is not None:
            of_group = group_billing(
                group=group, period=of_period, now=utc_now(), within=self.within
            )
            return self.answer_report(of_group, GROUP_BILLING)
        limit = self.tenant
        if limit is None and self.query["tenant"] is not None:
            limit = tenants_for(None).filter(slug=self.query["tenant"]).first()
        report = billing_report(
            pool=self.pool,
            period=of_period,
            now=utc_now(),
            tenant=limit,
        )
        return self.answer_report(report.under(self.is_asked_for))


class WholeReportView(ReportView):
    """A report of a whole pool, which is missing to callers that may not see all of it."""

    def period(self) -> Period:
        if not sees_whole_of(self, self.pool):
            raise missing("report.not_found")
        return super().period()


class SharingDegreeView(ReportView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    report = SHARING_DEGREE
    parameters = GroupReportParameters

    @reports(SharingDegreeDocument, "Report what sharing gave each tenant; a tenant sees itself")
    def get(self, request: Request, pool: str) -> Response:
        """Report what each tenant used, beside what it would have used alone in its part of the pool.

        The sharing degree is `used` / `alone` per resource; `min` is the least of them, and below 1 the
        tenant lost by sharing. A ratio that does not exist is null with a reason. A tenant key sees
        itself, and in a transparent pool the others under pseudonyms. `group` reports the sum of a
        group and then its children, by the tree as it was at each instant, to operator, billing and
        group keys. An empty period, or one of more than 1,000 intervals, is 400 `report.period`; more
        than 200,000 values are 422 `report.too_long`.
        """
        period = self.period()
        group = self.group_named(period)
        if group is not None:
            of_group = group_sharing_degree(group=group, period=period, within=self.within)
            return self.answer_report(of_group, GROUP_SHARING_DEGREE)
        return self.answer_report(self.visible_part(sharing_degree_report))


class LendingView(ReportView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    report = LENDING
    parameters = GroupReportParameters

    @reports(LendingDocument, "Report who ran on whose servers; a tenant sees what concerns it")
    def get(self, request: Request, pool: str) -> Response:
        """Report who ran on whose servers, and what every two tenants lent each other.

        An `owner` of null is the pool itself or not known: reported usage does not say on which servers
        it ran. A tenant key sees the flows from and to itself, in a transparent pool all of them, with
        the others under pseudonyms. `group` reports the sum of a group, its children and the flows
        between them, by the tree as it was at each instant, to operator, billing and group keys. An
        empty period, or one of more than 1,000 intervals, is 400 `report.period`; more than 200,000
        values are 422 `report.too_long`.
        """
        period = self.period()
        group = self.group_named(period)
        if group is not None:
            found = group_lending(group=group, period=period, within=self.within)
            if self.subtree is not None:
                found = found.under(self.subtree.outsider)
            return self.answer_report(found, GROUP_LENDING)
        return self.answer_report(self.visible_part(lending_report))


class UtilizationView(WholeReportView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    report = UTILIZATION
    parameters = GroupReportParameters

    @reports(UtilizationDocument, "Report how much of the capacity was used")
    def get(self, request: Request, pool: str) -> Response:
        """Report how much of the contributed capacity was used, and how much was idle.

        Draining servers count as capacity. With `tenant`, `used` is that tenant's, and `capacity` stays
        the whole pool's. With `group`, `used` is that group's by the tree as it was at each instant,
        and its children are listed; operator, billing and group keys only. A tenant key can read it in a
        transparent pool only; elsewhere it gets 404 `report.not_found`. An empty period, or one of more
        than 1,000 intervals, is 400 `report.period`; more than 200,000 values are 422
        `report.too_long`.
        """
        period = self.period()
        group = self.group_named(period)
        if group is not None:
            used = group_utilization(group=group, period=period, within=self.within)
            return self.answer_report(used, GROUP_UTILIZATION)
        asked = self.query["tenant"] is not None
        report = utilization_report(
            pool=self.pool,
            period=period,
            includes=(lambda slug: self.is_asked_for(self.name_of(slug))) if asked else None,
        )
        return self.answer_report(report)


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
        return self.answer_report(report.under(self.name_of, self.is_asked_for))
