"""Months of a pool, their accounts, verification and exports."""

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson
from django.http import StreamingHttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.auditing.verification import month_verify
from allocator_service.billing.exports.focus import (
    COLUMNS,
    LATEST,
    focus_documents,
    focus_rows,
)
from allocator_service.billing.models import Closing
from allocator_service.billing.statements.manifest import (
    OF_CLOSING,
    archived_of,
    entries_of,
    manifest_of,
)
from allocator_service.billing.statements.selectors import (
    closing_get,
    month_content,
    month_get,
    statement_not_found,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.snapshots import one_snapshot
from allocator_service.ledger.exporting import entries_export
from allocator_service.ledger.selectors import BEGINNING
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.operations import computes, exports, shows
from api.contract.parameters import Parameters
from api.v1.entry_documents import entry_columns, owner_names
from api.v1.exports import copy_format, stream_entries
from api.v1.focus import focus_content
from api.v1.run_documents import VerificationDocument
from api.v1.statement_documents import ManifestDocument, MonthDocument, statement_shown
from api.views import PoolView


class _MonthView(PoolView):
    """A route of a pool's month, which concerns all tenants and is missing to each of them."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}

    def refuse_tenants(self) -> None:
        """Raise `Missing` for the key of a tenant."""
        # Reading the pool first answers 404 `pool.not_found` to those who may not see the pool at
        # all.
        if self.pool is not None and self.tenant is not None:
            raise statement_not_found()


class MonthView(_MonthView):
    @shows(
        MonthDocument,
        "Show a pool's month: its accounts, and what it lacks to be closed",
        headers=(),
    )
    def get(self, request: Request, pool: str, month: str) -> Response:
        """Show a pool's month, with its accounts, whose sum is 0, and what it still lacks to be closed.

        An open month is computed each time it is read, and `missing` names what would refuse its
        closing now; a closed one is the stored document. Only operator and billing keys may read it: a
        tenant key gets 404 `statement.not_found`, as does every key for a month before the first price
        plan or in the future.
        """
        self.refuse_tenants()
        now = utc_now()
        of = month_get(pool=self.pool, name=month, now=now)
        # One state of the ledger and the plans, or accounts and lines of different states would not
        # add up.
        with one_snapshot():
            content = month_content(pool=self.pool, month=of, now=now)
        return Response(orjson.loads(content))


class ManifestView(_MonthView):
    @shows(ManifestDocument, "Show from which entries a closed month was made", headers=())
    def get(self, request: Request, pool: str, month: str) -> Response:
        """Show the number, the sums and a SHA-256 of the entries of a closed month.

        To verify the month, hash the bytes at `entries` and compare them with `sha256`. The manifest is
        written within minutes of the closing and is 404 `manifest.not_found` until then; a month that
        is open is 404 `statement.not_found`. Only operator and billing keys may read it: a tenant key
        gets 404.
        """
        self.refuse_tenants()
        of = month_get(pool=self.pool, name=month, now=utc_now())
        manifest = manifest_of(closing_get(pool=self.pool, month=of))
        # The stored bytes are what was hashed: the answer is read from them and not made anew.
        return Response(orjson.loads(bytes(manifest.document)))


class MonthVerifyView(_MonthView):
    scopes: ClassVar = {"POST": EVERY_SCOPE}

    @computes(documents.NoFields, VerificationDocument, "Verify a closed month again", problems=())
    def post(self, request: Request, pool: str, month: str) -> Response:
        """Recompute a closed month from its entries and price plans.

        It stores nothing and can be repeated. `valid` is true when every check holds: `statements`,
        `price_plans`, `audit` and `manifests` compare what is stored with the digests in the pool's
        chain, `statement_lines` and `postings` recompute. A month that was closed before the chain held
        digests is not checked, and `detail` states it. `manage.py verify` checks all months, and each
        manifest against its entries. Only operator and billing keys may use it: a tenant key gets 404
        `statement.not_found`, as does every key for a month that is open.
        """
        self.refuse_tenants()
        self.read(documents.NoFields)
        of = month_get(pool=self.pool, name=month, now=utc_now())
        with one_snapshot():
            checks = month_verify(closing_get(pool=self.pool, month=of))
        return Response(
            {
                "valid": all(check.holds for check in checks),
                "checks": [vars(check) for check in checks],
            }
        )


class FocusParameters(Parameters):
    version = documents.ChoiceField(
        choices=sorted(COLUMNS), default=LATEST, description="The version of FOCUS."
    )


class FocusView(PoolView):
    """The statements of a closed month in the columns of FOCUS."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    # No HEAD, which would make the rows of the export and drop them.
    http_method_names = ["get"]
    parameters = FocusParameters

    @exports("Export a closed month in the columns of FOCUS", ends=True, headers=("Link",))
    def get(self, request: Request, pool: str, month: str) -> StreamingHttpResponse:
        """Export the lines of a closed month's statements in the columns of FOCUS.

        CSV, NDJSON and Parquet are made from the stored statements, so the rows are the same in every
        export of a release.
        The header `Link` names the schema of the columns (`rel="describedby"`). A tenant key gets its
        own lines only, with other tenants under pseudonyms. A month that is open is 404
        `statement.not_found`.
        """
        version = self.query["version"]
        of = month_get(pool=self.pool, name=month, now=utc_now())
        closing = closing_get(pool=self.pool, month=of)
        renderer: Any = request.accepted_renderer
        media_type = "; charset=".join(filter(None, (renderer.media_type, renderer.charset)))
        content = focus_content(
            lambda: self._rows(closing, version), version=version, file_format=renderer.format
        )
        schema = reverse("focus-schema", args=[version])
        return StreamingHttpResponse(
            content,
            content_type=media_type,
            headers={"Link": f'<{schema}>; rel="describedby"; type="application/json"'},
        )

    def _rows(self, closing: Closing, version: str) -> Iterator[dict[str, Any]]:
        for content in focus_documents(closing, self.tenant):
            shown = statement_shown(content, pool=self.pool, caller=self.tenant)
            yield from focus_rows(shown, version)


class MonthEntriesView(PoolView):
    """The entries of a closed month as one stream."""

    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    # No HEAD, which would begin the export and drop it.
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
            BEGINNING,
            file_format=copy_format(renderer.format),
            columns=entry_columns(caller=self.tenant),
            caller=self.tenant,
            owners=owner_names(self.tenant),
            pool=self.pool.slug,
            condition=OF_CLOSING,
            conditioned=entries_of(closing),
            archived=archived_of(closing),
        )
        return stream_entries(export, renderer, entry_columns(caller=self.tenant))
