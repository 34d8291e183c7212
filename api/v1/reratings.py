"""Reratings, which apply a draft of a price plan to closed months."""

from http import HTTPStatus
from typing import ClassVar

from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.models import Rerating
from allocator_service.billing.plans.selectors import plans_for
from allocator_service.billing.reratings import rerating_apply, rerating_preview, reratings_of
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from api.auth import OPERATOR, OPERATOR_AND_BILLING
from api.contract import documents
from api.contract.operations import creates, lists
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.statement_documents import MonthField
from api.views import writes

MAX_TENANTS = 10**6


class ReratingRequest(documents.Document):
    plan = documents.IdField(description="A draft whose time is in closed months.")
    reason = documents.TextField(max_length=2_000)
    dry_run = documents.BooleanField(
        default=False, description="Answer what it would change, and do nothing."
    )


class ChangeDocument(documents.Document):
    tenant = documents.SlugField()
    before = documents.DecimalField(description="Posted for that time before.")
    after = documents.DecimalField()
    difference = documents.DecimalField(description="What it adds to the open statement.")


class ReratingDocument(documents.Document):
    id = documents.IdField(allow_null=True, description="Null for a dry run.")
    pool = documents.pool_field()
    plan = documents.IdField(source="plan_id")
    month = MonthField(description="Of the statements that its lines are on.")
    months = documents.ListField(
        MonthField(), min_items=0, description="The closed months that it changes."
    )
    reason = documents.TextField(max_length=2_000)
    currency = documents.CurrencyField(source=documents.Given("pool.currency"))
    changes = documents.ListField(ChangeDocument, min_items=0, max_items=MAX_TENANTS)
    created_at = documents.TimestampField()


class ReratingsView(PoolResource):
    scopes: ClassVar = {"GET": OPERATOR_AND_BILLING, "POST": OPERATOR}
    parameters = PageParameters
    document = ReratingDocument
    ordering = by_id("reratings", descending=True)

    def queryset(self) -> QuerySet[Rerating]:
        return reratings_of(self.pool)

    @lists(ReratingDocument, "List reratings, newest first")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's reratings, newest first, each with what it changed for each tenant.

        A tenant key gets 403 `auth.scope`: only operator and billing keys may read the list.
        """
        return self.answer_list()

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
        fields = self.read(ReratingRequest)
        plan = plans_for(None).filter(pool=self.pool, pk=fields["plan"]).first()
        if plan is None:
            raise Unacceptable(
                "The pool has no such price plan.", code="price_plan.unknown", pointer="/plan"
            )
        asked = {"pool": self.pool, "plan": plan, "reason": fields["reason"], "now": utc_now()}
        if fields["dry_run"]:
            preview, new = rerating_preview(**asked)
            document = self.write(preview)
            # Only a stored rerating has an id to refer to.
            return Response({**document, "id": None} if new else document)
        rerating, new = rerating_apply(**asked)
        return Response(
            self.write(rerating),
            status=HTTPStatus.CREATED if new else HTTPStatus.OK,
            headers={"Location": reverse("reratings", args=[self.pool.slug])},
        )
