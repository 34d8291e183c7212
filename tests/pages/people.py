"""People of a tenant, signed in as their provider's word would."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

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
    group, now = f"{tenant.slug}-people", datetime.now(UTC)
    group_grant_create(group=group, tenant=tenant, now=now)
    identity = Identity(ISSUER, f"of-{tenant.slug}", "Person", [group, "others"])
    person = person_admit(identity=identity, role_groups=RoleGroups("operators", ""), now=now)
    assert person is not None
    browser = Browser()
    request: Any = HttpRequest()
    request.session = browser.client.session
    sign_in_person(request, person, now=now)
    request.session.save()
    browser.client.cookies["sessionid"] = request.session.session_key
    return browser
