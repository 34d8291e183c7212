"""What can go wrong in a policy, as one family of errors with stable codes."""


class PolicyError(ValueError):
    """Base of every error this package raises on purpose.

    Attributes:
        code: stable dotted name, e.g. ``weight.not_positive``.
        detail: a sentence: what was wrong, where, and what would be right.
        pointer: JSON pointer into the evaluation document (``""`` is the whole document).
    """

    def __init__(self, code: str, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.pointer = pointer

    def __reduce__(self) -> tuple[type["PolicyError"], tuple[str, str, str]]:
        return type(self), (self.code, self.detail, self.pointer)


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
