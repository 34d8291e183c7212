"""Writes to pools."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db import transaction

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.durations import MOST_RECLAIM_DAYS, parse_duration
from allocator_service.core.errors import Conflict, Refusals, Unacceptable
from allocator_service.core.money import MINOR_DIGITS
from allocator_service.core.quantities import Resource
from allocator_service.core.versions import check_version
from allocator_service.pools.gangs import refuse_gangs
from allocator_service.pools.limits import (
    has_limits,
    has_own_servers,
    kinds_in_use,
    kinds_text,
    refuse_limits,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import (
    Pool,
    ResourceType,
    Server,
)
from allocator_service.pools.policy import PolicyChoice, Window, is_anchor, refuse_groups
from allocator_service.pools.recompute import pool_changed
from allocator_service.pools.selectors import groups_of, members_of

MAX_RESOURCES = 64
MAX_CHURN = 1_000_000
MOST_RECLAIM_SECONDS = MOST_RECLAIM_DAYS * 86_400


@cache
def _timezones() -> frozenset[str]:
    """Return the names of the IANA database.

    They are read once, because listing them opens every file of the database (14 ms).
    """
    return frozenset(available_timezones())


@dataclass(frozen=True)
class PoolSettings:
    """The fields of a pool that its operators edit."""

    name: str
    resources: Sequence[Resource]
    policy: PolicyChoice
    window: Window
    weights: str
    own_servers: bool
    count: str
    decision_interval: str
    metering: str
    currency: str
    timezone: str
    transparent: bool
    cluster_grace: str = "PT15M"
    minimum_run: str = ""
    notice: str = ""
    churn: int | None = None

    def check(self) -> "PoolSettings":
        """Return the settings with defaults filled in. Raises `Unacceptable` for all mistakes."""
        refusals, window = Refusals(), None
        for check in (self._check_resources, self._check_timezone, self._check_currency):
            with refusals.collect():
                check()
        with refusals.collect():
            if self.own_servers:
                refuse_limits(
                    self.policy.name, self.policy.options, pointer="/own_servers", kind="guarantee"
                )
        with refusals.collect():
            window = self.window.check(self.policy)
        with refusals.collect():
            self._check_interval()
        with refusals.collect():
            parse_duration(self.cluster_grace, pointer="/cluster_grace")
        for name in ("minimum_run", "notice"):
            with refusals.collect():
                check_reclaim_time(getattr(self, name), pointer=f"/{name}")
        with refusals.collect():
            if self.churn is not None and not 1 <= self.churn <= MAX_CHURN:
                raise Unacceptable(
                    f"The number of tasks must be from 1 to {MAX_CHURN}, or empty for any number.",
                    code="field.range",
                    pointer="/churn",
                )
        refusals.raise_any()
        return PoolSettings(**{**self.__dict__, "window": window})

    def _check_resources(self) -> None:
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

    def _check_timezone(self) -> None:
        # Not by opening it: `ZoneInfo` also opens `right/UTC`, whose clock counts leap seconds.
        if self.timezone not in _timezones():
            raise Unacceptable(
                "The time zone is not in the IANA database; write it as Europe/Berlin.",
                code="timezone.unknown",
                pointer="/timezone",
            )

    def _check_currency(self) -> None:
        if self.currency not in MINOR_DIGITS:
            raise Unacceptable(
                f'"{self.currency}" is not an ISO 4217 currency code, such as EUR.',
                code="currency.unknown",
                pointer="/currency",
            )

    def _check_interval(self) -> None:
        interval = parse_duration(self.decision_interval, pointer="/decision_interval")
        # Calendar months and days have lengths that depend on where they are counted from.
        epoch = self.window.anchor
        if not is_anchor(epoch) or self.timezone not in _timezones():
            return  # refused, and the length of an interval depends on both
        if (interval.after(epoch, ZoneInfo(self.timezone)) - epoch).total_seconds() < 1:
            raise Unacceptable(
                "A decision interval must be at least PT1S.",
                code="decision_interval.too_short",
                pointer="/decision_interval",
            )


@transaction.atomic
def pool_create(*, slug: str, settings: PoolSettings, now: datetime) -> Pool:
    """Open a pool. Raises `Conflict` for a slug in use, also by a retired pool."""
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
    """Change a pool that is still at `version`. Resources may be added, at the end.

    Raises `Stale`, `Unacceptable`, or `Conflict` for a resource that was dropped or whose unit changed,
    because history is counted in it.
    """
    pool = pool_lock(pool)
    check_version(pool.version, version)
    settings = settings.check()
    refusals = Refusals()
    with refusals.collect():
        _refuse_other_money(pool, settings)
    with refusals.collect():
        _extend_resources(pool, settings.resources)
    with refusals.collect():
        _refuse_policy(pool, settings.policy, now)
    refusals.raise_any()
    if settings.metering != pool.metering:
        # Of intervals that are not metered yet, the part before this instant is metered the old way.
        pool.metering_changed_at = now
    before, pointer = stated_fields(pool), _pointer_to_placing(pool, settings)
    _apply(pool, settings)
    pool.version += 1
    pool.save()
    # After the change: whether gangs can run depends on several settings together.
    refuse_gangs(pool, now=now, pointer=pointer)
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
    """Close a pool permanently. Its history stays. Raises `Conflict` for a pool with servers."""
    pool = pool_lock(pool)
    check_version(pool.version, version)
    # Servers would belong to a pool that no decision is made for.
    if Server.objects.filter(pool=pool).present().exists():
        raise Conflict("Servers are in the pool: retire them first.", code="in_use")
    before = stated_fields(pool)
    pool.retired_at = now
    pool.version += 1
    pool.save(update_fields=["retired_at", "version"])
    audit_record(action="pool.retire", instance=pool, before=before, now=now, pool=pool.slug)


def _refuse_other_money(pool: Pool, settings: PoolSettings) -> None:
    """Reject another currency or time zone once prices are published.

    They are in the pool's currency, and its months in its time zone.
    """
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
    pool.own_servers = settings.own_servers
    pool.count = settings.count
    pool.decision_interval = settings.decision_interval
    pool.cluster_grace = settings.cluster_grace
    pool.minimum_run, pool.notice = settings.minimum_run, settings.notice
    pool.churn = settings.churn
    pool.metering = settings.metering
    pool.currency = settings.currency
    pool.timezone = settings.timezone
    pool.transparent = settings.transparent


def check_reclaim_time(duration: str | None, *, pointer: str) -> None:
    """Raise `Unacceptable` for a duration after which no capacity would be reclaimed."""
    if duration:
        parse_duration(duration, pointer=pointer, most_days=MOST_RECLAIM_DAYS)


def _pointer_to_placing(pool: Pool, settings: PoolSettings) -> str:
    """Return the setting whose change decides whether a pool can run tasks of several pieces."""
    policy = settings.policy
    if policy.name == pool.policy_name:
        if policy.mode != pool.policy_mode:
            return "/policy/mode"
        if policy.options != pool.policy_options:
            return "/policy/options"
        if settings.own_servers != pool.own_servers:
            return "/own_servers"
    return "/policy/name"


def _refuse_policy(pool: Pool, policy: PolicyChoice, now: datetime) -> None:
    """Raise `Unacceptable` for a policy that does not support the pool's settings."""
    if not policy.places:
        _refuse_selectors(pool, policy)
        _refuse_limits_of_servers(pool, policy, now)
    if groups_of(pool=pool).exists() or members_of(pool=pool).exclude(tier=0).exists():
        refuse_groups(policy.name, policy.options, pointer="/policy/name")
    if has_limits(pool, now=now):
        # A pool with nothing but budgets that stop has no kinds. These become limits.
        nouns = kinds_text(kinds_in_use(pool, now=now) or ["limit"])
        refuse_limits(policy.name, policy.options, pointer="/policy/name", nouns=nouns)
    if has_own_servers(pool):
        refuse_limits(policy.name, policy.options, pointer="/policy/name", kind="guarantee")


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


def _refuse_limits_of_servers(pool: Pool, policy: PolicyChoice, now: datetime) -> None:
    kinds = kinds_in_use(pool, now=now, of_servers=True)
    if kinds:
        raise Unacceptable(
            f"The policy {policy.name} sees the pool as one server, and {kinds_text(kinds)} of the pool"
            " are for some servers alone: remove them or choose a policy that places.",
            code="policy.no_placement",
            pointer="/policy/name",
        )


def _extend_resources(pool: Pool, requested: Sequence[Resource]) -> None:
    present = {row.name: row for row in pool.resource_types.all()}
    names = {resource.name for resource in requested}
    for name in present:
        if name not in names:
            raise Conflict(
                f'The resource "{name}" cannot be dropped: history is counted in it.',
                code="in_use",
                pointer="/resources",
            )
    additions = []
    for index, resource in enumerate(requested):
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
        # At the end: stored vectors are by position, and lack zeros there (`vector_field`).
        ResourceType(
            pool=pool, name=resource.name, unit=resource.unit, position=len(present) + offset
        )
        for offset, resource in enumerate(additions)
    )
