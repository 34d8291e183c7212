"""Corrections of entries, which are entries of the difference."""

from http import HTTPStatus
from typing import ClassVar

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import parse_quantity
from allocator_service.core.selecting import missing
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.selectors import entry_get
from allocator_service.pools.selectors import resources_of
from api.auth import OPERATOR
from api.contract import documents
from api.contract.fields import uuid_or_none
from api.contract.operations import creates
from api.contract.pagination import make_cursor
from api.v1.entry_documents import EntryDocument, unsealed_document
from api.v1.ledger import FEED
from api.views import ContractView, writes


class CorrectionRequest(documents.Document):
    quantity = documents.PoolQuantityField(description="The correct quantity of the entry.")
    resource = documents.TextField(
        max_length=63,
        required=False,
        description="Another resource of the same reported event, also one that it left out.",
    )
    reason = documents.TextField(max_length=2_000)


class CorrectionsView(ContractView):
    scopes: ClassVar = {"POST": OPERATOR}

    @creates(
        CorrectionRequest,
        EntryDocument,
        "Correct an entry: the difference is a new one",
        headers=("Location",),
    )
    @writes
    def post(self, request: Request, entry: str) -> Response:
        """Correct an entry's quantity with a new entry that holds the difference.

        Only operators may. `quantity` is the whole quantity that the entry should have had, whatever
        was corrected before; the entry itself stays as it is, and the new one keeps the `reason`. A
        quantity that is right already is refused with 422 `correction.nothing`, and a correction
        cannot be corrected itself (409 `entry.correction`). An archived entry cannot be corrected until
        its month is restored (409 `entry.archived`). If the entry's month is closed, the difference
        becomes an adjustment on the statement of the open month, at the prices of its own time.
        """
        entry_id = uuid_or_none(entry)
        if entry_id is None:
            raise missing("entry.not_found")
        corrected = entry_get(entry_id=entry_id)
        fields = self.read(CorrectionRequest)
        units = {each.name: each.unit for each in resources_of(corrected.pool)}
        # Without a resource it is that of the entry. The service refuses one that the pool lacks.
        unit = units.get(fields["resource"], corrected.unit)
        correction = entry_correct(
            entry=corrected,
            resource=fields["resource"],
            quantity=parse_quantity(fields["quantity"], unit, pointer="/quantity"),
            reason=fields["reason"],
            now=utc_now(),
        )
        # Entries have no route of their own: in the feed the correction follows what it corrects.
        location = f"{reverse('ledger-entries')}?after={make_cursor(FEED, str(corrected.pk))}"
        return Response(
            unsealed_document(correction), HTTPStatus.CREATED, headers={"Location": location}
        )
