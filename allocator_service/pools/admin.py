"""Servers and members in the admin.

Pools are in `allocation.admin`, which knows policies.
"""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.label_forms import LabelLinesField
from allocator_service.core.labels import LABEL_LENGTH
from allocator_service.core.list_filters import MemberFilter
from allocator_service.core.quantity_fields import (
    QuantitiesField,
    quantities_shown,
    quantities_text,
    quantities_vector,
)
from allocator_service.core.service_forms import ServiceForm
from allocator_service.core.shown_fields import labels_text
from allocator_service.pools import access_admin  # noqa: F401 - registers its models
from allocator_service.pools.group_admin import group_form_field, tier_form_field
from allocator_service.pools.limit_forms import (
    LimitsField,
    has_changed,
    limits_text,
    own_servers_form_field,
)
from allocator_service.pools.member_services import AMOUNTS, member_put
from allocator_service.pools.models import (
    Membership,
    MembershipTerms,
    Server,
    ServerState,
)
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
from policies.fields import TextField


class ServerForm(ServiceForm):
    read_as: ClassVar = {"name": TextField(max_length=LABEL_LENGTH)}
    capacity = QuantitiesField()
    labels = LabelLinesField()
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
        capacity = quantities_vector(cleaned["capacity"], resources_of(pool), "/capacity")
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
        names = draft.names()
        if len(names) > 1:
            self.success_text = f"{len(names)} servers added to {pool}: {names[0]} to {names[-1]}."
        return Server.objects.get(pk=created.ids[0])


class ServerAdmin(ServiceAdmin):
    """The admin of servers, registered by `allocation.admin`, which shows the effect of an action."""

    form = ServerForm
    list_display = ["name", "pool", "contributed_by", "quantities", "labelled", "state"]
    list_filter = ["state", "pool"]
    list_select_related = ["pool", "contributed_by"]
    search_fields = ["name", "contributed_by__slug", "pool__slug"]
    search_place = 5
    autocomplete_fields = ["pool", "contributed_by"]
    actions = ["drain", "activate", "retire"]
    labelled_by = ("labels",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Server]:
        return super().get_queryset(request).prefetch_related("pool__resource_types")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "contributed_by", "state", "created_at", "retired_at"] if obj else []

    @admin.display(description="labels", ordering="labels", empty_value="-")
    def labelled(self, server: Server) -> str | None:
        return labels_text(server.labels) or None

    @admin.display(description="capacity")
    def quantities(self, server: Server) -> str:
        return quantities_shown(server.capacity, resources_of(server.pool))

    @admin.action(
        description="Drain: take out of the capacity, keep as contributed", permissions=["change"]
    )
    def drain(self, request: HttpRequest, queryset: QuerySet[Server]) -> HttpResponse | None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda server: server_drain(server=server, now=now),
            "drained",
            already=Q(state=ServerState.DRAINING),
        )
        return None

    @admin.action(description="Return draining servers to service", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[Server]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda server: server_activate(server=server, now=now),
            "returned to service",
            already=Q(state=ServerState.ACTIVE),
        )

    @admin.action(description="Retire permanently: end the contribution", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Server]) -> HttpResponse | None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda server: server_retire(server=server, now=now),
            "retired",
            already=Q(state=ServerState.RETIRED),
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
    group = group_form_field("Group")
    tier = tier_form_field()
    guarantee = LimitsField("guarantee")
    limit = LimitsField()
    lend = LimitsField("lend")
    own_servers = own_servers_form_field()

    class Meta:
        model = Membership
        fields = ["pool", "tenant"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        terms = None if self.adding else self._present_terms()
        if terms is not None:
            self.initial.update(
                _stated_terms(terms),
                weight=terms.weight.normalize(),
                own_servers=terms.own_servers,
                **{kind: limits_text(getattr(terms, kind)) for kind in AMOUNTS},
            )

    def _present_terms(self) -> MembershipTerms | None:
        present: MembershipTerms | None = (
            self.instance.terms.select_related("group").filter(end=None).first()
        )
        return present

    def affecting(self) -> list[str]:
        terms, new = self._present_terms(), self._cleaned_terms(self.cleaned_data)
        if terms is None:
            return []
        is_same = new == _stated_terms(terms)
        return ["members"] if not is_same or has_changed(terms, self.cleaned_data, AMOUNTS) else []

    def _cleaned_terms(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        terms = {name: cleaned[name] for name in ("weight", "best_effort")}
        return {**terms, "group": cleaned["group"] or None, "tier": cleaned["tier"] or 0}

    def perform(self, cleaned: dict[str, Any]) -> Membership:
        present = None if self.adding else self.instance
        membership, _ = member_put(
            pool=present.pool if present else cleaned["pool"],
            tenant=present.tenant if present else cleaned["tenant"],
            **self._cleaned_terms(cleaned),
            own_servers=cleaned["own_servers"] or None,
            **{kind: cleaned[kind] for kind in AMOUNTS},
            version=present.version if present else None,
            now=utc_now(),
        )
        return membership


def _stated_terms(terms: MembershipTerms) -> dict[str, Any]:
    return {
        "weight": terms.weight,
        "best_effort": terms.best_effort,
        "group": terms.group.slug if terms.group else None,
        "tier": terms.tier,
    }


class MembershipAdmin(ServiceAdmin):
    """The admin of members, registered by `allocation.admin`, which shows a changed weight's effect."""

    form = MembershipForm
    list_display = ["tenant", "pool", "present_terms", "group", "tier", "admitted_at"]
    list_filter = ["pool", ("ended_at", MemberFilter)]
    filter_titles: ClassVar = {"ended_at": "Current or former"}
    list_select_related = ["tenant", "pool"]
    search_fields = ["tenant__slug", "tenant__name", "pool__slug"]
    search_place = 4
    autocomplete_fields = ["pool", "tenant"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        # Three columns read the terms of each row.
        return super().get_queryset(request).prefetch_related("terms__group")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "tenant", "admitted_at", "ended_at"] if obj else []

    @admin.display(description="weight")
    def present_terms(self, membership: Membership) -> str:
        terms = self._present(membership)
        if terms is None:
            return "ended"
        return f"{terms.weight.normalize():f}" + (" (best effort)" if terms.best_effort else "")

    @admin.display(description="group")
    def group(self, membership: Membership) -> str:
        terms = self._present(membership)
        return str(terms.group or "") if terms else ""

    @admin.display(description="tier")
    def tier(self, membership: Membership) -> str:
        terms = self._present(membership)
        return str(terms.tier) if terms else ""

    def _present(self, membership: Membership) -> MembershipTerms | None:
        # Chosen in Python: `filter()` would ignore the prefetched terms and query once per cell.
        return next((terms for terms in membership.terms.all() if terms.end is None), None)
