"""Fair allocation of several resources: the mathematics, without any service around it.

``solve(problem, policy)`` is the one front door; ``verify`` checks an answer without a
solver. Nothing in here reads the clock's date, the network or global random state.
"""

from policies.documents.answer import allocation_to_document, summary_document
from policies.documents.certificate import certificate_from_document, certificate_to_document
from policies.documents.comparison import compare_documents
from policies.documents.history import history_from_document, history_to_document
from policies.documents.problem import ParsedProblem, problem_from_document, problem_to_document
from policies.documents.reading import allocation_from_document
from policies.documents.schedule import schedule_to_document
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
from policies.finishing.placement_stickiness import running_of
from policies.long_term.windows import Intervals, Window
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.current_placements import Running
from policies.model.history import History
from policies.model.policy import PolicyInfo
from policies.model.problem import Problem
from policies.model.schedule import Schedule
from policies.model.server_classes import classes_of_decision
from policies.model.timetable import Timetable, slot_at, timetable
from policies.registry import (
    mode_of,
    options_of,
    policies_available,
    policy_info,
    solve,
)
from policies.verification.checks import Check
from policies.verification.verify import Verification, verify
from policies.warm import warm

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
