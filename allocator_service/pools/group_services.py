"""Services that create, change, move and retire groups.

The pool's lock makes changes of one tree serial, so that two of them cannot close a cycle together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.display import counted
from allocator_service.core.errors import (
    MAX_ERRORS,
    Conflict,
    FieldError,
    Unacceptable,
)
from allocator_service.core.versions import check_version
from allocator_service.pools.budgets import budgets_retire
from allocator_service.pools.gangs import refuse_gangs
from allocator_service.pools.group_tree import refuse, refuse_tree
from allocator_service.pools.guarantees import AmountChange, refuse_limits_below_guarantees
from allocator_service.pools.limits import (
    Limit,
    limits_check,
    limits_kept_or_stored,
    limits_stored,
    refuse_limits,
    refuse_too_many_selections,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import (
    LARGEST_TIER,
    TIER_RANGE,
    Group,
    GroupTerms,
    OwnServers,
    Pool,
)
from allocator_service.pools.policy import refuse_groups
from allocator_service.pools.recompute import pool_changed
from allocator_service.pools.selectors import group_missing, group_terms_of, groups_of, members_of
from allocator_service.tenants.models import ApiKey, GroupGrant
from allocator_service.tenants.people import group_grant_withdraw

MAX_GROUPS = 10_000
AMOUNTS = ("guarantee", "limit")


@dataclass(frozen=True)
class GroupSettings:
    """Editable fields of a group.

    `parent` is a slug, None for the pool itself. `limit`, `guarantee` and `own_servers` are None to keep
    what the group has.
    """

    name: str
    parent: str | None
    weight: Decimal = Decimal(1)
    tier: int = 0
    limit: Sequence[Limit] | None = None
    guarantee: Sequence[Limit] | None = None
    own_servers: str | None = None

    def amounts(self, pointer: str) -> list[tuple[str, Sequence[Limit]]]:
        """Return the given lists of amounts, each with its pointer."""
        return [
            (f"{pointer}/guarantee", self.guarantee or ()),
            (f"{pointer}/limit", self.limit or ()),
        ]

    def replaced(self, present: GroupTerms) -> int:
        """Return the number of present amounts that the settings replace."""
        return sum(
            len(getattr(present, kind)) for kind in AMOUNTS if getattr(self, kind) is not None
        )

    def mistakes(self, pointer: str) -> list[FieldError]:
        """Return the errors of the values, which do not depend on the tree."""
        found = []
        if not 0 < self.weight < Decimal(10) ** 12:
            found.append(
                FieldError(
                    f"{pointer}/weight",
                    "weight.not_positive",
                    "The weight must be greater than 0 and less than 10^12.",
                )
            )
        if abs(self.tier) > LARGEST_TIER:
            found.append(FieldError(f"{pointer}/tier", "tier.out_of_range", TIER_RANGE))
        return found


@dataclass(frozen=True)
class GroupDraft:
    """A group to create, named at `pointer` of the request."""

    slug: str
    settings: GroupSettings
    pointer: str = ""


def refuse_too_many(count: int) -> None:
    """Raise `Unacceptable` for more groups than a pool has."""
    if count > MAX_GROUPS:
        raise Unacceptable(
            f"{count:,} groups: a pool has at most {MAX_GROUPS:,}.", code="group.too_many"
        )


@transaction.atomic
def groups_create(*, pool: Pool, drafts: Sequence[GroupDraft], now: datetime) -> list[Group]:
    """Add groups to a pool, all or none. Parents may be among them, in any order.

    Raises `Conflict` for slugs of present groups or named twice, `Unacceptable` for a policy that
    takes no groups, unknown parents, cycles, a depth above 8 and more than 10,000 groups.
    """
    # Before the lock: what can never fit does not hold up the pool.
    refuse_too_many(len(drafts))
    return groups_put(pool=pool, drafts=drafts, changes=(), now=now)


@transaction.atomic
def groups_put(
    *,
    pool: Pool,
    drafts: Sequence[GroupDraft],
    changes: Sequence[GroupDraft],
    now: datetime,
    is_last: bool = True,
) -> list[Group]:
    """Add groups and change present ones, all or none, from the next decision on.

    Only the tree after all of them must be one: the order of moves does not matter. Unless `is_last`,
    other changes follow, and the caller compares all amounts of the pool after them. Returns the new
    groups. Raises as `groups_create`, and `Missing` for a change of a group that is not present.
    """
    pool = pool_lock(pool)
    refuse_groups(pool.policy_name, pool.policy_options, pointer="")
    every = [*drafts, *changes]
    # Values first, all of their mistakes at once: they do not depend on the tree.
    refuse(mistake for draft in every for mistake in draft.settings.mistakes(draft.pointer))
    slugs = [change.slug for change in changes]
    terms = {
        each.group.slug: each for each in group_terms_of(pool=pool).filter(group__slug__in=slugs)
    }
    # What the request replaces does not count, or a pool at its limit could not be changed at all.
    replaced = sum(
        each.settings.replaced(terms[each.slug]) for each in changes if each.slug in terms
    )
    limits_check(
        pool,
        (found for draft in every for found in draft.settings.amounts(draft.pointer)),
        replaced=replaced,
        is_counted=is_last,
    )
    _refuse_own_servers(pool, every)
    parents = _parents(pool)
    if any(change.slug not in parents for change in changes):
        raise group_missing()
    _refuse_taken(drafts, parents)
    refuse_too_many(len(parents) + len(drafts))
    refuse_tree(
        {**parents, **{draft.slug: draft.settings.parent for draft in every}},
        {draft.slug: f"{draft.pointer}/parent" for draft in every},
    )
    if is_last:
        compared = [_amount_change(draft, parents) for draft in every]
        refuse_limits_below_guarantees(pool, compared, now=now)
    groups = Group.objects.bulk_create(
        Group(pool=pool, slug=draft.slug, name=draft.settings.name, created_at=now)
        for draft in drafts
    )
    # With the new groups: the parent of a draft may be another draft.
    known = {group.slug: group for group in groups_of(pool=pool)}
    GroupTerms.objects.bulk_create(
        GroupTerms(group=known[draft.slug], start=now, **_terms(draft.settings, known, None))
        for draft in drafts
    )
    for change in changes:
        _change(pool, terms[change.slug], change.settings, known, now)
    _refuse_gangs(pool, every, now)
    if is_last and any(draft.settings.guarantee or draft.settings.limit for draft in every):
        refuse_too_many_selections(pool)
    pool_changed(pool, now=now)
    if groups:
        _audit_created(pool, groups, drafts, now)
    return groups


def _change(
    pool: Pool,
    present: GroupTerms,
    settings: GroupSettings,
    known: Mapping[str, Group],
    now: datetime,
) -> Group:
    """Change a present group of the locked pool, and record it in the audit."""
    group = present.group
    before = {**stated_fields(group), **_stated(present)}
    changed = _change_terms(present, _terms(settings, known, present), now)
    group.name = settings.name
    group.version += 1
    group.save(update_fields=["name", "version"])
    audit_record(
        action="group.update",
        instance=group,
        before=before,
        now=now,
        pool=pool.slug,
        extra=_stated(changed),
    )
    return group


@transaction.atomic
def group_update(
    *, group: Group, settings: GroupSettings, version: int | None, now: datetime
) -> Group:
    """Change or move a group that is still at `version`, from the next decision on.

    What is below it moves along. Raises `Missing`, `Stale`, or `Unacceptable` for an unknown parent, a
    cycle and a depth above 8.
    """
    pool = pool_lock(group.pool)
    group = _present(pool, group)
    check_version(group.version, version)
    refuse(settings.mistakes(""))
    replaced = settings.replaced(group.terms.get(end=None))
    limits_check(pool, settings.amounts(""), replaced=replaced)
    draft, parents = GroupDraft(group.slug, settings), _parents(pool)
    _refuse_own_servers(pool, [draft])
    refuse_tree({**parents, group.slug: settings.parent}, {group.slug: "/parent"})
    refuse_limits_below_guarantees(pool, [_amount_change(draft, parents)], now=now)
    present = group.terms.select_related("parent").get(end=None)
    present.group = group
    known = {} if settings.parent is None else {
        each.slug: each for each in groups_of(pool=pool).filter(slug=settings.parent)
    }  # fmt: skip
    _change(pool, present, settings, known, now)
    _refuse_gangs(pool, [draft], now)
    if settings.guarantee or settings.limit:
        refuse_too_many_selections(pool)
    pool_changed(pool, now=now)
    return group


@transaction.atomic
def group_retire(*, group: Group, version: int | None, now: datetime) -> None:
    """End an empty group from the next decision on, with its keys, its grants and its budgets.

    Its history stays, and its slug is free again. Raises `Conflict` while members or groups belong
    to it.
    """
    pool = pool_lock(group.pool)
    group = _present(pool, group)
    check_version(group.version, version)
    members = members_of(pool=pool).filter(group=group).count()
    below = group_terms_of(pool=pool).filter(parent=group).count()
    # They would refer to a parent that is not in the present tree.
    if members or below:
        raise Conflict(
            f"The group has {counted(members, 'member')} and {counted(below, 'group')} below it:"
            " move them first.",
            code="group.not_empty",
        )
    before = stated_fields(group)
    present = group.terms.get(end=None)
    # A clock that was set back cannot end terms before they start.
    group.retired_at = present.end = max(now, present.start)
    present.save(update_fields=["end"])
    group.version += 1
    group.save(update_fields=["retired_at", "version"])
    # Keys and grants reach what is below the group, which is nothing from now on.
    revoked = ApiKey.objects.filter(group=group.pk, revoked_at=None).update(revoked_at=now)
    grants = list(GroupGrant.objects.filter(pool_group=group.pk, withdrawn_at=None))
    for grant in grants:
        group_grant_withdraw(grant=grant, now=now)
    budgets_retire(group=group, now=now)
    pool_changed(pool, now=now)
    audit_record(
        action="group.retire",
        instance=group,
        before=before,
        now=now,
        pool=pool.slug,
        extra={"keys_revoked": revoked, "grants_withdrawn": len(grants)},
    )


def _amount_change(draft: GroupDraft, parents: Mapping[str, str | None]) -> AmountChange:
    """Return a draft as a change of amounts. `parents` are those of the present groups."""
    settings = draft.settings
    # A move puts the guarantees below the group under the limits above its new parent.
    moved = draft.slug in parents and parents[draft.slug] != settings.parent
    return AmountChange(
        False,
        draft.slug,
        settings.parent,
        settings.guarantee,
        settings.limit,
        moved,
        draft.pointer,
    )


def _present(pool: Pool, group: Group) -> Group:
    found = groups_of(pool=pool).filter(pk=group.pk).first()
    if found is None:
        raise group_missing()
    found.pool = pool
    return found


def _parents(pool: Pool) -> dict[str, str | None]:
    """Return the parent's slug of each present group of the locked pool."""
    return dict(group_terms_of(pool=pool).values_list("group__slug", "parent__slug"))


def _terms(
    settings: GroupSettings, known: Mapping[str, Group], present: GroupTerms | None
) -> dict[str, Any]:
    """Return the terms by the fields of `GroupTerms`.

    `known` holds the parent; `present` are the terms that keep what the settings do not name.
    """
    terms = GroupTerms() if present is None else present
    kept = {kind: getattr(terms, kind) for kind in (*AMOUNTS, "own_servers")}
    given = {kind: getattr(settings, kind) for kind in AMOUNTS}
    kept |= {kind: limits_kept_or_stored(limits, kept[kind]) for kind, limits in given.items()}
    if settings.own_servers is not None:
        kept["own_servers"] = settings.own_servers
    parent = None if settings.parent is None else known[settings.parent]
    return {"parent": parent, "weight": settings.weight, "tier": settings.tier, **kept}


def _refuse_gangs(pool: Pool, drafts: Sequence[GroupDraft], now: datetime) -> None:
    """Raise `Unacceptable` for guarantees and own servers that the pool's gangs cannot have."""
    for draft in drafts:
        given = [
            name
            for name, is_given in (
                ("guarantee", draft.settings.guarantee),
                ("own_servers", draft.settings.own_servers == OwnServers.YES),
            )
            if is_given
        ]
        if given:
            pointer = f"{draft.pointer}/{given[0]}"
            refuse_gangs(pool, now=now, pointer=pointer, guaranteed=True)
            return


def _refuse_own_servers(pool: Pool, drafts: Sequence[GroupDraft]) -> None:
    """Raise `Unacceptable` if own servers are asked for under a policy without guarantees."""
    for draft in drafts:
        if draft.settings.own_servers == OwnServers.YES:
            refuse_limits(
                pool.policy_name,
                pool.policy_options,
                pointer=f"{draft.pointer}/own_servers",
                kind="guarantee",
            )


def _stated(terms: GroupTerms) -> dict[str, Any]:
    parent = terms.parent.slug if terms.parent else None
    return {
        "parent": parent,
        "weight": terms.weight,
        "tier": terms.tier,
        **{name: getattr(terms, name) for name in (*AMOUNTS, "own_servers")},
    }


def _change_terms(present: GroupTerms, terms: Mapping[str, Any], now: datetime) -> GroupTerms:
    if all(getattr(present, name) == value for name, value in terms.items()):
        return present
    # A second change at the same instant replaces the first, which was never in force.
    if present.start >= now:
        for name, value in terms.items():
            setattr(present, name, value)
        present.save(update_fields=list(terms))
        return present
    # Ended first: the exclusion constraint is checked as soon as the next terms are inserted.
    present.end = now
    present.save(update_fields=["end"])
    return GroupTerms.objects.create(group=present.group, start=now, **terms)


def _refuse_taken(drafts: Sequence[GroupDraft], present: Mapping[str, str | None]) -> None:
    seen, errors = set(present), []
    for draft in drafts:
        if draft.slug in seen:
            detail = f'The slug "{draft.slug}" is that of another group of the pool or request.'
            errors.append(FieldError(f"{draft.pointer}/slug", "group.exists", detail))
        seen.add(draft.slug)
    if errors:
        raise Conflict(errors[0].detail, code="group.exists", errors=errors[:MAX_ERRORS])


def _audit_created(
    pool: Pool, groups: Sequence[Group], drafts: Sequence[GroupDraft], now: datetime
) -> None:
    if len(groups) == 1:
        settings = drafts[0].settings
        terms = {
            "parent": settings.parent,
            "weight": settings.weight,
            "tier": settings.tier,
            "guarantee": limits_stored(settings.guarantee or ()),
            "limit": limits_stored(settings.limit or ()),
            "own_servers": settings.own_servers or OwnServers.INHERIT,
        }
        audit_record(
            action="group.create", instance=groups[0], now=now, pool=pool.slug, extra=terms
        )
        return
    audit_record(
        action="group.create",
        instance=pool,
        before=stated_fields(pool),
        now=now,
        pool=pool.slug,
        extra={"groups": len(groups), "first": groups[0].slug, "last": groups[-1].slug},
    )
