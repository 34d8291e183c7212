"""Every refusal as one `application/problem+json` document (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from rest_framework import exceptions

from allocator_service.core.constraints import domain_error_for
from allocator_service.core.errors import (
    Conflict,
    DomainError,
    Missing,
    TooLarge,
    Unacceptable,
    Unavailable,
    Unreadable,
)
from allocator_service.core.outbox import request_id

PROBLEM_TYPE = "application/problem+json"
DATABASE_RETRY_SECONDS = 1


class Unauthenticated(DomainError):
    """No key, or none that is good for anything."""

    status = HTTPStatus.UNAUTHORIZED
    code = "auth.missing"
    title = "A key is required"


class Forbidden(DomainError):
    """A route that keys of this scope never have."""

    status = HTTPStatus.FORBIDDEN
    code = "auth.scope"
    title = "The key's scope does not include this"


class MethodUnknown(DomainError):
    status = HTTPStatus.METHOD_NOT_ALLOWED
    code = "method.not_allowed"
    title = "The method is not allowed here"


class NotAcceptable(DomainError):
    status = HTTPStatus.NOT_ACCEPTABLE
    code = "format.not_acceptable"
    title = "None of the accepted formats is available"


class LengthRequired(DomainError):
    status = HTTPStatus.LENGTH_REQUIRED
    code = "request.length_required"
    title = "Content-Length is required"


class UnsupportedMediaType(DomainError):
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    code = "content_type.unsupported"
    title = "The content type is not supported"


class TooManyRequests(DomainError):
    status = HTTPStatus.TOO_MANY_REQUESTS
    code = "throttled"
    title = "Too many requests"


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """Return the answer to an exception of a view.

    None leaves it to Django, which logs it as a bug.
    """
    error = domain_error(exc)
    if error is None:
        return None
    response = problem(error, context["request"])
    if isinstance(exc, exceptions.MethodNotAllowed):
        # 405 and 401 must have these headers (RFC 9110, sections 15.5.6 and 15.5.2).
        response["Allow"] = ", ".join(context["view"].allowed_methods)
    if error.status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


def problem(error: DomainError, request: HttpRequest) -> HttpResponse:
    """The error as a response, whatever formats the request accepts."""
    document = {
        # A URN, because there is no page that a URL would have to keep alive (RFC 9457 §3.1.1).
        "type": f"urn:problem-type:allocation:{error.code}",
        "title": error.title,
        "status": int(error.status),
        "detail": error.detail,
        "instance": request.path,
        "code": error.code,
        "errors": [
            {"pointer": item.pointer, "code": item.code, "detail": item.detail}
            for item in error.errors
        ],
        "request_id": request_id(),
        **error.extra,
    }
    # A path or a name may carry what is no valid UTF-8; an error about it must not fail on it.
    content = orjson.dumps(_encodable(document))
    response = HttpResponse(content, status=error.status, content_type=PROBLEM_TYPE)
    if error.retry_after is not None:
        response["Retry-After"] = str(error.retry_after)
    return response


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value


def domain_error(exc: Exception) -> DomainError | None:
    """Return the domain error that an exception amounts to, or None for a bug."""
    if isinstance(exc, DomainError):
        return exc
    if isinstance(exc, exceptions.APIException):
        return _of_framework(exc)
    if isinstance(exc, Http404):
        return Missing("There is nothing at this path.")
    if isinstance(exc, PermissionDenied):
        return Forbidden("The key's scope does not include this.")
    if isinstance(exc, RequestDataTooBig):
        return TooLarge("The body is larger than any route takes.")
    if isinstance(exc, UnreadablePostError):
        return Unreadable("The body ended before its Content-Length.", code="request.truncated")
    # Raised for a forged host, among others: the text would repeat what an attacker sent.
    if isinstance(exc, SuspiciousOperation):
        return Unreadable("The request is malformed.")
    if isinstance(exc, DatabaseError | InterfaceError):
        return _of_database(exc)
    return None


def _of_framework(exc: exceptions.APIException) -> DomainError | None:
    if isinstance(exc, exceptions.NotAuthenticated):
        return Unauthenticated(
            'The request carries no key; send it as "Authorization: Bearer <key>".'
        )
    if isinstance(exc, exceptions.PermissionDenied):
        return Forbidden(str(exc.detail))
    if isinstance(exc, exceptions.MethodNotAllowed):
        return MethodUnknown(str(exc.detail))
    if isinstance(exc, exceptions.NotFound):
        return Missing("There is nothing at this path.")
    return None


def _of_database(exc: DatabaseError | InterfaceError) -> DomainError | None:
    cause = exc.__cause__
    # The database holds invariants under races: its constraints have the codes of the services.
    if isinstance(exc, IntegrityError):
        name = getattr(getattr(cause, "diag", None), "constraint_name", None)
        return domain_error_for(name) or Conflict("The change conflicts with another change.")
    if isinstance(exc, DataError):
        return Unacceptable("A value does not fit what is stored.", code="value.range")
    if isinstance(exc, OperationalError | InterfaceError):
        return Unavailable(
            "The database did not answer in time: try again.",
            code="database.unavailable",
            retry_after=DATABASE_RETRY_SECONDS,
        )
    return None
