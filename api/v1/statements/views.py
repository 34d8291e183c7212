"""Statements: a tenant's month, and a pool's month with what it was made from."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, ClassVar

import orjson
from django.http import StreamingHttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.auditing.verification import month_verify
from allocator_service.billing.exports.focus import focus_rows, focus_statements
from allocator_service.billing.models import Closing
from allocator_service.billing.months import month_named
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.documents import LINE_COLUMNS
from allocator_service.billing.statements.groups import rows_within
from allocator_service.billing.statements.manifest import OF_CLOSING, entries_of, manifest_of
from allocator_service.billing.statements.pages import statement_page
from allocator_service.billing.statements.selectors import (
    closing_get,
    month_content,
    month_get,
    statement_content,
    statement_not_found,
    statement_rows,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.headers import PAGE_POLICY
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.exporting import entries_export
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_with_retired
from api.auth import EVERY_SCOPE, EVERY_SCOPE_AND_GROUP, OPERATOR
from api.contract.documents import NoFields
from api.contract.fields import is_slug
from api.contract.pagination import page_of_sorted
from api.contract.renderers import (
    HTMLRenderer,
    OrjsonRenderer,
    ParquetRenderer,
)
from api.openapi.describing import (
    computes,
    creates,
    exports,
    lists,
    shows,
    states,
)
from api.v1.ledger.parquet import copied_as, entries_streamed
from api.v1.ledger.serializers import entry_columns, owner_names
from api.v1.runs.serializers import VerificationDocument
from api.v1.statements.focus import focus_content, lines_parquet
from api.v1.statements.serializers import (
    CloseRequest,
    ManifestDocument,
    MonthDocument,
    StatementDocument,
    StatementParameters,
    StatementRowDocument,
    row_document,
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
            rows = rows_within(rows, group=subtree.group, now=now)
        wanted = [
            row
            for row in rows
            if self.query["tenant"] in (None, row.tenant)
            and self.query["state"] in (None, row.state)
        ]
        page = page_of_sorted(
            f"statements/{self.pool.slug}",
            wanted,
            lambda row: [row.month, row.tenant],
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        return self.listing(
            page, lambda row: row_document(row, self.pool), list(StatementRowDocument.fields)
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
        never changes. JSON is the whole statement, CSV, NDJSON and Parquet are its lines, and HTML is a
        page to print. A tenant key can read its own only, without `sequence` and with other tenants
        under pseudonyms; any other is 404 `statement.not_found`.
        """
        now, of_pool = utc_now(), self.pool
        whose = self._tenant(tenant)
        of = month_get(pool=of_pool, name=month, now=now)
        caller = whose if self.subtree is not None else self.tenant
        if self.subtree is not None and whose.pk not in self.subtree.places(min(of.end, now)):
            raise statement_not_found()
        with one_snapshot():
            content = statement_content(pool=of_pool, month=of, tenant=whose)
        document = statement_shown(content, pool=of_pool, caller=caller)
        chosen = request.accepted_renderer.format
        if chosen == HTMLRenderer.format:
            return Response(
                statement_page(document), headers={"Content-Security-Policy": PAGE_POLICY}
            )
        if chosen == OrjsonRenderer.format:
            return Response(document)
        if chosen == ParquetRenderer.format:
            return Response(lines_parquet(document["lines"]))
        return self.rows_answer(document["lines"], LINE_COLUMNS)

    def _tenant(self, slug: str) -> Tenant:
        """The tenant of the path, retired or not, if the caller may see it. Raises `Missing`."""
        found = tenants_with_retired().filter(slug=slug).first() if is_slug(slug) else None
        limit = self.tenant if self.subtree is None else None
        if found is None or limit not in (None, found):
            raise statement_not_found()
        return found


class _MonthView(PoolView):
    """A route of a pool's month, which is absent for tenants: it tells of all of them."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}

    def refuse_tenants(self) -> None:
        """Raise `Missing` for the key of a tenant."""
        if self.pool is not None and self.tenant is not None:
            raise statement_not_found()


class MonthView(_MonthView):
    @shows(
        MonthDocument,
        "Show a pool's month: its accounts, and what it lacks to be closed",
        headers=(),
    )
    def get(self, request: Request, pool: str, month: str) -> Response:
        """Show a pool's month: its accounts, whose sum is 0, and what it still lacks to be closed.

        An open month is computed each time it is read, and `missing` names what would refuse its
        closing now; a closed one is the stored document. Only operator and billing keys may read it: a
        tenant key gets 404 `statement.not_found`, as does every key for a month before the first price
        plan or in the future.
        """
        self.refuse_tenants()
        now = utc_now()
        of = month_get(pool=self.pool, name=month, now=now)
        with one_snapshot():
            content = month_content(pool=self.pool, month=of, now=now)
        return Response(orjson.loads(content))


class ManifestView(_MonthView):
    @shows(ManifestDocument, "Show from which entries a closed month was made", headers=())
    def get(self, request: Request, pool: str, month: str) -> Response:
        """Show which entries a closed month was made from: their number, their sums and a SHA-256.

        To verify the month, hash the bytes at `entries` and compare them with `sha256`. The manifest is
        written within minutes of the closing and is 404 `manifest.not_found` until then; a month that
        is open is 404 `statement.not_found`. Only operator and billing keys may read it: a tenant key
        gets 404.
        """
        self.refuse_tenants()
        of = month_get(pool=self.pool, name=month, now=utc_now())
        manifest = manifest_of(closing_get(pool=self.pool, month=of))
        return Response(orjson.loads(bytes(manifest.document)))


class MonthVerifyView(_MonthView):
    scopes: ClassVar = {"POST": EVERY_SCOPE}

    @computes(NoFields, VerificationDocument, "Verify a closed month again", problems=())
    def post(self, request: Request, pool: str, month: str) -> Response:
        """Recompute a closed month: statements from postings, postings from entries and price plans.

        It stores nothing and can be repeated. `valid` is true when every check holds: `statements`,
        `price_plans`, `audit` and `manifests` compare what is stored with the digests in the pool's
        chain, `statement_lines` and `postings` recompute. A month that was closed before the chain held
        digests is not checked, and `detail` says so. `manage.py verify` checks all months, and each
        manifest against its entries. Only operator and billing keys may use it: a tenant key gets 404
        `statement.not_found`, as does every key for a month that is open.
        """
        self.refuse_tenants()
        self.read(NoFields)
        of = month_get(pool=self.pool, name=month, now=utc_now())
        with one_snapshot():
            checks = month_verify(closing_get(pool=self.pool, month=of))
        return Response(
            {
                "valid": all(check.holds for check in checks),
                "checks": [vars(check) for check in checks],
            }
        )


class FocusView(PoolView):
    """A closed month's statements as FOCUS has them; a tenant sees its own."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    http_method_names = ["get"]

    @exports("Export a closed month in the columns of FOCUS 1.3", ends=True)
    def get(self, request: Request, pool: str, month: str) -> StreamingHttpResponse:
        """Export the lines of a closed month's statements in the columns of FOCUS 1.3.

        CSV, NDJSON and Parquet are made from the stored statements, so the rows are the same each time.
        A tenant key gets its own lines only, with other tenants under pseudonyms. A month that is open
        is 404 `statement.not_found`.
        """
        of = month_get(pool=self.pool, name=month, now=utc_now())
        closing = closing_get(pool=self.pool, month=of)
        renderer: Any = request.accepted_renderer
        media_type = "; charset=".join(filter(None, (renderer.media_type, renderer.charset)))
        content = focus_content(self._rows(closing), file_format=renderer.format)
        return StreamingHttpResponse(content, content_type=media_type)

    def _rows(self, closing: Closing) -> Iterator[dict[str, Any]]:
        for document in focus_statements(closing, self.tenant):
            content = orjson.dumps(document)
            yield from focus_rows(statement_shown(content, pool=self.pool, caller=self.tenant))


class MonthEntriesView(PoolView):
    """The entries of a closed month as one stream; a tenant sees its own."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    http_method_names = ["get"]

    @exports("Export exactly the entries that a closed month was made from", ends=True)
    def get(self, request: Request, pool: str, month: str) -> StreamingHttpResponse:
        """Export exactly the ledger entries that a closed month was made from, in their sealed order.

        For operator and billing keys the NDJSON has the SHA-256 that the month's manifest names. A
        tenant key gets its own entries only, without `sequence` and `digest`. A month that is open is
        404 `statement.not_found`; while four exports are running, the answer is 503 `export.busy` with
        `Retry-After`.
        """
        of = month_get(pool=self.pool, name=month, now=utc_now())
        closing = closing_get(pool=self.pool, month=of)
        renderer: Any = request.accepted_renderer
        export = entries_export(
            0,
            file_format=copied_as(renderer.format),
            columns=entry_columns(caller=self.tenant),
            caller=self.tenant,
            owners=owner_names(self.tenant),
            pool=self.pool.slug,
            condition=OF_CLOSING,
            conditioned=entries_of(closing),
        )
        return entries_streamed(export, renderer, entry_columns(caller=self.tenant))
