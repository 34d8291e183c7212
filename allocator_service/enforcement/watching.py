"""Lasting states of enforcement, such as drift, blockage or a silent agent, with their events."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from django.db import transaction

from allocator_service.core.durations import parse_duration
from allocator_service.core.outbox import event_record, events_record
from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.models import Agent, Blockage, Drift, Watch
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.enforcement.state import (
    EnforcementState,
    TenantEnforcement,
    enforcement_state,
)
from allocator_service.pools.clusters import cluster_leave
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import Cluster, Pool
from allocator_service.tenants.models import Tenant

Payloads = Mapping[str, dict[str, Any]]  # by the tenant's slug
# In a longer one agents could not be heard.
INTERRUPTION = timedelta(minutes=1)
State = TypeVar("State", Drift, Blockage)


def pools_enforced() -> list[Pool]:
    """Return the open pools that have an agent, except those that are closed for a move."""
    present = Agent.objects.present()
    pools = Pool.objects.filter(retired_at=None, moved_at=None, agents__in=present).distinct()
    return list(pools.prefetch_related("resource_types"))


def clusters_watch(*, pool: Pool, now: datetime) -> None:
    """Take the clusters out of the next decisions whose agents are silent beyond the pool's grace."""
    since = _watched_since(pool, now)
    if since is None:
        return  # another worker looks at them
    for cluster in _silent_clusters(pool, since, now):
        with transaction.atomic():
            locked = pool_lock(pool)
            if cluster in _silent_clusters(locked, since, now):  # no agent reported meanwhile
                cluster_leave(pool=locked, name=cluster, now=now)


@transaction.atomic
def _watched_since(pool: Pool, now: datetime) -> datetime | None:
    """Return since when agents can be heard, None while another worker looks."""
    watch = Watch.objects.select_for_update(skip_locked=True).filter(pool=pool).first()
    if watch is None:
        return None
    if watch.looked_at is None or now - watch.looked_at > INTERRUPTION:
        watch.watched_since = now
    watch.looked_at = now
    watch.save(update_fields=["looked_at", "watched_since"])
    return watch.watched_since


def _silent_clusters(pool: Pool, since: datetime, now: datetime) -> list[str]:
    """Return the clusters of the capacity whose agents have all been silent for too long."""
    grace = timedelta(seconds=parse_duration(pool.cluster_grace).nominal_seconds)
    returned = dict(Cluster.objects.filter(pool=pool).values_list("name", "returned_at"))
    left = Cluster.objects.filter(pool=pool, left_at__isnull=False)
    known, heard = set[str](), set(left.values_list("name", flat=True))
    for agent in Agent.objects.present().filter(pool=pool).exclude(cluster=""):
        known.add(agent.cluster)
        # Silence counts only while agents could be heard: an outage here takes no cluster out.
        last = max(agent.received_at, since, returned.get(agent.cluster) or since)
        if now - last <= max(grace, agent.patience):
            heard.add(agent.cluster)
    return sorted(known - heard)


@transaction.atomic
def enforcement_watch(*, pool: Pool, now: datetime) -> None:
    """Record one event for each state that has lasted three intervals, and one for its end.

    Drifts and blockages are evaluated again when there is another decision or another report.
    """
    watch = Watch.objects.select_for_update(skip_locked=True).filter(pool=pool).first()
    # The last report of any agent dates what is known of the pool.
    agent = Agent.objects.present().filter(pool=pool).order_by("-received_at").first()
    if watch is None or agent is None:
        return  # another worker holds the pool, or it has no agent
    _watch_silence(pool, now)
    run = decision_in_force(pool=pool, now=now)
    # Nothing else changes the comparison, which reads every report of the pool.
    if (watch.run, watch.received_at) != (run, agent.received_at):
        _evaluate(pool, now)
        watch.run, watch.received_at = run, agent.received_at
        watch.save()
    before = now - agent.patience
    events_record(
        kind="enforcement.drift", pool=pool.slug, payloads=_due(Drift, pool, before, now), now=now
    )
    if agent.is_stale(now):
        return  # whether a tenant is still blocked is not known
    events_record(
        kind="enforcement.blocked",
        pool=pool.slug,
        payloads=_due(Blockage, pool, before, now),
        now=now,
    )


def _watch_silence(pool: Pool, now: datetime) -> None:
    """Record that an agent became silent, or that it reports again."""
    present = Agent.objects.present().filter(pool=pool)
    agents = present.select_for_update(no_key=True, skip_locked=True)
    for agent in agents:
        payload = {
            "agent": agent.name,
            "target": agent.target,
            "generation": agent.generation,
            "received_at": agent.received_at.isoformat(),
        }
        if agent.is_stale(now) and agent.silent_event_at is None:
            agent.silent_event_at = now
            event_record(kind="enforcement.silent", pool=pool.slug, payload=payload, now=now)
        elif not agent.is_stale(now) and agent.silent_event_at is not None:
            agent.silent_event_at = None
            event_record(kind="enforcement.returned", pool=pool.slug, payload=payload, now=now)
        else:
            continue
        agent.save(update_fields=["silent_event_at"])


def _evaluate(pool: Pool, now: datetime) -> None:
    """Store which tenants drift or are blocked, and record the ends of those with an event."""
    state = enforcement_state(pool=pool, now=now)
    if state.refused:
        return  # the rows of a scheduler are missing, which ends no drift
    drifting = {row.tenant: _numbers(state, row) for row in state.tenants if row.drifts}
    blocked = {row.tenant: _waiting(state, row) for row in state.tenants if row.blocked}
    for each in Blockage.objects.filter(pool=pool, told_at=None).select_related("tenant"):
        payload = blocked.get(each.tenant.slug)
        if payload is not None and _rose(each.payload["used"], payload["used"]):
            each.since = now  # its jobs do start
            each.save(update_fields=["since"])
    _replace(pool, drifting, blocked, now)


@transaction.atomic
def states_end(*, pool: Pool, now: datetime) -> None:
    """End the drifts and blockages of a pool without agents."""
    # A watcher that has begun would store others.
    Watch.objects.select_for_update().filter(pool=pool).first()
    _replace(pool, {}, {}, now)


def _replace(pool: Pool, drifting: Payloads, blocked: Payloads, now: datetime) -> None:
    """Replace the drifts and blockages of a pool, and record the ends of those with an event."""
    ended = _store(Drift, pool, drifting, now)
    events_record(kind="enforcement.settled", pool=pool.slug, payloads=ended, now=now)
    ended = _store(Blockage, pool, blocked, now)
    events_record(kind="enforcement.unblocked", pool=pool.slug, payloads=ended, now=now)


def _store(model: type[State], pool: Pool, present: Payloads, now: datetime) -> Payloads:
    """Replace the stored tenants by the present ones. Return those that ended after their event."""
    known = {
        each.tenant.slug: each for each in model.objects.filter(pool=pool).select_related("tenant")
    }
    ended = {
        slug: {**each.payload, "since": each.since.isoformat()}
        for slug, each in known.items()
        if slug not in present and each.told_at is not None
    }
    model.objects.filter(pool=pool).exclude(tenant__slug__in=present).delete()
    # Its event states the latest numbers. After it the numbers stay those that were reported.
    going_on = [each for slug, each in known.items() if slug in present and not each.told_at]
    for each in going_on:
        each.payload = present[each.tenant.slug]
    model.objects.bulk_update(going_on, ["payload"])
    new = Tenant.objects.filter(slug__in=present.keys() - known.keys())
    model.objects.bulk_create(
        model(pool=pool, tenant=tenant, since=now, payload=present[tenant.slug]) for tenant in new
    )
    return ended


def _due(model: type[State], pool: Pool, before: datetime, now: datetime) -> Payloads:
    """Mark the states that have lasted long enough and have no event yet, and return their payloads."""
    due = model.objects.filter(pool=pool, told_at=None, since__lt=before)
    payloads = dict(due.values_list("tenant__slug", "payload"))
    if payloads:
        # In the transaction of the event, so that it is recorded once.
        due.update(told_at=now)
    return payloads


def _numbers(state: EnforcementState, row: TenantEnforcement) -> dict[str, Any]:
    def named(vector: Sequence[Decimal] | None) -> dict[str, str] | None:
        if vector is None:
            return None
        return {
            each.name: decimal_text(amount)
            for each, amount in zip(state.resources, vector, strict=True)
        }

    return {
        "run": None if state.run is None else str(state.run.pk),
        "generation": None if state.run is None else state.run.generation,
        "decided": named(row.decided),
        "enforced": named(row.enforced),
        "used": named(row.used),
    }


def _waiting(state: EnforcementState, row: TenantEnforcement) -> dict[str, Any]:
    return {
        **_numbers(state, row),
        "pending_tasks": row.pending_tasks,
        "reason": row.pending_reason,
    }


def _rose(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return any(Decimal(after[name]) > Decimal(before.get(name, "0")) for name in after)
