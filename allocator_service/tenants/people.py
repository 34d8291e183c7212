"""The admission of people by an OpenID Connect provider, with their roles and tenants."""

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.core.models import PoolLimit
from allocator_service.core.roles import AUDITORS, OPERATORS
from allocator_service.tenants.models import (
    GRANT_EXISTS,
    GRANT_TARGET,
    SLUG_PATTERN,
    Access,
    GroupGrant,
    Person,
    Tenant,
)

_NOT_IN_USER_NAMES = re.compile(r"[^\w.@+-]+")


@dataclass(frozen=True)
class Identity:
    """A person's claims from a provider.

    `subject` is unique within `issuer`. Name and groups may change.
    """

    issuer: str
    subject: str
    name: str
    groups: Sequence[str]


@dataclass(frozen=True)
class RoleGroups:
    """The provider's groups of operators and auditors, empty for none.

    Members of a group that begins with `pool_prefix` are operators of the pool whose slug follows.
    """

    operators: str
    auditors: str
    pool_prefix: str = ""

    def roles(self, groups: Collection[str]) -> "Roles":
        """Return the roles in the admin of members of the provider's groups."""
        given = {OPERATORS: self.operators, AUDITORS: self.auditors}
        roles = {role for role, group in given.items() if group and group in groups}
        pools = None
        # An operator of all pools is not narrowed by a group that gives it one of them.
        if OPERATORS not in roles and (of := self._pools(groups)):
            roles, pools = roles | {OPERATORS}, of
        return Roles(frozenset(roles), pools)

    def _pools(self, groups: Collection[str]) -> list[str]:
        prefix = self.pool_prefix
        named = {each.removeprefix(prefix) for each in groups if prefix and each.startswith(prefix)}
        # The rest of a name comes from outside: only what can be a slug reaches the stored limit.
        return sorted(slug for slug in named if re.fullmatch(SLUG_PATTERN, slug))


@dataclass(frozen=True)
class Roles:
    """The groups of a person in the admin, with the slugs of the pools that it sees, None for all."""

    names: frozenset[str]
    pools: Sequence[str] | None


def tenants_of_groups(groups: Collection[str]) -> QuerySet[Tenant]:
    """Return the tenants whose pages members of these groups may open, by slug."""
    granted = GroupGrant.objects.filter(group__in=groups, withdrawn_at=None, tenant__isnull=False)
    return Tenant.objects.filter(retired_at=None, pk__in=granted.values("tenant"))


def pool_groups_of(groups: Collection[str]) -> dict[int, Access]:
    """Return the access that members of these groups have to groups of pools, by primary key.

    Of two grants of one group the one that manages counts.
    """
    granted = GroupGrant.objects.filter(
        group__in=groups, withdrawn_at=None, pool_group__isnull=False
    )
    found: dict[int, Access] = {}
    for group, access in granted.values_list("pool_group", "access"):
        if group is not None and found.get(group) != Access.MANAGE:
            found[group] = Access(access)
    return found


def open_pages(groups: Collection[str]) -> bool:
    """Return true if members of these groups may open pages of a tenant or of a group of a pool."""
    return tenants_of_groups(groups).exists() or bool(pool_groups_of(groups))


def person_get(person_id: UUID) -> Person | None:
    """Return the person of this id with its user, even a disabled one."""
    return Person.objects.select_related("user").filter(pk=person_id).first()


@transaction.atomic
def person_admit(*, identity: Identity, role_groups: RoleGroups, now: datetime) -> Person | None:
    """Return the person with the roles of its present groups, None for one without permissions.

    The caller must check that the person's user is active before it signs the person in.

    A person without a role is not registered, and one that has lost its last role loses it here too. A
    superuser's decisions stay: a disabled user is disabled, and other groups and permissions are kept.
    """
    # At a first sign-in there is no row to lock, and two callbacks at once would both register.
    lock_in_transaction(Lock.PERSON, f"{identity.issuer} {identity.subject}")
    roles = role_groups.roles(identity.groups)
    admitted = bool(roles.names) or open_pages(identity.groups)
    known = (
        Person.objects.select_related("user")
        .filter(issuer=identity.issuer, subject=identity.subject)
        .first()
    )
    if known is None:
        return _register(identity, roles, now) if admitted else None
    before = {**stated_fields(known), **_stated(_roles_of(known.user))}
    known.name, known.groups = identity.name, list(identity.groups)
    # A disabled user keeps its roles, so that a superuser can enable it again, but is not signed in.
    signed_in = admitted and known.user.is_active
    if signed_in:
        known.last_signed_in_at = now
    known.save(update_fields=["name", "groups", "last_signed_in_at"])
    _give(known.user, roles, identity.name)
    audit_record(
        action="person.sign_in" if signed_in else "person.refuse",
        instance=known,
        before=before,
        extra=_stated(roles),
        now=now,
    )
    return known if admitted else None


def _register(identity: Identity, roles: Roles, now: datetime) -> Person:
    user = get_user_model()(username=_user_name(identity))
    # The provider stays the only way in: a password would outlast the account there.
    user.set_unusable_password()
    user.save()
    person = Person.objects.create(
        user=user,
        issuer=identity.issuer,
        subject=identity.subject,
        name=identity.name,
        groups=list(identity.groups),
        created_at=now,
        last_signed_in_at=now,
    )
    _give(user, roles, identity.name)
    audit_record(action="person.register", instance=person, extra=_stated(roles), now=now)
    return person


def _user_name(identity: Identity) -> str:
    """Return a name for the audit that cannot be chosen to imitate another person."""
    digest = hashlib.sha256(f"{identity.issuer} {identity.subject}".encode()).hexdigest()
    readable = _NOT_IN_USER_NAMES.sub("-", identity.name).strip("-")[:100]
    return f"{readable or 'person'}+{digest[:12]}"


def _roles_of(user: User) -> Roles:
    given = user.groups.filter(name__in=[OPERATORS, AUDITORS]).values_list("name", flat=True)
    limit = PoolLimit.objects.filter(user=user).first()
    return Roles(frozenset(given), None if limit is None else limit.pools)


def _stated(roles: Roles) -> dict[str, Any]:
    """Return roles as the audit states them."""
    return {"roles": sorted(roles.names), "pools": roles.pools}


def _give(user: User, roles: Roles, name: str) -> None:
    """Give the user these roles, and take away other roles of this service."""
    if roles.pools is None:
        PoolLimit.objects.filter(user=user).delete()
    else:
        PoolLimit.objects.update_or_create(user=user, defaults={"pools": roles.pools})
    # Django admits staff to the admin. Grants of tenants and groups open pages outside it.
    user.first_name, user.is_staff = name, bool(roles.names)
    user.save(update_fields=["first_name", "is_staff"])
    had = _roles_of(user).names
    # `had` has only the roles of this service: groups that a superuser gave are kept.
    user.groups.add(*Group.objects.filter(name__in=roles.names - had))
    user.groups.remove(*Group.objects.filter(name__in=had - roles.names))


@transaction.atomic
def group_grant_create(
    *,
    group: str,
    tenant: Tenant | None = None,
    pool: str = "",
    pool_group: int | None = None,
    access: str = Access.MANAGE,
    now: datetime,
) -> GroupGrant:
    """Let members of a provider's group open the pages of a tenant, or of a group of a pool.

    `pool` is the slug of the pool, `pool_group` the primary key of its group. Raises `Unacceptable`
    unless exactly one of the two is named, and `Conflict` for a second grant of the same.
    """
    of_group = pool_group is not None and bool(pool)
    if of_group == (tenant is not None) or (tenant is not None and access != Access.MANAGE):
        raise Unacceptable(GRANT_TARGET, code="grant.target")
    target = {"tenant": tenant, "pool": pool, "pool_group": pool_group}
    if GroupGrant.objects.filter(group=group, withdrawn_at=None, **target).exists():
        raise Conflict(GRANT_EXISTS, code="grant.exists")
    grant = GroupGrant.objects.create(group=group, access=access, granted_at=now, **target)
    audit_record(action="grant.create", instance=grant, now=now)
    return grant


@transaction.atomic
def group_grant_withdraw(*, grant: GroupGrant, now: datetime) -> None:
    """Withdraw a grant at once. Idempotent."""
    # Read again under the lock: of two withdrawals the second must not move the instant of the first.
    grant = GroupGrant.objects.select_for_update(no_key=True).get(pk=grant.pk)
    if grant.withdrawn_at is not None:
        return
    before = stated_fields(grant)
    grant.withdrawn_at = now
    grant.save(update_fields=["withdrawn_at"])
    audit_record(action="grant.withdraw", instance=grant, before=before, now=now)
