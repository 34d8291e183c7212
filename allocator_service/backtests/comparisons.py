"""Comparisons of policies on the input of a pool's decision, computed by a worker for its members.

A pool has one comparison. A member who looks requests it if the decision in force has none, at most once
in `LEAST_INTERVAL`. That interval, `SECONDS_EACH` and the limits of evaluations bound its cost.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q
from django.db.models.fields.json import KeyTransform

import policies
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import allocations_of, input_of
from allocator_service.allocation.what_if.evaluations import refuse_oversized
from allocator_service.backtests.models import ComparisonStatus, PolicyComparison
from allocator_service.backtests.side_by_side import BESIDE
from allocator_service.core.errors import FAULTS_OF_OURS, DomainError
from allocator_service.core.jobs import ClaimLost, JobKind, complete_job, hold_job, wake_relay
from allocator_service.core.locks import Lock
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from policies import PolicyError

LEAST_INTERVAL = timedelta(minutes=1)
SECONDS_EACH = 5.0
TOOK_TOO_LONG = "solve.timeout"
FAILED = "evaluation.internal"

COMPARISON_JOBS = JobKind(
    PolicyComparison, Lock.COMPARISON, is_open=Q(status=ComparisonStatus.PENDING)
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PolicyColumn:
    """Tasks of a tenant's workloads under a policy, or the error code if it has none."""

    name: str
    tasks: Mapping[str, float]
    error: str


@dataclass(frozen=True)
class TenantComparison:
    """A tenant's tasks under several policies, that of the decision first.

    `run` is the decision whose input was compared, None before the first result. `pending` is true while
    a comparison of a later decision is computed, and `error` is why the last one failed.
    """

    run: Run | None
    computed_at: datetime | None
    columns: Sequence[PolicyColumn]
    pending: bool
    error: str


@transaction.atomic
def comparison_request(*, pool: Pool, run: Run, now: datetime) -> None:
    """Request a comparison of the decision in force, unless there is one or one is being computed."""
    first = PolicyComparison(pool=pool, run=run, requested_at=now)
    PolicyComparison.objects.bulk_create([first], ignore_conflicts=True)
    PolicyComparison.objects.filter(
        ~Q(status=ComparisonStatus.PENDING),
        ~Q(run=run) | Q(status=ComparisonStatus.FAILED),
        pool=pool,
        requested_at__lte=now - LEAST_INTERVAL,
    ).update(
        run=run,
        status=ComparisonStatus.PENDING,
        requested_at=now,
        error="",
        attempts=0,
        published_at=None,
        publications=0,
    )
    if PolicyComparison.objects.filter(pool=pool, requested_at=now).exists():
        wake_relay(COMPARISON_JOBS.queue)


def tenant_comparison(*, pool: Pool, tenant: Tenant) -> TenantComparison | None:
    """Return the part of the pool's comparison that a tenant may see, which is its own tasks."""
    found = (
        PolicyComparison.objects.filter(pool=pool)
        .annotate(
            policies=KeyTransform("policies", "result"),
            own=KeyTransform(tenant.slug, KeyTransform("tasks", "result")),
        )
        .select_related("result_run")
        .defer("result")
        .first()
    )
    if found is None:
        return None
    own: Mapping[str, Sequence[float | None]] = found.own or {}
    columns = [
        PolicyColumn(
            policy["name"],
            {name: tasks[at] or 0.0 for name, tasks in own.items()},
            policy["error"],
        )
        for at, policy in enumerate(found.policies or [])
    ]
    return TenantComparison(
        run=found.result_run,
        computed_at=found.computed_at,
        columns=columns,
        pending=found.status == ComparisonStatus.PENDING,
        error=found.error,
    )


def comparison_run(*, pool_id: int, clock: Callable[[], datetime]) -> None:
    """Compute a pool's pending comparison, unless another worker does."""
    with hold_job(COMPARISON_JOBS, pool_id) as held:
        claim = held.claim(clock(), lambda comparison: comparison.run)
        if claim.work is None:
            return
        outcome: dict[str, Any]
        try:
            claim.refuse_exhausted("comparison")
            result = _compare(claim.work)
            outcome = {
                "status": ComparisonStatus.SUCCEEDED,
                "result": result,
                "result_run": claim.work,
                "computed_at": clock(),
                "error": "",
            }
        except DomainError as error:
            outcome = {"status": ComparisonStatus.FAILED, "error": error.detail}
        with suppress(ClaimLost), claim.fence() as comparison:
            complete_job(comparison, **outcome)


def _compare(run: Run) -> dict[str, Any]:
    """Return the tasks that the decision gave, and those that each other policy would give."""
    document = input_of(run)
    refuse_oversized(document)
    decided = run.policy
    columns = [_decided_tasks(run)]
    compared = [{"name": decided["name"], "error": ""}]
    for name in BESIDE:
        if name == decided["name"]:
            continue
        tasks, error = _tasks_under(name, decided["mode"], document)
        columns.append(tasks)
        compared.append({"name": name, "error": error})
    tasks_of: dict[str, dict[str, list[float | None]]] = {}
    for workload in document["workloads"]:
        key = (workload["tenant"], workload["name"])
        own = tasks_of.setdefault(key[0], {})
        own[key[1]] = [column.get(key) for column in columns]
    return {"policies": compared, "tasks": tasks_of}


_Tasks = dict[tuple[str, str], float]


def _decided_tasks(run: Run) -> _Tasks:
    rows = allocations_of(run=run, tenant=None)
    return {(row.tenant.slug, row.workload.name): row.tasks for row in rows}


def _tasks_under(name: str, mode: str, document: Mapping[str, Any]) -> tuple[_Tasks, str]:
    """Return the tasks by tenant and workload, or the error code if there are none."""
    policy: dict[str, Any] = {"name": name}
    if mode in policies.policy_named(name).modes:
        policy["mode"] = mode
    begun = monotonic()
    try:
        (column,) = policies.compare_documents(document, [policy], time_limit=SECONDS_EACH)[
            "columns"
        ]
    except PolicyError as error:
        return {}, error.code
    except FAULTS_OF_OURS:
        log.exception("comparison_failed", policy=name)
        return {}, FAILED
    log.info("policy_compared", policy=name, seconds=round(monotonic() - begun, 3))
    if column["error"] is not None:
        return {}, column["error"]["code"]
    return {
        (row["tenant"], row["workload"]["name"]): float(row["tasks"])
        for row in column["allocations"]
    }, ""
