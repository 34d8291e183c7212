"""Middleware of every request, for its id and for errors outside the views."""

import re
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from structlog.contextvars import bound_contextvars

from allocator_service.core.errors import DomainError, Missing, Unreadable
from allocator_service.core.headers import TENANT_PAGES
from allocator_service.core.ids import new_id
from api.contract.errors import MethodUnknown, problem

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# An offered id reaches log lines and events: without line ends and quotes it cannot forge any.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.ASCII)
_BROWSER_PATHS = ("/admin/", "/static/", *TENANT_PAGES)
_KEPT_HEADERS = ("Allow", "Retry-After", "WWW-Authenticate")


class RequestIdMiddleware:
    """Accepts or makes `X-Request-Id`, echoes it, and puts it into every log line and event.

    What is bound for the request, the caller too, is unbound when it has been served.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        offered = request.headers.get("X-Request-Id", "")
        request_id = offered if _REQUEST_ID.fullmatch(offered) else str(new_id())
        with bound_contextvars(request_id=request_id, actor="anonymous", reason=""):
            response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response


class ProblemMiddleware:
    """Answers unknown paths and unexpected exceptions as problems, outside the pages for browsers."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code < HTTPStatus.BAD_REQUEST or request.path.startswith(_BROWSER_PATHS):
            return response
        # Views write their own problems. HTML is Django's page for what failed outside them.
        if not response.headers.get("Content-Type", "text/html").startswith("text/html"):
            return response
        replacement = problem(_error_for(request, response.status_code), request)
        for name in _KEPT_HEADERS:
            if name in response.headers:
                replacement[name] = response.headers[name]
        return replacement


class _Unexpected(DomainError):
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    code = "internal"
    title = "Something went wrong on our side"


def _error_for(request: HttpRequest, status: int) -> DomainError:
    if status == HTTPStatus.NOT_FOUND:
        hint = "" if request.path.endswith("/") else " Paths end in a slash."
        return Missing(f"There is nothing at this path.{hint}")
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return MethodUnknown(f'Method "{request.method}" not allowed.')
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        error = Unreadable("The request is malformed.")
        error.status = HTTPStatus(status)
        return error
    return _Unexpected("The request could not be served; its request_id is in our logs.")
