"""Pools, their members and servers in the admin, with the impact of a change before it is saved."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from allocator_service.allocation.admin.pool_form import PoolForm
from allocator_service.allocation.admin.tabs import Tab, TabRequest, all_tabs, tabs_for
from allocator_service.allocation.policies import options_text, policy_title
from allocator_service.allocation.services import run_request
from allocator_service.allocation.what_if.impact import (
    changed_pool,
    changed_pool_impact,
    servers_impact,
)
from allocator_service.core.admin import ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.history import Difference
from allocator_service.core.list_filters import NamedChoices, PresentFilter
from allocator_service.core.service_forms import ServiceForm, form_differences
from allocator_service.imports.admin import FileImportAdmin, ServerFileForm, TreeFileForm
from allocator_service.pools.admin import MembershipAdmin, ServerAdmin
from allocator_service.pools.group_admin import GroupAdmin
from allocator_service.pools.limits import Limit
from allocator_service.pools.models import Group, Membership, Pool, Server, ServerState
from allocator_service.pools.services import pool_retire

MAX_SHOWN_FIRST = 1_000
SERVERS_NAMED = 20
SETTINGS = "settings"
# Fields that decide which guarantees can be met, as those that the API warns for.
_GUARANTEEING = {"guarantee", "own_servers", "count", "lend"}


def _guarantee_dates(form: ServiceForm) -> list[datetime] | None:
    """Return the instants at which guarantees of a valid form begin, None if it changes no guarantee."""
    if not _GUARANTEEING.intersection(form.changed_data):
        return None
    rows: list[Limit] = form.cleaned_data.get("guarantee", [])
    return [row.start for row in rows if row.start is not None]


class ImpactFormAdmin(ServiceAdmin):
    """A form that shows the impact of its change on the tenants before it is saved."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show the form, or the page of a change's impact before the change is saved."""
        if request.method == "POST" and object_id and not request.POST.get("confirmed"):
            page = self._impact_page(request, object_id)
            if page is not None:
                return page
        return super().changeform_view(request, object_id, form_url, extra_context)

    def _impact_page(self, request: HttpRequest, object_id: str) -> HttpResponse | None:
        present = self.get_object(request, object_id)
        if present is None or not self.has_change_permission(request, present):
            return None
        form = cast("ServiceForm", self.get_form(request, present)(request.POST, instance=present))
        pool, now = present if isinstance(present, Pool) else present.pool, utc_now()
        # Made and undone: the impact is shown only of a change that the service accepts.
        with transaction.atomic():
            changed = None
            if form.is_valid():
                changed = changed_pool(pool, now=now, later=_guarantee_dates(form))
            transaction.set_rollback(True)
        # After it: the form compares with the settings that are stored.
        subjects = form.affecting() if changed else []
        if changed is None or not subjects:
            return None
        skipped = {"csrfmiddlewaretoken", "reason"}
        context = {
            **self.admin_site.each_context(request),
            "title": f"Change {present}",
            "differences": form_differences(form),
            "impacts": [changed_pool_impact(pool, changed, ", ".join(subjects), now=now)],
            "hidden": [
                (name, value)
                for name, values in request.POST.lists()
                if name not in skipped
                for value in values
            ],
            "reason": request.POST.get("reason", ""),
            "leave": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
            "list": self.opts.verbose_name_plural,
        }
        return render(request, "admin/pools/impact.html", context)


@admin.register(Membership)
class ImpactMembershipAdmin(ImpactFormAdmin, MembershipAdmin):
    """Members, with the impact of a new weight before it is saved."""


@admin.register(Group)
class ImpactGroupAdmin(ImpactFormAdmin, FileImportAdmin, GroupAdmin):
    """Groups, with the effect of another parent, weight or tier before it is saved."""

    file_form = TreeFileForm


class PolicyFilter(NamedChoices, admin.AllValuesFieldListFilter):
    """A filter of pools by policy."""

    def name_of(self, value: str) -> str:
        return policy_title(value)


@admin.register(Pool)
class PoolAdmin(ImpactFormAdmin):
    """Pools, each with a page of tabs that apps register."""

    pool_path = "slug"
    limited_may = ("view", "change")
    form = PoolForm
    list_display = [
        "slug", "name", "policy", "weights", "generation", "retired_at", "overview",
    ]  # fmt: skip
    list_filter = [("policy_name", PolicyFilter), "weights", ("retired_at", PresentFilter)]
    filter_titles: ClassVar = {
        "policy_name": "Policy",
        "weights": "Source of weights",
        "retired_at": "Current or retired",
    }
    search_fields = ["slug", "name"]
    search_place = 1
    actions = ["recompute", "retire"]
    durations = (
        "window_length", "window_half_life", "decision_interval", "cluster_grace", "minimum_run",
        "notice",
    )  # fmt: skip
    texts_of: ClassVar = {"policy_options": options_text, "policy_name": policy_title}

    def search_note(self, row: Pool) -> str:
        return row.name

    def search_url(self, row: Pool) -> str:
        return reverse("admin:pools_pool_overview", args=[row.pk])

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["slug", "generation", "created_at", "retired_at"] if obj else []

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return the form class, which adds the fields of the policies' options."""
        return super().get_form(
            request, obj, change, **{**kwargs, "fields": list(PoolForm.Meta.fields)}
        )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            names = [
                *PoolForm.Meta.fields,
                "policy_options",
                *self.get_readonly_fields(request, obj),
            ]
            return [(None, {"fields": list(dict.fromkeys(names))})]
        form = self.form(instance=obj)
        readonly = self.get_readonly_fields(request, obj)
        shown = [
            (title, [name for name in names if name in form.fields and name not in readonly])
            for title, names in form.sections()
        ]
        return [
            *((title or None, {"fields": names}) for title, names in shown),
            (None, {"fields": ["reason", *readonly]}),
        ]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        tabs = [
            path(f"<int:pk>/{tab.route}", view(partial(self.tab, tab=tab)), name=tab.local_name)
            for tab in all_tabs()
        ]
        return [*tabs, *super().get_urls()]

    def tab(self, request: HttpRequest, pk: int, tab: Tab) -> HttpResponse:
        """Show one tab of a pool's page."""
        # Tabs of other apps have permissions of their own: seeing pools is not enough for their money.
        if not self.has_view_permission(request) or not request.user.has_perm(tab.permission):
            raise PermissionDenied
        pool = self.of_theirs(request, Pool, pk=pk)
        prefetch_related_objects([pool], "resource_types")
        asked = TabRequest(pool, request.GET, request.user, utc_now())
        content = dict(tab.content(asked))
        content["charts"] = [
            (chart.title, mark_safe(chart.picture))  # noqa: S308 - escaped by core.charts
            for chart in content.get("charts", [])
        ]
        context = {
            **self.admin_site.each_context(request),
            "title": f"{pool.name}: {tab.title}",
            "tab_title": tab.title,
            **self._tabs(request, pool, tab.name),
            **content,
        }
        return render(request, tab.template, context)

    def _tabs(self, request: HttpRequest, pool: Pool, current: str) -> dict[str, Any]:
        """Return the context of the bar of tabs."""
        tabs = [
            (tab.title, reverse(tab.url_name, args=[pool.pk]), tab.name == current)
            for tab in tabs_for(request.user)
        ]
        settings = reverse("admin:pools_pool_change", args=[pool.pk])
        return {"pool": pool, "tabs": [*tabs, ("Settings", settings, current == SETTINGS)]}

    def page_context(self, request: HttpRequest, row: Pool) -> dict[str, Any]:
        """Return the bar of tabs, of which the form is the last one."""
        return self._tabs(request, row, SETTINGS)

    @admin.display(description="policy", ordering="policy_name")
    def policy(self, pool: Pool) -> str:
        return policy_title(pool.policy_name)

    @admin.display(description="overview")
    def overview(self, pool: Pool) -> str:
        return format_html(
            '<a href="{}">overview</a>', reverse("admin:pools_pool_overview", args=[pool.pk])
        )

    @admin.action(description="Recompute the decision now", permissions=["change"])
    def recompute(self, request: HttpRequest, queryset: QuerySet[Pool]) -> None:
        now = utc_now()
        reason = f"requested in the admin by {request.user}"
        self.apply_to_each(
            request, queryset, lambda pool: run_request(pool=pool, reason=reason, now=now), "queued"
        )

    @admin.action(description="Retire the selected pools permanently", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Pool]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda pool: pool_retire(pool=pool, version=None, now=now),
            "retired",
            already=Q(retired_at__isnull=False),
        )


@admin.register(Server)
class ImpactServerAdmin(FileImportAdmin, ServerAdmin):
    """Servers, with the impact of draining or retiring and a reason before it is done."""

    file_form = ServerFileForm

    @admin.action(
        description="Drain: take out of the capacity, keep as contributed", permissions=["change"]
    )
    def drain(self, request: HttpRequest, queryset: QuerySet[Server]) -> HttpResponse | None:
        return self._shown_first(request, queryset, "drain", super().drain)

    @admin.action(description="Retire permanently: end the contribution", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Server]) -> HttpResponse | None:
        return self._shown_first(request, queryset, "retire", super().retire)

    def _shown_first(
        self,
        request: HttpRequest,
        queryset: QuerySet[Server],
        action: str,
        service: Callable[[HttpRequest, QuerySet[Server]], object],
    ) -> HttpResponse | None:
        if request.POST.get("confirmed") and request.POST.get("reason", "").strip():
            service(request, queryset)
            return None
        # Confirmed are exactly those whose impact was shown, hence the bound.
        servers = list(queryset.exclude(state=ServerState.RETIRED)[:MAX_SHOWN_FIRST])
        after = {"drain": ServerState.DRAINING, "retire": ServerState.RETIRED}[action].label.lower()
        context = {
            **self.admin_site.each_context(request),
            "title": f"{action.title()} {len(servers)} server{'' if len(servers) == 1 else 's'}",
            "differences": [
                Difference(server.name, server.get_state_display().lower(), after)
                for server in servers[:SERVERS_NAMED]
            ],
            "more": max(len(servers) - SERVERS_NAMED, 0),
            "impacts": servers_impact(servers, action, now=utc_now()),
            "hidden": [
                ("action", action),
                *(("_selected_action", str(server.pk)) for server in servers),
            ],
            "reason": request.POST.get("reason", ""),
            "leave": reverse("admin:pools_server_changelist"),
            "list": Server._meta.verbose_name_plural,
        }
        return render(request, "admin/pools/impact.html", context)
