"""Fair allocation of several resources: the mathematics, without any service around it.

``solve(problem, policy)`` is the one front door; ``verify`` checks an answer without a
solver. Nothing in here reads the clock's date, the network or global random state.
"""

from policies.allocation import Allocation
from policies.answers import allocation_to_document, summary_document
from policies.certificates import Certificate, certificate_from_document, certificate_to_document
from policies.classes import classes_of_decision
from policies.documents import ParsedProblem, problem_from_document, problem_to_document
from policies.errors import (
    PolicyError,
    PolicyModeError,
    PolicyNotApplicableError,
    PolicyOptionsError,
    PolicyUnknownError,
    ProblemError,
    ProblemTooLargeError,
    SolveFailedError,
    SolveTimeoutError,
)
from policies.problem import Problem
from policies.registry import (
    PolicyInfo,
    mode_of,
    options_of,
    policies_available,
    policy_info,
    solve,
    warm,
)
from policies.verification import Check, Verification, verify

__all__ = [
    "Allocation",
    "Certificate",
    "Check",
    "ParsedProblem",
    "PolicyError",
    "PolicyInfo",
    "PolicyModeError",
    "PolicyNotApplicableError",
    "PolicyOptionsError",
    "PolicyUnknownError",
    "Problem",
    "ProblemError",
    "ProblemTooLargeError",
    "SolveFailedError",
    "SolveTimeoutError",
    "Verification",
    "allocation_to_document",
    "certificate_from_document",
    "certificate_to_document",
    "classes_of_decision",
    "mode_of",
    "options_of",
    "policies_available",
    "policy_info",
    "problem_from_document",
    "problem_to_document",
    "solve",
    "summary_document",
    "verify",
    "warm",
]
