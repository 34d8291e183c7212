"""The admin's site, with the board on its first page."""

from collections.abc import Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, ValidationError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst

from allocator_service.core.board import board_for
from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry
from allocator_service.core.visible import visible_pools

CHANGES_SHOWN = 10
FOUND_SHOWN = 10
SEARCH_LENGTH = 200
V = TypeVar("V", bound=Callable[..., HttpResponseBase])


class OperatorSite(admin.AdminSite):
    """Django's admin with its own titles, and with the operators' board on the first page."""

    site_header = site_title = "Allocation service"
    index_title = "Operations"

    def get_urls(self) -> list[Any]:
        """Return the URLs without `view_on_site`, since no object has a page on the site."""
        search = path("search/", self.admin_view(self.search), name="search")
        return [
            search,
            *(each for each in super().get_urls() if getattr(each, "name", None) != "view_on_site"),
        ]

    def admin_view(self, view: V, cacheable: bool = False) -> V:
        """Return a view behind the sign-in, which answers malformed requests with 400.

        No browser sends such requests by itself.
        """
        answering: Callable[..., HttpResponseBase] = super().admin_view(view, cacheable)

        @wraps(answering)
        def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                _refuse_malformed(request, getattr(view, "__self__", None), kwargs.values())
                return answering(request, *args, **kwargs)
            except BadRequest as error:
                return self._malformed(request, str(error))

        return cast("V", answered)

    def _malformed(self, request: HttpRequest, sentence: str) -> HttpResponse:
        title = "This request cannot be read"
        context = {**self.each_context(request), "title": title, "sentence": sentence}
        return render(request, "admin/malformed.html", context, status=HTTPStatus.BAD_REQUEST)

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the context, with the provider that people may sign in by, if there is one."""
        return {**super().each_context(request), "provider": settings.ENVIRONMENT.oidc}

    def search(self, request: HttpRequest) -> HttpResponse:
        """Show the objects that a text finds, of those that the user sees."""
        text = request.GET.get("q", "").strip()[:SEARCH_LENGTH]
        sections = []
        for registered in self._searched() if text else ():
            if registered.has_view_permission(request):
                found = registered.found(request, text, limit=FOUND_SHOWN + 1)
                route = f"admin:{registered.opts.app_label}_{registered.opts.model_name}_changelist"
                more = (
                    f"{reverse(route)}?{urlencode({'q': text})}" if len(found) > FOUND_SHOWN else ""
                )
                title = str(capfirst(registered.opts.verbose_name_plural))
                sections += [(title, found[:FOUND_SHOWN], more)] if found else []
        title = f"Search: {text}" if text else "Search"
        context = {**self.each_context(request), "title": title, "text": text, "sections": sections}
        return render(request, "admin/search.html", context)

    def _searched(self) -> list[Any]:
        """Return the models' pages that state their place among the results.

        By attribute: `core.admin` registers models here, so that this module cannot import it.
        """
        places = [(getattr(each, "search_place", None), each) for each in self._registry.values()]
        placed = [(place, each) for place, each in places if place is not None]
        return [each for _, each in sorted(placed, key=lambda pair: pair[0])]

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Show the board, the newest changes and all lists."""
        context: dict[str, Any] = {"board": board_for(request.user, now=utc_now())}
        if request.user.has_perm("core.view_auditentry"):
            changes = AuditEntry.objects.defer("before", "after")
            context["changes"] = visible_pools(request.user).of(changes, "pool")[:CHANGES_SHOWN]
        return super().index(request, {**context, **(extra_context or {})})


def _refuse_malformed(request: HttpRequest, asked: Any, parts: Iterable[object]) -> None:
    """Raise `BadRequest` for characters that no text has, and for invalid keys of selected rows."""
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
    for text in (*parts, *request.GET, *request.GET.values(), *selected):
        if isinstance(text, str) and (
            "\0" in text or (not text.isascii() and not _is_unicode(text))
        ):
            raise BadRequest("It has a character that no text has, such as U+0000.")
    if not isinstance(asked, admin.ModelAdmin):
        return
    for key in selected:
        try:
            asked.opts.pk.to_python(key)
        except ValidationError as error:
            raise BadRequest(f"Nothing in this list has the key “{key[:50]}”.") from error


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
