"""Fair allocation of several resources: the mathematics, without any service around it.

``solve(problem, policy)`` is the one front door; ``verify`` checks an answer without a
solver. Nothing in here reads the clock's date, the network or global random state.
"""

from policies.allocation import Allocation
from policies.answer_reading import allocation_from_document
from policies.answers import allocation_to_document, summary_document
from policies.certificates import Certificate, certificate_from_document, certificate_to_document
from policies.checks import Check
from policies.classes import classes_of_decision
from policies.comparison import compare_documents
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
from policies.history import History, history_from_document, history_to_document
from policies.policy_info import PolicyInfo
from policies.problem import Problem
from policies.registry import (
    mode_of,
    options_of,
    policies_available,
    policy_info,
    solve,
)
from policies.running import Running
from policies.schedule import Schedule, Timetable, schedule_to_document, slot_at, timetable
from policies.staying import running_of
from policies.verification import Verification, verify
from policies.warming import warm
from policies.windows import Intervals, Window

__all__ = [
    "Allocation",
    "Certificate",
    "Check",
    "History",
    "Intervals",
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
    "Running",
    "Schedule",
    "SolveFailedError",
    "SolveTimeoutError",
    "Timetable",
    "Verification",
    "Window",
    "allocation_from_document",
    "allocation_to_document",
    "certificate_from_document",
    "certificate_to_document",
    "classes_of_decision",
    "compare_documents",
    "history_from_document",
    "history_to_document",
    "mode_of",
    "options_of",
    "policies_available",
    "policy_info",
    "problem_from_document",
    "problem_to_document",
    "running_of",
    "schedule_to_document",
    "slot_at",
    "solve",
    "summary_document",
    "timetable",
    "verify",
    "warm",
]
