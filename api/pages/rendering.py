"""Pages as responses: never cached, and marked as ours."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string


class PageResponse(HttpResponse):
    """A page of our own, in whose place nothing else is put."""


def page(
    request: HttpRequest,
    template: str,
    content: Mapping[str, Any],
    *,
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> PageResponse:
    """A template below `pages/`, filled in."""
    text = render_to_string(f"pages/{template}.html", dict(content), request)
    told = {"Cache-Control": "no-store", **(headers or {})}
    return PageResponse(text, status=status, headers=told)
