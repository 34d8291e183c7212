"""Writes to pools and their members."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db import transaction

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Conflict, Missing, PreconditionRequired, Unacceptable
from allocator_service.core.money import MINOR_DIGITS
from allocator_service.core.quantities import Resource
from allocator_service.core.versions import check_version
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import (
    LARGEST_TIER,
    TIER_RANGE,
    Group,
    Membership,
    MembershipTerms,
    Pool,
    ResourceType,
    Server,
)
from allocator_service.pools.policy import PolicyChoice, Window, refuse_groups
from allocator_service.pools.recompute import pool_changed
from allocator_service.pools.selectors import groups_of, members_of
from allocator_service.tenants.models import Tenant

MAX_RESOURCES = 64


@cache
def _timezones() -> frozenset[str]:
    """Names of the IANA database, read once: to list them opens every file of it (14 ms)."""
    return frozenset(available_timezones())


@dataclass(frozen=True)
class PoolSettings:
    """All of a pool that its operators edit."""

    name: str
    resources: Sequence[Resource]
    policy: PolicyChoice
    window: Window
    weights: str
    decision_interval: str
    metering: str
    currency: str
    timezone: str
    transparent: bool

    def check(self) -> "PoolSettings":
        """The settings with defaults filled in. Raises `Unacceptable` naming what is wrong."""
        if not 1 <= len(self.resources) <= MAX_RESOURCES:
            raise Unacceptable(
                f"A pool counts 1 to {MAX_RESOURCES} resources.",
                code="resources.count",
                pointer="/resources",
            )
        names = [resource.name for resource in self.resources]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise Unacceptable(
                    f'The resource "{name}" is named twice.',
                    code="resource.duplicate",
                    pointer=f"/resources/{index}/name",
                )
        if self.timezone not in _timezones():
            raise Unacceptable(
                "The time zone is not in the IANA database; write it as Europe/Berlin.",
                code="timezone.unknown",
                pointer="/timezone",
            )
        if self.currency not in MINOR_DIGITS:
            raise Unacceptable(
                f'"{self.currency}" is no currency of ISO 4217: write it as EUR.',
                code="currency.unknown",
                pointer="/currency",
            )
        window = self.window.check(self.policy)
        interval = parse_duration(self.decision_interval, pointer="/decision_interval")
        epoch = window.anchor
        if (interval.after(epoch, ZoneInfo(self.timezone)) - epoch).total_seconds() < 1:
            raise Unacceptable(
                "A decision interval must be at least PT1S.",
                code="decision_interval.too_short",
                pointer="/decision_interval",
            )
        return PoolSettings(**{**self.__dict__, "window": window})


@transaction.atomic
def pool_create(*, slug: str, settings: PoolSettings, now: datetime) -> Pool:
    """Open a pool. A slug in use, also by a retired pool, is a conflict."""
    settings = settings.check()
    pool = Pool(slug=slug, created_at=now)
    _apply(pool, settings)
    pool.save(force_insert=True)
    ResourceType.objects.bulk_create(
        ResourceType(pool=pool, name=resource.name, unit=resource.unit, position=position)
        for position, resource in enumerate(settings.resources)
    )
    pool_changed(pool, now=now)
    audit_record(action="pool.create", instance=pool, now=now, pool=slug, extra=_counted(settings))
    return pool


@transaction.atomic
def pool_update(*, pool: Pool, settings: PoolSettings, version: int | None, now: datetime) -> Pool:
    """Change a pool that is still at `version`; resources may be added, at the end.

    Raises `Stale`, `Unacceptable`, or `Conflict` for a resource that was dropped or whose unit
    changed: history is counted in it.
    """
    pool = pool_lock(pool)
    check_version(pool.version, version)
    settings = settings.check()
    _refuse_other_money(pool, settings)
    _extend_resources(pool, settings.resources)
    if not settings.policy.places:
        _refuse_selectors(pool, settings.policy)
    if groups_of(pool=pool).exists() or members_of(pool=pool).exclude(tier=0).exists():
        refuse_groups(settings.policy.name, settings.policy.options, pointer="/policy/name")
    if settings.metering != pool.metering:
        pool.metering_changed_at = now
    before = stated_fields(pool)
    _apply(pool, settings)
    pool.version += 1
    pool.save()
    pool_changed(pool, now=now)
    audit_record(
        action="pool.update",
        instance=pool,
        before=before,
        now=now,
        pool=pool.slug,
        extra=_counted(settings),
    )
    return pool


@transaction.atomic
def pool_retire(*, pool: Pool, version: int | None, now: datetime) -> None:
    """Close a pool permanently; its history stays. A pool with servers is refused."""
    pool = pool_lock(pool)
    check_version(pool.version, version)
    if Server.objects.filter(pool=pool).present().exists():
        raise Conflict("Servers are in the pool: retire them first.", code="in_use")
    before = stated_fields(pool)
    pool.retired_at = now
    pool.version += 1
    pool.save(update_fields=["retired_at", "version"])
    audit_record(action="pool.retire", instance=pool, before=before, now=now, pool=pool.slug)


def _refuse_other_money(pool: Pool, settings: PoolSettings) -> None:
    """Prices that are published are in the pool's currency, and its months in its time zone."""
    if pool.money_fixed_at is None:
        return
    for name in ("currency", "timezone"):
        present = getattr(pool, name)
        if getattr(settings, name) != present:
            raise Conflict(
                f"Price plans are published: the pool's {name} stays {present}.",
                code="pool.money_fixed",
                pointer=f"/{name}",
            )


def _counted(settings: PoolSettings) -> dict[str, Any]:
    return {"resources": [f"{resource.name} {resource.unit}" for resource in settings.resources]}


def _apply(pool: Pool, settings: PoolSettings) -> None:
    pool.name = settings.name
    pool.policy_name = settings.policy.name
    pool.policy_mode = settings.policy.mode
    pool.policy_options = settings.policy.options
    pool.policy_places = settings.policy.places
    pool.policy_long_term = settings.policy.long_term
    pool.window_kind = settings.window.kind
    pool.window_length = settings.window.length
    pool.window_anchor = settings.window.anchor
    pool.window_half_life = settings.window.half_life
    pool.weights = settings.weights
    pool.decision_interval = settings.decision_interval
    pool.metering = settings.metering
    pool.currency = settings.currency
    pool.timezone = settings.timezone
    pool.transparent = settings.transparent


def _refuse_selectors(pool: Pool, policy: PolicyChoice) -> None:
    selective = (
        pool.workloads.exclude(state="withdrawn").exclude(server_selector={}).order_by("pk").first()
    )
    if selective is not None:
        raise Unacceptable(
            f'The policy {policy.name} sees the pool as one server, and the workload "{selective.name}"'
            f" of {selective.tenant.slug} selects servers: withdraw it or choose a policy that places.",
            code="policy.no_placement",
            pointer="/policy/name",
        )


def _extend_resources(pool: Pool, wanted: Sequence[Resource]) -> None:
    present = {row.name: row for row in pool.resource_types.all()}
    names = {resource.name for resource in wanted}
    for name in present:
        if name not in names:
            raise Conflict(
                f'The resource "{name}" cannot be dropped: history is counted in it.',
                code="in_use",
                pointer="/resources",
            )
    additions = []
    for index, resource in enumerate(wanted):
        row = present.get(resource.name)
        if row is None:
            additions.append(resource)
        elif row.unit != resource.unit:
            raise Conflict(
                f'The unit of "{resource.name}" is "{row.unit}" and cannot change: history is'
                " counted in it.",
                code="in_use",
                pointer=f"/resources/{index}/unit",
            )
    ResourceType.objects.bulk_create(
        ResourceType(
            pool=pool, name=resource.name, unit=resource.unit, position=len(present) + offset
        )
        for offset, resource in enumerate(additions)
    )


@transaction.atomic
def member_put(
    *,
    pool: Pool,
    tenant: Tenant,
    weight: Decimal,
    best_effort: bool,
    version: int | None,
    now: datetime,
    group: str | None = None,
    tier: int = 0,
) -> tuple[Membership, bool]:
    """Admit a tenant or change its terms from the next decision on; says whether it was admitted.

    `group` is the slug of a group of the pool, None for the pool itself. Changing an existing member
    needs its `version` (`PreconditionRequired` without, `Stale` when it is another).
    """
    pool = pool_lock(pool)
    terms = _terms_of(pool, weight=weight, best_effort=best_effort, group=group, tier=tier)
    stated = {**terms, "group": group}
    membership = Membership.objects.filter(pool=pool, tenant=tenant, ended_at=None).first()
    if membership is None:
        (membership,) = members_admit(pool=pool, tenants=[tenant], now=now, **terms)
        pool_changed(pool, now=now)
        audit_record(
            action="member.admit", instance=membership, now=now, pool=pool.slug, extra=stated
        )
        return membership, True
    if version is None:
        raise PreconditionRequired(
            f'Changing a member needs If-Match with its ETag ("v{membership.version}").'
        )
    check_version(membership.version, version)
    present = membership.terms.select_related("group").get(end=None)
    before = {
        **stated_fields(membership),
        **{name: getattr(present, name) for name in terms},
        "group": present.group.slug if present.group else None,
    }
    _change_terms(present, terms, now)
    membership.version += 1
    membership.save(update_fields=["version"])
    pool_changed(pool, now=now)
    audit_record(
        action="member.update",
        instance=membership,
        before=before,
        now=now,
        pool=pool.slug,
        extra=stated,
    )
    return membership, False


def _terms_of(
    pool: Pool, *, weight: Decimal, best_effort: bool, group: str | None, tier: int
) -> dict[str, Any]:
    """The checked terms of a member of the locked pool, by the fields of `MembershipTerms`."""
    if not 0 < weight < Decimal(10) ** 12:
        raise Unacceptable(
            "A weight is above 0 and below 10^12; best_effort is how to give a member only what is"
            " left.",
            code="weight.not_positive",
            pointer="/weight",
        )
    if abs(tier) > LARGEST_TIER:
        raise Unacceptable(TIER_RANGE, code="tier.out_of_range", pointer="/tier")
    found: Group | None = None
    if group is not None:
        refuse_groups(pool.policy_name, pool.policy_options, pointer="/group")
        found = groups_of(pool=pool).filter(slug=group).first()
        if found is None:
            raise Unacceptable(
                f'The pool has no group "{group}".', code="group.unknown", pointer="/group"
            )
    elif tier:
        refuse_groups(pool.policy_name, pool.policy_options, pointer="/tier")
    return {"weight": weight, "best_effort": best_effort, "group": found, "tier": tier}


def members_admit(
    *,
    pool: Pool,
    tenants: Sequence[Tenant],
    now: datetime,
    weight: Decimal = Decimal(1),
    best_effort: bool = False,
    group: Group | None = None,
    tier: int = 0,
) -> list[Membership]:
    """Admit those of `tenants` who are not members of the locked pool; returns the new members.

    A membership that has ended goes on under new terms.
    """
    known = {
        membership.tenant_id: membership
        for membership in Membership.objects.filter(pool=pool, tenant__in=tenants)
    }
    again = [membership for membership in known.values() if membership.ended_at is not None]
    starts = {membership.pk: max(now, membership.ended_at or now) for membership in again}
    for membership in again:
        membership.ended_at = None
        membership.version += 1
    Membership.objects.bulk_update(again, ["ended_at", "version"])
    admitted = [
        *again,
        *Membership.objects.bulk_create(
            Membership(pool=pool, tenant=tenant, admitted_at=now)
            for tenant in tenants
            if tenant.pk not in known
        ),
    ]
    MembershipTerms.objects.bulk_create(
        MembershipTerms(
            membership=membership,
            weight=weight,
            best_effort=best_effort,
            group=group,
            tier=tier,
            start=starts.get(membership.pk, now),
        )
        for membership in admitted
    )
    return admitted


@transaction.atomic
def member_end(*, pool: Pool, tenant: Tenant, version: int | None, now: datetime) -> None:
    """End a membership from the next decision on; its earlier terms and all history stay.

    Raises `Missing` for a tenant that is not a member, and `Conflict` while it has servers or workloads
    in the pool.
    """
    pool = pool_lock(pool)
    membership = Membership.objects.filter(pool=pool, tenant=tenant, ended_at=None).first()
    if membership is None:
        raise Missing("There is no such member.", code="member.not_found")
    check_version(membership.version, version)
    servers = Server.objects.filter(pool=pool, contributed_by=tenant).present().count()
    workloads = pool.workloads.filter(tenant=tenant).exclude(state="withdrawn").count()
    if servers or workloads:
        raise Conflict(
            f"The member has {servers} servers and {workloads} workloads in the pool: retire its servers"
            " and withdraw its workloads first.",
            code="in_use",
        )
    before = stated_fields(membership)
    present = membership.terms.get(end=None)
    # A clock that was set back cannot end terms before they start.
    membership.ended_at = present.end = max(now, present.start)
    present.save(update_fields=["end"])
    membership.version += 1
    membership.save(update_fields=["ended_at", "version"])
    pool_changed(pool, now=now)
    audit_record(action="member.end", instance=membership, before=before, now=now, pool=pool.slug)


def _change_terms(present: MembershipTerms, terms: dict[str, Any], now: datetime) -> None:
    if all(getattr(present, name) == value for name, value in terms.items()):
        return
    if present.start >= now:
        for name, value in terms.items():
            setattr(present, name, value)
        present.save(update_fields=list(terms))
        return
    present.end = now
    present.save(update_fields=["end"])
    MembershipTerms.objects.create(membership=present.membership, start=now, **terms)
