"""Credit notes, and notes that reverse them."""

from http import HTTPStatus
from typing import ClassVar

from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.credit_notes import (
    credit_note_create,
    credit_note_reverse,
    credit_notes_for,
)
from allocator_service.billing.models import CreditNote
from allocator_service.core.clock import utc_now
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract import documents
from api.contract.operations import creates, lists
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.statement_documents import MonthField
from api.v1.tenants import tenant_named
from api.views import writes


class CreditNoteDocument(documents.Document):
    id = documents.IdField()
    pool = documents.pool_field()
    tenant = documents.SlugField(source="tenant.slug", writable=True)
    month = MonthField(description="Of the statement that it is on.")
    amount = documents.MoneyField(
        description="Below 0 where it takes another one back.",
        writable={
            "what": "A credit note's amount",
            "description": "What the tenant is credited with, above 0.",
        },
    )
    currency = documents.CurrencyField(source=documents.Given("pool.currency"))
    reason = documents.TextField(max_length=2_000, writable=True)
    reverses = documents.IdField(allow_null=True, source="reverses_id")
    created_at = documents.TimestampField()


CreditNoteRequest = CreditNoteDocument.writable("CreditNoteRequest")
ReversalRequest = CreditNoteDocument.writable("ReversalRequest", only=("reason",))


class CreditNoteResource(PoolResource):
    retired = True
    document = CreditNoteDocument
    not_found = "credit_note.not_found"
    ordering = by_id("credit-notes", descending=True)

    def queryset(self) -> QuerySet[CreditNote]:
        return credit_notes_for(pool=self.pool, tenant=self.tenant)

    def answer_note(self, note: CreditNote) -> Response:
        """Answer a new note, whose address is that of the list."""
        # A note has no route of its own: the list has all of it.
        location = reverse("credit-notes", args=[self.pool.slug])
        return Response(self.write(note), HTTPStatus.CREATED, headers={"Location": location})


class CreditNotesView(CreditNoteResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters

    @lists(CreditNoteDocument, "List credit notes, newest first; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's credit notes, newest first.

        A note that takes another one back has a negative `amount` and names it in `reverses`. A tenant
        key sees its own notes only. The list stays readable after the pool is retired.
        """
        return self.answer_list()

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
        fields = self.read(CreditNoteRequest)
        note = credit_note_create(
            pool=self.pool,
            tenant=tenant_named(fields["tenant"]),
            amount=fields["amount"],
            reason=fields["reason"],
            now=utc_now(),
        )
        return self.answer_note(note)


class ReverseView(CreditNoteResource):
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
        note = self.find(credit_note)
        reason = self.read(ReversalRequest)["reason"]
        return self.answer_note(credit_note_reverse(note=note, reason=reason, now=utc_now()))
