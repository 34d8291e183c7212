"""Fair allocation of several resources, as mathematics without a service around it.

``solve(problem, policy)`` is the one front door; ``verify`` checks an answer without a solver.
Nothing in here reads the clock's date, the network or global random state.

Names are loaded when they are first used, since a verifier needs Python and NumPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.by_name import call_by_name
    from policies.documents.answer import allocation_to_document, summary_document
    from policies.documents.certificate import certificate_from_document, certificate_to_document
    from policies.documents.comparison import compare_documents
    from policies.documents.evaluation import evaluate_document
    from policies.documents.floors import (
        floors_of_workloads,
        floors_to_document,
        guarantees_unmet,
    )
    from policies.documents.history import history_from_document, history_to_document
    from policies.documents.placements import PlacementParts, placement_parts
    from policies.documents.problem import (
        ParsedProblem,
        problem_from_document,
        problem_to_document,
        without_deficits,
    )
    from policies.documents.reading import (
        allocation_from_document,
        floors_from_document,
        floors_renamed,
    )
    from policies.documents.request import ComparisonRequest, EvaluationRequest
    from policies.documents.schedule import schedule_from_document, schedule_to_document
    from policies.documents.verification import verify_answer
    from policies.equilibrium.ceei import clear_market
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
    from policies.explaining.explanations import explain
    from policies.explaining.gang_room import missing_pieces
    from policies.explaining.groups import GroupStanding, group_standings, tenant_levels
    from policies.explaining.lending import tasks_by_owner, tasks_by_owner_and_label
    from policies.filling.mrfs_loop import dominant_on
    from policies.finishing.placement_dates import DatedPlacements, date_placements
    from policies.leximin.interior_point.method import maximise_level
    from policies.leximin.level_program import level_program
    from policies.long_term.windows import Intervals, Window
    from policies.model.allocation import Allocation, Floors, current_placements_of
    from policies.model.certificate import Certificate
    from policies.model.current_placements import CurrentPlacements
    from policies.model.entitlement import entitled_partition, entitled_parts, tasks_alone
    from policies.model.gang_checks import gangs_refusal
    from policies.model.gangs import Gang
    from policies.model.group_tree import group_sums
    from policies.model.history import History
    from policies.model.jain import jain_index
    from policies.model.policy import (
        Choice,
        HandOut,
        Policy,
        Proof,
        Servers,
        ShareDefinition,
        options_schema,
    )
    from policies.model.problem import Problem
    from policies.model.problem_fields import Guarantee, Limit
    from policies.model.quantities import WholeServers
    from policies.model.reasons import REASONS, UNSERVED, unserved_reasons
    from policies.model.request import Request, Solver
    from policies.model.schedule import Schedule
    from policies.model.server_classes import classes_of_decision, one_class, server_classes
    from policies.model.timetable import Timetable, slot_at, timetable
    from policies.model.tolerance import DISCRETE_TOLERANCE
    from policies.proofs.level_bounds import prove_round
    from policies.proofs.long_term_step import reasons_not_to_run, step_added
    from policies.proofs.normal_form import LeximinProblem, normalise
    from policies.properties.pareto import pareto_optimal
    from policies.properties.properties import PROPERTY_NAMES, properties_of
    from policies.registry import register, solve
    from policies.selection import choose, policies_available, policy_named
    from policies.verification.checks import Check
    from policies.verification.verify import Verification, verify
    from policies.warming import warm, warm_compiled

__all__ = [
    "DISCRETE_TOLERANCE",
    "PROPERTY_NAMES",
    "REASONS",
    "UNSERVED",
    "Allocation",
    "Certificate",
    "Check",
    "Choice",
    "ComparisonRequest",
    "CurrentPlacements",
    "DatedPlacements",
    "EvaluationRequest",
    "Floors",
    "Gang",
    "GroupStanding",
    "Guarantee",
    "HandOut",
    "History",
    "Intervals",
    "LeximinProblem",
    "Limit",
    "ParsedProblem",
    "PlacementParts",
    "Policy",
    "PolicyError",
    "PolicyModeError",
    "PolicyNotApplicableError",
    "PolicyOptionsError",
    "PolicyUnknownError",
    "Problem",
    "ProblemError",
    "ProblemTooLargeError",
    "Proof",
    "Request",
    "Schedule",
    "Servers",
    "ShareDefinition",
    "SolveFailedError",
    "SolveTimeoutError",
    "Solver",
    "Timetable",
    "Verification",
    "WholeServers",
    "Window",
    "allocation_from_document",
    "allocation_to_document",
    "call_by_name",
    "certificate_from_document",
    "certificate_to_document",
    "choose",
    "classes_of_decision",
    "clear_market",
    "compare_documents",
    "current_placements_of",
    "date_placements",
    "dominant_on",
    "entitled_partition",
    "entitled_parts",
    "evaluate_document",
    "explain",
    "floors_from_document",
    "floors_of_workloads",
    "floors_renamed",
    "floors_to_document",
    "gangs_refusal",
    "group_standings",
    "group_sums",
    "guarantees_unmet",
    "history_from_document",
    "history_to_document",
    "jain_index",
    "level_program",
    "maximise_level",
    "missing_pieces",
    "normalise",
    "one_class",
    "options_schema",
    "pareto_optimal",
    "placement_parts",
    "policies_available",
    "policy_named",
    "problem_from_document",
    "problem_to_document",
    "properties_of",
    "prove_round",
    "reasons_not_to_run",
    "register",
    "schedule_from_document",
    "schedule_to_document",
    "server_classes",
    "slot_at",
    "solve",
    "step_added",
    "summary_document",
    "tasks_alone",
    "tasks_by_owner",
    "tasks_by_owner_and_label",
    "tenant_levels",
    "timetable",
    "unserved_reasons",
    "verify",
    "verify_answer",
    "warm",
    "warm_compiled",
    "without_deficits",
]

# Module of each name above, from which it is loaded.
_HOMES = {
    "policies.by_name": ("call_by_name",),
    "policies.documents.answer": ("allocation_to_document", "summary_document"),
    "policies.documents.floors": (
        "floors_of_workloads",
        "floors_to_document",
        "guarantees_unmet",
    ),
    "policies.documents.certificate": ("certificate_from_document", "certificate_to_document"),
    "policies.documents.comparison": ("compare_documents",),
    "policies.documents.evaluation": ("evaluate_document",),
    "policies.documents.history": ("history_from_document", "history_to_document"),
    "policies.documents.placements": ("PlacementParts", "placement_parts"),
    "policies.documents.problem": (
        "ParsedProblem",
        "problem_from_document",
        "problem_to_document",
        "without_deficits",
    ),
    "policies.documents.reading": (
        "allocation_from_document",
        "floors_from_document",
        "floors_renamed",
    ),
    "policies.documents.request": ("ComparisonRequest", "EvaluationRequest"),
    "policies.documents.schedule": ("schedule_from_document", "schedule_to_document"),
    "policies.documents.verification": ("verify_answer",),
    "policies.equilibrium.ceei": ("clear_market",),
    "policies.errors": (
        "PolicyError",
        "PolicyModeError",
        "PolicyNotApplicableError",
        "PolicyOptionsError",
        "PolicyUnknownError",
        "ProblemError",
        "ProblemTooLargeError",
        "SolveFailedError",
        "SolveTimeoutError",
    ),
    "policies.explaining.explanations": ("explain",),
    "policies.explaining.gang_room": ("missing_pieces",),
    "policies.explaining.groups": ("GroupStanding", "group_standings", "tenant_levels"),
    "policies.explaining.lending": ("tasks_by_owner", "tasks_by_owner_and_label"),
    "policies.filling.mrfs_loop": ("dominant_on",),
    "policies.finishing.placement_dates": ("DatedPlacements", "date_placements"),
    "policies.leximin.interior_point.method": ("maximise_level",),
    "policies.leximin.level_program": ("level_program",),
    "policies.long_term.windows": ("Intervals", "Window"),
    "policies.model.allocation": ("Allocation", "Floors", "current_placements_of"),
    "policies.model.certificate": ("Certificate",),
    "policies.model.current_placements": ("CurrentPlacements",),
    "policies.model.entitlement": ("entitled_partition", "entitled_parts", "tasks_alone"),
    "policies.model.gang_checks": ("gangs_refusal",),
    "policies.model.gangs": ("Gang",),
    "policies.model.group_tree": ("group_sums",),
    "policies.model.history": ("History",),
    "policies.model.policy": (
        "Choice",
        "HandOut",
        "Policy",
        "Proof",
        "Servers",
        "ShareDefinition",
        "options_schema",
    ),
    "policies.model.problem": ("Problem",),
    "policies.model.problem_fields": ("Guarantee", "Limit"),
    "policies.model.quantities": ("WholeServers",),
    "policies.model.reasons": ("REASONS", "UNSERVED", "unserved_reasons"),
    "policies.model.request": ("Request", "Solver"),
    "policies.model.schedule": ("Schedule",),
    "policies.model.server_classes": ("classes_of_decision", "one_class", "server_classes"),
    "policies.model.timetable": ("Timetable", "slot_at", "timetable"),
    "policies.model.tolerance": ("DISCRETE_TOLERANCE",),
    "policies.proofs.level_bounds": ("prove_round",),
    "policies.proofs.long_term_step": ("reasons_not_to_run", "step_added"),
    "policies.proofs.normal_form": ("LeximinProblem", "normalise"),
    "policies.model.jain": ("jain_index",),
    "policies.properties.pareto": ("pareto_optimal",),
    "policies.properties.properties": ("PROPERTY_NAMES", "properties_of"),
    "policies.registry": ("register", "solve"),
    "policies.selection": ("choose", "policies_available", "policy_named"),
    "policies.verification.checks": ("Check",),
    "policies.verification.verify": ("Verification", "verify"),
    "policies.warming": ("warm", "warm_compiled"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
