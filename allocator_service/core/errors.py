"""The one family of errors that the domain raises and every interface renders."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MAX_ERRORS = 20
# What Python raises where our code is wrong, or numbers are too far apart for it. Errors of the database
# and of the broker are none of these: work that they interrupt is done again.
FAULTS_OF_OURS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
UNKNOWN_FIELD = "field.unknown"


@dataclass(frozen=True)
class FieldError:
    """One mistake in one place.

    `pointer` is a JSON pointer into the request's body.
    """

    pointer: str
    code: str
    detail: str


class DomainError(Exception):
    """A request that cannot be served, with a stable `code` and the HTTP `status` it maps to.

    `detail` states what is wrong, where, and what would be right. `retry_after` is in seconds.
    """

    status: int = HTTPStatus.UNPROCESSABLE_ENTITY
    code: str = "invalid"
    title: str = "The request cannot be accepted"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        pointer: str | None = None,
        errors: Sequence[FieldError] = (),
        retry_after: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.retry_after = retry_after
        self.extra = extra or {}
        self.errors = tuple(errors)
        if pointer is not None:
            self.errors = (FieldError(pointer, self.code, detail), *self.errors)

    def under(self, prefix: str) -> "DomainError":
        """Move the pointers of the error below `prefix`, for items of a bulk request."""
        self.errors = tuple(
            FieldError(prefix + error.pointer, error.code, error.detail) for error in self.errors
        ) or (FieldError(prefix, self.code, self.detail),)
        return self


class Unreadable(DomainError):
    status = HTTPStatus.BAD_REQUEST
    code = "request.unreadable"
    title = "The request cannot be read"


class Unacceptable(DomainError):
    """A readable request with an unacceptable value, name or policy."""


class Missing(DomainError):
    status = HTTPStatus.NOT_FOUND
    code = "not_found"
    title = "Not found"


class Conflict(DomainError):
    status = HTTPStatus.CONFLICT
    code = "conflict"
    title = "The request conflicts with the present state"


class Gone(DomainError):
    status = HTTPStatus.GONE
    code = "gone"
    title = "No longer kept"


class Stale(DomainError):
    status = HTTPStatus.PRECONDITION_FAILED
    code = "version.stale"
    title = "The object has changed since it was read"


class PreconditionRequired(DomainError):
    status = HTTPStatus.PRECONDITION_REQUIRED
    code = "version.required"
    title = "If-Match is required"


class TooLarge(DomainError):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    code = "request.too_large"
    title = "The request is too large"


class Unavailable(DomainError):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "unavailable"
    title = "Not available at the moment"


class Refusals:
    """Collector of errors, so that one answer reports all of them."""

    def __init__(self) -> None:
        self._found: list[DomainError] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keep a domain error that the block raises, and continue after the block."""
        try:
            yield
        except DomainError as error:
            self._found.append(error)

    def raise_any(self) -> None:
        """Raise the first error that was collected, with the places of all."""
        if self._found:
            first = self._found[0]
            first.errors = tuple(
                place
                for error in self._found
                for place in error.errors or (FieldError("", error.code, error.detail),)
            )[:MAX_ERRORS]
            raise first


def refusal(found: Iterable[Any], pointer: str = "") -> DomainError:
    """Return the error of the mistakes that a reader found below `pointer`, with unknown names first."""
    errors = sorted(
        (FieldError(pointer + each.pointer, each.code, each.detail) for each in found),
        key=lambda error: error.code != UNKNOWN_FIELD,
    )[:MAX_ERRORS]
    first = errors[0]
    kind = Unreadable if first.code == UNKNOWN_FIELD else Unacceptable
    return kind(first.detail, code=first.code, errors=errors)
