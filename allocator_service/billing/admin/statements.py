"""Statements and the closing of months in the admin."""

from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from allocator_service.billing.credit_notes import credit_note_create, credit_note_reverse
from allocator_service.billing.exports.focus import COLUMNS, focus_documents, focus_rows
from allocator_service.billing.models import Closing, CreditNote, Posting, Statement
from allocator_service.billing.months import month_named
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.documents import LINE_COLUMNS, document_of
from allocator_service.billing.statements.documents import money_text as written_money
from allocator_service.billing.statements.drafting import months_over, open_month
from allocator_service.billing.statements.names import statement_names
from allocator_service.billing.statements.pages import line_rows, statement_page
from allocator_service.billing.statements.paper.sheets import statement_pdf
from allocator_service.billing.statements.selectors import month_content, statement_content
from allocator_service.billing.tie_out import billing_report
from allocator_service.core.admin import ReadOnlyAdmin, ServiceAdmin
from allocator_service.core.board import Notice, Section, Urgency, board_section
from allocator_service.core.clock import utc_now
from allocator_service.core.display import counted, instant_text, money_text, month_text
from allocator_service.core.documents import csv_bytes, csv_stream
from allocator_service.core.errors import DomainError
from allocator_service.core.list_filters import MonthFilter
from allocator_service.core.ordering import natural_order
from allocator_service.core.service_forms import ServiceForm
from allocator_service.core.shown_fields import breakable
from allocator_service.core.templatetags.shown import second
from allocator_service.core.visible import VisiblePools, visible_pools
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

MONTHS_SHOWN = 10
LINES_SHOWN = 500
DOWNLOADS = {"pdf": "PDF, to send", "json": "JSON, as it is stored", "csv": "CSV, its lines"}
_FOCUS = sorted(COLUMNS, reverse=True)


@board_section(permission="billing.view_closing", place=4)
def months_section(now: datetime, pools: VisiblePools) -> Section:
    """Return the section of the months that are over and can be closed."""
    over = months_over(now=now).items()
    due = sorted((each for each in over if each[0].slug in pools), key=lambda each: each[0].slug)
    notices = [
        Notice(
            Urgency.WARNING,
            f"{pool}: {month_text(str(month))} is over and not closed.",
            reverse("admin:billing_closing_open", args=[pool.pk]),
        )
        for pool, month in due[:MONTHS_SHOWN]
    ]
    if len(due) > MONTHS_SHOWN:
        text = f"{counted(len(due) - MONTHS_SHOWN, 'more pool')} with a month to close."
        url = reverse("admin:billing_closing_changelist")
        notices.append(Notice(Urgency.WARNING, text, url))
    return Section(notices)


@admin.register(Closing)
class ClosingAdmin(ReadOnlyAdmin):
    """Closed months, with pages that show and close the open month of each pool."""

    appears = "A month appears here when it is closed. The open months are closed from this page."
    list_display = ["month_name", "pool", "statements", "closed_at"]
    list_filter = ["pool", ("month", MonthFilter)]
    list_select_related = ["pool"]
    search_fields = ["pool__slug", "pool__name"]
    ordering = ["-month", "pool__slug"]
    readonly_fields: ClassVar = ["period", "statements", "last_entry", "downloads"]
    exclude = ["document", "sequence", "start", "end"]
    change_list_template = "admin/billing/closing/change_list.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("open/<int:pool>/", view(self.open_month), name="billing_closing_open"),
            path(
                "open/<int:pool>/<int:tenant>/", view(self.open_page), name="billing_closing_page"
            ),
            path("<uuid:pk>/focus/<str:version>/", view(self.focus), name="billing_closing_focus"),
            *super().get_urls(),
        ]

    @admin.display(description="downloads")
    def downloads(self, closing: Closing) -> SafeString:
        """Return links to the month's lines in the columns of FOCUS."""
        links = (
            (reverse("admin:billing_closing_focus", args=[closing.pk, each]), f"FOCUS {each}, CSV")
            for each in _FOCUS
        )
        return format_html_join(mark_safe(" · "), '<a href="{}">{}</a>', links)

    def focus(self, request: HttpRequest, pk: Any, version: str) -> StreamingHttpResponse:
        """Return the lines of a month's statements in the columns of FOCUS, as the API exports them."""
        closing = self.of_theirs(request, Closing, pk=pk)
        if not self.has_view_permission(request, closing):
            raise PermissionDenied
        if version not in COLUMNS:
            raise Http404
        rows = (
            row
            for content in focus_documents(closing, None)
            for row in focus_rows(document_of(content), version)
        )
        name = f"focus-{version}-{closing.pool.slug}-{closing}.csv"
        return StreamingHttpResponse(
            csv_stream(rows, COLUMNS[version]),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    @admin.display(description="month", ordering="month")
    def month_name(self, closing: Closing) -> str:
        return month_text(str(closing))

    @admin.display(description="period")
    def period(self, closing: Closing) -> str:
        """Return the period of the month by the clocks of the pool."""
        zone = closing.pool.timezone
        return f"{instant_text(closing.start, zone)} to {instant_text(closing.end, zone)}"

    @admin.display(description="last ledger entry of the month")
    def last_entry(self, closing: Closing) -> str:
        return f"{closing.sequence:,}"

    @admin.display(description="statements")
    def statements(self, closing: Closing) -> SafeString:
        url = reverse("admin:billing_statement_changelist")
        return format_html('<a href="{}?closing__id__exact={}">Statements</a>', url, closing.pk)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        priced = Pool.objects.filter(retired_at=None, money_fixed_at__isnull=False)
        pools = visible_pools(request.user).of(priced, "slug")
        context = {**(extra_context or {}), "pools": pools}
        return super().changelist_view(request, context)

    def page_context(self, request: HttpRequest, row: Closing) -> dict[str, Any]:
        """Return the name of the pool and of its month as the title."""
        return {"title": f"{row.pool.name}: {month_text(str(row))}", "subtitle": None}

    def open_month(self, request: HttpRequest, pool: int) -> HttpResponse:
        """Show a pool's open month, with what it lacks, comes to and does not bill."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        of = self.of_theirs(request, Pool, pk=pool)
        prefetch_related_objects([of], "resource_types")
        month = open_month(of)
        if month is None:
            return redirect("admin:billing_closing_changelist")
        closes = request.user.has_perm("billing.add_closing")
        now = utc_now()
        if request.method == "POST":
            if not closes:
                raise PermissionDenied
            named = month_named(request.POST.get("month", ""), of.timezone)
            try:
                closing = month_close(pool=of, month=named or month, now=now)
            except DomainError as error:
                self.message_user(request, error.detail, messages.ERROR)
            else:
                self.message_user(request, f"Closed: {month_text(str(closing))}.", messages.SUCCESS)
                return redirect("admin:billing_closing_changelist")
        begun = month.start < now
        report = (
            billing_report(pool=of, period=Period([month.start, min(now, month.end)]), now=now)
            if begun
            else None
        )
        document = document_of(month_content(pool=of, month=month, now=now))
        tenants = {each.slug: each for each in Tenant.objects.all()}
        for row in document["accounts"]:
            row["whose"] = tenants.get(row["tenant"])
        context = {
            **self.admin_site.each_context(request),
            "title": f"{of.name}: {month_text(str(month))}",
            "pool": of,
            "month": str(month),
            "document": document,
            "begin": datetime.fromisoformat(document["from"]),
            "end": datetime.fromisoformat(document["to"]),
            "unbilled": [tie for tie in report.ties if tie.not_billable] if report else [],
            "closes": closes and not document["missing"],
        }
        return render(request, "admin/billing/closing/open.html", context)

    def open_page(self, request: HttpRequest, pool: int, tenant: int) -> HttpResponse:
        """Show a tenant's statement of the open month, as it would be sent."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        of = self.of_theirs(request, Pool, pk=pool)
        prefetch_related_objects([of], "resource_types")
        month, whose = open_month(of), self.of_theirs(request, Tenant, pk=tenant)
        if month is None:
            return redirect("admin:billing_closing_changelist")
        content = statement_content(pool=of, month=month, tenant=whose)
        return HttpResponse(statement_page(document_of(content), names=statement_names(of, whose)))


@admin.register(Statement)
class StatementAdmin(ReadOnlyAdmin):
    appears = "The statements of all tenants appear when a month is closed."
    pool_path = "closing__pool__slug"
    list_display = ["tenant", "pool", "month", "amount", "page_link"]
    list_filter = ["closing__pool", ("closing__month", MonthFilter), "tenant"]
    list_select_related = ["closing__pool", "tenant"]
    search_fields = ["tenant__slug", "tenant__name", "closing__pool__slug"]
    search_place = 7
    readonly_fields = ["pool", "month", "tenant", "amount", "closed_at", "downloads"]
    # Ids are in the order of closing, and of no order within a closing.
    ordering = ["-closing__month", "closing__pool__slug", *natural_order("tenant__slug")]

    def search_note(self, row: Statement) -> str:
        return str(row.closing.pool)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return list(self.readonly_fields)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:pk>/page/", view(self.page), name="billing_statement_page"),
            *(
                path(
                    f"<uuid:pk>/statement.{kind}",
                    view(partial(self.download, kind=kind)),
                    name=f"billing_statement_{kind}",
                )
                for kind in DOWNLOADS
            ),
            *super().get_urls(),
        ]

    @admin.display(description="pool")
    def pool(self, statement: Statement) -> str:
        return str(statement.closing.pool)

    @admin.display(description="month", ordering="closing__month")
    def month(self, statement: Statement) -> str:
        return month_text(str(statement.closing))

    @admin.display(description="billed", ordering="billed")
    def amount(self, statement: Statement) -> SafeString:
        pool = statement.closing.pool
        return _money_shown(statement.billed, pool, pool.currency)

    @admin.display(description="closed at")
    def closed_at(self, statement: Statement) -> SafeString | str:
        return second(statement.closing.closed_at)

    @admin.display(description="downloads")
    def downloads(self, statement: Statement) -> SafeString:
        """Return links to the page to send and to the files."""
        links = [(reverse("admin:billing_statement_page", args=[statement.pk]), "Page to print")]
        links += [
            (reverse(f"admin:billing_statement_{kind}", args=[statement.pk]), title)
            for kind, title in DOWNLOADS.items()
        ]
        return format_html_join(mark_safe(" · "), '<a href="{}">{}</a>', links)

    def page_context(self, request: HttpRequest, row: Statement) -> dict[str, Any]:
        """Return the lines of the stored document, as on the page to send."""
        document = document_of(bytes(row.document))
        return {
            "title": f"Statement of {month_text(str(row.closing))}",
            "subtitle": None,
            "currency": document["currency"],
            "totals": document["totals"],
            "rows": line_rows(document)[:LINES_SHOWN],
            "more": max(0, len(document["lines"]) - LINES_SHOWN),
        }

    @admin.display(description="page")
    def page_link(self, statement: Statement) -> SafeString:
        return format_html(
            '<a href="{}">Page</a>', reverse("admin:billing_statement_page", args=[statement.pk])
        )

    def page(self, request: HttpRequest, pk: Any) -> HttpResponse:
        """Show the statement as a page to be printed or sent."""
        statement = self._visible(request, pk)
        names = statement_names(statement.closing.pool, statement.tenant)
        return HttpResponse(statement_page(document_of(bytes(statement.document)), names=names))

    def download(self, request: HttpRequest, pk: Any, kind: str) -> HttpResponse:
        """Return the stored document, its lines as the API writes them, or the file to send."""
        statement = self._visible(request, pk)
        content, media_type = bytes(statement.document), "application/json"
        if kind == "pdf":
            try:
                content, media_type = statement_pdf(document_of(content)), "application/pdf"
            except DomainError as error:
                self.message_user(request, error.detail, messages.ERROR)
                return redirect("admin:billing_statement_change", statement.pk)
        if kind == "csv":
            lines = document_of(content)["lines"]
            content, media_type = csv_bytes(lines, LINE_COLUMNS), "text/csv; charset=utf-8"
        closing = statement.closing
        name = f"statement-{closing.pool.slug}-{closing}-{statement.tenant.slug}.{kind}"
        return HttpResponse(
            content,
            content_type=media_type,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    def _visible(self, request: HttpRequest, pk: Any) -> Statement:
        statement = self.of_theirs(request, Statement, pk=pk)
        if not self.has_view_permission(request, statement):
            raise PermissionDenied
        return statement


def _money_shown(amount: Decimal, pool: Pool, currency: str | None) -> SafeString:
    """Return an amount that stays beside its currency in narrow columns."""
    text = money_text(written_money(amount, minor_digits(pool)), currency or "")
    return breakable(text.replace(" ", "\N{NO-BREAK SPACE}"))


@admin.register(Posting)
class PostingAdmin(ReadOnlyAdmin):
    appears = "Postings appear when a month is closed, and with reratings and credit notes."
    list_display = [
        "month_name", "pool", "kind", "tenant", "resource", "charged", "counterparts",
    ]  # fmt: skip
    list_filter = ["kind", "pool"]
    list_select_related = ["pool", "tenant", "owner"]
    ordering = ["-id"]

    @admin.display(description="month", ordering="month")
    def month_name(self, posting: Posting) -> str:
        return month_text(f"{posting.month:%Y-%m}")

    @admin.display(description="tenant pays", ordering="tenant_amount")
    def charged(self, posting: Posting) -> SafeString:
        return self._money(posting.tenant_amount, posting)

    @admin.display(description="who gets it")
    def counterparts(self, posting: Posting) -> SafeString:
        """Return the other accounts of the posting, whose sum is the tenant's."""
        accounts = (
            (f"owner {posting.owner}", posting.owner_amount),
            ("fee", posting.fee_amount),
            ("pool", posting.pool_amount),
        )
        lines = [(name, self._money(-value, posting)) for name, value in accounts if value]
        return format_html_join(mark_safe("<br>"), "{}: {}", lines)

    def _money(self, amount: Decimal, posting: Posting) -> SafeString:
        return _money_shown(amount, posting.pool, posting.currency)


class CreditNoteForm(ServiceForm):
    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}), help_text="Is on the statement."
    )

    class Meta:
        model = CreditNote
        fields = ["pool", "tenant", "amount", "reason"]

    def clean(self) -> dict[str, Any]:
        self._why = self.cleaned_data.get("reason", "")
        return super().clean()

    def perform(self, cleaned: dict[str, Any]) -> CreditNote:
        return credit_note_create(
            pool=cleaned["pool"],
            tenant=cleaned["tenant"],
            amount=cleaned["amount"],
            reason=self._why,
            now=utc_now(),
        )


@admin.register(CreditNote)
class CreditNoteAdmin(ServiceAdmin):
    form = CreditNoteForm
    list_display = ["created_at", "pool", "tenant", "charged", "month", "reason", "reverses"]
    list_filter = ["pool"]
    list_select_related = ["pool", "tenant", "reverses__tenant", "reverses__pool"]
    autocomplete_fields = ["pool", "tenant"]
    actions = ["take_back"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        read = ["pool", "tenant", "charged", "month", "reason", "reverses", "created_at"]
        return super().get_fields(request, obj) if obj is None else read

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["charged", "created_at"] if obj else []

    @admin.display(description="amount", ordering="amount")
    def charged(self, note: CreditNote) -> SafeString:
        return _money_shown(note.amount, note.pool, note.pool.currency)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request, obj)

    @admin.action(description="Take back (needs a reason)", permissions=["add"])
    def take_back(self, request: HttpRequest, queryset: QuerySet[CreditNote]) -> None:
        now, reason = utc_now(), request.POST.get("reason", "")
        self.apply_to_each(
            request,
            queryset.select_related("pool", "tenant"),
            lambda note: credit_note_reverse(note=note, reason=reason, now=now),
            "taken back",
        )
