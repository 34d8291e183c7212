"""Fair allocation of several resources: the mathematics, without any service around it.

``solve(problem, policy)`` is the one front door; ``verify`` checks an answer without a
solver. Nothing in here reads the clock's date, the network or global random state.
"""

from policies.allocation import Allocation
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
    "Check",
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
    "mode_of",
    "options_of",
    "policies_available",
    "policy_info",
    "solve",
    "verify",
    "warm",
]
