"""What a person does to sign in by a provider, and what the service answers."""

from datetime import UTC, datetime

from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session

from allocator_service.tenants.models import Person
from allocator_service.tenants.people import group_grant_create
from tests.pages.browser import Browser

NOW = datetime(2026, 11, 1, tzinfo=UTC)
USERS = get_user_model().objects


def grant(group, tenant):
    return group_grant_create(group=group, tenant=tenant, now=NOW)


def begin(browser, next_="/my/"):
    """To the provider's page; returns its address."""
    answer = browser.get(f"/sign-in/oidc/?next={next_}")
    assert answer.status_code == 302, answer.content
    return answer["Location"]


def come(provider, subject, *, next_="/my/", browser=None, **claims):
    """A browser in which somebody signed in at the provider, and what the service answered."""
    browser = browser or Browser()
    provider.register(subject, **claims)
    return browser, browser.get(provider.authorize(begin(browser, next_), subject))


def said(answer):
    return " ".join(answer.content.decode().split())


def refused(answer, status, words):
    """Nobody is signed in, nobody was registered, and a page says why."""
    assert (answer.status_code, words in said(answer)) == (status, True), said(answer)
    assert Person.objects.count() == USERS.count() == 0
    assert all("signed_in" not in each.get_decoded() for each in Session.objects.all())
