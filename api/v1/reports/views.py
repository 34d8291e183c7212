"""Base class of the routes of reports."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unreadable
from allocator_service.core.selecting import missing
from allocator_service.ledger.reporting.periods import Period, report_period
from allocator_service.pools.models import Group
from allocator_service.pools.selectors import group_missing, resources_of
from allocator_service.pools.tree_history import group_named
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for, tenants_with_retired
from api.auth import EVERY_SCOPE
from api.contract.parameters import Parameters
from api.contract.renderers import CSVRenderer, NDJSONRenderer, SVGRenderer
from api.pseudonyms import tenant_name
from api.v1.reports.documents import Report, ReportParameters, head_document
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
        # Retired ones too: a period of the past has their use.
        slugs = tenants_with_retired().values_list("slug", flat=True)
        if self.tenant is None:
            known = slugs.filter(slug=asked).exists()
        elif sees_whole(pool, self.tenant):
            # A pseudonym is a digest: the tenant behind it is found by computing those of all.
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
            # None for a retired tenant, whose rows `is_asked_for` selects from the whole report.
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
            # A group's key that names no group means its own.
            asked = slug or subtree.group.slug
            return subtree.group_at(asked, utc_now())
        if self.tenant is not None:
            raise group_missing()
        return group_named(pool=pool, slug=slug, before=period.end)

    @property
    def within(self) -> Group | None:
        """The group that limits the report, or None."""
        return None if self.subtree is None else self.subtree.group

    @property
    def answers_document(self) -> bool:
        """True for JSON, which has more than rows and pictures."""
        return self.request.accepted_renderer.format not in (
            SVGRenderer.format,
            CSVRenderer.format,
            NDJSONRenderer.format,
        )

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


class WholeReportView(ReportView):
    """A report of a whole pool, which is missing to callers that may not see all of it."""

    def period(self) -> Period:
        # Missing rather than forbidden, so that the answer states nothing about the pool.
        if not sees_whole_of(self, self.pool):
            raise missing("report.not_found")
        return super().period()
