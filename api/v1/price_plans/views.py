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
    listed = True

    @lists(PlanDocument, "List price plans; a tenant sees those that hold in its pools")
    def get(self, request: Request) -> Response:
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
        found = self.plan(plan)
        return Response(
            plan_document(found, caller=self.tenant), headers={"ETag": entity_tag(found.version)}
        )

    @updates(PlanRequest, PlanDocument, "Change a draft")
    @writes
    def patch(self, request: Request, plan: str) -> Response:
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
        found = self.plan(plan)
        version = expected_version(request, actual=found.version)
        plan_delete(plan=found, version=version, now=utc_now())
        return Response(status=HTTPStatus.NO_CONTENT)


class PublishView(_PlanView):
    scopes: ClassVar = {"POST": OPERATOR}

    @acts(PlanDocument, "Publish a draft: it stays as it is from then on")
    @writes
    def post(self, request: Request, plan: str) -> Response:
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
