"""Tenants and people in the admin.

Keys and grants are in `pools.admin`, which knows pools and groups.
"""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import F, Max, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from allocator_service.core.admin import ReadOnlyAdmin, ServiceAdmin
from allocator_service.core.board import Notice, Section, Urgency, board_section
from allocator_service.core.clock import utc_now
from allocator_service.core.display import counted
from allocator_service.core.service_forms import ServiceForm
from allocator_service.core.visible import VisiblePools, visible_pools
from allocator_service.tenants.models import ApiKey, Person, Tenant
from allocator_service.tenants.services import (
    tenant_create,
    tenant_retire,
    tenant_update,
)

EXPIRES_SOON = timedelta(days=14)
NAMES_SHOWN = 5


@board_section(permission="tenants.view_apikey", place=5)
def keys_section(now: datetime, pools: VisiblePools) -> Section:
    """Return the section of keys in use that end soon and have no successor."""
    if pools.limited:
        return Section()  # keys are those of the whole installation
    # Keys of one name succeed each other: only the last expiry of a name leaves its user without one.
    last = (
        ApiKey.objects.live_at(now).values("name").order_by("name").annotate(end=Max("expires_at"))
    )
    ending = last.filter(end__lt=now + EXPIRES_SOON)
    names = list(ending.values_list("name", flat=True))
    if not names:
        return Section()
    shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    text = f"{counted(len(names), 'key')} to end within {EXPIRES_SOON.days} days: {shown}."
    return Section([Notice(Urgency.WARNING, text, reverse("admin:tenants_apikey_changelist"))])


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


class TenantAdmin(ServiceAdmin):
    """The admin of tenants, registered by `imports.admin`, which can create many from a file."""

    pool_path = "memberships__pool__slug"
    limited_may = ("view",)
    form = TenantForm
    list_display = ["slug", "name", "created_at", "retired_at"]
    search_fields = ["slug", "name"]
    search_place = 2
    actions = ["retire"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        """Return each tenant once, of however many of the user's pools it is a member."""
        rows = super().get_queryset(request)
        if not visible_pools(request.user).limited:
            return rows
        # The join to memberships repeats a tenant once for each pool that the user sees.
        return Tenant.objects.filter(pk__in=rows.order_by().values("pk"))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["slug", "created_at", "retired_at"] if obj else []

    def page_context(self, request: HttpRequest, row: Tenant) -> dict[str, Any]:
        """Return the memberships in the user's pools, present ones first."""
        memberships = row.memberships.select_related("pool")
        seen = visible_pools(request.user).of(memberships, "pool__slug")
        present_first = F("ended_at").desc(nulls_first=True)
        return {"memberships": seen.order_by(present_first, "pool__slug")}

    @admin.action(
        description="Retire the selected tenants and revoke their keys", permissions=["change"]
    )
    def retire(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda tenant: tenant_retire(tenant=tenant, version=None, now=now),
            "retired",
            already=Q(retired_at__isnull=False),
        )


@admin.register(Person)
class PersonAdmin(ReadOnlyAdmin):
    """People who have signed in by the provider. A superuser disables one under Users."""

    appears = "A person appears with the first sign-in through the identity provider."
    pool_path = None

    list_display = ["name", "user", "groups", "last_signed_in_at", "created_at"]
    list_select_related = ["user"]
    search_fields = ["name", "subject", "user__username"]
    readonly_fields = ("last_signed_in_at", "created_at")
