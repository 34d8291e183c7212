"""Filters of the admin's lists that a user keeps by name."""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST

from allocator_service.core.models import SavedFilter

MAX_FILTERS = 30
NAME_LENGTH, QUERY_LENGTH = 80, 2_000
# The page of a list, its error and its pop-up: of one visit, not of a filter.
_PASSING = {"p", "all", "e", "_popup", "_to_field", "_changelist_filters"}


class SavedFiltersAdmin(admin.ModelAdmin):
    """A list whose filters have titles for people, and are saved by each user for itself.

    `filter_titles` are by the path of a field, where its name is not the title.
    """

    filter_titles: ClassVar[Mapping[str, str]] = {}

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list, with the titles of its filters."""
        listed = super().get_changelist_instance(request)
        for each in listed.filter_specs:
            each.title = self.filter_titles.get(getattr(each, "field_path", ""), each.title)
        return listed

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_filter"
        view = self.admin_site.admin_view
        return [
            path("filters/", view(require_POST(self.save_filter)), name=f"{name}_save"),
            path(
                "filters/<uuid:saved>/delete/",
                view(require_POST(self.delete_filter)),
                name=f"{name}_delete",
            ),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, with the user's filters of it and the one in force."""
        query = _filter_of(request.GET)
        context = {
            "title": capfirst(self.opts.verbose_name_plural),
            "saved_filters": [
                (each, self._list_url(each.query), each.query == query)
                for each in self._filters(request)
            ],
            "filter_query": query,
            "filter_routes": self._routes(),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def save_filter(self, request: HttpRequest) -> HttpResponse:
        """Keep a filter under a name, in place of one of that name."""
        self._check_view(request)
        name = request.POST.get("name", "").strip()
        query = _filter_of(QueryDict(request.POST.get("query", "")[: QUERY_LENGTH + 1]))
        mistake = self._mistake(request, name, query)
        if mistake:
            self.message_user(request, mistake, messages.ERROR)
        else:
            SavedFilter.objects.update_or_create(
                user=_user_of(request),
                list_name=self._list_name,
                name=name,
                defaults={"query": query},
            )
            self.message_user(request, f"Filter “{name}” saved.", messages.SUCCESS)
        return redirect(self._list_url(query))

    def delete_filter(self, request: HttpRequest, saved: UUID) -> HttpResponse:
        """Delete a filter of the user."""
        self._check_view(request)
        found = get_object_or_404(self._filters(request), pk=saved)
        found.delete()
        self.message_user(request, f"Filter “{found.name}” deleted.", messages.SUCCESS)
        return redirect(self._list_url(""))

    def _mistake(self, request: HttpRequest, name: str, query: str) -> str:
        if not 1 <= len(name) <= NAME_LENGTH or not name.isprintable():
            return f"Expected a name of one line with 1 to {NAME_LENGTH} characters."
        if not 1 <= len(query) <= QUERY_LENGTH:
            return (
                f"Expected a filter or a search of 1 to {QUERY_LENGTH:,} characters in its address."
            )
        others = self._filters(request).exclude(name=name)
        if others.count() >= MAX_FILTERS:
            return f"A list has at most {MAX_FILTERS} saved filters: delete one first."
        return ""

    @property
    def _list_name(self) -> str:
        return self.opts.label_lower

    def _filters(self, request: HttpRequest) -> Any:
        """Return the filters of this list that belong to the user, and no others."""
        return SavedFilter.objects.filter(user=_user_of(request), list_name=self._list_name)

    def _check_view(self, request: HttpRequest) -> None:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied

    def _routes(self) -> dict[str, str]:
        route = f"admin:{self.opts.app_label}_{self.opts.model_name}_filter"
        return {"save": f"{route}_save", "delete": f"{route}_delete"}

    def _list_url(self, query: str) -> str:
        route = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return reverse(route) + (f"?{query}" if query else "")


def _user_of(request: HttpRequest) -> Any:
    return request.user  # signed in, as `admin_view` requires it


def _filter_of(asked: QueryDict) -> str:
    """Return the part of a list's query that selects, searches and orders rows."""
    return urlencode(
        [(name, value) for name, values in sorted(asked.lists()) for value in values
         if name not in _PASSING and value]
    )  # fmt: skip
