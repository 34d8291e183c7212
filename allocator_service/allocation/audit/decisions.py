"""Verify a stored decision again, from stored data alone."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from allocator_service.allocation.audit.digests import digest_of, proven_answer
from allocator_service.allocation.documents import stored_document, unreadable
from allocator_service.allocation.long_term.steps import step_history
from allocator_service.allocation.models import Allocation as AllocationRow
from allocator_service.allocation.models import Floors, Run, RunStatus, Schedule, Step
from allocator_service.allocation.placements import DecidedPlacements, owners_of
from allocator_service.allocation.reasons import reason_renamed
from allocator_service.allocation.selectors import certificate_of, finite_or_none, input_of
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.core.errors import Conflict, Missing, TooLarge
from allocator_service.ledger.selectors import chained_digests, decisions_chained_before
from policies import (
    Allocation,
    Choice,
    CurrentPlacements,
    History,
    PolicyError,
    Problem,
    certificate_from_document,
    classes_of_decision,
    floors_from_document,
    floors_of_workloads,
    floors_renamed,
    problem_from_document,
    schedule_from_document,
    verify,
)
from policies import Floors as FloorsOfDecision
from policies import Schedule as Plan

# Errors of reading rows that are not as they were stored.
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, zlib.error)


def run_verify(run: Run) -> dict[str, Any]:
    """Check feasibility, shares, limits and the optimality proof of a decision, without a solver.

    Returns `{"valid", "checks": [{"name", "holds", "detail"}]}`. A stored answer that cannot be read is
    not valid; its one check is `readable`. Raises `Conflict` for a run that decided nothing, `Gone`
    once its input is pruned, `problem.too_large` for more whole tasks than are handed out again.
    """
    refuse_undecided(run)
    try:
        stored = stored_decision(run)
    except Conflict as error:
        return _not_readable(error.detail)
    except PolicyError as error:
        return _not_readable(f"{error.pointer or '/'}: {error.detail} ({error.code})")
    except _UNREADABLE as error:
        return _not_readable(f"what is stored cannot be read ({type(error).__name__})")
    ranges_agree = stored.ranges_agree
    answer = stored.allocation
    verification = verify(answer.problem, answer, stored.history, stored.running)
    for check in verification.checks:
        if check.name == "size" and not check.holds:  # neither proven nor refuted
            raise TooLarge(check.detail, code="problem.too_large")
    checks = [
        {"name": "server_ranges", "holds": ranges_agree, "detail": _RANGES[ranges_agree]},
        {"name": "stored_numbers", "holds": not stored.wrong_row, "detail": stored.wrong_row},
        *_chained(run, answer),
        *(
            {"name": check.name, "holds": check.holds, "detail": check.detail}
            for check in verification.checks
        ),
    ]
    return {"valid": all(check["holds"] for check in checks), "checks": checks}


def _not_readable(detail: str) -> dict[str, Any]:
    return {"valid": False, "checks": [{"name": "readable", "holds": False, "detail": detail}]}


def _chained(run: Run, answer: Allocation) -> list[dict[str, Any]]:
    """Compare the digests in the pool's chain with those of the stored decision.

    Decisions older than the first chained one are in no chain. The check is left out for them.
    """
    chained = chained_digests(run_id=run.pk)
    if chained is None:
        # A run after the first chained one must be in the chain, or its record was deleted.
        if not decisions_chained_before(pool=run.pool, instant=run.effective_from):
            return []
        return [
            {"name": "chain", "holds": False, "detail": "the pool's chain does not name the run"}
        ]
    computed = decision_proof(input_of(run), answer)["digests"]
    wrong = [part for part in chained if chained[part] != computed[part]]
    detail = f"the chain has another {' and another '.join(wrong)}" if wrong else ""
    return [{"name": "chain", "holds": not wrong, "detail": detail}]


_RANGES = {
    True: "the ranges that placements name are the identical servers of the input",
    False: "the ranges that placements name are not those of the input",
}


@dataclass(frozen=True)
class StoredDecision:
    """A decision rebuilt from its rows.

    `history` is what its policy remembered before it, `running` where tasks ran; `ranges_agree`: the
    stored ranges of servers are those of its input; `wrong_row` names the first row whose resources or
    shares do not follow from its tasks, empty without any.
    """

    allocation: Allocation
    history: History | None
    running: CurrentPlacements | None
    ranges_agree: bool
    wrong_row: str


def run_proof(run: Run, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with which `python -m policies verify` verifies a decision.

    `document` is the run's input, with the names by which the reader may know it. Raises `Conflict`
    for a run that decided nothing or cannot be read, `Gone` once its input is pruned.
    """
    refuse_undecided(run)
    decision = stored_decision(run).allocation
    problem = problem_from_document(document).problem
    # Reasons name groups, which the reader may know by other names.
    names = dict(zip(decision.problem.groups, problem.groups, strict=True))

    def renamed(reason: str) -> str:
        return reason_renamed(reason, names.__getitem__)

    floors = decision.floors
    if floors is not None:
        floors = floors_renamed(floors, problem, decision.choice, renamed)
    reasons = tuple(map(renamed, decision.limited_by))
    decision = replace(decision, problem=problem, limited_by=reasons, floors=floors)
    return {"run": run.pk, "pool": run.pool.slug, **decision_proof(document, decision)}


def decision_proof(document: Mapping[str, Any], decision: Allocation) -> dict[str, Any]:
    """Return a decision's input and answer, each with its digest.

    Digests are SHA-256 of the parts as JSON with sorted keys, no spaces and UTF-8. The pool's chain
    holds those of the parts with their own names.
    """
    parts = {"input": document, "answer": proven_answer(document, decision)}
    return {**parts, "digests": {name: digest_of(part) for name, part in parts.items()}}


def refuse_undecided(run: Run) -> None:
    """Raise `Conflict` for a run without a decision, which failed or has not ended."""
    if run.status != RunStatus.SUCCEEDED:
        raise Conflict(
            f"The run is {run.status}: it has no decision to verify.", code="run.not_succeeded"
        )


def stored_decision(run: Run) -> StoredDecision:
    """Rebuild the decision of a succeeded run.

    Raises `Gone` once its input is pruned, and `Conflict` (`run.unreadable`) if the stored rows are not
    a valid decision.
    """
    try:
        return _rebuilt(run)
    except PolicyError as error:
        raise unreadable(f"{error.pointer or '/'}: {error.detail} ({error.code})") from error


def _rebuilt(run: Run) -> StoredDecision:
    parsed = problem_from_document(input_of(run))
    choice = parsed.choice
    problem = parsed.problem.placed_by(choice)
    try:
        certificate = certificate_from_document(certificate_of(run))
    # Not every policy proves its answer by a certificate.
    except Missing:
        certificate = None
    placed = stored_placements(run)
    classes = classes_of_decision(problem, choice, placed.counts)
    rows = list(
        AllocationRow.objects.filter(run=run)
        .order_by("position")
        .values_list("tasks", "level", "limited_by")
    )
    # Rows are by position: a deleted one would shift the answers of all workloads after it.
    if len(rows) != problem.n:
        raise unreadable(f"/allocations: expected {problem.n} rows, found {len(rows)}")
    level = np.full(problem.t, np.nan)
    for owner, (_, tenant_level, _) in zip(problem.workload_tenant, rows, strict=True):
        if tenant_level is not None:
            level[owner] = tenant_level
    summary = run.summary or {}
    allocation = Allocation(
        problem=problem,
        choice=choice,
        tasks=np.array([tasks for tasks, _, _ in rows], dtype=np.float64),
        classes=classes,
        placement_piece=np.array(
            [_piece(problem, workload, kind) for workload, kind, *_ in placed], dtype=np.int64
        ),
        placement_class=np.array(placed.range_of, dtype=np.int64),
        placement_tasks=placed.counts[placed.range_of] * np.array(placed.tasks),
        level=level,
        limited_by=tuple(limited_by for *_, limited_by in rows),
        objective=_number(summary.get("objective")),
        bound=_number(summary.get("bound")),
        gap=_number(summary.get("gap")),
        certificate=certificate,
        moved=summary.get("moved_tasks"),
        schedule=_stored_schedule(run, choice, problem),
        history=_stored_history(run, problem),
        statistics={"stopped": summary.get("stopped")},
        floors=_stored_floors(run, choice, problem),
    )
    ranges_agree = _stated_ranges(placed) == _expected_ranges(allocation)
    return StoredDecision(
        allocation, parsed.history, parsed.running, ranges_agree, _wrong_row(run, allocation)
    )


def _stated_ranges(placed: DecidedPlacements) -> list[tuple[int, Any]]:
    """Return the number of servers of each range, and the properties that they have in common."""
    owners = owners_of(placed.ranges)
    stated = {
        each: (
            list(map(float, each.capacity)),
            each.labels,
            owners.get(each.owner, ""),
            each.shared,
        )
        for each in set(placed.traits)
    }
    return [(each.count, stated[each.traits]) for each in placed.ranges]


def _expected_ranges(allocation: Allocation) -> list[tuple[int, Any]]:
    """Return the ranges of the input's servers, empty for a policy that treats them as one."""
    problem, classes = allocation.problem, allocation.classes
    if allocation.choice.sees_one_pool:
        return []
    of_rows: dict[tuple[int, ...], Any] = {}
    expected = []
    for position, count in enumerate(classes.servers.tolist()):
        rows = tuple(classes.rows_of(position).tolist())
        if rows not in of_rows:
            labels = [set(problem.server_labels[row].items()) for row in rows]
            owners = {int(problem.contributed_by[row]) for row in rows}
            owner = min(owners) if len(owners) == 1 else -1
            of_rows[rows] = (
                problem.capacity[rows[0]].tolist(),
                dict(set.intersection(*labels)),
                None if owner < 0 else problem.tenants[owner],
                len(owners) > 1,
            )
        expected.append((count, of_rows[rows]))
    return expected


def _piece(problem: Problem, workload: int, kind: int) -> int:
    """Return the index of a stored kind of pieces of a workload."""
    kinds = problem.pieces.kinds(workload)
    if not 0 <= kind < len(kinds):
        raise unreadable(
            f"workload {problem.workload_names[workload]} has no pieces of kind {kind}"
        )
    return kinds[kind]


def _wrong_row(run: Run, decision: Allocation) -> str:
    """Return the first stored row whose numbers do not follow from its tasks, to the last bit."""
    problem, owner = decision.problem, decision.problem.workload_tenant
    rows = AllocationRow.objects.filter(run=run).order_by("position")
    names = (
        "resources", "dominant_resource", "dominant_share", "tenant_share", "weighted_share",
        "floor", "floor_met",
    )  # fmt: skip
    stored = rows.values_list(*names)
    floors = floors_of_workloads(decision)
    expected = zip(
        (decision.tasks[:, None] * problem.demand).tolist(),
        (problem.resources[resource] for resource in decision.dominant_resource),
        decision.dominant_share.tolist(),
        decision.tenant_share[owner].tolist(),
        (finite_or_none(share) for share in decision.weighted_share[owner].tolist()),
        (floor for floor, _ in floors),
        (met for _, met in floors),
        strict=True,
    )
    for position, (row, computed) in enumerate(zip(stored, expected, strict=True)):
        # To the last bit: the same code computed the row from the same tasks.
        if row != computed:
            return f"workload {problem.workload_names[position]}: {row} is stored, not {computed}"
    return ""


def _stored_schedule(run: Run, choice: Choice, problem: Problem) -> Plan | None:
    schedule = Schedule.objects.filter(run=run).first()
    if schedule is None:
        return None
    return schedule_from_document(problem, schedule.plan, packed=not choice.sees_one_pool)


def _stored_floors(run: Run, choice: Choice, problem: Problem) -> FloorsOfDecision | None:
    stored = Floors.objects.filter(run=run).first()
    if stored is None:
        return None
    return floors_from_document(stored_document(stored.document), problem, choice)


def _stored_history(run: Run, problem: Problem) -> History | None:
    step = Step.objects.filter(run=run).first()
    return None if step is None else step_history(step, problem)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
