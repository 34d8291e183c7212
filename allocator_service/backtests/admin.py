"""Backtests in the admin, to start, watch, read and cancel."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from allocator_service.allocation.audit.decisions import refuse_undecided
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import input_of
from allocator_service.backtests.answers import label_of
from allocator_service.backtests.forms import BacktestForm
from allocator_service.backtests.models import OPEN, Backtest, BacktestStatus
from allocator_service.backtests.reports import report_page, shown
from allocator_service.backtests.selectors import Holder, backtests_of, percent
from allocator_service.backtests.services import backtest_cancel, backtest_request
from allocator_service.backtests.side_by_side import side_by_side
from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.core.shown_fields import instant
from allocator_service.core.visible import visible_pools
from allocator_service.pools.models import Pool


@admin.register(Backtest)
class BacktestAdmin(ReadOnlyAdmin):
    appears = "A backtest appears when an operator or a tenant starts it."
    list_display = ["title", "progress", "policies", "pool", "asked_by", "created_at"]
    list_filter = ["status"]
    ordering = ["-id"]
    fields = [
        "title", "status", "done", "policies", "pool", "asked_by", "plan", "created_at",
        "finished_at", "why",
    ]  # fmt: skip
    change_list_template = "admin/backtests/backtest/change_list.html"
    change_form_template = "admin/backtests/backtest/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Backtest]:
        seen = visible_pools(request.user)
        return seen.of(backtests_of(Holder()), "pool__slug")

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("start/", view(self.start), name="backtests_backtest_start"),
            path("run/<uuid:run>/", view(self.of_run), name="backtests_of_run"),
            path("<uuid:object_id>/cancel/", view(self.cancel), name="backtests_backtest_cancel"),
            path("<uuid:object_id>/report/", view(self.report), name="backtests_backtest_report"),
            *super().get_urls(),
        ]

    @admin.display(description="backtest")
    def title(self, backtest: Backtest) -> str:
        return str(backtest)

    @admin.display(description="status", ordering="status")
    def progress(self, backtest: Backtest) -> SafeString | str:
        status = backtest.get_status_display()
        if backtest.finished_at is not None:
            return format_html("{} {}", status, instant(backtest.finished_at))
        return f"{status}, {self.done(backtest)}"

    @admin.display(description="done")
    def done(self, backtest: Backtest) -> str:
        return f"{percent(backtest)}\N{NO-BREAK SPACE}%"

    @admin.display(description="policies")
    def policies(self, backtest: Backtest) -> str:
        return ", ".join(label_of(each) for each in backtest.spec["policies"])

    @admin.display(description="asked by")
    def asked_by(self, backtest: Backtest) -> str:
        return str(backtest.key or backtest.started_by)

    @admin.display(description="why it failed")
    def why(self, backtest: Backtest) -> str:
        return str((backtest.error or {}).get("detail", "–"))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        starts = request.user.has_perm("backtests.add_backtest")
        return super().changelist_view(request, {**(extra_context or {}), "starts": starts})

    def page_context(self, request: HttpRequest, row: Backtest) -> dict[str, Any]:
        """Return the state of the backtest, with its results once it has succeeded."""
        is_open = row.status in OPEN
        cancels = is_open and request.user.has_perm("backtests.change_backtest")
        results = shown(row) if row.status == BacktestStatus.SUCCEEDED else {}
        return {"open": is_open, "cancels": cancels, **results}

    def start(self, request: HttpRequest) -> HttpResponse:
        """Request a backtest."""
        if not request.user.has_perm("backtests.add_backtest"):
            raise PermissionDenied
        seen = visible_pools(request.user)
        form = BacktestForm(
            request.POST or None,
            request.FILES or None,
            pools=seen.of(Pool.objects.all(), "slug"),
            of_pools=seen.limited,  # what they see is what belongs to one of their pools
        )
        if request.method == "POST" and form.is_valid():
            try:
                backtest = backtest_request(
                    holder=Holder(user=request.user.get_username()),
                    tenant=None,
                    pool=form.cleaned_data["pool"],
                    plan=None,
                    names=None,
                    asked=form.asked(),
                    now=utc_now(),
                )
            except DomainError as error:
                form.refused(error)
            else:
                self.message_user(request, "The backtest is queued.", messages.SUCCESS)
                return redirect("admin:backtests_backtest_change", backtest.pk)
        context = {
            **self.admin_site.each_context(request),
            "title": "Start a backtest",
            "opts": self.opts,
            "form": form,
        }
        return render(request, "admin/backtests/backtest/start.html", context)

    def of_run(self, request: HttpRequest, run: UUID) -> HttpResponse:
        """Show the answers of other policies for a decision's input, computed now and not stored."""
        if not request.user.has_perm("allocation.view_run"):
            raise PermissionDenied
        found = self.of_theirs(request, Run, pk=run)
        try:
            refuse_undecided(found)
            answers = side_by_side(input_of(found))
        except DomainError as error:
            self.message_user(request, f"{error.detail} ({error.code})", messages.ERROR)
            return redirect("admin:allocation_run_change", found.pk)
        context = {
            **self.admin_site.each_context(request),
            "title": "Policies side by side",
            "opts": self.opts,
            "run": found,
            **answers,
        }
        return render(request, "admin/backtests/backtest/of_run.html", context)

    def cancel(self, request: HttpRequest, object_id: UUID) -> HttpResponse:
        """Cancel a backtest, by POST alone."""
        if request.method != "POST" or not request.user.has_perm("backtests.change_backtest"):
            raise PermissionDenied
        found = get_object_or_404(self.get_queryset(request), pk=object_id)
        try:
            backtest_cancel(backtest=found, now=utc_now())
        except DomainError as error:
            self.message_user(request, error.detail, messages.ERROR)
        else:
            self.message_user(request, "The backtest is cancelled.", messages.SUCCESS)
        return redirect("admin:backtests_backtest_changelist")

    def report(self, request: HttpRequest, object_id: UUID) -> HttpResponse:
        """Return the report as a page to send on."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        done = self.get_queryset(request).filter(status=BacktestStatus.SUCCEEDED)
        found = get_object_or_404(done, pk=object_id)
        name = f'attachment; filename="backtest-{found.pk}.html"'
        return HttpResponse(report_page(found), headers={"Content-Disposition": name})
