"""Errors of policies, one family with stable codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

MAX_MISTAKES = 20
UNKNOWN = "field.unknown"


@dataclass(frozen=True)
class Mistake:
    """Mistake in one place of a document, whose ``pointer`` is a JSON pointer (RFC 6901)."""

    pointer: str
    code: str
    detail: str


class PolicyError(ValueError):
    """Base of every error that this package raises on purpose.

    Attributes
    ----------
    code : str
        Stable dotted name, such as ``weight.not_positive``.
    detail : str
        A sentence: what was wrong, where, and what would be right.
    pointer : str
        JSON pointer (RFC 6901) into the evaluation document; ``""`` is the whole document.
    mistakes : tuple of Mistake
        Everything wrong with a document, at most 20; for other errors, this one error.

    Examples
    --------
    >>> from policies import PolicyError, choose
    >>> try:
    ...     choose("fifo")
    ... except PolicyError as error:
    ...     print(error.code, error.pointer)
    policy.unknown /policy/name
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
        """Return the error of a document that has mistakes.

        Unknown fields come first.
        """
        found = sorted(found, key=lambda each: each.code != UNKNOWN)[:MAX_MISTAKES]
        return cls(found[0].code, found[0].detail, found[0].pointer, found)

    def __reduce__(self) -> tuple[type[PolicyError], tuple[object, ...]]:
        return type(self), (self.code, self.detail, self.pointer, self.mistakes)


class ProblemError(PolicyError):
    """A problem, or the document that describes it, cannot be accepted.

    Examples
    --------
    >>> from policies import Problem, ProblemError
    >>> try:
    ...     Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]], weight=[0])
    ... except ProblemError as error:
    ...     print(error.code, error.pointer)
    weight.not_positive /tenants/0/weight
    """


class ProblemTooLargeError(PolicyError):
    """The problem is larger than the algorithm is allowed to try (``problem.too_large``).

    Examples
    --------
    >>> from policies import PolicyError, ProblemTooLargeError
    >>> issubclass(ProblemTooLargeError, PolicyError)
    True
    """


class PolicyUnknownError(PolicyError):
    """No policy has that name (``policy.unknown``).

    Examples
    --------
    >>> from policies import PolicyUnknownError, policy_named
    >>> try:
    ...     policy_named("fifo")
    ... except PolicyUnknownError as error:
    ...     print(error.code)
    policy.unknown
    """


class PolicyModeError(PolicyError):
    """The policy does not have that mode (``policy.mode``).

    Examples
    --------
    >>> from policies import PolicyModeError, choose
    >>> try:
    ...     choose("tda", "divisible")
    ... except PolicyModeError as error:
    ...     print(error)
    policy 'tda' has no mode 'divisible'; it has indivisible
    """


class PolicyOptionsError(PolicyError):
    """The options do not fit the policy's JSON Schema (``policy.options``).

    Examples
    --------
    >>> from policies import PolicyOptionsError, choose
    >>> try:
    ...     choose("tda", options={"effort": -1})
    ... except PolicyOptionsError as error:
    ...     print(error.code, error.pointer)
    policy.options /policy/options/effort
    """


class PolicyNotApplicableError(PolicyError):
    """The policy cannot honour part of the problem (``policy.no_placement``, for example).

    Examples
    --------
    >>> from policies import PolicyNotApplicableError, Problem, solve
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]],
    ...     selectors=[{"zone": "north"}], server_labels=[{"zone": "north"}])
    >>> try:
    ...     solve(problem, "drf")
    ... except PolicyNotApplicableError as error:
    ...     print(error.code, error.pointer)
    policy.no_placement /workloads/0/server_selector
    """


class SolveTimeoutError(PolicyError):
    """The time limit passed before there was an answer (``solve.timeout``).

    Examples
    --------
    >>> from policies import PolicyError, SolveTimeoutError
    >>> issubclass(SolveTimeoutError, PolicyError)
    True
    """


class SolveFailedError(PolicyError):
    """Failure of every answer to pass its own checks (``solve.failed``).

    Nothing is returned.

    Examples
    --------
    >>> from policies import PolicyError, SolveFailedError
    >>> issubclass(SolveFailedError, PolicyError)
    True
    """
