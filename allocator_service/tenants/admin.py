"""Tenants in the admin. Keys: `pools.admin`, which knows the pools that they are bound to."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from allocator_service.core.admin import ServiceAdmin, ServiceForm
from allocator_service.core.clock import utc_now
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import (
    tenant_create,
    tenant_retire,
    tenant_update,
)


class TenantForm(ServiceForm):
    class Meta:
        model = Tenant
        fields = ["slug", "name"]

    def perform(self, cleaned: dict[str, Any]) -> Tenant:
        if self.adding:
            return tenant_create(slug=cleaned["slug"], name=cleaned["name"], now=utc_now())
        return tenant_update(
            tenant=self.instance, name=cleaned["name"], version=None, now=utc_now()
        )


@admin.register(Tenant)
class TenantAdmin(ServiceAdmin):
    form = TenantForm
    list_display = ["slug", "name", "created_at", "retired_at"]
    search_fields = ["slug", "name"]
    actions = ["retire"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["slug", "created_at", "retired_at"] if obj else []

    @admin.action(description="Retire the selected tenants and revoke their keys")
    def retire(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda tenant: tenant_retire(tenant=tenant, version=None, now=now),
            "retired",
        )
