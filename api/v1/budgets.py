"""Budgets of tenants, which are watched and limit nothing."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.budgets import (
    HIGHEST_THRESHOLD,
    MAX_THRESHOLDS,
    BudgetSettings,
    budget_create,
    budget_retire,
    budget_update,
    budgets_for,
)
from allocator_service.billing.models import Budget
from allocator_service.billing.models.watching import default_thresholds
from allocator_service.core.clock import utc_now
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract import documents
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import by_id
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.tenants import tenant_named
from api.views import writes

THRESHOLD = documents.IntegerField(minimum=1, maximum=HIGHEST_THRESHOLD)


class BudgetDocument(documents.Document):
    id = documents.IdField()
    pool = documents.pool_field()
    tenant = documents.SlugField(source="tenant.slug", writable=True)
    resource = documents.TextField(
        max_length=63,
        allow_null=True,
        source=lambda budget, _: budget.resource or None,
        writable={"required": False, "description": "Hours of it; else money."},
    )
    amount = documents.DecimalField(writable={"what": "A budget", "description": "Per month."})
    currency = documents.CurrencyField(
        allow_null=True,
        source=lambda budget, _: None if budget.resource else budget.pool.currency,
    )
    thresholds = documents.ListField(
        THRESHOLD,
        max_items=MAX_THRESHOLDS,
        writable={
            "default": default_thresholds,
            "description": "Per cents, at each of which one event a month is told.",
        },
    )
    version = documents.VersionField()
    created_at = documents.TimestampField()


BudgetRequest = BudgetDocument.writable("BudgetRequest")


class BudgetResource(PoolResource):
    document = BudgetDocument
    change = BudgetRequest
    fixed = ("tenant", "resource")
    not_found = "budget.not_found"
    ordering = by_id("budgets")

    def queryset(self) -> QuerySet[Budget]:
        return budgets_for(self.pool, self.tenant)

    def update(self, found: Budget, fields: Mapping[str, Any], version: int) -> Budget:
        settings = BudgetSettings(fields["amount"], fields["thresholds"])
        return budget_update(budget=found, settings=settings, version=version, now=utc_now())

    def retire(self, found: Budget, version: int) -> None:
        budget_retire(budget=found, version=version, now=utc_now())


class BudgetsView(BudgetResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters

    @lists(BudgetDocument, "List budgets; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's budgets, oldest first.

        A tenant key sees its own budgets only. Deleted budgets are not listed.
        """
        return self.answer_list()

    @creates(BudgetRequest, BudgetDocument, "Give a tenant a budget per month")
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Give a tenant a monthly budget, in money or in hours of a resource.

        Only operators may. A budget limits nothing: it is checked every minute, and the event
        `budget.reached` comes once per threshold and calendar month of the pool's time zone. A tenant
        has one budget of money and one per resource in a pool; a second one is 409 `budget.exists`. An
        amount of 0 is 422 `budget.amount`.
        """
        fields = self.read(BudgetRequest)
        budget = budget_create(
            pool=self.pool,
            tenant=tenant_named(fields["tenant"]),
            resource=fields["resource"] or "",
            settings=BudgetSettings(fields["amount"], fields["thresholds"]),
            now=utc_now(),
        )
        return self.answer_created(budget, budget.pk)


class BudgetView(BudgetResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(BudgetDocument, "Show a budget")
    def get(self, request: Request, pool: str, budget: str) -> Response:
        """Show a budget.

        Send its `ETag` as `If-Match` to change or delete it. For a tenant key another tenant's budget
        is 404 `budget.not_found`.
        """
        return self.answer_one(self.find(budget))

    @updates(BudgetRequest, BudgetDocument, "Change a budget")
    @writes
    def patch(self, request: Request, pool: str, budget: str) -> Response:
        """Change a budget's amount or thresholds by a JSON merge patch.

        Only operators may, with its `ETag` in `If-Match` (428 without it, 412 if the budget has changed
        since). `tenant` and `resource` cannot change (422 `field.immutable`). A threshold that was
        reported this month is not reported again.
        """
        return self.answer_update(budget)

    @retires("Watch a budget no longer")
    @writes
    def delete(self, request: Request, pool: str, budget: str) -> Response:
        """Delete a budget, which is then no longer checked.

        Only operators may, with its `ETag` in `If-Match` (428 without it, 412 if the budget has changed
        since). Events that it gave stay. The tenant can then be given another budget of the same kind.
        """
        return self.answer_retire(budget)
