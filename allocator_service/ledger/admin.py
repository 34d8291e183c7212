"""The ledger in the admin, read-only but for corrections, which are entries of their own."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.display import exact_text
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import parse_quantity
from allocator_service.core.shown_fields import between
from allocator_service.core.visible import visible_pools
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sources import source_free
from allocator_service.ledger.models import Block, Entry, Kind, UsageSource
from allocator_service.ledger.selectors import archived_pools


class CorrectionForm(forms.Form):
    """The correct quantity of an entry, with a reason.

    The correction is written while the form is cleaned, so that the service's errors appear on the
    form.
    """

    quantity = forms.CharField(help_text="The correct quantity, such as 1.5 or 500m.")
    reason = forms.CharField(max_length=2_000, help_text="The reason, kept in the ledger.")
    correction: Entry

    def __init__(self, *args: Any, entry: Entry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entry = entry

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                self.correction = entry_correct(
                    entry=self._entry,
                    quantity=parse_quantity(cleaned["quantity"], self._entry.unit),
                    reason=" ".join(cleaned["reason"].split()),
                    now=utc_now(),
                )
            except DomainError as error:
                raise ValidationError(error.detail) from error
        return cleaned


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    appears = "An entry appears when a decision is metered, or when usage is reported."
    list_display = [
        "recorded_at", "pool", "tenant", "resource", "measured", "interval", "origin",
    ]  # fmt: skip
    list_filter = ["kind", "pool"]
    list_select_related = ["pool", "tenant"]
    search_fields = ["tenant__slug", "event_id"]

    @admin.display(description="quantity", ordering="quantity")
    def measured(self, entry: Entry) -> str:
        return exact_text(entry.quantity, entry.unit)

    @admin.display(description="interval", ordering="start")
    def interval(self, entry: Entry) -> SafeString | None:
        return between(entry.start, entry.end)

    @admin.display(description="kind and source", ordering="kind")
    def origin(self, entry: Entry) -> str:
        return f"{entry.get_kind_display()}, {entry.source}"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List the entries in the database, and name the months whose entries are archived."""
        seen = visible_pools(request.user).of(archived_pools(), "pool__slug")
        months = seen.order_by("archive__month").values_list("archive__month", flat=True)
        archived = [f"{month:%B %Y}" for month in dict.fromkeys(months)]
        return super().changelist_view(request, {**(extra_context or {}), "archived": archived})

    def get_urls(self) -> list[URLPattern]:
        correct = path(
            "<uuid:pk>/correct/",
            self.admin_site.admin_view(self.correct),
            name="ledger_entry_correct",
        )
        return [correct, *super().get_urls()]

    def page_context(self, request: HttpRequest, row: Entry) -> dict[str, Any]:
        """Return whether the page has a link to correct the entry, for users who may add entries."""
        return {"correctable": row.kind != Kind.CORRECTION and _corrects(request)}

    def correct(self, request: HttpRequest, pk: Any) -> HttpResponse:
        """Show the form of a correction, or write the correction."""
        if not _corrects(request):
            raise PermissionDenied
        entry = self.of_theirs(request, Entry, pk=pk)
        form = CorrectionForm(request.POST or None, entry=entry)
        if request.method == "POST" and form.is_valid():
            self.message_user(request, f"Corrected: {form.correction}.", messages.SUCCESS)
            return redirect("admin:ledger_entry_change", form.correction.pk)
        context = {
            **self.admin_site.each_context(request),
            "title": "Correct an entry",
            "entry": entry,
            "form": form,
        }
        return render(request, "admin/ledger/entry/correct.html", context)


def _corrects(request: HttpRequest) -> bool:
    """Return whether the user may add corrections."""
    return bool(
        getattr(request.user, "has_perm", None) and request.user.has_perm("ledger.add_entry")
    )


@admin.register(UsageSource)
class UsageSourceAdmin(ReadOnlyAdmin):
    appears = "A source appears when an agent whose key is bound to a cluster posts usage of it."
    list_display = ["source", "pool", "cluster"]
    list_filter = ["pool"]
    list_select_related = ["pool"]
    search_fields = ["source", "cluster"]
    actions = ["free"]

    def has_free_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("ledger.change_usagesource")

    @admin.action(description="Free for the next cluster that posts", permissions=["free"])
    def free(self, request: HttpRequest, queryset: QuerySet[UsageSource]) -> None:
        now = utc_now()
        self.apply_to_each(
            request, queryset, lambda source: source_free(source=source, now=now), "freed"
        )


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin):
    appears = (
        "A block appears when the service seals new entries, decisions or documents of a pool."
    )
    list_display = [
        "pool",
        "number",
        "entries",
        "documents",
        "first_sequence",
        "last_sequence",
        "sealed_at",
    ]
    list_filter = ["pool"]
    list_select_related = ["pool"]
    ordering = ["-id"]
