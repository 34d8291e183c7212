"""Budgets and grants of service units."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from allocator_service.billing.budgets import (
    BudgetSettings,
    budget_create,
    budget_retire,
    budget_update,
)
from allocator_service.billing.models import Budget, UnitGrant
from allocator_service.billing.service_units import units_grant
from allocator_service.core.admin import ServiceAdmin, ServiceForm
from allocator_service.core.clock import utc_now


class BudgetForm(ServiceForm):
    class Meta:
        model = Budget
        fields = ["pool", "tenant", "resource", "amount", "thresholds"]

    def perform(self, cleaned: dict[str, Any]) -> Budget:
        settings = BudgetSettings(cleaned["amount"], cleaned["thresholds"])
        if not self.adding:
            return budget_update(
                budget=self.instance, settings=settings, version=None, now=utc_now()
            )
        return budget_create(
            pool=cleaned["pool"],
            tenant=cleaned["tenant"],
            resource=cleaned["resource"],
            settings=settings,
            now=utc_now(),
        )


@admin.register(Budget)
class BudgetAdmin(ServiceAdmin):
    form = BudgetForm
    list_display = ["tenant", "pool", "resource", "amount", "thresholds", "retired_at"]
    list_filter = ["pool"]
    list_select_related = ["pool", "tenant"]
    autocomplete_fields = ["pool", "tenant"]
    actions = ["retire"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "tenant", "resource", "created_at", "retired_at"] if obj else []

    @admin.action(description="Watch no longer", permissions=["change"])
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

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)
