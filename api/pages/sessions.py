"""Who is signed in: a session on the server names a key or a person.

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
from allocator_service.tenants.models import ApiKey, Person, Scope, Tenant
from allocator_service.tenants.people import person_get, tenants_of_groups
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
    """Somebody was signed in and is no longer: `why` is what is wrong with the key, or `TOO_LONG`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Visitor:
    """Who opens pages: a key's holder, or a person with a name, who may belong to several tenants.

    Of several the person chooses one; until then the caller has no tenant. `user` is by what name the
    audit knows the person.
    """

    caller: Caller
    name: str = ""
    user: str = ""
    tenants: Sequence[Tenant] = ()


def sign_in(request: HttpRequest, key: ApiKey, *, now: datetime) -> None:
    """Sign in the holder of a usable key. The session gets another id: a known one is worth nothing."""
    request.session.cycle_key()
    request.session[_NAME] = {"by": KEY, "id": str(key.pk), "since": now.isoformat()}


def sign_in_person(request: HttpRequest, person: Person, *, now: datetime) -> None:
    """Sign in a person whom the provider vouches for: to the admin with a role, to tenants' pages."""
    if person.user.is_staff:
        login(request, person.user, backend=_BACKEND)
        request.session[_ADMIN_SINCE] = now.isoformat()
    else:
        request.session.cycle_key()
    request.session.pop(_NAME, None)
    if tenants_of_groups(person.groups).exists():
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
    if request.session.keys():
        request.session.cycle_key()
    else:
        request.session.flush()


def signed_in(request: HttpRequest, *, now: datetime) -> Visitor | None:
    """Who is signed in; None for nobody. Raises `SignedOutError` where somebody was."""
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
    """Whether the provider's word let somebody in."""
    by = request.session.get(_NAME, {}).get("by")
    return by == PERSON or _ADMIN_SINCE in request.session


def choose_tenant(request: HttpRequest, visitor: Visitor, slug: str) -> None:
    """Show the pages of this tenant from now on. Raises `Missing` unless it is one of the visitor's."""
    if slug not in [tenant.slug for tenant in visitor.tenants]:
        raise Missing("There is no such tenant.", code="tenant.not_found")
    request.session[_NAME] = {**request.session[_NAME], "tenant": slug}


def _by_key(stored: Mapping[str, Any]) -> Visitor:
    return Visitor(acting(usable(api_key_get(UUID(stored["id"])))))


def _by_person(stored: Mapping[str, Any]) -> Visitor:
    person = person_get(UUID(stored["id"]))
    if person is None or not _vouched_for(person):
        raise Unauthenticated("The person may not sign in.", code=NO_LONGER)
    tenants = list(tenants_of_groups(person.groups))
    if not tenants:
        raise Unauthenticated("The person may open no tenant's pages.", code=NO_LONGER)
    user = person.user.get_username()
    bind_contextvars(actor=f"user {user}")
    chosen = {tenant.slug: tenant for tenant in tenants}.get(stored.get("tenant", ""))
    tenant = tenants[0] if len(tenants) == 1 else chosen
    return Visitor(Caller(person.pk, Scope.TENANT, tenant), person.name, user, tenants)


def _vouched_for(person: Person) -> bool:
    """Whether the provider that people sign in by today is the one that knows the person."""
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
