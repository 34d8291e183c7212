"""Decisions in the admin, read-only for superusers too, with explanation, proof and verification."""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST

from allocator_service.allocation.admin.shares import ORDERS, Asked, share_page
from allocator_service.allocation.audit.decisions import refuse_undecided, run_proof, run_verify
from allocator_service.allocation.models import Allocation, Run, RunStatus
from allocator_service.allocation.placement_list import PlacementList
from allocator_service.allocation.policies import options_text, policy_title
from allocator_service.allocation.selectors import demands_of, input_of
from allocator_service.allocation.what_if.counterfactuals import Binding
from allocator_service.allocation.what_if.explanations import run_explain
from allocator_service.allocation.words import away_texts
from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.display import number_text, percent_text
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.core.quantity_fields import quantities_shown
from allocator_service.core.shown_fields import between
from allocator_service.core.templatetags.shown import second, significant
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.reason_texts import OPERATOR, reason_text

COUNTERFACTUALS = 5
PLACEMENTS_A_PAGE = 100


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, each with pages for a tenant's explanation, the proof and its verification."""

    appears = "A run appears when a pool is decided anew, a moment after each change in it."
    change_form_template = "admin/allocation/run/change_form.html"
    list_display = [
        "created_at", "pool", "status", "generation", "reason", "effective", "seconds",
    ]  # fmt: skip
    list_filter = ["status", "pool"]
    list_select_related = ["pool"]
    readonly_fields = [
        "of_pool",
        "status",
        "why_failed",
        "reason",
        "generation",
        "decided_by",
        "in_force",
        "created_at",
        "started_at",
        "finished_at",
        "seconds",
        "attempts",
        "results",
        "snapshot",
        "pruned_at",
        "request_id",
    ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return all fields of a run, in their order on the page."""
        return list(self.readonly_fields)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path(
                "<uuid:pk>/explanation/<str:tenant>/",
                view(self.explanation),
                name="allocation_run_explanation",
            ),
            path("<uuid:pk>/placements/", view(self.placements), name="allocation_run_placements"),
            path("<uuid:pk>/proof/", view(self.proof), name="allocation_run_proof"),
            path(
                "<uuid:pk>/verification/",
                view(require_POST(self.verification)),
                name="allocation_run_verification",
            ),
            *super().get_urls(),
        ]

    def page_context(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        """Return the outcome of the run, with the part of each tenant."""
        context: dict[str, Any] = {"title": "Run", "orders": ORDERS}
        if row.status == RunStatus.SUCCEEDED:
            resources = resources_of(row.pool)
            shares = share_page(row.pool, row, resources, Asked.of(request.GET))
            context |= {"run": row, "resources": resources, "shares": shares}
        return context

    def explanation(self, request: HttpRequest, pk: UUID, tenant: str) -> HttpResponse:
        """Explain a tenant's part of the decision, with changes that would increase it.

        Each change is tried as the API tries it.
        """
        run = self._visible(request, pk)
        of = self.of_theirs(request, Tenant, slug=tenant)
        resources = resources_of(run.pool)

        def explained() -> Mapping[str, Any]:
            found = run_explain(run=run, tenant=of, most=COUNTERFACTUALS, now=utc_now())
            binding = [(each, _capacity(each, resources)) for each in found.binding]
            gone = away_texts(run, tenant, found.reasons)
            reasons = [
                (name, gone.get(name) or reason_text(why, OPERATOR))
                for name, why in found.reasons.items()
            ]
            return {"explanation": found, "binding": binding, "reasons": reasons}

        return self._page(request, run, "explanation", f"Why {tenant} got this", explained)

    def placements(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Show a page of placements."""
        run = self._visible(request, pk)

        def placed() -> Mapping[str, Any]:
            refuse_undecided(run)
            paginator = Paginator(PlacementList(run, None), PLACEMENTS_A_PAGE)
            page = paginator.get_page(request.GET.get("page", "1"))
            demands = demands_of(run)
            return {
                "page": page,
                "pages": list(paginator.get_elided_page_range(page.number)),
                "rows": [
                    (row, "piece" if demands[row.workload_id].has_pieces else "task")
                    for row in page.object_list
                ],
            }

        return self._page(request, run, "placements", "Where tasks run", placed)

    def proof(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """All that an outsider needs to verify the decision, as `python -m policies verify` takes it."""
        run = self._visible(request, pk)
        try:
            refuse_undecided(run)
            proof = run_proof(run, input_of(run))
        except DomainError as error:
            return self._refused(request, run, error)
        return HttpResponse(
            json.dumps(proof, ensure_ascii=False, default=str),
            content_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="proof-{run.pk}.json"'},
        )

    def verification(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Check the stored decision again, without a solver and without storing the result."""
        run = self._visible(request, pk)

        def verified() -> Mapping[str, Any]:
            return {"verification": run_verify(run)}

        return self._page(request, run, "verification", "Verification", verified)

    def _visible(self, request: HttpRequest, pk: UUID) -> Run:
        if not self.has_view_permission(request):
            raise PermissionDenied
        run = self.of_theirs(request, Run, pk=pk)
        prefetch_related_objects([run], "pool__resource_types")
        return run

    def _page(
        self,
        request: HttpRequest,
        run: Run,
        name: str,
        title: str,
        content: Callable[[], Mapping[str, Any]],
    ) -> HttpResponse:
        try:
            found = content()
        except DomainError as error:
            return self._refused(request, run, error)
        context = {**self.admin_site.each_context(request), "title": title, "run": run, **found}
        return render(request, f"admin/allocation/run/{name}.html", context)

    def _refused(self, request: HttpRequest, run: Run, error: DomainError) -> HttpResponse:
        self.message_user(request, f"{error.detail} ({error.code})", messages.ERROR)
        return redirect("admin:allocation_run_change", run.pk)

    @admin.display(description="pool")
    def of_pool(self, run: Run) -> SafeString:
        url = reverse("admin:pools_pool_overview", args=[run.pool_id])
        return format_html('<a href="{}">{}</a>', url, run.pool)

    @admin.display(description="error")
    def why_failed(self, run: Run) -> str:
        return f"{run.error['detail']} ({run.error['code']})" if run.error else "-"

    @admin.display(description="policy")
    def decided_by(self, run: Run) -> str:
        if not run.policy:
            return "-"
        options = options_text(run.policy["options"])
        return f"{policy_title(run.policy['name'])}, {run.policy['mode']}" + (
            f", {options}" if options else ""
        )

    @admin.display(description="in force", ordering="effective_from", empty_value="never")
    def effective(self, run: Run) -> SafeString | None:
        return between(run.effective_from, run.effective_until)

    @admin.display(description="in force")
    def in_force(self, run: Run) -> SafeString | str:
        if run.effective_from is None:
            return "never"
        until = second(run.effective_until, "now")
        return format_html("{} until {}", second(run.effective_from), until)

    @admin.display(description="time in the solver", ordering="solve_seconds", empty_value="-")
    def seconds(self, run: Run) -> str | None:
        if run.solve_seconds is None:
            return None
        return f"{number_text(Decimal(repr(run.solve_seconds)))}\N{NO-BREAK SPACE}s"

    @admin.display(description="outcome")
    def results(self, run: Run) -> SafeString | str:
        if not run.summary:
            return "-"
        rows = [(name.replace("_", " "), text) for name, text in _summary_shown(run.summary)]
        return format_html_join(mark_safe("<br>"), "{}: {}", rows)


def _capacity(binding: Binding, resources: Sequence[Resource]) -> str:
    """Return the capacity of one of the servers on which a resource binds, as text."""
    servers = binding.servers
    return "" if servers is None else quantities_shown(servers.traits.capacity, resources)


def _summary_shown(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the numbers of a summary, each with its label."""
    shown = []
    for name, value in summary.items():
        if isinstance(value, Mapping):
            shown += [(f"{name} of {part}", percent_text(each)) for part, each in value.items()]
        elif value is not None:
            shown.append((name, significant(value)))
    return shown


@admin.register(Allocation)
class AllocationAdmin(ReadOnlyAdmin):
    appears = "Each run that succeeds adds an allocation for each workload of its pool."
    pool_path = "run__pool__slug"
    list_display = [
        "workload",
        "tenant",
        "run",
        "tasks",
        "dominant_resource",
        "dominant_share",
        "weighted_share",
        "why_no_more",
    ]
    list_select_related = ["workload", "tenant", "run__pool"]
    shares = ("dominant_share", "weighted_share")
    search_fields = ["tenant__slug", "workload__name"]
    ordering = ["-id"]
    exclude = ["resources", "limited_by", "position"]
    readonly_fields: ClassVar = ["allocated", "why_no_more"]

    @admin.display(description="allocated")
    def allocated(self, row: Allocation) -> str:
        amounts = [Decimal(repr(amount)) for amount in row.resources]
        return quantities_shown(amounts, resources_of(row.run.pool))

    @admin.display(description="why no more", ordering="limited_by", empty_value="-")
    def why_no_more(self, row: Allocation) -> str | None:
        return reason_text(row.limited_by, OPERATOR) if row.limited_by else None
