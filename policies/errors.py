"""What can go wrong in a policy, as one family of errors with stable codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

MAX_MISTAKES = 20
UNKNOWN = "field.unknown"


@dataclass(frozen=True)
class Mistake:
    """One thing wrong in one place: ``pointer`` is a JSON pointer (RFC 6901) into the document."""

    pointer: str
    code: str
    detail: str


class PolicyError(ValueError):
    """Base of every error this package raises on purpose.

    Attributes:
        code: stable dotted name, e.g. ``weight.not_positive``.
        detail: a sentence: what was wrong, where, and what would be right.
        pointer: JSON pointer into the evaluation document (``""`` is the whole document).
        mistakes: everything that was found wrong with a document, at most 20; of the others this
            one error.
    """

    def __init__(
        self, code: str, detail: str, pointer: str = "", mistakes: Sequence[Mistake] = ()
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.pointer = pointer
        self.mistakes = tuple(mistakes) or (Mistake(pointer, code, detail),)

    @classmethod
    def of(cls, found: Sequence[Mistake]) -> Self:
        """The error of a document that has mistakes; names that are no field come first."""
        found = sorted(found, key=lambda each: each.code != UNKNOWN)[:MAX_MISTAKES]
        return cls(found[0].code, found[0].detail, found[0].pointer, found)

    def __reduce__(self) -> tuple[type[PolicyError], tuple[object, ...]]:
        return type(self), (self.code, self.detail, self.pointer, self.mistakes)


class ProblemError(PolicyError):
    """A problem, or the document that describes it, cannot be accepted."""


class ProblemTooLargeError(PolicyError):
    """The problem is larger than the algorithm is allowed to try."""


class PolicyUnknownError(PolicyError):
    """No policy of that name (``policy.unknown``)."""


class PolicyModeError(PolicyError):
    """The policy does not have that mode (``policy.mode``)."""


class PolicyOptionsError(PolicyError):
    """The options do not fit the policy's JSON Schema (``policy.options``)."""


class PolicyNotApplicableError(PolicyError):
    """The policy cannot honour part of the problem (``policy.no_placement``)."""


class SolveTimeoutError(PolicyError):
    """The time limit passed before an answer was certain (``solve.timeout``)."""


class SolveFailedError(PolicyError):
    """No answer passed its own checks; nothing is returned (``solve.failed``)."""
