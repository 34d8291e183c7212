"""Who gets in by a provider, as what, and for how long."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.conf import settings as configured
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from allocator_service.core.models import AuditEntry
from allocator_service.core.roles import AUDITORS, OPERATORS
from allocator_service.tenants.models import Person
from allocator_service.tenants.people import group_grant_withdraw
from tests.pages.browser import Browser
from tests.pages.oidc.visits import come, grant, refused, said
from tests.pages.provider import CLIENT, DISCOVERY, query_of

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 1, tzinfo=UTC)
USERS = get_user_model().objects


def test_members_of_a_group_open_the_pages_of_its_tenant(provider, world):
    grant("biology", world.ada)
    browser, answer = come(provider, "ada-1", name="Ada Lovelace", groups=["biology", "all"])
    assert (answer.status_code, answer["Location"]) == (302, "/my/")
    text = browser.text("/my/")
    assert "Ada · Ada Lovelace" in text
    assert "Change tenant" not in text
    assert "Lab" in text
    person = Person.objects.get()
    assert (person.issuer, person.subject, person.groups) == (
        provider.url,
        "ada-1",
        ["biology", "all"],
    )
    assert not person.user.has_usable_password()
    assert not person.user.is_staff
    assert browser.get("/admin/").status_code == 302


@pytest.mark.parametrize(
    ("group", "role", "pool_add"), [("operators", OPERATORS, 200), ("auditors", AUDITORS, 403)]
)
def test_a_group_makes_an_operator_or_an_auditor(provider, group, role, pool_add):
    browser, answer = come(
        provider, "eve-1", next_="/admin/pools/pool/", name="Eve", groups=[group]
    )
    assert (answer.status_code, answer["Location"]) == (302, "/admin/pools/pool/")
    user = Person.objects.get().user
    assert [each.name for each in user.groups.all()] == [role]
    assert (user.is_staff, user.is_superuser) == (True, False)
    assert user.username.startswith("Eve+")
    assert browser.get("/admin/pools/pool/add/").status_code == pool_add
    assert (
        browser.get("/my/").status_code == 302
    )  # she belongs to no tenant, and stays in the admin
    assert browser.get("/admin/pools/pool/").status_code in (200, 403)
    assert browser.get("/admin/").status_code == 200


def test_one_sign_in_opens_what_all_groups_give(provider, ada):
    grant("biology", ada)
    browser, answer = come(provider, "ada-1", next_="/admin/", groups=["operators", "biology"])
    assert answer["Location"] == "/admin/"
    assert browser.get("/admin/").status_code == 200
    assert browser.get("/my/").status_code == 200
    out = browser.post("/sign-out/", "/my/")
    assert out["Location"] == "/sign-in/?ended=signed-out-here"
    assert browser.get("/admin/").status_code == browser.get("/my/").status_code == 302
    assert "Sign out of Example ID too" in said(browser.get(out["Location"]))


def test_where_one_may_not_go_one_is_led_to_what_there_is(provider, world):
    grant("biology", world.ada)
    _, answer = come(provider, "ada-1", next_="/admin/", groups=["biology"])
    assert answer["Location"] == "/my/"
    _, answer = come(provider, "eve-1", next_="/my/pools/lab/", groups=["auditors"])
    assert answer["Location"] == "/admin/"


@pytest.mark.parametrize("groups", [[], ["other"], None, ["OPERATORS"], ["operators "]])
def test_without_a_role_nobody_is_registered(provider, ada, groups):
    grant("biology", ada)
    claims = {} if groups is None else {"groups": groups}
    browser, answer = come(provider, "eve-1", **claims)
    refused(answer, 403, "none of your groups there belongs to a tenant")
    assert "Ask your operator to connect one of your groups" in said(answer)
    assert browser.get("/my/").status_code == 302


def test_a_lost_group_is_a_lost_role(provider, ada):
    grant("biology", ada)
    first, _ = come(provider, "ada-1", groups=["operators", "biology"])
    come(provider, "ada-1", groups=["auditors"])
    user = Person.objects.get().user
    assert [each.name for each in user.groups.all()] == [AUDITORS]
    assert first.get("/admin/pools/pool/add/").status_code == 403
    assert first.get("/my/")["Location"].endswith("ended=person.no_longer")
    _, answer = come(provider, "ada-1", groups=[])
    assert answer.status_code == 403
    user.refresh_from_db()
    assert (user.is_staff, user.groups.count()) == (False, 0)
    assert first.get("/admin/").status_code == 302
    done = list(AuditEntry.objects.filter(object_type="person").order_by("at", "id"))
    assert [each.action for each in done] == ["person.register", "person.sign_in", "person.refuse"]
    assert {each.actor for each in done} == {f"provider {provider.url}"}
    assert done[1].before["roles"] == [OPERATORS]
    assert done[1].after["roles"] == [AUDITORS]


def test_what_a_superuser_gave_stays_and_a_disabled_account_stays_disabled(provider, ada):
    grant("biology", ada)
    browser, _ = come(provider, "ada-1", groups=["operators", "biology"])
    user = Person.objects.get().user
    own = Group.objects.create(name="Night shift")
    user.groups.add(own)
    come(provider, "ada-1", groups=["biology"])
    assert list(user.groups.all()) == [own]
    user.is_active = False
    user.save(update_fields=["is_active"])
    signed_in = Person.objects.get().last_signed_in_at
    assert browser.get("/my/")["Location"].endswith("ended=person.no_longer")
    _, answer = come(provider, "ada-1", groups=["operators", "biology"])
    assert answer.status_code == 403
    assert "Your account is disabled" in said(answer)
    user.refresh_from_db()
    assert not user.is_active
    assert Person.objects.get().last_signed_in_at == signed_in
    recorded = AuditEntry.objects.filter(action__startswith="person.").order_by("id")
    assert [entry.action for entry in recorded] == [
        "person.register", "person.sign_in", "person.refuse"
    ]  # fmt: skip


def test_people_are_known_by_issuer_and_subject_alone(provider, ada):
    grant("biology", ada)
    USERS.create_superuser("root", "root@example.org", "secret words here")
    claims = {"name": "root", "preferred_username": "root", "email": "root@example.org"}
    come(provider, "ada-1", groups=["biology"], **claims)
    come(provider, "ada-2", groups=["operators"], **claims)
    come(provider, "ada-1", groups=["biology"], **claims)
    first, second = Person.objects.order_by("created_at")
    assert (first.subject, second.subject) == ("ada-1", "ada-2")
    assert len({first.user.username, second.user.username, "root"}) == 3
    assert not first.user.is_staff
    assert not second.user.is_superuser


def test_of_several_tenants_one_is_chosen_and_seen(provider, world):
    grant("biology", world.ada)
    grant("physics", world.bob)
    browser, answer = come(
        provider, "ada-1", next_="/my/pools/lab/workloads/", groups=["biology", "physics"]
    )
    asked = browser.get(answer["Location"])
    assert asked["Location"] == "/my/tenant/?next=%2Fmy%2Fpools%2Flab%2Fworkloads%2F"
    page = browser.text(asked["Location"])
    assert [f'value="{slug}"' in page for slug in ("ada", "bob", "eve")] == [True, True, False]
    for slug in ("eve", "nobody", "", "\0", "ä"):
        assert browser.post("/my/tenant/", "/my/tenant/", tenant=slug).status_code == 404
        assert browser.get("/my/").status_code == 302
    chosen = browser.post(
        "/my/tenant/", "/my/tenant/", tenant="bob", next="/my/pools/lab/workloads/"
    )
    assert chosen["Location"] == "/my/pools/lab/workloads/"
    text = browser.text("/my/pools/lab/workloads/")
    assert ("simulation" in text, "analysis" in text) == (True, False)
    assert "Change tenant" in text
    browser.post("/my/tenant/", "/my/tenant/", tenant="ada", next="https://evil.example/")
    text = browser.text("/my/pools/lab/workloads/")
    assert ("simulation" in text, "analysis" in text) == (False, True)


def test_a_withdrawn_grant_and_a_retired_tenant_end_the_session_at_once(provider, ada):
    granted = grant("biology", ada)
    browser, _ = come(provider, "ada-1", groups=["biology"])
    assert browser.get("/my/").status_code == 200
    group_grant_withdraw(grant=granted, now=NOW)
    assert browser.get("/my/")["Location"].endswith("ended=person.no_longer")
    again = grant("biology", ada)
    assert browser.get("/my/").status_code == 302  # the session is gone for good
    come(provider, "ada-1", groups=["biology"], browser=browser)
    assert browser.get("/my/").status_code == 200
    ada.retired_at = NOW
    ada.save()
    assert browser.get("/my/").status_code == 302
    assert again.withdrawn_at is None


def test_a_session_ends_after_twelve_hours_in_the_admin_too(provider, ada):
    grant("biology", ada)
    browser, _ = come(provider, "ada-1", groups=["operators", "biology"])
    now = datetime.now(UTC)
    with time_machine.travel(now + timedelta(hours=11, minutes=59), tick=False):
        assert browser.get("/my/").status_code == browser.get("/admin/").status_code == 200
    with time_machine.travel(now + timedelta(hours=12, minutes=1), tick=False):
        assert browser.get("/admin/").status_code == 302
        assert browser.get("/my/").status_code == 302


def test_without_a_provider_there_is_no_button_no_route_and_no_session(provider, ada, settings):
    grant("biology", ada)
    browser, _ = come(provider, "ada-1", groups=["operators", "biology"])
    for page in ("/sign-in/", "/admin/login/?next=/admin/"):
        assert "Sign in with Example ID" in said(Browser().get(page)), page
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=None)
    for path in ("/sign-in/oidc/", "/sign-in/oidc/callback/?code=1&state=2", "/sign-out/oidc/"):
        assert browser.get(path).status_code == 404
    for page in ("/sign-in/", "/admin/login/"):
        assert "Sign in with" not in said(Browser().get(page))
    assert browser.get("/admin/").status_code == browser.get("/my/").status_code == 302


def test_another_provider_does_not_vouch_for_the_people_of_the_one_before(provider, ada, settings):
    grant("biology", ada)
    browser, _ = come(provider, "ada-1", groups=["biology"])
    other = provider.settings(issuer="https://other.example")
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=other)
    assert browser.get("/my/")["Location"].endswith("ended=person.no_longer")


def test_signing_out_of_the_provider_leads_to_its_page_if_it_has_one(provider, db):
    answer = Browser().get("/sign-out/oidc/")
    assert answer["Location"].startswith(f"{provider.url}/oauth2/end_session?")
    asked = query_of(answer["Location"])
    assert asked["client_id"] == CLIENT
    assert asked["post_logout_redirect_uri"] == "http://testserver/sign-in/"
    provider.answers[DISCOVERY] = lambda told: {**told, "end_session_endpoint": None}
    assert Browser().get("/sign-out/oidc/")["Location"] == "http://testserver/sign-in/"


def test_a_password_still_opens_the_admin(provider, db):
    USERS.create_superuser("root", "", "secret words here")
    browser = Browser()
    form = {"username": "root", "password": "secret words here", "next": "/admin/"}
    assert browser.post("/admin/login/", "/admin/login/", **form)["Location"] == "/admin/"
    assert browser.get("/admin/auth/user/").status_code == 200


def test_no_provider_is_configured_unless_asked_for():
    assert configured.ENVIRONMENT.oidc is None
