"""The validation, storage and retention of agents' reports."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.db import transaction
from django.db.models import Max

from allocator_service.allocation.models import Run
from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Conflict, FieldError, Unacceptable
from allocator_service.core.outbox import events_record
from allocator_service.core.quantities import decimal_text, vector_from
from allocator_service.enforcement.models import Agent, Report, Watch
from allocator_service.enforcement.watching import states_end
from allocator_service.pools.clusters import cluster_leave, cluster_return
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Membership, Pool
from allocator_service.pools.selectors import resources_of

REPORT_RETENTION = timedelta(days=7)
# What changes more often is kept as it was last.
HISTORY_STEP = timedelta(minutes=5)
# A clock that is further ahead would keep its own later reports out when it is set right.
CLOCK_TOLERANCE = timedelta(minutes=5)
LONGEST_INTERVAL_SECONDS = 86_400
# Without a report for longer, users may have come back and left. Restarts and upgrades take less.
LONGEST_GAP = timedelta(days=2)
MAX_MISTAKES = 20
MAX_JOBS_OF_EVENT = 20


@dataclass(frozen=True)
class TenantReport:
    """An agent's report on a tenant, with quantities as the client sent them, keyed by resource.

    `pending_reason` and `pending_demand` are of the first of its jobs that wait. A tenant is `absent` if
    the scheduler does not know it any more.
    """

    tenant: str
    applied: Any
    used: Any
    pending_tasks: int | None
    running_tasks: int | None
    problems: Sequence[str]
    pending_reason: str | None = None
    pending_demand: Any = None
    holds: Sequence[Mapping[str, Any]] = ()
    ending: Sequence[Mapping[str, Any]] = ()
    absent: bool = False


@dataclass(frozen=True)
class ReportDraft:
    """A report as an agent sends it.

    `run` is the decision that it applied, None without any. `interval` is the ISO 8601 duration between
    two reports. `cluster` is empty for an agent of all of the pool's servers.
    """

    agent: str
    target: str
    class_label: str
    run: Any
    generation: int | None
    interval: str
    reported_at: datetime
    tenants: Sequence[TenantReport]
    problems: Sequence[str]
    cluster: str = ""


@transaction.atomic
def report_put(*, pool: Pool, draft: ReportDraft, now: datetime) -> Report:
    """Store the report of an agent. Idempotent.

    Raises `Unacceptable` for a tenant, resource or run that the pool does not have, or a clock that is
    ahead, and `Conflict` for a report that is not newer than the stored one.
    """
    # A cluster that returns changes the capacity, and changes of a pool begin with its lock.
    pool = pool_lock(pool)
    if draft.reported_at > now + CLOCK_TOLERANCE:
        raise Unacceptable(
            f"The report is dated {draft.reported_at - now} ahead of the service's clock: set the"
            " agent's clock right.",
            code="enforcement.clock",
            pointer="/reported_at",
        )
    interval = parse_duration(draft.interval, pointer="/interval").nominal_seconds
    if interval > LONGEST_INTERVAL_SECONDS:
        raise Unacceptable(
            "An agent reports at least once a day.",
            code="enforcement.interval",
            pointer="/interval",
        )
    run = _run(pool, draft)
    agent = Agent.objects.select_for_update(no_key=True).filter(pool=pool, name=draft.agent).first()
    if agent is not None and agent.cluster != draft.cluster:
        _refuse_other_cluster(agent, draft)
    latest = None if agent is None else agent.reports.order_by("-pk").first()
    # A tenant may have been back during a gap, so that its absence is counted anew after one.
    absences = {} if agent is None or _has_gap(agent, now) else _absences(latest)
    content = orjson.dumps(_content(pool, draft, absences, now))
    same = (
        latest is not None
        and latest.agent.cluster == draft.cluster
        and latest.run_id == draft.run
        and zlib.decompress(latest.content) == content
    )
    # Requests can overtake each other: an older report must not undo a newer one. The same report again
    # is a repetition whose answer was lost.
    if agent is not None and draft.reported_at <= agent.reported_at:
        if draft.reported_at == agent.reported_at and same and latest is not None:
            return latest
        raise Conflict(
            f"A report of {draft.agent} dated {agent.reported_at:%Y-%m-%dT%H:%M:%S.%fZ} is stored:"
            " only a newer one replaces it.",
            code="enforcement.older",
        )
    if agent is None:
        agent = Agent(pool=pool, name=draft.agent)
        # A pool without agents is not watched: the first one begins it.
        Watch.objects.get_or_create(pool=pool)
    if draft.cluster:
        cluster_return(pool=pool, name=draft.cluster, now=now)
    # A report proves that a retired agent is in use again.
    agent.cluster, agent.retired_at = draft.cluster, None
    agent.target, agent.class_label = draft.target, draft.class_label
    agent.interval_seconds = interval
    agent.run, agent.generation = run, None if run is None else run.generation
    agent.reported_at, agent.received_at = draft.reported_at, now
    agent.save()
    _record_ends(pool, draft, latest, now)
    # Level 1: reports repeat the same keys and compress well even so.
    packed = zlib.compress(content, 1)
    if latest is not None and (same or draft.reported_at - latest.reported_at < HISTORY_STEP):
        latest.agent, latest.run, latest.content = agent, run, packed
        latest.repeated_at = draft.reported_at
        latest.save()
        return latest
    return Report.objects.create(
        agent=agent,
        run=run,
        reported_at=draft.reported_at,
        repeated_at=draft.reported_at,
        content=packed,
    )


@transaction.atomic
def agent_retire(*, agent: Agent, now: datetime) -> None:
    """Retire an agent that is gone for good.

    The capacity of its cluster leaves with the last one, and with the pool's last one its drifts and
    blockages end. Raises `Conflict` for an agent that still reports.
    """
    pool = pool_lock(agent.pool)
    # Read again: a report may have arrived since the caller found the agent silent.
    present = Agent.objects.present().select_for_update(no_key=True)
    found = present.filter(pk=agent.pk).first()
    if found is None:
        return
    agent = found
    if not agent.is_stale(now):
        raise Conflict(
            f"Agent {agent.name} reports, and its next report would bring it back: stop it first.",
            code="enforcement.agent_reports",
        )
    before = stated_fields(agent)
    agent.retired_at = now
    agent.save(update_fields=["retired_at"])
    audit_record(action="agent.retire", instance=agent, before=before, now=now, pool=pool.slug)
    others = Agent.objects.present().filter(pool=pool)
    # Another agent of the cluster still applies decisions to its servers.
    if agent.cluster and not others.filter(cluster=agent.cluster).exists():
        cluster_leave(pool=pool, name=agent.cluster, now=now)
    if not others.exists():
        states_end(pool=pool, now=now)


def _has_gap(agent: Agent, now: datetime) -> bool:
    """Return true if tenants may have come and gone since an agent's last report."""
    return now - agent.received_at > max(LONGEST_GAP, agent.patience)


def _absences(latest: Report | None) -> dict[str, str]:
    """Return since when tenants are absent by an agent's last report."""
    rows = () if latest is None else latest.document["tenants"]
    return {row["tenant"]: row["absent_since"] for row in rows if row.get("absent_since")}


def _record_ends(pool: Pool, draft: ReportDraft, latest: Report | None, now: datetime) -> None:
    """Record an event for each tenant whose jobs got notice or ended since the last report."""
    before = () if latest is None else latest.document["tenants"]
    known = {
        (row["tenant"], each["name"], each["ended"])
        for row in before
        for each in row.get("ending", ())
    }
    payloads: dict[bool, dict[str, dict[str, Any]]] = {False: {}, True: {}}
    for report in draft.tenants:
        for each in report.ending:
            if (report.tenant, each["name"], each["ended"]) in known:
                continue
            of_kind = payloads[each["ended"]]
            start: dict[str, Any] = {"agent": draft.agent, "count": 0, "jobs": []}
            payload = of_kind.setdefault(report.tenant, start)
            payload["count"] += 1
            # Who others are is for operators, who find it in the report.
            job = {"name": each["name"], "tasks": each["tasks"], "ends_at": _text(each["ends_at"])}
            if len(payload["jobs"]) < MAX_JOBS_OF_EVENT:
                payload["jobs"].append(job)
    events_record(kind="enforcement.notice", pool=pool.slug, payloads=payloads[False], now=now)
    events_record(kind="enforcement.taken_back", pool=pool.slug, payloads=payloads[True], now=now)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _refuse_other_cluster(agent: Agent, draft: ReportDraft) -> None:
    """Raise `Conflict` if an agent of this name is in another cluster.

    One of the whole pool can become one of a cluster.
    """
    if not agent.cluster:
        return
    raise Conflict(
        f"An agent {agent.name} reports from {_cluster_text(agent.cluster)}: name the agent of"
        f" {_cluster_text(draft.cluster)} otherwise.",
        code="enforcement.cluster",
        pointer="/agent",
    )


def _cluster_text(cluster: str) -> str:
    return f'the cluster "{cluster}"' if cluster else "the whole pool"


def _run(pool: Pool, draft: ReportDraft) -> Run | None:
    if draft.run is None:
        return None
    run = Run.objects.filter(pool=pool, pk=draft.run).first()
    if run is None or run.effective_from is None:
        raise Unacceptable(
            "The pool has no decision of this id.", code="run.unknown", pointer="/run"
        )
    if draft.generation not in (None, run.generation):
        raise Unacceptable(
            f"The generation of this run is {run.generation}.",
            code="enforcement.generation",
            pointer="/generation",
        )
    return run


def _content(
    pool: Pool, draft: ReportDraft, absences: Mapping[str, str], now: datetime
) -> dict[str, Any]:
    """Return the report as it is stored. Raises `Unacceptable` for all of its mistakes (at most 20)."""
    resources = resources_of(pool)
    # Former members are reported too, until their limits are 0.
    members = set(Membership.objects.filter(pool=pool).values_list("tenant__slug", flat=True))
    found: list[FieldError] = []
    rows, seen = [], set[str]()
    for index, each in enumerate(draft.tenants):
        where = f"/tenants/{index}"
        if each.tenant not in members:
            detail = f'The pool has no member "{each.tenant}".'
            found.append(FieldError(f"{where}/tenant", "tenant.unknown", detail))
        if each.tenant in seen:
            detail = f'"{each.tenant}" is reported twice.'
            found.append(FieldError(f"{where}/tenant", "tenant.duplicate", detail))
        seen.add(each.tenant)
        row: dict[str, Any] = {
            "tenant": each.tenant,
            "pending_tasks": each.pending_tasks,
            "running_tasks": each.running_tasks,
            "pending_reason": each.pending_reason,
            "pending_demand": None,
            "problems": list(each.problems),
            "holds": list(each.holds),
            "ending": [{**row, "ends_at": _text(row["ends_at"])} for row in each.ending],
            "absent_since": absences.get(each.tenant, _text(now)) if each.absent else None,
        }
        found += [
            FieldError(
                f"{where}/ending/{number}/heir",
                "tenant.unknown",
                f'The pool has no member "{row["heir"]}".',
            )
            for number, row in enumerate(each.ending)
            if row["heir"] is not None and row["heir"] not in members
        ]
        for name in ("applied", "used", "pending_demand"):
            if getattr(each, name) is None:
                continue
            try:
                vector = vector_from(getattr(each, name), resources, pointer=f"{where}/{name}")
            except Unacceptable as error:
                found.extend(error.errors)
                continue
            row[name] = {
                resource.name: decimal_text(amount)
                for resource, amount in zip(resources, vector, strict=True)
            }
        rows.append(row)
        # The rest would not be shown. A wrong name of a resource is a mistake in every row.
        if len(found) >= MAX_MISTAKES:
            break
    if found:
        raise Unacceptable(found[0].detail, code=found[0].code, errors=found[:MAX_MISTAKES])
    return {"tenants": rows, "problems": list(draft.problems)}


def reports_prune(*, now: datetime) -> int:
    """Delete reports older than the retention, except for each agent's newest. Return the number."""
    newest = Agent.objects.annotate(newest=Max("reports")).values("newest")
    old = Report.objects.filter(repeated_at__lt=now - REPORT_RETENTION).exclude(pk__in=newest)
    return old.delete()[0]
