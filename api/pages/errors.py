"""Pages that show errors below the tenants' paths in sentences."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.core.errors import DomainError
from allocator_service.core.headers import TENANT_PAGES
from allocator_service.core.outbox import request_id
from api.pages.rendering import PageResponse, page

_KEPT_HEADERS = ("Allow", "Retry-After")
_BEGIN_AGAIN = "Go back to your pools and start again from there."
# The text of a status. It does not name the missing object.
_TEXTS: Mapping[int, tuple[str, str]] = {
    HTTPStatus.BAD_REQUEST: ("This address is not complete", _BEGIN_AGAIN),
    HTTPStatus.FORBIDDEN: (
        "The form could not be accepted",
        "It was open for too long, or cookies are switched off. Load it again and repeat what you did.",
    ),
    HTTPStatus.NOT_FOUND: (
        "There is nothing here",
        "The address is wrong, or what it names is not yours.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: ("This page cannot do that", _BEGIN_AGAIN),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "Too many requests",
        "Wait a moment, then load the page again.",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "Not available at the moment",
        "The service did not answer in time. Load the page again in a moment; nothing was changed.",
    ),
}
_UNEXPECTED = (
    "Something went wrong on our side",
    "Load the page again. If that does not help, give your operator the number below.",
)


def refusal_page(error: DomainError, request: HttpRequest) -> PageResponse:
    """Return the page of an error, with its own text if its status does not explain enough."""
    title, sentence = _TEXTS.get(error.status, (error.title, error.detail))
    response = _page(request, error.status, title, sentence)
    if error.retry_after is not None:
        response["Retry-After"] = str(error.retry_after)
    return response


def _page(request: HttpRequest, status: int, title: str, sentence: str) -> PageResponse:
    ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    content = {
        "title": title,
        "sentence": sentence,
        # The number is for faults of the service, which an operator finds in the logs by it.
        "request_id": request_id() if ours else "",
    }
    return page(request, "refusal", content, status=status)


class PageErrorMiddleware:
    """Puts a page in the place of what others answer below the tenants' paths when they refuse."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if (
            response.status_code < HTTPStatus.BAD_REQUEST
            or not request.path.startswith(TENANT_PAGES)
            # A page of our own has its sentence already, such as that of a form.
            or isinstance(response, PageResponse)
        ):
            return response
        replacement = _page(
            request, response.status_code, *_TEXTS.get(response.status_code, _UNEXPECTED)
        )
        for name in _KEPT_HEADERS:
            if name in response.headers:
                replacement[name] = response.headers[name]
        return replacement
