"""Price plans: written and published by operators, read by whom they concern."""

from http import HTTPStatus
from typing import ClassVar

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
from allocator_service.core.errors import Unacceptable
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pools_for
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract.conditional import entity_tag, expected_version, optional_version
from api.contract.documents import NoFields
from api.contract.fields import uuid_or_none
from api.contract.pagination import by_id
from api.openapi.describing import acts, creates, lists, retires, shows, updates
from api.v1.price_plans.serializers import (
    PlanDocument,
    PlanParameters,
    PlanRequest,
    plan_document,
    plan_draft,
    plan_fields,
)
from api.views import ContractView, writes

ORDERING = by_id("price-plans")


class PlansView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PlanParameters

    @lists(PlanDocument, "List price plans; a tenant sees those that hold in its pools")
    def get(self, request: Request) -> Response:
        """List price plans, oldest first.

        Operator and billing keys see all of them. A tenant key sees the plans of its pools, except
        drafts; within a plan it sees only its own commitments and shares of fixed costs, and other
        owners under pseudonyms. Plans of retired pools stay in the list, because statements name them.
        """
        plans = plans_for(self.tenant).filter(**self.filters(pool="pool__slug"))
        page = ORDERING.page(plans, cursor=self.query["cursor"], limit=self.query["limit"])
        return self.listing(
            page,
            lambda plan: plan_document(plan, caller=self.tenant),
            list(PlanDocument.fields),
        )

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
        plan = plan_create(pool=_pool(fields["pool"]), draft=plan_draft(fields), now=utc_now())
        response = _shown(plan, HTTPStatus.CREATED)
        response["Location"] = f"{request.path}{plan.pk}/"
        return response


def _pool(slug: str) -> Pool:
    pool = pools_for(None).filter(slug=slug).first()
    if pool is None:
        raise Unacceptable(f'No pool has the slug "{slug}".', code="pool.unknown", pointer="/pool")
    return pool


class _PlanView(ContractView):
    """A route of one plan, which is absent for whoever may not see it."""

    def plan(self, plan: str) -> PricePlan:
        return plan_get(plan_id=uuid_or_none(plan), tenant=self.tenant)


class OnePlanView(_PlanView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(PlanDocument, "Show a price plan")
    def get(self, request: Request, plan: str) -> Response:
        """Show a price plan with its rates, commitments and fixed costs.

        While it is a draft, send its `ETag` as `If-Match` to change it. A tenant key sees only its own
        commitments and shares of fixed costs, and other owners under pseudonyms; a draft, or a plan of
        a pool that it is not a member of, is 404 `price_plan.not_found` for it.
        """
        found = self.plan(plan)
        return Response(
            plan_document(found, caller=self.tenant), headers={"ETag": entity_tag(found.version)}
        )

    @updates(PlanRequest, PlanDocument, "Change a draft")
    @writes
    def patch(self, request: Request, plan: str) -> Response:
        """Change a draft of a price plan by a JSON merge patch.

        Only operators may, with the draft's `ETag` in `If-Match` (428 without it, 412 if the draft has
        changed since). A list such as `rates` is replaced as a whole; `pool` cannot change (422
        `field.immutable`). A plan that was published or applied by a rerating is refused with 409
        `plan.published`: write another plan.
        """
        found = self.plan(plan)
        version = expected_version(request, actual=found.version)
        current = plan_fields(found)
        fields = self.patched(PlanRequest, current, fixed=["pool"])
        return _shown(
            plan_update(plan=found, draft=plan_draft(fields), version=version, now=utc_now())
        )

    @retires("Throw a draft away")
    @writes
    def delete(self, request: Request, plan: str) -> Response:
        """Delete a draft of a price plan.

        Only operators may, with the draft's `ETag` in `If-Match` (428 without it, 412 if the draft has
        changed since). A plan that was published or applied by a rerating is refused with 409
        `plan.published`.
        """
        found = self.plan(plan)
        version = expected_version(request, actual=found.version)
        plan_delete(plan=found, version=version, now=utc_now())
        return Response(status=HTTPStatus.NO_CONTENT)


class PublishView(_PlanView):
    scopes: ClassVar = {"POST": OPERATOR}

    @acts(PlanDocument, "Publish a draft: it stays as it is from then on")
    @writes
    def post(self, request: Request, plan: str) -> Response:
        """Publish a draft: its prices hold from its `from` on, and the plan can no longer be edited.

        Only operators may; `If-Match` is optional. The first published plan fixes the pool's currency
        and time zone. A last plan without an end ends where the new one begins; anything else that
        overlaps or leaves a gap is refused with 409 `plan.overlap` or `plan.gap`. A plan that begins
        before the end of the last closed month is 409 `plan.backdated` (use a rerating), one without
        rates 422 `plan.empty`. The pool's members get the event `price_plan.published`.
        """
        found = self.plan(plan)
        version = optional_version(request, actual=found.version)
        self.read(NoFields)
        return _shown(plan_publish(plan=found, version=version, now=utc_now()))


def _shown(plan: PricePlan, status: HTTPStatus = HTTPStatus.OK) -> Response:
    stored = plan_get(plan_id=plan.pk, tenant=None)
    return Response(
        plan_document(stored, caller=None),
        status=status,
        headers={"ETag": entity_tag(stored.version)},
    )
