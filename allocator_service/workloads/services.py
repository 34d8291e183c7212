"""Writes to workloads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from psycopg.types.json import Jsonb

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.copying import copy_rows
from allocator_service.core.errors import Conflict, TooLarge, Unacceptable
from allocator_service.core.ids import new_ids
from allocator_service.core.versions import check_version
from allocator_service.pools.gangs import refuse_gangs
from allocator_service.pools.limits import Limit, limits_check, limits_stored
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import members_join
from allocator_service.pools.models import Pool
from allocator_service.pools.names import refuse_taken_names
from allocator_service.pools.recompute import pool_changed
from allocator_service.pools.selectors import resources_of, server_groups
from allocator_service.pools.services import check_reclaim_time
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import Gang, gang_check, pieces_stored, start_check
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.satisfiability import Supply
from allocator_service.workloads.selectors import workloads_named

MAX_WORKLOADS_PER_REQUEST = 10_000
# Limits cost time of every decision of the pool, which all its members wait for.
MAX_LIMITS_OF_TENANT = 50
PLAIN = Gang()


@dataclass(frozen=True)
class WorkloadDraft:
    """A workload to submit.

    `demand` is that of one task, of all its pieces together, in the pool's order of resources.
    An empty `minimum_run` is that of the pool.
    """

    tenant: Tenant
    name: str
    demand: Sequence[Decimal]
    tasks: int | None = None
    priority: int = 0
    server_selector: dict[str, str | list[str]] = field(default_factory=dict)
    limit: Sequence[Limit] = ()
    gang: Gang = PLAIN
    minimum_run: str = ""
    pointer: str = ""


@dataclass(frozen=True)
class Submitted:
    """The result of a bulk write, with ids that ascend in the order of the request."""

    ids: Sequence[UUID]
    generation: int


def workloads_refuse_too_many(count: int) -> None:
    """Raise `TooLarge` for more workloads than one request takes, before they are read."""
    if count > MAX_WORKLOADS_PER_REQUEST:
        raise TooLarge(
            f"{count} workloads in one request; at most {MAX_WORKLOADS_PER_REQUEST} are taken:"
            " split it.",
            code="workloads.too_many",
        )


@transaction.atomic
def workloads_submit(*, pool: Pool, drafts: Sequence[WorkloadDraft], now: datetime) -> Submitted:
    """Add workloads to a pool, all or none, and admit their tenants.

    A workload that cannot be served now is accepted and marked. Raises `TooLarge` for more than 10,000,
    `Unacceptable` for a demand of nothing, and `Conflict` for a name the tenant uses, with its pointer.
    """
    workloads_refuse_too_many(len(drafts))
    for draft in drafts:
        # What does not depend on the pool is refused before it is locked.
        gang_check(draft.gang, draft.pointer)
        start_check(draft.gang, draft.tasks, draft.pointer)
        _refuse_empty_demand(draft.demand, draft.pointer)
        check_reclaim_time(draft.minimum_run, pointer=f"{draft.pointer}/minimum_run")
    pool = pool_lock(pool)
    for draft in drafts:
        _refuse_selector(pool, draft.server_selector, draft.pointer)
    limits_check(pool, ((f"{draft.pointer}/limit", draft.limit) for draft in drafts))
    limited = [draft for draft in drafts if draft.limit]
    for tenant in {draft.tenant for draft in limited}:
        mine = [draft for draft in limited if draft.tenant == tenant]
        added = sum(len(draft.limit) for draft in mine)
        _refuse_too_many_limits(pool, tenant, added, f"{mine[0].pointer}/limit")
    _refuse_taken_names(pool, drafts)
    # Admitted in the same transaction: a workload without a membership has no weight in a decision.
    members_join(
        pool=pool,
        tenants=list({draft.tenant.pk: draft.tenant for draft in drafts}.values()),
        now=now,
    )
    # Read once for all drafts, under the lock: no server joins or leaves before they are stored.
    supply, resources = Supply(server_groups(pool)), resources_of(pool)
    ids = new_ids(len(drafts))
    copy_rows(
        Workload,
        ["id", "pool_id", "tenant_id", "name", "demand", "tasks", "priority", "server_selector",
         "limit", "pieces", "per_server", "together", "at_least", "minimum_run", "state",
         "unsatisfiable", "version", "created_at"],
        (
            (id_, pool.pk, draft.tenant.pk, draft.name, list(draft.demand), draft.tasks,
             draft.priority, Jsonb(draft.server_selector), Jsonb(limits_stored(draft.limit)),
             Jsonb(pieces_stored(draft.gang.pieces)), draft.gang.per_server, draft.gang.together,
             draft.gang.at_least, draft.minimum_run, WorkloadState.ACTIVE.value,
             supply.unsatisfiable_reason(
                 draft.demand, draft.server_selector, draft.gang.kinds(resources)), 1, now)
            for id_, draft in zip(ids, drafts, strict=True)
        ),
    )  # fmt: skip
    # After the rows exist, because the rule reads all gangs of the pool. A refusal rolls them back.
    with_gang = next((draft for draft in drafts if not draft.gang.is_plain), None)
    if with_gang is not None:
        refuse_gangs(pool, now=now, pointer=f"{with_gang.pointer}/{_field_of(with_gang.gang)}")
    generation = pool_changed(pool, now=now)
    audit_record(
        action="workload.submit",
        instance=pool,
        before=stated_fields(pool),
        now=now,
        pool=pool.slug,
        extra={
            "workloads": len(ids),
            "first": {"id": ids[0], "name": drafts[0].name},
            "last": {"id": ids[-1], "name": drafts[-1].name},
        }
        if ids
        else {"workloads": 0},
    )
    return Submitted(ids, generation)


def _refuse_empty_demand(demand: Sequence[Decimal], pointer: str) -> None:
    if not any(demand):
        raise Unacceptable(
            "A task demands something: at least one resource above 0.",
            code="demand.zero",
            pointer=f"{pointer}/demand",
        )


def _refuse_selector(pool: Pool, selector: dict[str, str | list[str]], pointer: str) -> None:
    if selector and not pool.policy_places:
        raise Unacceptable(
            f"The pool's policy, {pool.policy_name}, sees the pool as one server: a workload in it"
            " cannot select servers.",
            code="policy.no_placement",
            pointer=f"{pointer}/server_selector",
        )


def _refuse_too_many_limits(pool: Pool, tenant: Tenant, added: int, pointer: str) -> None:
    """Raise `Unacceptable` if a tenant's workloads would take up the limits of the whole pool."""
    present = Workload.objects.filter(pool=pool, tenant=tenant).exclude(
        state=WorkloadState.WITHDRAWN
    )
    total = added + sum(map(len, present.exclude(limit=[]).values_list("limit", flat=True)))
    if total > MAX_LIMITS_OF_TENANT:
        raise Unacceptable(
            f"The workloads of {tenant.slug} would have {total} limits together; at most"
            f" {MAX_LIMITS_OF_TENANT} are allowed.",
            code="limit.too_many",
            pointer=pointer,
        )


def _refuse_taken_names(pool: Pool, drafts: Sequence[WorkloadDraft]) -> None:
    present = workloads_named(
        pool=pool,
        tenants={draft.tenant.pk for draft in drafts},
        names={draft.name for draft in drafts},
    ).exclude(state=WorkloadState.WITHDRAWN)
    refuse_taken_names(
        ((draft.pointer, (draft.tenant.pk, draft.name)) for draft in drafts),
        taken=set(present.values_list("tenant_id", "name")),
        code="workload.exists",
        owner="tenant",
    )


@dataclass(frozen=True)
class WorkloadSettings:
    """Editable fields of a workload.

    `limit`, `gang` and `minimum_run` are None to keep the present ones.
    """

    name: str
    demand: Sequence[Decimal]
    tasks: int | None
    priority: int
    server_selector: dict[str, str | list[str]]
    state: str
    limit: Sequence[Limit] | None = None
    gang: Gang | None = None
    minimum_run: str | None = None


@transaction.atomic
def workload_update(
    *, workload: Workload, settings: WorkloadSettings, version: int | None, now: datetime
) -> Workload:
    """Change a workload that is still at `version`. Raises `Conflict` for a withdrawn one."""
    workload = _locked(workload)
    check_version(workload.version, version)
    if workload.state == WorkloadState.WITHDRAWN:
        raise Conflict(f"The workload {workload.name} is withdrawn.", code="workload.withdrawn")
    gang = Gang.of(workload) if settings.gang is None else settings.gang
    gang_check(gang, "")
    resources = resources_of(workload.pool)
    if gang.pieces and list(settings.demand) != gang.demand(resources):
        raise Unacceptable(
            "The demand is the sum of the pieces: change these instead.",
            code="workload.pieces",
            pointer="/demand",
        )
    _refuse_empty_demand(settings.demand, "")
    check_reclaim_time(settings.minimum_run, pointer="/minimum_run")
    _refuse_selector(workload.pool, settings.server_selector, "")
    if settings.limit:
        replaced = len(workload.limit)
        limits_check(workload.pool, [("/limit", settings.limit)], replaced=replaced)
        # What is replaced does not count, or a tenant at its maximum could not change a limit.
        added = len(settings.limit) - replaced
        _refuse_too_many_limits(workload.pool, workload.tenant, added, "/limit")
    before = stated_fields(workload)
    workload.name = settings.name
    workload.demand = list(settings.demand)
    workload.tasks = settings.tasks
    workload.priority = settings.priority
    workload.server_selector = settings.server_selector
    if settings.limit is not None:
        workload.limit = limits_stored(settings.limit)
    if settings.minimum_run is not None:
        workload.minimum_run = settings.minimum_run
    workload.state = settings.state
    if settings.state == WorkloadState.WITHDRAWN:
        workload.withdrawn_at = now
    # At once, because the caller reads it in the answer, before any decision is made.
    workload.unsatisfiable = Supply(server_groups(workload.pool)).unsatisfiable_reason(
        settings.demand, settings.server_selector, gang.kinds(resources)
    )
    for name, value in gang.settings().items():
        setattr(workload, name, value)
    workload.version += 1
    workload.save()
    if not gang.is_plain:
        refuse_gangs(workload.pool, now=now, pointer=f"/{_field_of(gang)}")
    pool_changed(workload.pool, now=now)
    _audit("workload.update", workload, before, now)
    return workload


def _field_of(gang: Gang) -> str:
    """Return the field because of which a workload has tasks that start at once."""
    return "pieces" if gang.pieces else "at_least"


@transaction.atomic
def workload_withdraw(*, workload: Workload, version: int | None = None, now: datetime) -> Workload:
    """Withdraw a workload permanently. Its history stays. Idempotent."""
    workload = _locked(workload)
    check_version(workload.version, version)
    if workload.state == WorkloadState.WITHDRAWN:
        return workload
    before = stated_fields(workload)
    workload.state = WorkloadState.WITHDRAWN
    workload.withdrawn_at = now
    workload.version += 1
    workload.save(update_fields=["state", "withdrawn_at", "version"])
    pool_changed(workload.pool, now=now)
    _audit("workload.withdraw", workload, before, now)
    return workload


def _audit(action: str, workload: Workload, before: dict[str, Any], now: datetime) -> None:
    audit_record(action=action, instance=workload, before=before, now=now, pool=workload.pool.slug)


def _locked(workload: Workload) -> Workload:
    pool = pool_lock(workload.pool)
    locked = (
        Workload.objects.select_for_update(of=("self",), no_key=True)
        .select_related("tenant")
        .get(pk=workload.pk)
    )
    locked.pool = pool
    return locked
