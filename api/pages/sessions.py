"""Sessions on the server, each of which names a key or a person.

The key itself is in no session and no cookie. Each request looks again whether what the session names
may still be used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import login, logout
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from structlog.contextvars import bind_contextvars

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.pools.models import Group
from allocator_service.pools.selectors import group_missing, groups_granted
from allocator_service.tenants.models import ApiKey, Person, Scope, Tenant
from allocator_service.tenants.people import (
    open_pages,
    person_get,
    pool_groups_of,
    tenants_of_groups,
)
from allocator_service.tenants.selectors import api_key_get
from api.auth import Caller, acting, usable
from api.contract.errors import Unauthenticated

LIFETIME = timedelta(hours=12)
KEY, PERSON = "key", "person"
TOO_LONG = "too-long"
NO_LONGER = "person.no_longer"
_NAME, _ADMIN_SINCE = "signed_in", "admin_by_provider_since"
_BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignedOutError(Exception):
    """A session that has ended. `why` is the error of its key, or `TOO_LONG`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Visitor:
    """A key's holder, or a person with a name, who may have several tenants and groups of pools.

    Of several the person chooses one. Until then the caller has neither a tenant nor a group. `user`
    is the person's name in the audit.
    """

    caller: Caller
    name: str = ""
    user: str = ""
    tenants: Sequence[Tenant] = ()
    groups: Sequence[Group] = ()

    @property
    def choices(self) -> int:
        """Number of tenants and groups that the person chooses from."""
        return len(self.tenants) + len(self.groups)

    @property
    def group(self) -> Group | None:
        """The chosen group."""
        return next((each for each in self.groups if each.pk == self.caller.group), None)


def sign_in(request: HttpRequest, key: ApiKey, *, now: datetime) -> None:
    """Sign in the holder of a usable key. The session gets another id: a known one is worth nothing."""
    request.session.cycle_key()
    request.session[_NAME] = {"by": KEY, "id": str(key.pk), "since": now.isoformat()}


def sign_in_person(request: HttpRequest, person: Person, *, now: datetime) -> None:
    """Sign in a person whom the provider vouches for, to the admin with a role or to tenants' pages."""
    if person.user.is_staff:
        # `login` changes the session's id, as `cycle_key` does: a planted one is worth nothing.
        login(request, person.user, backend=_BACKEND)
        request.session[_ADMIN_SINCE] = now.isoformat()
    else:
        request.session.cycle_key()
    request.session.pop(_NAME, None)
    if open_pages(person.groups):
        request.session[_NAME] = {"by": PERSON, "id": str(person.pk), "since": now.isoformat()}


def sign_out(request: HttpRequest) -> None:
    """End the session, or what of it is ours where an operator is logged in to the admin as well."""
    if _ADMIN_SINCE in request.session:  # one sign-in let the person in to both
        logout(request)
    else:
        leave_pages(request)


def leave_pages(request: HttpRequest) -> None:
    """Forget who is signed in to the tenants' pages, and nothing else."""
    request.session.pop(_NAME, None)
    # What is left is an operator's login to the admin, which survives under another id.
    if request.session.keys():
        request.session.cycle_key()
    else:
        request.session.flush()


def signed_in(request: HttpRequest, *, now: datetime) -> Visitor | None:
    """Return the visitor of a session, None without one. Raises `SignedOutError` for an ended one."""
    stored = request.session.get(_NAME)
    if stored is None:
        return None
    if now - datetime.fromisoformat(stored["since"]) >= LIFETIME:
        raise SignedOutError(TOO_LONG)
    try:
        return _VISITORS[stored["by"]](stored)
    except Unauthenticated as error:
        raise SignedOutError(error.code) from error


def signed_in_by_provider(request: HttpRequest) -> bool:
    """Return True if the provider signed the visitor in."""
    by = request.session.get(_NAME, {}).get("by")
    return by == PERSON or _ADMIN_SINCE in request.session


def choose_tenant(request: HttpRequest, visitor: Visitor, slug: str) -> None:
    """Show the pages of this tenant from now on. Raises `Missing` unless it is one of the visitor's."""
    if slug not in [tenant.slug for tenant in visitor.tenants]:
        raise Missing("There is no such tenant.", code="tenant.not_found")
    _choose(request, {"tenant": slug})


def choose_group(request: HttpRequest, visitor: Visitor, group: str) -> None:
    """Show the pages of a group from now on. Raises `Missing` unless it is one of the visitor's."""
    if group not in [str(each.pk) for each in visitor.groups]:
        raise group_missing()
    _choose(request, {"group": int(group)})


def _choose(request: HttpRequest, chosen: Mapping[str, Any]) -> None:
    # With `since`: a choice must not extend the session.
    kept = {name: request.session[_NAME][name] for name in ("by", "id", "since")}
    request.session[_NAME] = {**kept, **chosen}


def _by_key(stored: Mapping[str, Any]) -> Visitor:
    caller = acting(usable(api_key_get(UUID(stored["id"]))))
    groups = [] if caller.group is None else groups_granted([caller.group])
    if caller.group is not None and not groups:
        raise Unauthenticated("The group of the key was retired.", code="auth.revoked")
    return Visitor(caller, groups=groups)


def _by_person(stored: Mapping[str, Any]) -> Visitor:
    # Read at each request, so that a disabled account or a withdrawn grant ends the session at once.
    person = person_get(UUID(stored["id"]))
    if person is None or not _vouched_for(person):
        raise Unauthenticated("The person may not sign in.", code=NO_LONGER)
    tenants, access = list(tenants_of_groups(person.groups)), pool_groups_of(person.groups)
    groups = groups_granted(access) if access else []
    if not (tenants or groups):
        raise Unauthenticated("The person may open no pages.", code=NO_LONGER)
    user = person.user.get_username()
    bind_contextvars(actor=f"user {user}")
    only = len(tenants) + len(groups) == 1
    of_group = {group.pk: group for group in groups}.get(stored.get("group", 0))
    if only and groups:
        of_group = groups[0]
    if of_group is not None:
        bound = (of_group.pool.slug, of_group.pk, access[of_group.pk])
        return Visitor(
            Caller(person.pk, Scope.GROUP, None, *bound), person.name, user, tenants, groups
        )
    chosen = {tenant.slug: tenant for tenant in tenants}.get(stored.get("tenant", ""))
    tenant = tenants[0] if only else chosen
    return Visitor(Caller(person.pk, Scope.TENANT, tenant), person.name, user, tenants, groups)


def _vouched_for(person: Person) -> bool:
    """Return True if the present provider is the one that knows the person."""
    provider = settings.ENVIRONMENT.oidc
    return person.user.is_active and provider is not None and provider.issuer == person.issuer


# Another way of signing in is a line here, and a view that stores its name and id.
_VISITORS: Mapping[str, Callable[[Mapping[str, Any]], Visitor]] = {
    KEY: _by_key,
    PERSON: _by_person,
}


class PeopleInTheAdminMiddleware:
    """Ends what a provider's word began in the admin after `LIFETIME`, or with the provider itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        since = request.path.startswith("/admin/") and request.session.get(_ADMIN_SINCE)
        if since and (
            utc_now() - datetime.fromisoformat(since) >= LIFETIME
            or settings.ENVIRONMENT.oidc is None
        ):
            logout(request)
        return self.get_response(request)
