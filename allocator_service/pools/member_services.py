"""Writes to the members of pools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import F
from psycopg.types.json import Jsonb

from allocator_service.core.audit import Change, audit_record, audit_record_all, stated_fields
from allocator_service.core.copying import copy_rows
from allocator_service.core.errors import Conflict, PreconditionRequired, Unacceptable
from allocator_service.core.selecting import missing
from allocator_service.core.versions import check_version
from allocator_service.pools.gangs import refuse_gangs
from allocator_service.pools.guarantees import AmountChange, refuse_limits_below_guarantees
from allocator_service.pools.limits import (
    Limit,
    limits_check,
    limits_kept_or_stored,
    refuse_limits,
    refuse_too_many_selections,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import (
    LARGEST_TIER,
    TIER_RANGE,
    Group,
    Membership,
    MembershipTerms,
    OwnServers,
    Pool,
    Server,
)
from allocator_service.pools.policy import refuse_groups
from allocator_service.pools.recompute import pool_changed
from allocator_service.pools.selectors import groups_of, members_of
from allocator_service.tenants.models import Tenant

_DEFAULT_TERMS = {
    "weight": Decimal(1),
    "best_effort": False,
    "group": None,
    "tier": 0,
    "guarantee": [],
    "limit": [],
    "lend": [],
    "own_servers": OwnServers.INHERIT,
}
AMOUNTS = ("guarantee", "limit", "lend")


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
    guarantee: Sequence[Limit] | None = None,
    limit: Sequence[Limit] | None = None,
    lend: Sequence[Limit] | None = None,
    own_servers: str | None = None,
) -> tuple[Membership, bool]:
    """Admit a tenant or change its terms from the next decision on. Returns whether it was admitted.

    `group` is the slug of a group of the pool, None for the pool itself. Amounts and `own_servers` are
    None to keep what the member has. Changing an existing member needs its `version`
    (`PreconditionRequired` without, `Stale` when it is another).
    """
    pool = pool_lock(pool)
    # Under the lock, or the group could be retired before the member is put into it.
    found = None if group is None else groups_of(pool=pool).filter(slug=group).first()
    terms = _terms_of(
        pool, weight=weight, best_effort=best_effort, group=group, found=found, tier=tier
    )
    membership = Membership.objects.filter(pool=pool, tenant=tenant, ended_at=None).first()
    present = None if membership is None else _present_terms(membership)
    given = {"guarantee": guarantee, "limit": limit, "lend": lend}
    limits_check(
        pool,
        [(f"/{kind}", limits or ()) for kind, limits in given.items()],
        replaced=_replaced(present, given),
    )
    _refuse_guaranteed(pool, [own_servers], [guarantee], now)
    terms |= _amounts(present, {**given, "own_servers": own_servers})
    stated = {**terms, "group": group}
    moved = present is not None and present.group != found
    change = AmountChange(True, tenant.slug, group, guarantee, limit, moved)
    if membership is None or present is None:
        refuse_limits_below_guarantees(pool, [change], now=now)
        (membership,) = members_admit(
            pool=pool, tenants=[tenant], now=now, terms={tenant.pk: terms}
        )
        # As it is stored: what is refused is rolled back with the transaction.
        if any(given.values()):
            refuse_too_many_selections(pool)
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
    refuse_limits_below_guarantees(pool, [change], now=now)
    # Read first: `_change_terms` may change the present terms in place.
    before = _stated(membership, present)
    _change_terms([(present, terms)], now)
    if any(given.values()):
        refuse_too_many_selections(pool)
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


@dataclass(frozen=True)
class MemberDraft:
    """The terms of a member.

    `group` is the slug of a group of the pool, None for the pool itself. Amounts and `own_servers` are
    None to keep what the member has.
    """

    tenant: Tenant
    weight: Decimal
    group: str | None
    tier: int
    guarantee: Sequence[Limit] | None = None
    limit: Sequence[Limit] | None = None
    lend: Sequence[Limit] | None = None
    own_servers: str | None = None

    @property
    def amounts(self) -> dict[str, Sequence[Limit] | None]:
        """Amounts by kind."""
        return {"guarantee": self.guarantee, "limit": self.limit, "lend": self.lend}


@transaction.atomic
def members_put(
    *, pool: Pool, drafts: Sequence[MemberDraft], now: datetime, is_last: bool = True
) -> None:
    """Admit many tenants or change their terms from the next decision on, all or none.

    `best_effort` stays as it is. One change of the pool, and an audit entry per member. No version is
    required, because the caller compares under the pool's lock. Unless `is_last`, the caller compares
    all amounts of the pool afterwards. Raises as `member_put`.
    """
    pool = pool_lock(pool)
    groups = {group.slug: group for group in groups_of(pool=pool)}
    present = {terms.membership.tenant_id: terms for terms in members_of(pool=pool)}
    terms = {}
    for draft in drafts:
        old = present.get(draft.tenant.pk)
        terms[draft.tenant.pk] = _terms_of(
            pool,
            weight=draft.weight,
            best_effort=old is not None and old.best_effort,
            group=draft.group,
            found=groups.get(draft.group or ""),
            tier=draft.tier,
        )
        terms[draft.tenant.pk] |= _amounts(old, {**draft.amounts, "own_servers": draft.own_servers})
    limits_check(
        pool,
        [(f"/{kind}", given or ()) for draft in drafts for kind, given in draft.amounts.items()],
        replaced=sum(_replaced(present.get(draft.tenant.pk), draft.amounts) for draft in drafts),
        is_counted=is_last,
    )
    _refuse_guaranteed(
        pool, [draft.own_servers for draft in drafts], [draft.guarantee for draft in drafts], now
    )
    if is_last:
        changes = [_amount_change(draft, present.get(draft.tenant.pk), groups) for draft in drafts]
        refuse_limits_below_guarantees(pool, changes, now=now)
    stated = {draft.tenant.pk: {**terms[draft.tenant.pk], "group": draft.group} for draft in drafts}
    joining = [draft.tenant for draft in drafts if draft.tenant.pk not in present]
    admitted = members_admit(pool=pool, tenants=joining, now=now, terms=terms)
    changing = [present[tenant] for tenant in terms if tenant in present]
    # Read first: `_change_terms` may change the present terms in place.
    before = [_stated(old.membership, old) for old in changing]
    _change_terms([(old, terms[old.membership.tenant_id]) for old in changing], now)
    if is_last and any(any(draft.amounts.values()) for draft in drafts):
        refuse_too_many_selections(pool)
    members = [old.membership for old in changing]
    for member in members:
        member.pool = pool  # the audit names it
    Membership.objects.filter(pk__in=[member.pk for member in members]).update(
        version=F("version") + 1
    )
    pool_changed(pool, now=now)
    audit_record_all(
        action="member.admit",
        changes=[Change(member, None, stated[member.tenant_id]) for member in admitted],
        now=now,
        pool=pool.slug,
    )
    audit_record_all(
        action="member.update",
        changes=[
            Change(member, was, stated[member.tenant_id])
            for member, was in zip(members, before, strict=True)
        ],
        now=now,
        pool=pool.slug,
    )


def _amounts(present: MembershipTerms | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the amounts of a member by the fields of its terms. None in `given` keeps the present."""
    terms = MembershipTerms() if present is None else present
    amounts = {name: getattr(terms, name) for name in (*AMOUNTS, "own_servers")}
    for name, value in given.items():
        if name in AMOUNTS:
            amounts[name] = limits_kept_or_stored(value, amounts[name])
        elif value is not None:
            amounts[name] = value
    return amounts


def _replaced(present: MembershipTerms | None, given: Mapping[str, Sequence[Limit] | None]) -> int:
    """Return the number of present amounts that the given lists replace."""
    if present is None:
        return 0
    # An empty list replaces as well: it removes what the member has.
    return sum(len(getattr(present, kind)) for kind, limits in given.items() if limits is not None)


def _refuse_guaranteed(
    pool: Pool,
    own_servers: Sequence[str | None],
    guarantees: Sequence[Sequence[Limit] | None],
    now: datetime,
) -> None:
    """Raise `Unacceptable` for guarantees and own servers that the policy or gangs cannot have."""
    if OwnServers.YES in own_servers:
        refuse_limits(
            pool.policy_name, pool.policy_options, pointer="/own_servers", kind="guarantee"
        )
        refuse_gangs(pool, now=now, pointer="/own_servers", guaranteed=True)
    if any(guarantees):
        refuse_gangs(pool, now=now, pointer="/guarantee", guaranteed=True)


def _amount_change(
    draft: MemberDraft, present: MembershipTerms | None, groups: Mapping[str, Group]
) -> AmountChange:
    """Return a draft as a change of amounts."""
    moved = present is not None and present.group != groups.get(draft.group or "")
    return AmountChange(True, draft.tenant.slug, draft.group, draft.guarantee, draft.limit, moved)


def _present_terms(membership: Membership) -> MembershipTerms:
    return membership.terms.select_related("group").get(end=None)


def _stated(membership: Membership, terms: MembershipTerms) -> dict[str, Any]:
    """Return the fields of a member that the audit states."""
    return {
        **stated_fields(membership),
        **{name: getattr(terms, name) for name in _DEFAULT_TERMS},
        "group": terms.group.slug if terms.group else None,
    }


def _terms_of(
    pool: Pool,
    *,
    weight: Decimal,
    best_effort: bool,
    group: str | None,
    found: Group | None,
    tier: int,
) -> dict[str, Any]:
    """Return the checked terms of a member of the locked pool, by the fields of `MembershipTerms`.

    `found` is the pool's group of the slug `group`, if there is one.
    """
    if not 0 < weight < Decimal(10) ** 12:
        raise Unacceptable(
            "A weight is above 0 and below 10^12; best_effort is how to give a member only what is"
            " left.",
            code="weight.not_positive",
            pointer="/weight",
        )
    if abs(tier) > LARGEST_TIER:
        raise Unacceptable(TIER_RANGE, code="tier.out_of_range", pointer="/tier")
    if group is not None:
        refuse_groups(pool.policy_name, pool.policy_options, pointer="/group")
        if found is None:
            raise Unacceptable(
                f'The pool has no group "{group}".', code="group.unknown", pointer="/group"
            )
    # A tier orders the children of a parent, and only policies with groups read that order.
    elif tier:
        refuse_groups(pool.policy_name, pool.policy_options, pointer="/tier")
    return {"weight": weight, "best_effort": best_effort, "group": found, "tier": tier}


def members_admit(
    *,
    pool: Pool,
    tenants: Sequence[Tenant],
    now: datetime,
    terms: Mapping[int, Mapping[str, Any]] | None = None,
) -> list[Membership]:
    """Admit those of `tenants` that are not members of the locked pool, and return the new members.

    `terms` are by the tenant's key, with weight 1 in the pool itself as the default. A membership that
    has ended continues under new terms.
    """
    given = terms or {}
    known = {
        membership.tenant_id: membership
        for membership in Membership.objects.filter(pool=pool, tenant__in=tenants).select_related(
            "pool", "tenant"
        )
    }
    again = [membership for membership in known.values() if membership.ended_at is not None]
    # Where a clock was set back, the new terms must still not overlap the ended ones.
    starts = {membership.pk: max(now, membership.ended_at or now) for membership in again}
    for membership in again:
        # The version goes on, so that no ETag from before the end matches.
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
    columns = ["membership_id", "start", "weight", "best_effort", "group_id", "tier", *AMOUNTS,
               "own_servers"]  # fmt: skip
    copy_rows(
        MembershipTerms,
        columns,
        (
            _stored_terms(
                membership.pk,
                starts.get(membership.pk, now),
                **{**_DEFAULT_TERMS, **given.get(membership.tenant_id, {})},
            )
            for membership in admitted
        ),
    )
    return admitted


def _stored_terms(
    membership: int,
    start: datetime,
    *,
    weight: Decimal,
    best_effort: bool,
    group: Group | None,
    tier: int,
    own_servers: str,
    **amounts: list[Any],
) -> list[Any]:
    return [
        *(membership, start, weight, best_effort, group and group.pk, tier),
        *(Jsonb(amounts[name]) for name in AMOUNTS),
        str(own_servers),
    ]


def members_join(*, pool: Pool, tenants: Sequence[Tenant], now: datetime) -> None:
    """Admit tenants whose servers or workloads the locked pool takes, and record each admission."""
    admitted = members_admit(pool=pool, tenants=tenants, now=now)
    audit_record_all(
        action="member.admit",
        changes=[Change(membership, None, {**_DEFAULT_TERMS}) for membership in admitted],
        now=now,
        pool=pool.slug,
    )


@transaction.atomic
def member_end(*, pool: Pool, tenant: Tenant, version: int | None, now: datetime) -> None:
    """End a membership from the next decision on. Its earlier terms and all history stay.

    Raises `Missing` for a tenant that is not a member, and `Conflict` while it has servers or workloads
    in the pool.
    """
    pool = pool_lock(pool)
    membership = Membership.objects.filter(pool=pool, tenant=tenant, ended_at=None).first()
    if membership is None:
        raise missing("member.not_found")
    check_version(membership.version, version)
    servers = Server.objects.filter(pool=pool, contributed_by=tenant).present().count()
    workloads = pool.workloads.filter(tenant=tenant).exclude(state="withdrawn").count()
    # Decisions would otherwise have servers and demand of a tenant without a weight.
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


def _change_terms(
    changes: Sequence[tuple[MembershipTerms, Mapping[str, Any]]], now: datetime
) -> None:
    """Give members new terms from now on, in place where the present ones start now."""
    edited, ended, following = [], [], []
    for present, terms in changes:
        if all(getattr(present, name) == value for name, value in terms.items()):
            continue
        # Terms that start now were never in force: they are replaced, since an interval cannot be empty.
        if present.start >= now:
            for name, value in terms.items():
                setattr(present, name, value)
            edited.append(present)
        else:
            present.end = now
            ended.append(present)
            following.append(MembershipTerms(membership=present.membership, start=now, **terms))
    # Django finds each row's value in a CASE over its batch: the time grows with the batch's square.
    MembershipTerms.objects.bulk_update(edited, list(_DEFAULT_TERMS), batch_size=500)
    # Ended before their successors are inserted: PostgreSQL checks an exclusion constraint row by row.
    MembershipTerms.objects.filter(pk__in=[each.pk for each in ended]).update(end=now)
    MembershipTerms.objects.bulk_create(following)
