"""Tenants and keys in the admin."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import QuerySet
from django.http import HttpRequest

from allocator_service.core.admin import ServiceAdmin, ServiceForm
from allocator_service.core.clock import utc_now
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.services import (
    IssuedKey,
    api_key_create,
    api_key_revoke,
    api_key_rotate,
    tenant_create,
    tenant_retire,
    tenant_update,
)

DEFAULT_LIFETIME = timedelta(days=365)


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


class ApiKeyForm(ServiceForm):
    issued: IssuedKey
    expires_at = forms.SplitDateTimeField(
        widget=AdminSplitDateTime,
        initial=lambda: utc_now() + DEFAULT_LIFETIME,
    )

    class Meta:
        model = ApiKey
        fields = ["name", "scope", "tenant", "expires_at"]

    def perform(self, cleaned: dict[str, Any]) -> ApiKey:
        self.issued = api_key_create(**cleaned, now=utc_now())
        return self.issued.key


@admin.register(ApiKey)
class ApiKeyAdmin(ServiceAdmin):
    form = ApiKeyForm
    list_display = ["prefix", "name", "scope", "tenant", "expires_at", "revoked_at"]
    list_filter = ["scope"]
    list_select_related = ["tenant"]
    autocomplete_fields = ["tenant"]
    actions = ["rotate", "revoke"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        self._show_once(request, form.issued)

    @admin.action(description="Rotate: issue a second live key of the same name")
    def rotate(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        now = utc_now()

        def rotate_one(key: ApiKey) -> None:
            issued = api_key_rotate(name=key.name, expires_at=now + DEFAULT_LIFETIME, now=now)
            self._show_once(request, issued)

        self.apply_to_each(request, queryset, rotate_one, "rotated")

    @admin.action(description="Revoke the selected keys")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda key: api_key_revoke(identifier=key.prefix, now=now), "revoked"
        )

    def _show_once(self, request: HttpRequest, issued: IssuedKey) -> None:
        self.message_user(
            request,
            f"The key “{issued.key.name}”, shown this once: {issued.text}",
            messages.WARNING,
        )
