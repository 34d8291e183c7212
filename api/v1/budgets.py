"""Budgets of tenants and groups."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.balances import (
    Balance,
    budgets_for,
    hours_written,
    period_of,
    spent_by_cluster,
)
from allocator_service.billing.budgets import (
    HIGHEST_THRESHOLD,
    MAX_THRESHOLDS,
    BudgetDraft,
    BudgetSettings,
    Periods,
    budget_create,
    budget_history,
    budget_retire,
    budget_update,
    budget_warning,
)
from allocator_service.billing.models import Budget
from allocator_service.billing.models.watching import CALENDAR_MONTH, default_thresholds
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import decimal_text
from allocator_service.core.snapshots import one_snapshot
from allocator_service.pools.budgets import Then
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Group
from allocator_service.pools.selectors import group_terms_of
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE_AND_GROUP, OPERATOR_AND_GROUP
from api.contract import documents
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import by_id, page_of_fixed
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.clusters import MAX_CLUSTERS
from api.v1.tenants import tenant_named
from api.v1.warnings import budget_warnings, warnings_field, with_warnings
from api.views import writes

THRESHOLD = documents.IntegerField(minimum=1, maximum=HIGHEST_THRESHOLD)
MAX_BALANCES = 2_000
EFFECTS = (Then.LAST.value, Then.STOP.value)


class BudgetDocument(documents.Document):
    id = documents.IdField()
    pool = documents.pool_field()
    tenant = documents.SlugField(
        source="tenant.slug",
        allow_null=True,
        writable={"required": False, "description": "Tenant whose use counts."},
    )
    group = documents.SlugField(
        source="group.slug",
        allow_null=True,
        writable={
            "required": False,
            "description": "Group whose use counts: that of all tenants below it at each instant.",
        },
    )
    resource = documents.TextField(
        max_length=63,
        allow_null=True,
        source=lambda budget, _: budget.resource or None,
        writable={
            "required": False,
            "description": "Resource whose hours are limited. Omit for a budget of money.",
        },
    )
    amount = documents.DecimalField(
        writable={
            "what": "A budget",
            "description": "Hours of the resource, or money, of each period.",
        }
    )
    per = documents.DurationField(
        allow_null=True,
        source=lambda budget, _: budget.per or None,
        writable={
            "required": False,
            "description": "Period in whole days, weeks, months or years of the pool's time zone. "
            " Without `from` it starts with the calendar. Omit it for P1M, or for one period between"
            " `from` and `to`.",
        },
    )
    from_ = documents.TimestampField(
        source="starts_at",
        allow_null=True,
        writable={"required": False, "description": "Start of the first period."},
    )
    to = documents.TimestampField(
        source="ends_at",
        allow_null=True,
        writable={"required": False, "description": "End of the last period, exclusive."},
    )
    carry = documents.DecimalField(
        writable={
            "default": Decimal(0),
            "what": "The fraction",
            "description": "Fraction of the amount that is carried over, if unused, into the next period"
            " and no further.",
        },
    )
    then = documents.ChoiceField(
        choices=EFFECTS,
        allow_null=True,
        source=lambda budget, _: budget.then or None,
        writable={
            "required": False,
            "description": "Effect of an exhausted budget until its period ends. `last`: all that is"
            " below the node is best-effort. `stop`: its limit of the resource is 0. null: none.",
        },
    )
    currency = documents.CurrencyField(
        allow_null=True,
        source=lambda budget, _: None if budget.resource else budget.pool.currency,
    )
    thresholds = documents.ListField(
        THRESHOLD,
        max_items=MAX_THRESHOLDS,
        writable={
            "default": default_thresholds,
            "description": "Percentages of the available amount. At each of them one event per period is"
            " recorded.",
        },
    )
    version = documents.VersionField()
    created_at = documents.TimestampField()


class BudgetTermsDocument(documents.Document):
    amount = documents.DecimalField(source="settings.amount")
    carry = documents.DecimalField(source="settings.carry")
    then = documents.ChoiceField(
        choices=EFFECTS, allow_null=True, source=lambda terms, _: terms.settings.then.value or None
    )
    thresholds = documents.ListField(
        THRESHOLD, max_items=MAX_THRESHOLDS, source="settings.thresholds"
    )
    start = documents.TimestampField()
    end = documents.TimestampField(allow_null=True, description="null: the settings are in force.")


class ChangedBudgetDocument(BudgetDocument):
    warnings = warnings_field()


BudgetRequest = BudgetDocument.writable("BudgetRequest")


class BalanceDocument(documents.Document):
    budget = documents.IdField()
    resource = documents.TextField(
        max_length=63, allow_null=True, description="null for a budget of money."
    )
    from_ = documents.TimestampField(description="Start of the present period.")
    to = documents.TimestampField(description="End of the present period, exclusive.")
    available = documents.DecimalField(
        description="Amount of the period with what was carried over."
    )
    carried = documents.DecimalField(
        description="Amount that was carried over from the period before."
    )
    spent = documents.DecimalField(description="Used in the period according to the ledger.")
    left = documents.DecimalField(description="Remaining amount. Below 0 if more was used.")
    then = documents.ChoiceField(choices=EFFECTS, allow_null=True)
    exhausted = documents.BooleanField()
    exhausted_on = documents.TimestampField(
        allow_null=True,
        description="Expected exhaustion at the average rate of the last 24 hours. null: already"
        " exhausted, or not expected in this period.",
    )


class ClusterSpentDocument(documents.Document):
    cluster = documents.StringField(
        allow_null=True, description="null: use whose cluster is not known."
    )
    spent = documents.DecimalField(description="Hours of the resource.")


class BudgetClustersDocument(documents.Document):
    from_ = documents.TimestampField(
        allow_null=True, description="Start of the present period. null: outside of all periods."
    )
    to = documents.TimestampField(
        allow_null=True, description="End of the present period, exclusive."
    )
    clusters = documents.ListField(ClusterSpentDocument, min_items=0, max_items=MAX_CLUSTERS)


def balances_field() -> documents.ListField:
    """Return the field of the balances of a node."""
    return documents.ListField(
        BalanceDocument,
        min_items=0,
        max_items=MAX_BALANCES,
        description="Budgets of the node in their present periods, in hours or in the pool's currency.",
    )


def balance_document(balance: Balance) -> dict[str, Any]:
    """Return a balance, in hours or money."""

    def written(value: Decimal) -> str:
        return decimal_text(balance.written(value))

    return {
        "budget": balance.budget.pk,
        "resource": balance.budget.resource or None,
        "from": balance.period.start,
        "to": balance.period.end,
        "available": written(balance.available),
        "carried": written(balance.carried),
        "spent": written(balance.spent),
        "left": written(balance.left),
        "then": balance.budget.then or None,
        "exhausted": balance.is_exhausted,
        "exhausted_on": balance.exhausted_on,
    }


class BudgetResource(PoolResource):
    document: ClassVar[type[documents.Document]] = BudgetDocument
    change = BudgetRequest
    fixed = ("tenant", "group", "resource", "per", "from", "to")
    not_found = "budget.not_found"
    ordering = by_id("budgets")
    makes_generation = True

    def queryset(self) -> QuerySet[Budget]:
        if self.subtree is None:
            return budgets_for(self.pool, self.tenant)
        below = Q(group__in=self.subtree.groups()) | Q(tenant__in=self.subtree.tenants())
        return budgets_for(self.pool, None).filter(below)

    def update(self, found: Budget, fields: Mapping[str, Any], version: int) -> Budget:
        self.refuse_own(found)
        return budget_update(
            budget=found, settings=budget_settings(fields), version=version, now=utc_now()
        )

    def retire(self, found: Budget, version: int) -> None:
        self.refuse_own(found)
        budget_retire(budget=found, version=version, now=utc_now())

    def _warned(self, response: Response, budget: Budget) -> Response:
        """Add a warning to a response if the budget is exhausted in its present period."""
        return with_warnings(response, budget_warnings(budget_warning(budget, now=utc_now())))

    def refuse_own(self, budget: Budget) -> None:
        """Raise `Forbidden` for a budget of the group that the caller is bound to."""
        if self.subtree is not None and budget.group is not None:
            self.subtree.refuse_own(budget.group)


class BudgetsView(BudgetResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP, "POST": OPERATOR_AND_GROUP}
    parameters = PageParameters

    @lists(BudgetDocument, "List budgets; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List a pool's budgets, oldest first.

        A tenant key sees its own budgets only, a group key those of its group and of what is below it.
        Deleted budgets are not listed.
        """
        return self.answer_list()

    @creates(BudgetRequest, ChangedBudgetDocument, "Give a tenant or a group a budget", pool=True)
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Give a tenant or a group a budget per period, in hours of a resource or in money.

        Operators may, and group keys below their group (403 `auth.group` for the group itself). An event
        `budget.reached` is recorded once per threshold and period. `then` gives an exhausted budget an
        effect on decisions until the period ends, and makes a new generation. A budget of money is a
        tenant's, per calendar month, without `carry` and `then` (422 `budget.money`). A node has one
        budget for the same resource and periods: a second one is 409 `budget.exists`. Where the policy
        keeps no limits, `then` cannot be `stop` (422 `policy.no_limits`). A budget of less than what is
        spent in its present period is accepted with `warnings`, which have its effect.
        """
        fields = self.read(BudgetRequest)
        with transaction.atomic():
            if self.subtree is not None:
                # The node cannot leave the key's group between the check and the change.
                pool_lock(self.pool)
            draft = BudgetDraft(
                node=self._node(fields),
                resource=fields["resource"] or "",
                settings=budget_settings(fields),
                periods=budget_periods(fields),
            )
            budget = budget_create(pool=self.pool, draft=draft, now=utc_now())
        return self._warned(self.answer_created(budget, budget.pk), budget)

    def _node(self, fields: Mapping[str, Any]) -> Tenant | Group:
        """Return the tenant or group that a request names. Raises `Unacceptable` and `Forbidden`."""
        tenant, group = fields["tenant"], fields["group"]
        if (tenant is None) == (group is None):
            raise Unacceptable(
                "A budget must name either a tenant or a group.",
                code="budget.node",
                pointer="/tenant",
            )
        if group is None:
            return self._tenant(tenant)
        # Groups outside are as unknown as those that do not exist.
        terms = group_terms_of(pool=self.pool) if self.subtree is None else self.subtree.terms()
        found = terms.filter(group__slug=group).first()
        if found is None:
            raise Unacceptable(
                f'The pool has no group "{group}".', code="group.unknown", pointer="/group"
            )
        if self.subtree is not None:
            self.subtree.refuse_own(found.group)
        return found.group

    def _tenant(self, slug: str) -> Tenant:
        if self.subtree is None:
            return tenant_named(slug)
        found = self.subtree.members().filter(membership__tenant__slug=slug).first()
        if found is None:
            raise Unacceptable(
                f'No tenant has the slug "{slug}".', code="tenant.unknown", pointer="/tenant"
            )
        return found.membership.tenant


class BudgetView(BudgetResource):
    scopes: ClassVar = {
        "GET": EVERY_SCOPE_AND_GROUP,
        "PATCH": OPERATOR_AND_GROUP,
        "DELETE": OPERATOR_AND_GROUP,
    }

    @shows(BudgetDocument, "Show a budget")
    def get(self, request: Request, pool: str, budget: str) -> Response:
        """Show a budget.

        Send its `ETag` as `If-Match` to change or delete it. Budgets that the key does not see are 404
        `budget.not_found`. What is spent and left is part of the entitlements.
        """
        return self.answer_one(self.find(budget))

    @updates(BudgetRequest, ChangedBudgetDocument, "Change a budget", pool=True)
    @writes
    def patch(self, request: Request, pool: str, budget: str) -> Response:
        """Change the amount, thresholds, `carry` or `then` of a budget by a JSON merge patch.

        Operators may, and group keys below their group, with its `ETag` in `If-Match` (428 without it,
        412 if the budget has changed since). The change counts for the whole present period. A decision
        follows if the budget binds or bound. Node, resource and periods cannot change (422
        `field.immutable`). A threshold that was reported in the period is not reported again. An amount
        of less than what is spent is accepted with `warnings`, which have the effect.
        """
        return self._warned(self.answer_update(budget), self.find(budget))

    @retires("Delete a budget", pool=True)
    @writes
    def delete(self, request: Request, pool: str, budget: str) -> Response:
        """Delete a budget, which has no effect from the next decision on.

        Operators may, and group keys below their group, with its `ETag` in `If-Match` (428 without it,
        412 if the budget has changed since). Recorded events stay. The node can then be given another
        budget of the same kind.
        """
        return self.answer_retire(budget)


class BudgetClustersView(BudgetResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}

    @shows(BudgetClustersDocument, "Show what a budget has spent by cluster", headers=())
    def get(self, request: Request, pool: str, budget: str) -> Response:
        """Show what a budget has spent on each cluster in its present period.

        Visible to the keys that see the budget. The clusters add up to `spent` of its balance. There are
        none in a pool without clusters, before anything is used, and for a budget of money.
        """
        found = self.find(budget)
        period = period_of(found, utc_now())
        clusters = []
        if period is not None:
            # One state of the ledger, so that the clusters add up to what is spent.
            with one_snapshot():
                clusters = spent_by_cluster(budget=found, period=period)
        return Response(
            {
                "from": None if period is None else period.start,
                "to": None if period is None else period.end,
                "clusters": [
                    {"cluster": cluster, "spent": decimal_text(hours_written(spent))}
                    for cluster, spent in clusters
                ],
            }
        )


class BudgetHistoryView(BudgetResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    parameters = PageParameters
    document = BudgetTermsDocument

    @lists(BudgetTermsDocument, "List what a budget was at any time")
    def get(self, request: Request, pool: str, budget: str) -> Response:
        """List the settings of a budget with their intervals, oldest first.

        Visible to the keys that see the budget. Its node, resource and periods never change.
        """
        history = budget_history(self.find(budget))
        return self.answer_page(page_of_fixed("budget-history", history, **self.query))


def budget_settings(fields: Mapping[str, Any]) -> BudgetSettings:
    """Return the settings in the fields of a request."""
    return BudgetSettings(
        fields["amount"], fields["thresholds"], fields["carry"], Then(fields["then"] or "")
    )


def budget_periods(fields: Mapping[str, Any]) -> Periods:
    """Return the periods in the fields of a request."""
    per, start, end = fields["per"], fields["from"], fields["to"]
    # A merge patch and a request that name no periods mean the most common ones.
    if per is None and start is None and end is None:
        per = CALENDAR_MONTH
    return Periods(per or "", start, end)
