"""Verification of the ledger and of what past decisions remembered of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.db.models import Q

import policies
from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.long_term.metering import LATE, meterings_due
from allocator_service.allocation.long_term.steps import elapsed_seconds, step_basis, step_document
from allocator_service.allocation.models import Allocation, Run, RunStatus, Step
from allocator_service.allocation.runs.snapshots import snapshot_document
from allocator_service.core.errors import DomainError, Unavailable
from allocator_service.core.snapshots import BEGIN_SNAPSHOT
from allocator_service.ledger.audit.moving_windows import Amount
from allocator_service.ledger.audit.running_sums import PastSums, RunningSums
from allocator_service.ledger.audit.verification import STUCK_AFTER, LedgerCheck, ledger_verify
from allocator_service.ledger.models import Kind
from allocator_service.pools.models import Pool
from allocator_service.pools.recompute import DECISION_JOBS
from allocator_service.pools.windows import Past
from policies import history_to_document, problem_from_document

STEPS_BACK = timedelta(days=2)
_STEPS_AT_ONCE = 50
MOST_DECISIONS = 1_000


def ledgers_verify(*, now: datetime, since: datetime | None = None) -> list[LedgerCheck]:
    """Check the whole ledger, stuck decisions, and the decisions and sharing degrees from `since` on.

    `since` is two days ago by default.
    """
    return [
        *ledger_verify(now=now),
        _decided_in_time(now),
        decisions_verify(since=now - STEPS_BACK if since is None else since),
        _metered_in_time(now),
        sharing_degrees_verify(since=now - STEPS_BACK if since is None else since),
    ]


def _decided_in_time(now: datetime) -> LedgerCheck:
    """Check that no decision has been due for a minute.

    Decisions of one pool are computed one after the other.
    """
    open_jobs = DECISION_JOBS.open_rows().select_related("pool")
    late = open_jobs.filter(pool__retired_at=None, run_after__lt=now - STUCK_AFTER)
    pools = [job.pool.slug for job in late]
    detail = f"due for a minute: {', '.join(pools[:10])}" if pools else ""
    return LedgerCheck("decided_in_time", not pools, detail)


def decisions_verify(*, since: datetime) -> LedgerCheck:
    """Verify the stored decisions that were in force from `since` on, newest first.

    At most `MOST_DECISIONS` are verified. A decision is skipped if its input is pruned or if it has too
    many whole tasks to be handed out again.
    """
    runs = Run.objects.filter(status=RunStatus.SUCCEEDED, pruned_at=None).filter(
        Q(effective_until=None) | Q(effective_until__gt=since)
    )
    looked_at = 0
    for run in runs.select_related("pool", "snapshot").order_by("-pk")[:MOST_DECISIONS]:
        try:
            failed = [check["name"] for check in run_verify(run)["checks"] if not check["holds"]]
        except DomainError as error:
            if error.code != "problem.too_large":  # so many whole tasks take minutes each
                raise
            continue
        except (LookupError, ValueError) as error:  # rows are missing, or are nonsense
            failed = [f"its rows cannot be read ({error})"]
        if failed:
            detail = f"run {run.pk} of pool {run.pool}: {', '.join(failed)}"
            return LedgerCheck("decisions", False, detail)
        looked_at += 1
    return LedgerCheck("decisions", True, f"{looked_at} decisions")


def _metered_in_time(now: datetime) -> LedgerCheck:
    """Check that no pool has an interval that ended long ago and is not metered."""
    late = [due for due in meterings_due(now=now) if now - due.since > LATE]
    detail = ", ".join(f"{due.pool.slug} since {due.since:%Y-%m-%d %H:%M:%S}" for due in late[:10])
    return LedgerCheck("metered_in_time", not late, detail)


def sharing_degrees_verify(*, since: datetime) -> LedgerCheck:
    """Recompute what every decision of a step that begins at `since` or later remembered.

    A decision under a long-term policy stores what its window held (the run's input) and what it will
    hold when its step is over, with every tenant's sharing degree. Here both are computed again from
    scratch: used and alone of each tenant and resource are summed over the entries that the decision
    knew, within its window, and the step's tasks are added. A decision *knew* the pool's entries that
    were committed when it read the pool: those numbered in the sealed order up to `Step.sealed_through`,
    and those in `Step.unsealed`. A later event or correction is not among them, whatever the time of the
    use that it records. All numbers must equal the stored ones to the last digit, except for windows
    that decay, which are computed in doubles: 1e-9.

    A step is skipped if it does not store what its decision knew, or if its input is pruned.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(BEGIN_SNAPSHOT)
        # Reading the steps of all pools takes longer than any other statement may.
        cursor.execute("SET LOCAL statement_timeout = 0")
        checked = 0
        for pool in Pool.objects.order_by("slug"):
            proof = _PoolProof(pool)
            steps = (
                Step.objects.filter(run__pool=pool, run__status=RunStatus.SUCCEEDED)
                .filter(begin__gte=since, run__snapshot__document__isnull=False)
                .select_related("run__snapshot")
                .order_by("run__effective_from")
            )
            # In the order of decisions, in which the sums read most entries once.
            for step in steps.iterator(chunk_size=_STEPS_AT_ONCE):
                try:
                    wrong = proof.wrong(step)
                except Unavailable as error:
                    wrong = f"not checked: {error.detail}"
                if wrong:
                    detail = f"pool {pool}, run {step.run_id}: {wrong}"
                    return LedgerCheck("sharing_degrees", False, detail)
                checked += 1
    return LedgerCheck("sharing_degrees", True, f"{checked} decisions since {since:%Y-%m-%d %H:%M}")


class _PoolProof:
    """Verify the steps of one pool, in the order of their decisions."""

    def __init__(self, pool: Pool) -> None:
        self._sums = RunningSums(pool.pk)
        decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
        self._first_run = decided.order_by("effective_from").first()

    def wrong(self, step: Step) -> str:
        """Return the first difference between a step and the entries, or an empty string."""
        basis = step_basis(step)
        if basis is None or step.run.snapshot is None:
            return "it does not name the entries it was made from"
        document = snapshot_document(step.run.snapshot)
        sums = self._sums.at(basis.past, basis.known)
        if sums.gone:
            return f"{sums.gone} entries that it knew are not in the ledger"
        return (
            _wrong_before(step, document["history"]["tenants"], sums)
            or self._wrong_elapsed(step.run, document["history"], basis.past, sums)
            or _wrong_after(step, document)
        )

    def _wrong_elapsed(
        self, run: Run, history: Mapping[str, Any], past: Past, sums: PastSums
    ) -> str:
        firsts = [sums.first]
        if self._first_run is not None and self._first_run.pk != run.pk:
            firsts.append(self._first_run.effective_from)
        first = min((at for at in firsts if at is not None), default=None)
        elapsed = elapsed_seconds(past, first)
        if elapsed == history["elapsed"]:
            return ""
        return f"it states that {history['elapsed']} s of its window had passed; {elapsed} s had"


def _wrong_before(step: Step, tenants: Mapping[str, Any], sums: PastSums) -> str:
    """Return a difference in what the window held when the decision was made, or an empty string."""
    nothing = Amount(0.0, 0.0)
    for (slug, row), tenant in zip(tenants.items(), step.tenant_ids, strict=True):
        for what, kind in (("used", Kind.USAGE), ("alone", Kind.ALONE)):
            for resource, stored in row[what].items():
                amount = sums.amounts.get((tenant, resource, kind.value), nothing)
                # Corrections can make a sum negative, and policies count it as 0.
                if abs(stored - max(amount.value, 0.0)) > amount.noise:
                    return (
                        f"it states that {slug} had {what} {stored!r} {resource} × s; the entries known"
                        f" then add up to {amount.value!r}"
                    )
    return ""


def _wrong_after(step: Step, document: Mapping[str, Any]) -> str:
    """Return a difference in the window or sharing degrees after the step, or an empty string."""
    parsed = problem_from_document(document)
    problem = parsed.problem
    if parsed.history is None:
        return "its input has no history"
    rows = Allocation.objects.filter(run_id=step.run_id).order_by("position")
    tasks = np.array(list(rows.values_list("tasks", flat=True)), dtype=np.float64)
    if len(tasks) != problem.n:
        return f"it has {len(tasks)} allocations of {problem.n} workloads"
    after = policies.step_added(problem, parsed.choice, parsed.history, tasks)
    derived = history_to_document(after, problem.tenants, problem.resources)
    stored = step_document(step)
    for slug, row in derived["tenants"].items():
        stated = stored["tenants"].get(slug, {})
        for what, value in row.items():
            if stated.get(what) != value:
                name = what.replace("_", " ")
                return (
                    f"it states {name} {stated.get(what)} for {slug} after the step;"
                    f" the ledger gives {value}"
                )
    if stored != derived or list(step.waiting) != after.waiting.tolist():
        return "the stored history differs from the one that follows from its step"
    return ""
