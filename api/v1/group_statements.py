"""Statements of groups."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.exports.parquet import parquet_stream
from allocator_service.billing.statements.groups import TOTALS, group_months, group_statement
from allocator_service.billing.statements.names import group_statement_names
from allocator_service.billing.statements.pages import group_statement_page
from allocator_service.billing.statements.paper.sheets import group_statement_pdf
from allocator_service.billing.statements.selectors import month_get
from allocator_service.core.clock import utc_now
from allocator_service.core.headers import PAGE_POLICY
from allocator_service.pools.models import Group
from allocator_service.pools.selectors import group_missing
from api.auth import EVERY_SCOPE_AND_GROUP
from api.contract.fields import is_slug
from api.contract.operations import lists, states
from api.contract.pagination import page_of_sorted
from api.contract.parameters import PageParameters
from api.contract.renderers import HTMLRenderer, OrjsonRenderer, ParquetRenderer, PDFRenderer
from api.v1.statement_documents import (
    GroupMonthDocument,
    GroupStatementDocument,
    TenantOfGroupDocument,
)
from api.views import PoolView


class _GroupStatementsView(PoolView):
    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}

    def group(self, slug: str) -> str:
        """The slug. Raises `Missing` for a caller that may not see statements of groups."""
        limited = self.subtree is None and self.tenant is not None
        if self.pool is None or limited or not is_slug(slug):
            raise group_missing()
        return slug

    @property
    def within(self) -> Group | None:
        """The group that limits the statements, or None."""
        return None if self.subtree is None else self.subtree.group


class GroupStatementsView(_GroupStatementsView):
    parameters = PageParameters

    @lists(GroupMonthDocument, "List the statements of a group by month")
    def get(self, request: Request, pool: str, group: str) -> Response:
        """List the months in which tenants below a group have statements, oldest first.

        `billed` is the sum of their statements, null while the month is open. A group key sees its
        group and those below it; a tenant key gets 404 `group.not_found`.
        """
        slug = self.group(group)
        rows = group_months(pool=self.pool, slug=slug, now=utc_now(), within=self.within)
        page = page_of_sorted(
            f"group-statements/{self.pool.slug}/{slug}",
            rows,
            lambda row: [row.month],
            cursor=self.query["cursor"],
            limit=self.query["limit"],
        )
        return self.listing(
            page,
            lambda row: GroupMonthDocument.write(row, self),
            list(GroupMonthDocument.fields),
        )


class GroupStatementView(_GroupStatementsView):
    @states(GroupStatementDocument, "Show a group's statement: its sum, then its members")
    def get(self, request: Request, pool: str, group: str, month: str) -> Response:
        """Show a group's statement for a calendar month in the pool's time zone.

        It is the sum of the statements of the tenants below the group, to the last digit, then the
        groups directly below it and all of these tenants. It is closed when the pool's month is closed,
        and never changes from then on. Each statement counts as a whole by the tree at `tree_at`: the
        end of the month, or now while it is open. CSV, NDJSON and Parquet are the tenants, HTML is a
        page to print, and PDF a file of at most 2,000 lines (413 `statement.pdf_too_large`). A group
        key sees groups that were its own or below at `tree_at`; a tenant key gets 404
        `group.not_found`. A month before the first price plan or in the future is 404
        `statement.not_found`.
        """
        now, slug = utc_now(), self.group(group)
        of = month_get(pool=self.pool, name=month, now=now)
        document = group_statement(pool=self.pool, month=of, slug=slug, now=now, within=self.within)
        names = group_statement_names(self.pool, document)
        chosen = request.accepted_renderer.format
        if chosen == HTMLRenderer.format:
            page = group_statement_page(document, names=names)
            return Response(page, headers={"Content-Security-Policy": PAGE_POLICY})
        if chosen == OrjsonRenderer.format:
            return Response(document)
        if chosen == PDFRenderer.format:
            return Response(group_statement_pdf(document))
        columns = list(TenantOfGroupDocument.fields)
        if chosen == ParquetRenderer.format:
            content = parquet_stream(
                document["tenants"], columns=columns, decimals=TOTALS, instants=()
            )
            return Response(b"".join(content))
        return self.rows_answer(document["tenants"], columns)
