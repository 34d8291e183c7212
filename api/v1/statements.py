"""Statements of tenants, by month."""

from http import HTTPStatus
from typing import ClassVar

import orjson
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.months import month_named
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.documents import LINE_COLUMNS
from allocator_service.billing.statements.groups import rows_within
from allocator_service.billing.statements.names import statement_names
from allocator_service.billing.statements.pages import statement_page
from allocator_service.billing.statements.paper.sheets import statement_pdf
from allocator_service.billing.statements.selectors import (
    month_get,
    statement_content,
    statement_not_found,
    statement_rows,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.headers import PAGE_POLICY
from allocator_service.core.snapshots import one_snapshot
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_with_retired
from api.auth import EVERY_SCOPE_AND_GROUP, OPERATOR
from api.contract.fields import is_slug
from api.contract.operations import creates, lists, states
from api.contract.pagination import page_of_sorted
from api.contract.renderers import HTMLRenderer, OrjsonRenderer, ParquetRenderer, PDFRenderer
from api.v1.focus import lines_parquet
from api.v1.statement_documents import (
    CloseRequest,
    MonthDocument,
    StatementDocument,
    StatementParameters,
    StatementRowDocument,
    statement_shown,
)
from api.views import PoolView, writes


class StatementsView(PoolView):
    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP, "POST": OPERATOR}
    parameters = StatementParameters

    @lists(StatementRowDocument, "List statements by month and tenant; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's statements by month and tenant, those of closed and of open months.

        Months are listed up to the present one. An open statement has `billed` null: read the statement
        itself for its lines and sums. A tenant key sees its own statements only, a group key those
        of the tenants that were below its group at the end of the month. The list stays
        readable after the pool is retired, and is empty until a price plan is published.
        """
        now, subtree = utc_now(), self.subtree
        tenant = self.tenant if subtree is None else None
        rows = statement_rows(pool=self.pool, now=now, tenant=tenant, month=self.query["month"])
        if subtree is not None:
            # By the tree at the end of each month, as sums of groups count.
            rows = rows_within(rows, group=subtree.group, now=now)
        matching = [
            row
            for row in rows
            if self.query["tenant"] in (None, row.tenant)
            and self.query["state"] in (None, row.state)
        ]
        # Open statements are computed and in no table, so that the list is paged after it is made.
        page = page_of_sorted(
            f"statements/{self.pool.slug}",
            matching,
            lambda row: [row.month, row.tenant],
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        return self.listing(
            page,
            lambda row: StatementRowDocument.write(row, self),
            list(StatementRowDocument.fields),
        )

    @creates(
        CloseRequest,
        MonthDocument,
        "Close a month: 201, and 200 if it was closed before",
        headers=("Location",),
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Close a month of a pool for all its tenants at once.

        Only operators may, and it cannot be undone: the month's statements never change again, and its
        usage that is numbered later becomes an adjustment on the statement of the open month. If
        something is missing, the answer is 409 with everything that is missing in `errors`:
        `statement.no_plan`, `statement.earlier_open`, `statement.month_not_over`,
        `statement.metering_behind` or `statement.entries_pending`. Closing a closed month again answers
        200 with the same document. Each tenant gets the event `statement.closed`.
        """
        pool_of_route = self.pool
        month = month_named(self.read(CloseRequest)["month"], pool_of_route.timezone)
        if month is None:  # the field takes the same months
            raise statement_not_found()
        closing = month_close(pool=pool_of_route, month=month, now=utc_now())
        return Response(
            orjson.loads(bytes(closing.document)),
            # A caller whose answer was lost closes again, and must see that nothing is new.
            status=HTTPStatus.CREATED if closing.is_new else HTTPStatus.OK,
            headers={"Location": reverse("month", args=[pool_of_route.slug, str(month)])},
        )


class StatementView(PoolView):
    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}

    @states(
        StatementDocument, "Show a statement: computed while open, as it was stored when closed"
    )
    def get(self, request: Request, pool: str, month: str, tenant: str) -> Response:
        """Show a tenant's statement for a calendar month in the pool's time zone.

        An open statement is computed each time it is read; a closed one is the stored document and
        never changes. JSON is the whole statement, CSV, NDJSON and Parquet are its lines, HTML is a
        page to print, and PDF is a file to send, which states the SHA-256 of the JSON. The PDF of a
        closed statement has the same bytes until the service is upgraded, and at most 2,000 lines
        (413 `statement.pdf_too_large`). The HTML page states the present names of the tenant and the
        pool. A tenant key can read its own only, without `sequence` and with other tenants under
        pseudonyms; any other is 404 `statement.not_found`.
        """
        now, of_pool = utc_now(), self.pool
        whose = self._tenant(tenant)
        of = month_get(pool=of_pool, name=month, now=now)
        # A manager reads the statement as its tenant does, with others outside under pseudonyms.
        caller = whose if self.subtree is not None else self.tenant
        # By the tree at the end of the month, as sums of groups count: not where the tenant is today.
        if self.subtree is not None and whose.pk not in self.subtree.places(min(of.end, now)):
            raise statement_not_found()
        with one_snapshot():
            content = statement_content(pool=of_pool, month=of, tenant=whose)
        document = statement_shown(content, pool=of_pool, caller=caller)
        names = statement_names(of_pool, whose)
        chosen = request.accepted_renderer.format
        if chosen == HTMLRenderer.format:
            return Response(
                statement_page(document, names=names),
                headers={"Content-Security-Policy": PAGE_POLICY},
            )
        if chosen == OrjsonRenderer.format:
            return Response(document)
        if chosen == ParquetRenderer.format:
            return Response(lines_parquet(document["lines"]))
        if chosen == PDFRenderer.format:
            return Response(statement_pdf(document))
        return self.rows_answer(document["lines"], LINE_COLUMNS)

    def _tenant(self, slug: str) -> Tenant:
        """The tenant of the path, retired or not, if the caller may see it. Raises `Missing`."""
        found = tenants_with_retired().filter(slug=slug).first() if is_slug(slug) else None
        limit = self.tenant if self.subtree is None else None
        if found is None or limit not in (None, found):
            raise statement_not_found()
        return found
