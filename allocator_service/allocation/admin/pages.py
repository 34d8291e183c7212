"""Pools, their members and servers in the admin, with what a change would do before it is done."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from allocator_service.allocation.admin.tabs import Tab, TabRequest, all_tabs, tabs_for
from allocator_service.allocation.policies import policy_choose, policy_documents, policy_title
from allocator_service.allocation.services import run_request
from allocator_service.allocation.what_if.impact import changes_impact, servers_impact
from allocator_service.core.admin import (
    ServiceAdmin,
    ServiceForm,
    form_differences,
    refuse_unread,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.core.history import Difference
from allocator_service.core.quantities import Resource
from allocator_service.imports.admin import FileImportAdmin, ServerFileForm, TreeFileForm
from allocator_service.pools.admin import MembershipAdmin, ServerAdmin
from allocator_service.pools.group_admin import GroupAdmin
from allocator_service.pools.models import Group, Membership, Pool, Server, ServerState
from allocator_service.pools.policy import DEFAULT_ANCHOR, PolicyChoice, Window
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.services import PoolSettings, pool_create, pool_retire, pool_update
from policies.fields import TextField

MAX_SHOWN_FIRST = 1_000
SERVERS_NAMED = 20
SETTINGS = "settings"


def _options_help() -> str:
    """Return the options that each policy takes, with the values of those that have a list."""
    of_policies = []
    for policy in policy_documents():
        options = [
            f"{name} ({', '.join(option['enum'])})" if "enum" in option else name
            for name, option in policy["options"].get("properties", {}).items()
        ]
        if options:
            of_policies.append(f"{policy['name']}: {', '.join(options)}.")
    return " ".join(["A JSON object. Options by policy:", *of_policies])


class PoolForm(ServiceForm):
    resources = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}),
        initial="cpu core\nmemory GiB",
        help_text="One a line: name and unit. Resources can be added later, not removed.",
    )
    policy_name = forms.ChoiceField(
        label="policy",
        choices=lambda: [(policy["name"], policy["title"]) for policy in policy_documents()],
        initial="drfh",
        help_text="drfh is fair on servers of every shape. Which one: docs/policies/choosing.md.",
    )
    policy_mode = forms.ChoiceField(
        label="mode",
        choices=[("", "the policy's default"), ("divisible",) * 2, ("indivisible",) * 2],
        required=False,
        help_text="Whether tasks may be handed out in parts.",
    )

    class Meta:
        model = Pool
        fields = [
            "slug",
            "name",
            "resources",
            "policy_name",
            "policy_mode",
            "policy_options",
            "weights",
            "own_servers",
            "count",
            "window_kind",
            "window_length",
            "window_half_life",
            "window_anchor",
            "decision_interval",
            "cluster_grace",
            "metering",
            "currency",
            "timezone",
            "transparent",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "policy_options" in self.fields:
            self.fields["policy_options"].help_text = _options_help()
        if self.adding:
            self.initial.setdefault("window_anchor", DEFAULT_ANCHOR)
        else:
            self.initial["resources"] = "\n".join(
                f"{resource.name} {resource.unit}".strip()
                for resource in resources_of(self.instance)
            )

    def clean_resources(self) -> list[Resource]:
        lines = [line.split(maxsplit=1) for line in self.cleaned_data["resources"].splitlines()]
        for name, *unit in filter(None, lines):
            refuse_unread(TextField(max_length=63), name)
            refuse_unread(TextField(max_length=20, blank=True), unit[0].strip() if unit else "")
        return [Resource(*parts) for parts in lines if parts]

    def changes(self) -> dict[str, Any]:
        cleaned, pool = self.cleaned_data, self.instance
        policy = self._policy(cleaned)
        now = (pool.policy_name, pool.policy_mode, pool.policy_options)
        changes: dict[str, Any] = {}
        if (policy.name, policy.mode, policy.options) != now:
            changes["policy"] = {
                "name": policy.name,
                "mode": policy.mode,
                "options": policy.options,
            }
        if cleaned["weights"] != pool.weights:
            changes["weights"] = cleaned["weights"]
        changes |= {
            name: cleaned[name]
            for name in ("own_servers", "count")
            if cleaned[name] != getattr(pool, name)
        }
        return changes

    def _policy(self, cleaned: dict[str, Any]) -> PolicyChoice:
        return policy_choose(
            cleaned["policy_name"], cleaned["policy_mode"] or None, cleaned["policy_options"]
        )

    def perform(self, cleaned: dict[str, Any]) -> Pool:
        settings = PoolSettings(
            name=cleaned["name"],
            resources=cleaned["resources"],
            policy=self._policy(cleaned),
            window=Window(
                cleaned["window_kind"],
                cleaned["window_anchor"],
                cleaned["window_length"],
                cleaned["window_half_life"],
            ),
            weights=cleaned["weights"],
            own_servers=cleaned["own_servers"],
            count=cleaned["count"],
            decision_interval=cleaned["decision_interval"],
            cluster_grace=cleaned["cluster_grace"],
            metering=cleaned["metering"],
            currency=cleaned["currency"],
            timezone=cleaned["timezone"],
            transparent=cleaned["transparent"],
        )
        if self.adding:
            return pool_create(slug=cleaned["slug"], settings=settings, now=utc_now())
        return pool_update(pool=self.instance, settings=settings, version=None, now=utc_now())


class ImpactFormAdmin(ServiceAdmin):
    """A form that shows what its change would do to the tenants before it is saved."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """The form; when it is sent and would change decisions, first the page that says how."""
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
        form.performs = False
        try:
            changes = form.changes() if form.is_valid() else {}
        except DomainError:
            changes = {}  # the form itself says what the service refuses
        if not changes:
            return None
        pool = present if isinstance(present, Pool) else present.pool
        skipped = {"csrfmiddlewaretoken", "reason"}
        context = {
            **self.admin_site.each_context(request),
            "title": f"Change {present}",
            "differences": form_differences(form),
            "impacts": [changes_impact(pool, changes, ", ".join(changes), now=utc_now())],
            "hidden": [
                (name, value)
                for name, values in request.POST.lists()
                if name not in skipped
                for value in values
            ],
            "reason": request.POST.get("reason", ""),
            "leave": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
        }
        return render(request, "admin/pools/impact.html", context)


@admin.register(Membership)
class ImpactMembershipAdmin(ImpactFormAdmin, MembershipAdmin):
    """Members, whose new weight is shown with what it does before it is saved."""


@admin.register(Group)
class ImpactGroupAdmin(ImpactFormAdmin, FileImportAdmin, GroupAdmin):
    """Groups, with the effect of another parent, weight or tier before it is saved."""

    file_form = TreeFileForm


@admin.register(Pool)
class PoolAdmin(ImpactFormAdmin):
    """Pools, each with a page of tabs that apps register."""

    pool_path = "slug"
    limited_may = ("view", "change")
    form = PoolForm
    list_display = [
        "slug", "name", "policy", "weights", "generation", "retired_at", "overview",
    ]  # fmt: skip
    list_filter = ["policy_name", "weights", ("retired_at", admin.EmptyFieldListFilter)]
    search_fields = ["slug", "name"]
    search_place = 1
    actions = ["recompute", "retire"]

    def search_note(self, row: Pool) -> str:
        return row.name

    def search_url(self, row: Pool) -> str:
        return reverse("admin:pools_pool_overview", args=[row.pk])

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["slug", "generation", "created_at", "retired_at"] if obj else []

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        tabs = [
            path(f"<int:pk>/{tab.route}", view(partial(self.tab, tab=tab)), name=tab.local_name)
            for tab in all_tabs()
        ]
        return [*tabs, *super().get_urls()]

    def tab(self, request: HttpRequest, pk: int, tab: Tab) -> HttpResponse:
        """One tab of a pool's page."""
        if not self.has_view_permission(request) or not request.user.has_perm(tab.permission):
            raise PermissionDenied
        pool = self.of_theirs(request, Pool, pk=pk)
        prefetch_related_objects([pool], "resource_types")
        asked = TabRequest(pool, request.GET, request.user, utc_now())
        content = dict(tab.content(asked))
        content["charts"] = [
            (chart.title, mark_safe(chart.svg))  # noqa: S308 - escaped by core.charts
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

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The form, as the last of the tabs."""
        pool = self.get_object(request, object_id)
        tabs = {} if pool is None else self._tabs(request, pool, SETTINGS)
        return super().change_view(request, object_id, form_url, {**tabs, **(extra_context or {})})

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
    """Servers, whose draining and retiring is shown, and given a reason, before it is done."""

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
        }
        return render(request, "admin/pools/impact.html", context)
