"""Price plans, which operators write and publish."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.models import PricePlan
from allocator_service.billing.plans.selectors import plan_get, plans_for
from allocator_service.billing.plans.services import (
    plan_create,
    plan_delete,
    plan_publish,
    plan_update,
)
from allocator_service.core.clock import utc_now
from allocator_service.pools.selectors import pools_for
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract.operations import acts, creates, lists, retires, shows, updates
from api.contract.pagination import by_id
from api.resources import Resource
from api.v1.pools import pool_named
from api.v1.price_plan_documents import PlanDocument, PlanParameters, PlanRequest, plan_draft
from api.views import writes


class PlanResource(Resource):
    document = PlanDocument
    change = PlanRequest
    fixed = ("pool",)
    not_found = "price_plan.not_found"
    ordering = by_id("price-plans")

    @property
    def reader(self) -> Tenant | None:
        """The tenant that limits what is shown of a plan, None for all."""
        return self.tenant

    def queryset(self) -> QuerySet[PricePlan]:
        # Filtered in the query, so that the id of another pool's plan is as missing as one that
        # never was.
        return plans_for(self.tenant)

    def stored(self, plan: PricePlan) -> PricePlan:
        """Return a plan as it was stored, with its new rates and commitments."""
        # Read again, because the object has the rates and commitments that the change replaced.
        return plan_get(plan_id=plan.pk, tenant=None)

    def update(self, found: PricePlan, fields: Mapping[str, Any], version: int) -> PricePlan:
        draft = plan_draft(fields)
        return self.stored(plan_update(plan=found, draft=draft, version=version, now=utc_now()))

    def retire(self, found: PricePlan, version: int) -> None:
        plan_delete(plan=found, version=version, now=utc_now())


class PlansView(PlanResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PlanParameters

    @lists(PlanDocument, "List price plans; a tenant sees those that hold in its pools")
    def get(self, request: Request) -> Response:
        """List price plans, oldest first.

        Operator and billing keys see all of them. A tenant key sees the plans of its pools, except
        drafts; within a plan it sees only its own commitments and shares of fixed costs, and other
        owners under pseudonyms. Plans of retired pools stay in the list, because statements name them.
        """
        return self.answer_list()

    @creates(PlanRequest, PlanDocument, "Write a draft of a price plan")
    @writes
    def post(self, request: Request) -> Response:
        """Write a draft of a price plan for a pool.

        Only operators may. A draft changes no bill until it is published, or applied to closed months
        by a rerating, and it can be changed or deleted until then. Prices are per unit and hour in the
        pool's currency: another `currency` is refused with 409 `plan.currency`. A pool that meters
        itself takes the `increment` `exact` only (422 `plan.increment`).
        """
        fields = self.read(PlanRequest)
        pool = pool_named(fields["pool"], pools_for(None))
        plan = plan_create(pool=pool, draft=plan_draft(fields), now=utc_now())
        return self.answer_created(self.stored(plan), plan.pk)


class OnePlanView(PlanResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(PlanDocument, "Show a price plan")
    def get(self, request: Request, plan: str) -> Response:
        """Show a price plan with its rates, commitments and fixed costs.

        While it is a draft, send its `ETag` as `If-Match` to change it. A tenant key sees only its own
        commitments and shares of fixed costs, and other owners under pseudonyms; a draft, or a plan of
        a pool that it is not a member of, is 404 `price_plan.not_found` for it.
        """
        return self.answer_one(self.find(plan))

    @updates(PlanRequest, PlanDocument, "Change a draft")
    @writes
    def patch(self, request: Request, plan: str) -> Response:
        """Change a draft of a price plan by a JSON merge patch.

        Only operators may, with the draft's `ETag` in `If-Match` (428 without it, 412 if the draft has
        changed since). A list such as `rates` is replaced as a whole; `pool` cannot change (422
        `field.immutable`). A plan that was published or applied by a rerating is refused with 409
        `plan.published`: write another plan.
        """
        return self.answer_update(plan)

    @retires("Throw a draft away")
    @writes
    def delete(self, request: Request, plan: str) -> Response:
        """Delete a draft of a price plan.

        Only operators may, with the draft's `ETag` in `If-Match` (428 without it, 412 if the draft has
        changed since). A plan that was published or applied by a rerating is refused with 409
        `plan.published`.
        """
        return self.answer_retire(plan)


class PublishView(PlanResource):
    scopes: ClassVar = {"POST": OPERATOR}

    @acts(PlanDocument, "Publish a draft: it stays as it is from then on")
    @writes
    def post(self, request: Request, plan: str) -> Response:
        """Publish a draft. Its prices hold from its `from` on, and the plan can no longer be edited.

        Only operators may; `If-Match` is optional. The first published plan fixes the pool's currency
        and time zone. A last plan without an end ends where the new one begins; anything else that
        overlaps or leaves a gap is refused with 409 `plan.overlap` or `plan.gap`. A plan that begins
        before the end of the last closed month is 409 `plan.backdated` (use a rerating), one without
        rates 422 `plan.empty`. The pool's members get the event `price_plan.published`.
        """
        return self.answer_act(
            plan,
            lambda found, version: self.stored(
                plan_publish(plan=found, version=version, now=utc_now())
            ),
        )
