"""What can go wrong between a client and the service: a refusal, or no answer of the service."""

from collections.abc import Sequence
from dataclasses import dataclass


class AllocatorError(Exception):
    """Whatever this package raises about a request; its text is a sentence for a person."""


@dataclass(frozen=True)
class Mistake:
    """One mistake of a body: where (a JSON pointer), its stable code, and what would be right."""

    pointer: str
    code: str
    detail: str


class Problem(AllocatorError):
    """The service answered with a refusal (RFC 9457).

    Attributes
    ----------
    status : int
        The HTTP status.
    code : str
        Stable and dotted, such as `workload.exists`: what programs decide by.
    detail : str
        What was wrong, and what would be right.
    errors : Sequence[Mistake]
        The mistakes of the body one by one; empty where the refusal is not about the body.
    request_id : str
        What an operator finds the request by.
    retry_after : float or None
        Seconds after which the service asks to be asked again.
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
        """Whether the same request may be accepted later: too many requests, or an overload."""
        return self.status in (429, 503) and self.code != "evaluation.timeout"


class Changed(Problem):
    """412: the object changed since it was read. Read it again, decide again, send again."""


class Unreachable(AllocatorError):
    """The service gave no answer.

    `lost` says that the request may have arrived: a change (PATCH, PUT, DELETE) may have been made.
    """

    temporary = True

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class NotTheService(Unreachable):
    """Something else answered: the address is wrong, or a proxy is between."""

    temporary = False
