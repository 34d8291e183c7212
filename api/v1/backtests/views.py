"""Backtests: what several policies would have done with a trace, or a pool's history."""

from http import HTTPStatus
from typing import ClassVar

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.backtests.models import Backtest, BacktestStatus
from allocator_service.backtests.reports import COLUMNS, pictures, report_page, rows_of
from allocator_service.backtests.selectors import Holder, backtest_get, backtests_of
from allocator_service.backtests.services import backtest_cancel
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict
from allocator_service.core.headers import PAGE_POLICY
from api.auth import OPERATOR_AND_TENANT
from api.contract.answers import Answer, Body
from api.contract.documents import NoFields
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.contract.renderers import (
    HTMLRenderer,
    OrjsonRenderer,
    SVGRenderer,
)
from api.openapi.describing import Operation, accepts, concludes, described, lists, shows
from api.v1.backtests.asking import backtest_ask
from api.v1.backtests.serializers import (
    BacktestDocument,
    BacktestRequest,
    BacktestResultsDocument,
    asked_of,
    backtest_document,
)
from api.views import ContractView, writes

ORDERING = by_id("backtests", descending=True)
RETRY_SECONDS = "2"


class BacktestsView(ContractView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT, "POST": OPERATOR_AND_TENANT}
    parameters = PageParameters
    large = True

    @property
    def holder(self) -> Holder:
        return Holder(self.caller.holder_id)

    @lists(BacktestDocument, "List the backtests that the key asked for, newest first")
    def get(self, request: Request) -> Response:
        """List the backtests that this key asked for, newest first.

        So does the key that replaced it by rotation; nobody else does.
        """
        page = ORDERING.page(backtests_of(self.holder), **self.query)
        return self.listing(page, backtest_document, list(BacktestDocument.fields))

    @accepts(BacktestRequest, BacktestDocument, "Ask which policy would have done what", pool=False)
    @writes
    def post(self, request: Request) -> Response:
        """Ask what several policies would have done with the same tasks on the same servers.

        The tasks are those of a `trace` in the body, which runs on the `servers` that are named or on
        those of a `pool`, or those of the `history` of a pool, on its servers as they joined and left.
        A tenant key can name pools that it is a member of: of a transparent one it gets the whole
        history with the others under pseudonyms, of any other its own usage on its own servers.

        Workers simulate each policy with each seed; follow `Location` for the progress, and
        `results/` once it is `succeeded`. The first 64 KiB of a trace are read at once, so that a wrong
        format is 422 `trace.line` with the number of the line; what is wrong further on fails the
        backtest with the same code. A trace has at most 256 MiB unpacked, 2,000,000 tasks and 2,000
        tenants, a backtest at most 60 simulations (413 `backtest.too_large`). A key may have three
        backtests open by default (409 `backtest.too_many`).
        """
        fields = self.read(BacktestRequest)
        backtest = backtest_ask(
            holder=self.holder,
            tenant=self.tenant,
            pool=fields["pool"],
            price_plan=fields["price_plan"],
            asked=asked_of(fields),
            now=utc_now(),
        )
        return Response(
            backtest_document(backtest),
            HTTPStatus.ACCEPTED,
            headers={
                "Location": reverse("backtest", args=[backtest.pk]),
                "Retry-After": RETRY_SECONDS,
            },
        )


class _BacktestView(ContractView):
    """A route below a backtest: 404 unless it is one of the key's own."""

    def backtest_of(self, text: str) -> Backtest:
        return backtest_get(backtest_id=uuid_or_none(text), holder=Holder(self.caller.holder_id))


class BacktestView(_BacktestView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}

    @shows(BacktestDocument, "Show a backtest", headers=())
    def get(self, request: Request, backtest: str) -> Response:
        """Show a backtest: how far it is, what was read, and why it failed if it did.

        The key that asked for it can read it, and so can the key that replaced that one by rotation.
        Any other key gets 404 `backtest.not_found`.
        """
        return Response(backtest_document(self.backtest_of(backtest)))


class BacktestCancelView(_BacktestView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @described(
        Operation(
            "act",
            "Cancel a backtest",
            Answer(BacktestDocument),
            Body(NoFields),
            headers=("Idempotency-Replayed",),
            problems=(409, 411, 413, 415, 422),
            repeatable=True,
        )
    )
    @writes
    def post(self, request: Request, backtest: str) -> Response:
        """Cancel a backtest: what runs of it ends within seconds, and what was found is dropped.

        Cancelling it again changes nothing. One that has succeeded or failed is 409
        `backtest.finished`.
        """
        self.read(NoFields)
        found = backtest_cancel(backtest=self.backtest_of(backtest), now=utc_now())
        return Response(backtest_document(found))


class BacktestResultsView(_BacktestView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}

    @concludes(BacktestResultsDocument, "Show what each policy would have done")
    def get(self, request: Request, backtest: str) -> Response:
        """Show what each policy would have done: utilisation, waiting, completion, fairness, money.

        JSON is everything; CSV and NDJSON have a row per policy and tenant, SVG a picture per question,
        and HTML is one page with all of it that can be sent on. The digest of what every policy was
        given is in `input`. Before the backtest has succeeded it is 409 `backtest.unfinished`.
        """
        found = self.backtest_of(backtest)
        if found.status != BacktestStatus.SUCCEEDED:
            raise Conflict(
                f"The backtest is {found.status}: there are results once it has succeeded.",
                code="backtest.unfinished",
            )
        result, chosen = found.result or {}, request.accepted_renderer.format
        if chosen == OrjsonRenderer.format:
            return Response({"backtest": found.pk, **result})
        if chosen == SVGRenderer.format:
            return Response(pictures(result).svg)
        if chosen == HTMLRenderer.format:
            return Response(report_page(found), headers={"Content-Security-Policy": PAGE_POLICY})
        return self.rows_answer(rows_of(result), COLUMNS)
