"""Servers and members in the admin. Pools themselves: `allocation.admin`, which knows the policies."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from allocator_service.core.admin import (
    QuantitiesField,
    ServiceAdmin,
    ServiceForm,
    quantities_text,
    quantities_vector,
)
from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Membership, Server
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.server_services import (
    MAX_SERVERS_PER_REQUEST,
    ServerDraft,
    ServerSettings,
    server_activate,
    server_drain,
    server_retire,
    server_update,
    servers_contribute,
)
from allocator_service.pools.services import member_put


class ServerForm(ServiceForm):
    capacity = QuantitiesField()
    count = forms.IntegerField(
        min_value=1,
        max_value=MAX_SERVERS_PER_REQUEST,
        initial=1,
        help_text="More than 1 makes name-0001, name-0002, ...",
    )

    class Meta:
        model = Server
        fields = ["pool", "name", "contributed_by", "capacity", "labels"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.adding:
            self.fields.pop("count", None)
            self.initial["capacity"] = quantities_text(
                self.instance.capacity, resources_of(self.instance.pool)
            )

    def perform(self, cleaned: dict[str, Any]) -> Server:
        pool = cleaned["pool"] if self.adding else self.instance.pool
        capacity = quantities_vector(cleaned["capacity"], resources_of(pool))
        labels = cleaned["labels"] or {}
        if not self.adding:
            settings = ServerSettings(cleaned["name"], capacity, labels)
            return server_update(
                server=self.instance, settings=settings, version=None, now=utc_now()
            )
        draft = ServerDraft(
            cleaned["name"], capacity, cleaned["contributed_by"], labels, cleaned["count"]
        )
        created = servers_contribute(pool=pool, drafts=[draft], now=utc_now())
        return Server.objects.get(pk=created.ids[0])


class ServerAdmin(ServiceAdmin):
    """Registered by `allocation.admin`, which can tell what an action would do before it is done."""

    form = ServerForm
    list_display = ["name", "pool", "contributed_by", "quantities", "labels", "state"]
    list_filter = ["state", "pool"]
    list_select_related = ["pool", "contributed_by"]
    search_fields = ["name"]
    autocomplete_fields = ["pool", "contributed_by"]
    actions = ["drain", "activate", "retire"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Server]:
        return super().get_queryset(request).prefetch_related("pool__resource_types")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "contributed_by", "state", "created_at", "retired_at"] if obj else []

    @admin.display(description="capacity")
    def quantities(self, server: Server) -> str:
        return quantities_text(server.capacity, resources_of(server.pool))

    @admin.action(description="Drain: take out of the capacity, keep as contributed")
    def drain(self, request: HttpRequest, queryset: QuerySet[Server]) -> HttpResponse | None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda server: server_drain(server=server, now=now), "drained"
        )
        return None

    @admin.action(description="Return draining servers to service")
    def activate(self, request: HttpRequest, queryset: QuerySet[Server]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda server: server_activate(server=server, now=now),
            "returned to service",
        )

    @admin.action(description="Retire permanently: end the contribution")
    def retire(self, request: HttpRequest, queryset: QuerySet[Server]) -> HttpResponse | None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda server: server_retire(server=server, now=now), "retired"
        )
        return None


class MembershipForm(ServiceForm):
    weight = forms.DecimalField(
        max_digits=24,
        decimal_places=12,
        initial=1,
        help_text="A factor on what the member contributed, or in explicit pools its weight.",
    )
    best_effort = forms.BooleanField(
        required=False, help_text="Gets only what the other members leave."
    )

    class Meta:
        model = Membership
        fields = ["pool", "tenant"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.adding:
            terms = self.instance.terms.get(end=None)
            self.initial.update(weight=terms.weight.normalize(), best_effort=terms.best_effort)

    def changes(self) -> dict[str, Any]:
        terms = self.instance.terms.get(end=None)
        weight, best_effort = self.cleaned_data["weight"], self.cleaned_data["best_effort"]
        if (weight, best_effort) == (terms.weight, terms.best_effort):
            return {}
        member = {"tenant": self.instance.tenant.slug, "weight": str(weight)}
        return {"members": [{**member, "best_effort": best_effort}]}

    def perform(self, cleaned: dict[str, Any]) -> Membership:
        present = None if self.adding else self.instance
        membership, _ = member_put(
            pool=present.pool if present else cleaned["pool"],
            tenant=present.tenant if present else cleaned["tenant"],
            weight=cleaned["weight"],
            best_effort=cleaned["best_effort"],
            version=present.version if present else None,
            now=utc_now(),
        )
        return membership


class MembershipAdmin(ServiceAdmin):
    """Registered by `allocation.admin`, which can tell what another weight would do."""

    form = MembershipForm
    list_display = ["tenant", "pool", "present_terms", "admitted_at"]
    list_filter = ["pool"]
    list_select_related = ["tenant", "pool"]
    search_fields = ["tenant__slug"]
    autocomplete_fields = ["pool", "tenant"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).prefetch_related("terms")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "tenant", "admitted_at"] if obj else []

    @admin.display(description="weight")
    def present_terms(self, membership: Membership) -> str:
        (terms,) = [terms for terms in membership.terms.all() if terms.end is None]
        return f"{terms.weight.normalize():f}" + (" (best effort)" if terms.best_effort else "")
