"""Errors of requests, which are refusals of the service or missing responses."""

from collections.abc import Sequence
from dataclasses import dataclass


class AllocatorError(Exception):
    """Base of all errors of a request. Its text is a sentence for people."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in the body of a request.

    Attributes
    ----------
    pointer : str
        JSON pointer to the mistake.
    code : str
        Stable code.
    detail : str
        Sentence about the mistake, with what would be right.
    """

    pointer: str
    code: str
    detail: str


class Problem(AllocatorError):
    """A refusal of the service (RFC 9457).

    Attributes
    ----------
    status : int
        HTTP status.
    code : str
        Stable dotted code for programs, such as `workload.exists`.
    detail : str
        Sentence about the error, with what would be right.
    errors : Sequence[Mistake]
        Mistakes in the body. Empty if the refusal is not about the body.
    request_id : str
        Id by which an operator finds the request.
    retry_after : float or None
        Seconds after which the service accepts a retry.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        errors: Sequence[Mistake] = (),
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail = status, code, detail
        self.errors, self.request_id, self.retry_after = tuple(errors), request_id, retry_after

    lost = False

    @property
    def temporary(self) -> bool:
        """True if the same request may be accepted later, after a rate limit or an overload."""
        # An evaluation that exceeded its time would exceed it again.
        return self.status in (429, 503) and self.code != "evaluation.timeout"


class Changed(Problem):
    """A 412 response, because the object changed since it was read.

    Read it again before you repeat the change.
    """


class Unreachable(AllocatorError):
    """A request without a response of the service.

    If `lost` is True, the request may have arrived, and a change (PATCH, PUT, DELETE) may have been
    made.
    """

    temporary = True

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class NotTheService(Unreachable):
    """A response of another server, because of a wrong address or a proxy."""

    temporary = False
