"""Responses with pages, which are never cached."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from allocator_service.core.headers import PAGE_POLICY

PDF_LINK = ("?format=pdf", "Download as PDF")


class PageResponse(HttpResponse):
    """A page of our own, in whose place nothing else is put."""


def sheet_response(text: str) -> PageResponse:
    """Return a page that is one file and loads nothing, such as a statement."""
    headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-store"}
    return PageResponse(text, headers=headers)


def file_response(content: bytes, name: str, media_type: str) -> HttpResponse:
    """Return a file to download."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
    }
    return HttpResponse(content, content_type=media_type, headers=headers)


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
    sent = {"Cache-Control": "no-store", **(headers or {})}
    return PageResponse(text, status=status, headers=sent)
