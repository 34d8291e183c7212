"""Backtests of policies over traces and histories."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.backtests.models import Backtest, BacktestStatus
from allocator_service.backtests.reports import COLUMNS, pictures, report_page, rows_of
from allocator_service.backtests.selectors import Holder, backtest_get, backtests_of
from allocator_service.backtests.services import backtest_cancel, backtest_request
from allocator_service.billing.models import PricePlan
from allocator_service.billing.plans.selectors import plan_get
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict, Missing, Unacceptable
from allocator_service.core.headers import PAGE_POLICY
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pool_get
from allocator_service.tenants.models import Tenant
from api.auth import OPERATOR_AND_TENANT
from api.contract import documents
from api.contract.answers import Answer, Body
from api.contract.fields import uuid_or_none
from api.contract.operations import Operation, accepts, concludes, describe, lists, shows
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.contract.renderers import HTMLRenderer, OrjsonRenderer, SVGRenderer
from api.pseudonyms import tenant_name
from api.v1.backtest_documents import (
    BacktestDocument,
    BacktestRequest,
    BacktestResultsDocument,
    asked_of,
)
from api.v1.run_inputs import sees_whole
from api.views import ContractView, writes


def backtest_ask(
    *,
    holder: Holder,
    tenant: Tenant | None,
    pool: str | None,
    price_plan: UUID | None,
    asked: Mapping[str, Any],
    now: datetime,
) -> Backtest:
    """Ask for a backtest as a tenant, or as an operator.

    `pool` is a slug, `asked` what `backtest_request` takes. Raises `Unacceptable` for a pool or a price
    plan that the caller does not see, and for a trace on servers that are not the tenant's to read.
    """
    found = None if pool is None else _pool(pool, tenant)
    if (
        found is not None
        and asked["trace"] is not None
        and not asked["servers"]
        # Results on servers of others would reveal their number and sizes.
        and not sees_whole(found, tenant)
    ):
        raise Unacceptable(
            "The servers of this pool are not yours to read: name those that the trace runs on.",
            code="backtest.no_servers",
            pointer="/servers",
        )
    return backtest_request(
        holder=holder,
        tenant=tenant,
        pool=found,
        plan=None if price_plan is None else _plan(price_plan, tenant),
        names=None if found is None else _names(found, tenant),
        asked=asked,
        now=now,
    )


def _pool(slug: str, tenant: Tenant | None) -> Pool:
    try:
        return pool_get(slug=slug, tenant=tenant)
    except Missing as error:
        raise Unacceptable(
            # 422 at the field: the path names no pool that could be missing.
            f'There is no pool "{slug}".',
            code="pool.unknown",
            pointer="/pool",
        ) from error


def _plan(plan_id: UUID, tenant: Tenant | None) -> PricePlan:
    try:
        return plan_get(plan_id=plan_id, tenant=tenant)
    except Missing as error:
        raise Unacceptable(
            "There is no such price plan.", code="price_plan.unknown", pointer="/price_plan"
        ) from error


def _names(pool: Pool, tenant: Tenant | None) -> dict[str, str] | None:
    """Return the names by which a tenant knows the members of a pool, None for their slugs."""
    if tenant is None:
        return None
    slugs = pool.memberships.values_list("tenant__slug", flat=True)
    # Stored with the request: a worker has no caller, whose rights determine the pseudonyms.
    return {slug: tenant_name(slug, pool=pool, caller=tenant) for slug in slugs}


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

        So does the key that replaced it by rotation; others do not.
        """
        # By key, not by tenant: a trace may hold what only its sender may read.
        page = ORDERING.page(backtests_of(self.holder), **self.query)
        return self.listing(page, BacktestDocument.write, list(BacktestDocument.fields))

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
            BacktestDocument.write(backtest),
            HTTPStatus.ACCEPTED,
            headers={
                "Location": reverse("backtest", args=[backtest.pk]),
                "Retry-After": RETRY_SECONDS,
            },
        )


class _BacktestView(ContractView):
    """A route below a backtest, which is missing to other keys."""

    def backtest_of(self, text: str) -> Backtest:
        return backtest_get(backtest_id=uuid_or_none(text), holder=Holder(self.caller.holder_id))


class BacktestView(_BacktestView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}

    @shows(BacktestDocument, "Show a backtest", headers=())
    def get(self, request: Request, backtest: str) -> Response:
        """Show a backtest, with its progress, what was read, and the reason of a failure.

        The key that asked for it can read it, and so can the key that replaced that one by rotation.
        Any other key gets 404 `backtest.not_found`.
        """
        return Response(BacktestDocument.write(self.backtest_of(backtest)))


class BacktestCancelView(_BacktestView):
    scopes: ClassVar = {"POST": OPERATOR_AND_TENANT}

    @describe(
        Operation(
            "act",
            "Cancel a backtest",
            Answer(BacktestDocument),
            Body(documents.NoFields),
            headers=("Idempotency-Replayed",),
            problems=(409, 411, 413, 415, 422),
            repeatable=True,
        )
    )
    @writes
    def post(self, request: Request, backtest: str) -> Response:
        """Cancel a backtest. What runs of it ends within seconds, and its results are dropped.

        Cancelling it again changes nothing. One that has succeeded or failed is 409
        `backtest.finished`.
        """
        self.read(documents.NoFields)
        found = backtest_cancel(backtest=self.backtest_of(backtest), now=utc_now())
        return Response(BacktestDocument.write(found))


class BacktestResultsView(_BacktestView):
    scopes: ClassVar = {"GET": OPERATOR_AND_TENANT}

    @concludes(BacktestResultsDocument, "Show what each policy would have done")
    def get(self, request: Request, backtest: str) -> Response:
        """Show the utilisation, waiting, completion, fairness and money of each policy.

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
