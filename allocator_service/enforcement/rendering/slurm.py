"""Rendering for Slurm as GrpTRES of accounts and partitions, and as reservations of slots.

Tasks of several pieces name the servers of their pieces, which the agent holds for them. Budgets per
calendar month that stop a node are GrpTRESMins of its account. Sources: sacctmgr(1), GrpTRES,
GrpTRESMins and fairshare of associations; scontrol(1), reservations; slurm.conf(5),
AccountingStorageEnforce=limits,qos,safe makes Slurm obey them.
"""

import hashlib
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from allocator_service.core.errors import Conflict
from allocator_service.enforcement.rendering.limits import (
    SHORTEST_SLOT_SECONDS,
    DecisionLimits,
    SlotLimits,
)
from allocator_service.enforcement.rendering.names import account_name, group_accounts

# 2^31 - 1 means "as its parent" to Slurm (SLURMDB_FS_USE_PARENT).
LARGEST_FAIRSHARE = 2**31 - 2


def slurm_objects(limits: DecisionLimits) -> list[dict[str, Any]]:
    """Return accounts, their limits by partition, gangs, and reservations of this period and the next.

    Groups are accounts above those of their members. Raises `Conflict` where time is divided and no
    resource is CPUs, which reservations are made of.
    """
    run = limits.decided.run
    comment = f"allocator pool={run.pool.slug} run={run.pk} generation={run.generation}"
    objects = _groups(limits, comment)
    objects += [
        {
            "kind": "account",
            "tenant": tenant.slug,
            **({"group": tenant.group} if limits.groups else {}),
            "account": account_name(tenant.slug),
            "fairshare": fairshare(tenant.weight),
            "limits": limits.named(tenant.rendered),
            **_minutes(limits, "tenant", tenant.slug),
            "comment": comment,
        }
        for tenant in limits.tenants
    ]
    if limits.decided.period_seconds:
        return objects + _reservations(limits, comment)
    nothing = [0] * len(limits.units)
    objects += [
        {
            "kind": "class",
            "tenant": tenant.slug,
            "account": account_name(tenant.slug),
            "partition": name,
            # 0 is written out: without a limit of the partition, the account's total would hold there.
            "limits": limits.named_on_servers(tenant.by_class.get(name, nothing)),
            "comment": comment,
        }
        for tenant in limits.tenants
        for name in limits.classes
        if limits.has_jobs(name)
    ]
    return objects + _gangs(limits, comment)


def _gangs(limits: DecisionLimits, comment: str) -> list[dict[str, Any]]:
    """Return the tasks of several pieces, with the servers of their pieces where these have names."""
    return [
        {
            "kind": "gang",
            "tenant": gang.tenant,
            "account": account_name(gang.tenant),
            "workload": gang.workload,
            "tasks": gang.tasks,
            "pieces": [
                {"count": count, "limits": limits.named(limits.rounded_up(demand))}
                for count, demand in gang.kinds
            ],
            "per_server": gang.per_server,
            "together": gang.together or None,
            "classes": sorted(gang.selector.get(limits.label, ())),
            "servers": [
                {"name": server.name, "pieces": server.pieces, "shared": server.shared}
                for server in gang.servers or ()
            ],
            "comment": comment,
        }
        for gang in limits.decided.gangs
    ]


def _groups(limits: DecisionLimits, comment: str) -> list[dict[str, Any]]:
    """Return the accounts of groups, parents first, and former groups to free of their limits."""
    slugs = [*(group.slug for group in limits.groups), *limits.removed]
    taken = {account_name(tenant.slug) for tenant in limits.tenants}
    # A tenant's own limit holds for the account of a former group that has the same name.
    removed = [slug for slug in limits.removed if slug not in taken]
    accounts = group_accounts(slugs, taken)
    objects: list[dict[str, Any]] = [
        {
            "kind": "group",
            "group": group.slug,
            "parent": group.parent,
            "account": accounts[group.slug],
            "fairshare": fairshare(group.weight),
            "limits": limits.named(group.rendered),
            **_minutes(limits, "group", group.slug),
            "comment": comment,
        }
        for group in limits.groups
    ]
    # sacctmgr deletes a limit that is set to -1. 0 would stop the account.
    unlimited = limits.named([-1] * len(limits.units))
    objects += [
        {
            "kind": "removed",
            "group": slug,
            "account": accounts[slug],
            "limits": unlimited,
            **_minutes(limits, "", slug),
            "comment": comment,
        }
        for slug in removed
    ]
    return objects


def _minutes(limits: DecisionLimits, scope: str, slug: str) -> dict[str, dict[str, int]]:
    """Return the minutes of a month after which budgets stop a node, rounded down.

    They are under the key of the object. A resource without a budget of the node has -1, no limit.
    Without monthly budgets in the pool the key is absent, and GrpTRESMins belongs to the site.
    """
    found = {}
    for unit in limits.units:
        if unit.name is not None and unit.resource.name in limits.stops.resources:
            hours = limits.stops.hours.get((scope, slug, unit.resource.name))
            found[unit.name] = -1 if hours is None else int(hours * unit.per * 60)
    return {"minutes": found} if found else {}


def fairshare(weight: Decimal) -> int:
    """Return a tenant's fair-share, which is its weight in thousandths and at least 1."""
    thousandths = int((weight * 1000).to_integral_value(ROUND_HALF_EVEN))
    return max(1, min(thousandths, LARGEST_FAIRSHARE))


def _reservations(limits: DecisionLimits, comment: str) -> list[dict[str, Any]]:
    """Return the reservations of every slot that ends in the period in force or the next one."""
    decided = limits.decided
    if all(unit.name != "cpu" for unit in limits.units):
        raise Conflict(
            "Slurm reserves CPUs, and the pool has no resource cpu: its slots cannot be reserved.",
            code="rendering.unsupported",
        )
    begin = decided.run.effective_from
    if begin is None:
        return []
    now, period = limits.at, timedelta(seconds=decided.period_seconds)
    # Before the decision is in force, its first period counts as the present one.
    first = max((now - begin) // period, 0)
    found = []
    # The next period too, so that its first slots are reserved before they begin.
    for number in (first, first + 1):
        for position, slot in enumerate(limits.slots):
            start = begin + number * period + timedelta(seconds=slot.start)
            end = begin + number * period + timedelta(seconds=slot.end)
            if end > now and slot.end - slot.start >= SHORTEST_SLOT_SECONDS:
                found += _of_slot(limits, slot, str(position), (start, end), comment)
    return found


def _of_slot(
    limits: DecisionLimits,
    slot: SlotLimits,
    key: str,
    between: tuple[datetime, datetime],
    comment: str,
) -> list[dict[str, Any]]:
    (start, end), pool = between, limits.decided.run.pool.slug
    reservations = []
    for (slug, name), of in slot.limits.items():
        named = limits.named(of)
        if not named["cpu"]:
            continue
        # The same slot has the same name at each rendering, so that it is not reserved twice.
        digest = hashlib.sha256(f"{key}/{start}/{slug}/{name}".encode()).hexdigest()[:12]
        reservations.append(
            {
                "kind": "reservation",
                "name": f"allocator-{pool}-{digest}",
                "tenant": slug,
                "account": account_name(slug),
                "partition": name,
                "start": start,
                "end": end,
                "cores": named["cpu"],
                "limits": named,
                "comment": comment,
            }
        )
    return reservations
