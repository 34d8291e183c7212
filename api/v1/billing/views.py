"""Reratings and credit notes change what is billed; budgets and service units watch it."""

from http import HTTPStatus
from typing import ClassVar

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.budgets import (
    BudgetSettings,
    budget_create,
    budget_get,
    budget_retire,
    budget_update,
    budgets_for,
)
from allocator_service.billing.credit_notes import (
    credit_note_create,
    credit_note_get,
    credit_note_reverse,
    credit_notes_for,
)
from allocator_service.billing.models import Budget, CreditNote
from allocator_service.billing.plans.selectors import plans_for
from allocator_service.billing.reratings import rerating_apply, rerating_preview, reratings_of
from allocator_service.billing.service_units import banks_of, units_grant
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for
from api.auth import EVERY_SCOPE, OPERATOR, OPERATOR_AND_BILLING
from api.contract.conditional import entity_tag, expected_version
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id, page_of_sorted
from api.contract.parameters import PageParameters
from api.openapi.describing import creates, lists, retires, shows, updates
from api.v1.billing.serializers import (
    BankDocument,
    BudgetDocument,
    BudgetRequest,
    CreditNoteDocument,
    CreditNoteRequest,
    GrantRequest,
    ReratingDocument,
    ReratingRequest,
    ReversalRequest,
    bank_document,
    budget_document,
    budget_fields,
    credit_note_document,
    rerating_document,
)
from api.views import PoolView, writes

RERATINGS = by_id("reratings", descending=True)
CREDIT_NOTES = by_id("credit-notes", descending=True)
BUDGETS = by_id("budgets")


def tenant_named(slug: str) -> Tenant:
    """The tenant that a body names. Raises `Unacceptable`."""
    tenant = tenants_for(None).filter(slug=slug).first()
    if tenant is None:
        raise Unacceptable(
            f'No tenant has the slug "{slug}".', code="tenant.unknown", pointer="/tenant"
        )
    return tenant


class ReratingsView(PoolView):
    scopes: ClassVar = {"GET": OPERATOR_AND_BILLING, "POST": OPERATOR}
    parameters = PageParameters

    @lists(ReratingDocument, "List reratings, newest first")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's reratings, newest first, each with what it changed for each tenant.

        A tenant key gets 403 `auth.scope`: only operator and billing keys may read the list.
        """
        page = RERATINGS.page(reratings_of(self.pool), **self.query)
        return self.listing(page, rerating_document, list(ReratingDocument.fields))

    @creates(
        ReratingRequest,
        ReratingDocument,
        "Apply a draft to closed months: 201, and 200 for a dry run or a repeat",
        headers=("Location",),
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Apply a draft of a price plan to months that are closed.

        Only operators may. Each of those months is rated again, with the draft's prices for its
        time, and the difference is posted per line on the open month's statements; closed
        statements stay as they are. The draft's commitments are not applied. Send `"dry_run": true`
        first: the answer is 200 with the changes, and nothing is stored. The draft must begin and
        end within closed months (422 `rerating.interval`) and must not be published (409
        `plan.published`). Applying the same plan again, dry or not, changes nothing and answers 200
        with the first rerating.
        """
        pool_of_route = self.pool
        fields = self.read(ReratingRequest)
        plan = plans_for(None).filter(pool=pool_of_route, pk=fields["plan"]).first()
        if plan is None:
            raise Unacceptable(
                "The pool has no such price plan.", code="price_plan.unknown", pointer="/plan"
            )
        asked = {"pool": pool_of_route, "plan": plan, "reason": fields["reason"], "now": utc_now()}
        if fields["dry_run"]:
            preview, new = rerating_preview(**asked)
            return Response(rerating_document(preview, dry_run=new))
        rerating, new = rerating_apply(**asked)
        return Response(
            rerating_document(rerating),
            status=HTTPStatus.CREATED if new else HTTPStatus.OK,
            headers={"Location": reverse("reratings", args=[pool_of_route.slug])},
        )


class CreditNotesView(PoolView):
    retired = True
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters

    @lists(CreditNoteDocument, "List credit notes, newest first; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's credit notes, newest first.

        A note that takes another one back has a negative `amount` and names it in `reverses`. A tenant
        key sees its own notes only. The list stays readable after the pool is retired.
        """
        found = credit_notes_for(pool=self.pool, tenant=self.tenant)
        page = CREDIT_NOTES.page(found, **self.query)
        return self.listing(page, credit_note_document, list(CreditNoteDocument.fields))

    @creates(
        CreditNoteRequest,
        CreditNoteDocument,
        "Credit a tenant on its open statement",
        headers=("Location",),
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Credit a tenant with an amount, as a line on its statement of the earliest month that is open.

        Only operators may. The amount is above 0 in whole minor units of the pool's currency (422
        `credit_note.amount`). A pool without a published price plan answers 409 `statement.no_plan`.
        Each request makes another note: send an `Idempotency-Key` to repeat one safely.
        """
        pool_of_route = self.pool
        fields = self.read(CreditNoteRequest)
        note = credit_note_create(
            pool=pool_of_route,
            tenant=tenant_named(fields["tenant"]),
            amount=fields["amount"],
            reason=fields["reason"],
            now=utc_now(),
        )
        return _note_made(note)


class ReverseView(PoolView):
    retired = True
    scopes: ClassVar = {"POST": OPERATOR}

    @creates(
        ReversalRequest, CreditNoteDocument, "Take a credit note back, once", headers=("Location",)
    )
    @writes
    def post(self, request: Request, pool: str, credit_note: str) -> Response:
        """Take a credit note back by a note of the opposite amount, on the open month's statement.

        Only operators may, with a `reason`. A note can be taken back once (409 `credit_note.reversed`),
        and a note that takes another one back cannot be taken back itself (409 `credit_note.reversal`):
        write a new one.
        """
        note = credit_note_get(pool=self.pool, note_id=uuid_or_none(credit_note))
        reason = self.read(ReversalRequest)["reason"]
        return _note_made(credit_note_reverse(note=note, reason=reason, now=utc_now()))


def _note_made(note: CreditNote) -> Response:
    return Response(
        credit_note_document(note),
        status=HTTPStatus.CREATED,
        headers={"Location": reverse("credit-notes", args=[note.pool.slug])},
    )


class BudgetsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters

    @lists(BudgetDocument, "List budgets; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's budgets, oldest first.

        A tenant key sees its own budgets only. Deleted budgets are not listed.
        """
        page = BUDGETS.page(budgets_for(self.pool, self.tenant), **self.query)
        return self.listing(page, budget_document, list(BudgetDocument.fields))

    @creates(BudgetRequest, BudgetDocument, "Give a tenant a budget per month")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Give a tenant a monthly budget, in money or in hours of a resource.

        Only operators may. A budget limits nothing: it is checked every minute, and the event
        `budget.reached` comes once per threshold and calendar month of the pool's time zone. A tenant
        has one budget of money and one per resource in a pool; a second one is 409 `budget.exists`. An
        amount of 0 is 422 `budget.amount`.
        """
        pool_of_route = self.pool
        fields = self.read(BudgetRequest)
        budget = budget_create(
            pool=pool_of_route,
            tenant=tenant_named(fields["tenant"]),
            resource=fields["resource"] or "",
            settings=BudgetSettings(fields["amount"], fields["thresholds"]),
            now=utc_now(),
        )
        response = _budget_shown(budget, HTTPStatus.CREATED)
        response["Location"] = f"{request.path}{budget.pk}/"
        return response


class BudgetView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(BudgetDocument, "Show a budget")
    def get(self, request: Request, pool: str, budget: str) -> Response:
        """Show a budget.

        Send its `ETag` as `If-Match` to change or delete it. For a tenant key another tenant's budget
        is 404 `budget.not_found`.
        """
        return _budget_shown(self._budget(budget))

    @updates(BudgetRequest, BudgetDocument, "Change a budget")
    @writes
    def patch(self, request: Request, pool: str, budget: str) -> Response:
        """Change a budget's amount or thresholds by a JSON merge patch.

        Only operators may, with its `ETag` in `If-Match` (428 without it, 412 if the budget has changed
        since). `tenant` and `resource` cannot change (422 `field.immutable`). A threshold that was
        reported this month is not reported again.
        """
        found = self._budget(budget)
        version = expected_version(request, actual=found.version)
        current = budget_fields(found)
        fields = self.patched(BudgetRequest, current, fixed=["tenant", "resource"])
        settings = BudgetSettings(fields["amount"], fields["thresholds"])
        return _budget_shown(
            budget_update(budget=found, settings=settings, version=version, now=utc_now())
        )

    @retires("Watch a budget no longer")
    @writes
    def delete(self, request: Request, pool: str, budget: str) -> Response:
        """Delete a budget, which is then no longer checked.

        Only operators may, with its `ETag` in `If-Match` (428 without it, 412 if the budget has changed
        since). Events that it gave stay. The tenant can then be given another budget of the same kind.
        """
        found = self._budget(budget)
        version = expected_version(request, actual=found.version)
        budget_retire(budget=found, version=version, now=utc_now())
        return Response(status=HTTPStatus.NO_CONTENT)

    def _budget(self, budget: str) -> Budget:
        return budget_get(pool=self.pool, budget_id=uuid_or_none(budget), tenant=self.tenant)


def _budget_shown(budget: Budget, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(
        budget_document(budget), status=status, headers={"ETag": entity_tag(budget.version)}
    )


class ServiceUnitsView(PoolView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters

    @lists(BankDocument, "List banks of service units; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List the pool's banks of service units: what was granted and used, and the balance.

        A tenant has a bank from its first grant on. `used` is quantity × seconds × weight of all that
        it used since, by the `unit_weights` of the price plans. A tenant key sees its own bank only.
        """
        banks = banks_of(pool=self.pool, now=utc_now(), tenant=self.tenant)
        page = page_of_sorted(
            f"service-units/{self.pool.slug}", banks, lambda bank: [bank.tenant.slug], **self.query
        )
        return self.listing(
            page, lambda bank: bank_document(bank, self.pool.slug), list(BankDocument.fields)
        )

    @creates(
        GrantRequest, BankDocument, "Put service units into a tenant's bank", headers=("Location",)
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Grant service units to a tenant's bank, and open the bank with the first grant.

        Only operators may. The units are above 0 (422 `units.amount`). A bank that has run out gives
        the event `service_units.exhausted`, once after each grant, and makes its tenant a best-effort
        member if the price plan's `exhausted` says so; a grant does not undo that. Each request grants
        again: send an `Idempotency-Key` to repeat one safely.
        """
        pool_of_route = self.pool
        fields = self.read(GrantRequest)
        tenant, now = tenant_named(fields["tenant"]), utc_now()
        grant = units_grant(
            pool=pool_of_route,
            tenant=tenant,
            units=fields["units"],
            reason=fields["reason"],
            now=now,
        )
        (bank,) = banks_of(pool=pool_of_route, now=now, tenant=grant.tenant)
        return Response(
            bank_document(bank, pool_of_route.slug),
            status=HTTPStatus.CREATED,
            headers={"Location": request.path},
        )
