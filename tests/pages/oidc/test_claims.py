"""What a provider says of somebody: names and groups in every form."""

import dataclasses

import pytest

from allocator_service.tenants.models import Person
from tests.pages.oidc.visits import come, grant, refused

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "claim",
    [7, {"a": 1}, [1, None, "\0", "x" * 256, "a\ud800"], [["operators"]], "operator", True, [""]],
)
def test_a_claim_that_is_no_list_of_groups_gives_nothing(provider, ada, claim):
    provider.claims = lambda claims: {**claims, "groups": claim}
    _, answer = come(provider, "eve-1")
    refused(answer, 403, "You have no role here")


def test_groups_may_be_one_text_or_lie_deep(provider, settings):
    _, answer = come(provider, "eve-1", groups="operators")
    assert answer.status_code == 302
    for name, claims in (
        ("realm_access.roles", {"realm_access": {"roles": ["operators"]}}),
        ("https://example.org/groups", {"https://example.org/groups": ["operators"]}),
    ):
        told = provider.settings(groups_claim=name)
        settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=told)
        _, answer = come(provider, "eve-2", **claims)
        assert answer.status_code == 302, name


def test_groups_that_are_not_in_the_token_are_asked_for(provider, db):
    def without(claims):
        return {name: value for name, value in claims.items() if name != "groups"}

    provider.claims = without
    _, answer = come(provider, "eve-1", groups=["operators"])
    assert answer.status_code == 302
    provider.answers["/userinfo"] = lambda told: {**told, "sub": "somebody else"}
    _, answer = come(provider, "eve-2", groups=["operators"])
    assert answer.status_code == 403
    assert Person.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "shown"),
    [("<b>Eve</b>", "&lt;b&gt;Eve&lt;/b&gt;"), ("Åsa Öst", "Åsa Öst"), ("a\nb", "eve-1"),
     ("", "eve-1"), ("\u202eevE", "eve-1"), (7, "eve-1"), ("n" * 200, "n" * 150)],
)  # fmt: skip
def test_names_are_shown_as_text(provider, ada, name, shown):
    grant("biology", ada)
    provider.claims = lambda claims: {**claims, "name": name}
    browser, _ = come(provider, "eve-1", groups=["biology"])
    assert f"Ada · {shown}" in browser.text("/my/")
