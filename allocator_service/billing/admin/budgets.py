"""Budgets and grants of service units."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst

from allocator_service.billing.balances import Balance, balances
from allocator_service.billing.budgets import (
    BudgetDraft,
    BudgetSettings,
    Periods,
    budget_create,
    budget_retire,
    budget_update,
)
from allocator_service.billing.models import Budget, UnitGrant
from allocator_service.billing.service_units import units_grant
from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.display import exact_text, money_text
from allocator_service.core.duration_fields import DurationField
from allocator_service.core.errors import Unacceptable
from allocator_service.core.list_filters import NamedChoices
from allocator_service.core.service_forms import ServiceForm
from allocator_service.pools.budgets import Then, effect_text


class BudgetForm(ServiceForm):
    per = DurationField(
        units=[(unit, unit) for unit in ("days", "weeks", "months", "years")],
        default="months",
        required=False,
        help_text="Length of a period. Empty for one period between the dates below.",
    )

    class Meta:
        model = Budget
        fields = [
            "pool",
            "tenant",
            "group",
            "resource",
            "amount",
            "per",
            "starts_at",
            "ends_at",
            "carry",
            "then",
            "thresholds",
        ]
        labels: ClassVar = {"then": "When it is spent", "carry": "Carry over"}
        help_texts: ClassVar = {
            "then": "Effect until the period ends. Events are recorded in any case.",
            "carry": "Greatest fraction of the amount that is carried over unused, from 0 to 1.",
            "thresholds": "Percentages of the available amount that cause events and mail, such as"
            " 50,80,100.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "then" in self.fields:  # absent for users who may only look
            self.fields["then"].choices = [  # type: ignore[attr-defined]
                (each.value, capfirst(effect_text(each.value, "more of its resource")))
                for each in Then
            ]

    def perform(self, cleaned: dict[str, Any]) -> Budget:
        settings = BudgetSettings(
            cleaned["amount"], cleaned["thresholds"], cleaned["carry"], Then(cleaned["then"])
        )
        if not self.adding:
            return budget_update(
                budget=self.instance, settings=settings, version=None, now=utc_now()
            )
        if (cleaned["tenant"] is None) == (cleaned["group"] is None):
            raise Unacceptable(
                "A budget must name either a tenant or a group.",
                code="budget.node",
                pointer="/tenant",
            )
        draft = BudgetDraft(
            node=cleaned["tenant"] or cleaned["group"],
            resource=cleaned["resource"],
            settings=settings,
            periods=Periods(cleaned["per"], cleaned["starts_at"], cleaned["ends_at"]),
        )
        return budget_create(pool=cleaned["pool"], draft=draft, now=utc_now())


class EffectFilter(NamedChoices, admin.ChoicesFieldListFilter):
    """A filter by what happens when a budget is spent."""

    def name_of(self, value: str) -> str:
        """Return the effect of a choice by its label."""
        return str(capfirst(effect_text(value, "more of its resource")))


@admin.register(Budget)
class BudgetAdmin(ServiceAdmin):
    form = BudgetForm
    list_display = ["node", "pool", "limit", "per", "effect", "retired_at"]
    list_filter = ["pool", ("then", EffectFilter)]
    filter_titles: ClassVar = {"then": "When it is spent"}
    list_select_related = ["pool", "tenant", "group"]
    autocomplete_fields = ["pool", "tenant", "group"]
    actions = ["retire"]
    durations = ("per",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        fixed = ["pool", "tenant", "group", "resource", "per", "starts_at", "ends_at"]
        return [*fixed, "spent", "left", "created_at", "retired_at"] if obj else []

    @admin.display(description="amount", ordering="amount")
    def limit(self, budget: Budget) -> str:
        if budget.resource:
            return f"{exact_text(budget.amount)} hours of {budget.resource}"
        return money_text(budget.amount.normalize(), budget.pool.currency)

    @admin.display(description="when it is spent", ordering="then")
    def effect(self, budget: Budget) -> str:
        return str(capfirst(effect_text(budget.then, budget.resource)))

    @admin.display(description="Spent in this period")
    def spent(self, budget: Budget) -> str:
        found = self._balance(budget)
        return "-" if found is None else money_text(found.spent_text, found.unit)

    @admin.display(description="Left")
    def left(self, budget: Budget) -> str:
        found = self._balance(budget)
        return "-" if found is None else money_text(found.left_text, found.unit)

    def _balance(self, budget: Budget) -> Balance | None:
        if budget.retired_at is not None:
            return None
        found = balances(pool=budget.pool, budgets=[budget], now=utc_now())
        return found[0] if found else None

    @admin.action(description="Retire", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Budget]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda budget: budget_retire(budget=budget, version=None, now=now),
            "retired",
            already=Q(retired_at__isnull=False),
        )


class GrantForm(ServiceForm):
    class Meta:
        model = UnitGrant
        fields = ["pool", "tenant", "units"]

    def perform(self, cleaned: dict[str, Any]) -> UnitGrant:
        return units_grant(
            pool=cleaned["pool"],
            tenant=cleaned["tenant"],
            units=cleaned["units"],
            reason="",
            now=utc_now(),
        )


@admin.register(UnitGrant)
class UnitGrantAdmin(ServiceAdmin):
    form = GrantForm
    list_display = ["granted_at", "pool", "tenant", "units", "exhausted_at"]
    list_filter = ["pool"]
    list_select_related = ["pool", "tenant"]
    autocomplete_fields = ["pool", "tenant"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["granted_at", "exhausted_at", "best_effort_from"] if obj else []

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)
