"""Entity tags of versioned objects, and the preconditions of their changes (RFC 9110 §13)."""

import re
from http import HTTPStatus

from django.http import HttpResponse
from rest_framework.request import Request

from allocator_service.core.errors import PreconditionRequired, Stale, Unreadable

_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"', re.ASCII)
_TAGS = re.compile(
    r'(?:W/)?"[\x21\x23-\x7e]*"(?:[ \t]*,[ \t]*(?:W/)?"[\x21\x23-\x7e]*")*', re.ASCII
)


def entity_tag(version: int) -> str:
    return f'"v{version}"'


def expected_version(request: Request, *, actual: int) -> int:
    """Return the present version if `If-Match` names it or is `*`.

    Raises `PreconditionRequired` without the header, `Stale` when it names other versions only. Weak
    tags never match (strong comparison).
    """
    version = optional_version(request, actual=actual)
    if version is None:
        raise PreconditionRequired(
            f"Changing this needs If-Match with its ETag, now {entity_tag(actual)}."
        )
    return version


def optional_version(request: Request, *, actual: int) -> int | None:
    """Return the version as `expected_version` does, or None without the header."""
    header = request.headers.get("If-Match", "").strip()
    if not header:
        return None
    if header != "*":
        if not _TAGS.fullmatch(header):
            raise Unreadable(
                'If-Match is *, or entity tags in quotes, as "v3".', code="version.syntax"
            )
        # RFC 9110 §13.1.1: If-Match compares strongly, so weak tags never match.
        # What follows a dot is of the answer's other parts, which a change does not depend on.
        strong = [tag.partition(".")[0] for weak, tag in _TAG.findall(header) if not weak]
        if f"v{actual}" not in strong:
            raise Stale(
                f"The object is at {entity_tag(actual)}, not at {header[:80]}: read it again and"
                " repeat the change."
            )
    return actual


def is_known(request: Request, tag: str) -> bool:
    """Return whether `If-None-Match` names the entity tag or is `*`, by weak comparison."""
    header = request.headers.get("If-None-Match", "").strip()
    if header == "*":
        return True
    # A header that cannot be read matches nothing: the answer is sent in full, never an error.
    return _TAGS.fullmatch(header) is not None and tag in [
        f'"{opaque}"' for _, opaque in _TAG.findall(header)
    ]


def not_modified(tag: str) -> HttpResponse:
    """Return the answer to a caller that has the answer of this entity tag."""
    response = HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
    # It describes a body, and there is none.
    del response["Content-Type"]
    return response
