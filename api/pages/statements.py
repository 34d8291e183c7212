"""A tenant's statements, and the proof of a decision to take home."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.billing.statements.names import statement_names
from allocator_service.billing.statements.pages import statement_page
from allocator_service.billing.statements.paper.sheets import statement_pdf
from allocator_service.billing.statements.selectors import (
    bill_so_far,
    month_get,
    statement_content,
    statement_rows,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.documents import json_bytes
from allocator_service.core.errors import Missing
from allocator_service.core.snapshots import one_snapshot
from api.pages.rendering import PDF_LINK, file_response, sheet_response
from api.pages.views import PoolPage
from api.v1.run_inputs import proof_for, whole_run
from api.v1.statement_documents import statement_shown


class StatementsPage(PoolPage):
    """Page `/my/pools/{pool}/statements/` of the months, also of a pool that was closed."""

    retired = True

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        of_pool = self.pool
        now = utc_now()
        with one_snapshot():
            rows = statement_rows(pool=of_pool, now=now, tenant=self.tenant)
            bill = bill_so_far(pool=of_pool, tenant=self.tenant, now=now)
        return self.shown("statements", pool=of_pool, months=rows[::-1], bill=bill)


class StatementPage(PoolPage):
    """Page `/my/pools/{pool}/statements/{month}/` of the API's statement, with links, and its PDF."""

    retired = True

    def get(self, request: HttpRequest, pool: str, month: str) -> HttpResponseBase:
        now, of_pool = utc_now(), self.pool
        of = month_get(pool=of_pool, name=month, now=now)
        with one_snapshot():
            content = statement_content(pool=of_pool, month=of, tenant=self.tenant)
        document = statement_shown(content, pool=of_pool, caller=self.tenant)
        names = statement_names(of_pool, self.tenant)
        if request.GET.get("format") == "pdf":
            name = f"statement-{of_pool.slug}-{of}-{self.tenant.slug}.pdf"
            return file_response(statement_pdf(document), name, "application/pdf")
        back = (reverse("my-statements", args=[of_pool.slug]), f"Statements of {of_pool.name}")
        return sheet_response(statement_page(document, names=names, links=[back, PDF_LINK]))


class ProofFile(PoolPage):
    """File `/my/pools/{pool}/decisions/{run}/proof/` for `python -m policies verify`."""

    def get(self, request: HttpRequest, pool: str, run: str) -> HttpResponseBase:
        of_pool = self.pool
        found = whole_run(run, caller=self.tenant)
        if found.pool_id != of_pool.pk:
            raise Missing("There is no such run.", code="run.not_found")
        content = json_bytes(proof_for(found, caller=self.tenant))
        return file_response(content, f"proof-{found.pk}.json", "application/json")
