"""Statements: a tenant's month, and a pool's month with what it was made from."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, ClassVar

import orjson
from django.http import StreamingHttpResponse
from django.urls import reverse
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.exports.focus import focus_rows, focus_statements
from allocator_service.billing.models import Closing
from allocator_service.billing.months import month_named
from allocator_service.billing.statements.closing import closing_of, month_close
from allocator_service.billing.statements.documents import LINE_COLUMNS
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
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract.fields import is_slug
from api.contract.pagination import page_of_fixed
from api.contract.renderers import (
    CSVRenderer,
    HTMLRenderer,
    NDJSONRenderer,
    OrjsonRenderer,
    ParquetRenderer,
)
from api.openapi.describing import (
    Operation,
    creates,
    described,
    exports,
    lists,
    shows,
    states,
)
from api.v1.ledger.parquet import copied_as, entries_streamed
from api.v1.ledger.serializers import EntryDocument, entry_columns, owner_names
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
from api.views import PoolView, keep_content_type, writes


class StatementsView(PoolView):
    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = StatementParameters
    listed = True

    @lists(StatementRowDocument, "List statements by month and tenant; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        rows = statement_rows(
            pool=self.pool, now=utc_now(), tenant=self.tenant, month=self.query["month"]
        )
        wanted = [
            row
            for row in rows
            if self.query["tenant"] in (None, row.tenant)
            and self.query["state"] in (None, row.state)
        ]
        page = page_of_fixed(
            f"statements/{self.pool.slug}",
            wanted,
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        return self.listing(
            page, lambda row: row_document(row, self.pool), list(StatementRowDocument.fields)
        )

    @creates(CloseRequest, MonthDocument, "Close a month: 201, and 200 if it was closed before")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        pool_of_route = self.pool
        month = month_named(self.read(CloseRequest)["month"], pool_of_route.timezone)
        if month is None:  # the field takes the same months
            raise statement_not_found()
        known = closing_of(pool_of_route, month)
        closing = month_close(pool=pool_of_route, month=month, now=utc_now())
        return Response(
            orjson.loads(bytes(closing.document)),
            status=HTTPStatus.CREATED if known is None else HTTPStatus.OK,
            headers={"Location": reverse("month", args=[pool_of_route.slug, str(month)])},
        )


class StatementView(PoolView):
    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}

    @classmethod
    def renderers_for(cls, method: str) -> list[type[BaseRenderer]]:
        if method in ("GET", "HEAD"):
            return [OrjsonRenderer, CSVRenderer, NDJSONRenderer, HTMLRenderer, ParquetRenderer]
        return [OrjsonRenderer]

    @states(
        StatementDocument, "Show a statement: computed while open, as it was stored when closed"
    )
    def get(self, request: Request, pool: str, month: str, tenant: str) -> Response:
        now, of_pool = utc_now(), self.pool
        whose = self._tenant(tenant)
        of = month_get(pool=of_pool, name=month, now=now)
        with one_snapshot():
            content = statement_content(pool=of_pool, month=of, tenant=whose, now=now)
        document = statement_shown(content, pool=of_pool, caller=self.tenant)
        chosen = request.accepted_renderer.format
        if chosen == HTMLRenderer.format:
            return Response(
                statement_page(document), headers={"Content-Security-Policy": PAGE_POLICY}
            )
        if chosen == OrjsonRenderer.format:
            return Response(document)
        if chosen == ParquetRenderer.format:
            return Response(lines_parquet(document["lines"]))
        self.columns = LINE_COLUMNS
        response = Response({"results": document["lines"]})
        response.add_post_render_callback(keep_content_type)
        return response

    def _tenant(self, slug: str) -> Tenant:
        """The tenant of the path, retired or not, if the caller may see it. Raises `Missing`."""
        found = Tenant.objects.filter(slug=slug).first() if is_slug(slug) else None
        if found is None or self.tenant not in (None, found):
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
        self.refuse_tenants()
        now = utc_now()
        of = month_get(pool=self.pool, name=month, now=now)
        with one_snapshot():
            content = month_content(pool=self.pool, month=of, now=now)
        return Response(orjson.loads(content))


class ManifestView(_MonthView):
    @shows(ManifestDocument, "Show from which entries a closed month was made", headers=())
    def get(self, request: Request, pool: str, month: str) -> Response:
        self.refuse_tenants()
        of = month_get(pool=self.pool, name=month, now=utc_now())
        manifest = manifest_of(closing_get(pool=self.pool, month=of))
        return Response(orjson.loads(bytes(manifest.document)))


class FocusView(PoolView):
    """A closed month's statements as FOCUS has them; a tenant sees its own."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    http_method_names = ["get"]

    @classmethod
    def renderers_for(cls, method: str) -> list[type[BaseRenderer]]:
        if method == "GET":
            return [CSVRenderer, NDJSONRenderer, ParquetRenderer]
        return super().renderers_for(method)

    @described(
        Operation(
            "export",
            "Export a closed month in the columns of FOCUS 1.3",
            media_types={
                "text/csv": {"schema": {"type": "string"}},
                "application/x-ndjson": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": {
                    "schema": {"type": "string", "format": "binary"}
                },
            },
        )
    )
    def get(self, request: Request, pool: str, month: str) -> StreamingHttpResponse:
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

    @classmethod
    def renderers_for(cls, method: str) -> list[type[BaseRenderer]]:
        if method != "GET":
            return super().renderers_for(method)
        return [CSVRenderer, NDJSONRenderer, ParquetRenderer]

    @exports(EntryDocument, "Export exactly the entries that a closed month was made from")
    def get(self, request: Request, pool: str, month: str) -> StreamingHttpResponse:
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
