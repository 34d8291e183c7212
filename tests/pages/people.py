"""People of a tenant or of a group of a pool, signed in as their provider's word would."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

from allocator_service.pools.models import Group
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.people import (
    Identity,
    RoleGroups,
    group_grant_create,
    person_admit,
)
from api.pages.sessions import sign_in_person
from tests.pages.browser import Browser

ISSUER = "https://id.example"


def person_of(tenant: Tenant) -> Browser:
    """The browser of a person whom the provider's group makes one of the tenant's, and of no other.

    The provider has to be configured: the fixture `people_sign_in`.
    """
    group_grant_create(group=f"{tenant.slug}-people", tenant=tenant, now=datetime.now(UTC))
    return person_in(f"{tenant.slug}-people")


def person_of_group(group: Group, access: str = "manage") -> Browser:
    """The browser of a person whom the provider's group binds to a group of a pool."""
    name = f"{group.pool.slug}/{group.slug}/{access}"
    bound: dict[str, Any] = {"pool": group.pool.slug, "pool_group": group.pk, "access": access}
    group_grant_create(group=name, now=datetime.now(UTC), **bound)
    return person_in(name)


def person_in(*groups: str) -> Browser:
    """The browser of a person in groups of the provider, signed in."""
    now = datetime.now(UTC)
    identity = Identity(ISSUER, f"of-{groups[0]}", "Person", [*groups, "others"])
    person = person_admit(identity=identity, role_groups=RoleGroups("operators", ""), now=now)
    assert person is not None
    browser = Browser()
    request: Any = HttpRequest()
    request.session = browser.client.session
    sign_in_person(request, person, now=now)
    request.session.save()
    browser.client.cookies["sessionid"] = request.session.session_key
    return browser
