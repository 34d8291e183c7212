"""From the browser to the provider and back: every answer counts once, where it was asked for."""

import hashlib
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from tests.pages.browser import Browser
from tests.pages.oidc.visits import begin, come, grant, refused, said
from tests.pages.provider import query_of

pytestmark = pytest.mark.django_db


def test_the_request_has_pkce_state_and_nonce_and_the_answer_is_for_it_alone(provider, ada):
    grant("biology", ada)
    browser = Browser()
    asked = query_of(begin(browser))
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"] == "openid profile"
    assert asked["redirect_uri"] == "http://testserver/sign-in/oidc/callback/"
    assert min(len(asked["state"]), len(asked["nonce"])) >= 20
    again = query_of(begin(browser))
    assert {asked[name] for name in ("state", "nonce")}.isdisjoint(again.values())
    come(provider, "ada-1", groups=["biology"], browser=browser)
    digest = hashlib.sha256(provider.token_request["code_verifier"].encode()).digest()
    assert urlsafe_b64encode(digest).rstrip(b"=").decode() not in (
        asked["code_challenge"],
        again["code_challenge"],
    )


def test_the_verifier_is_that_of_the_challenge(provider, ada):
    grant("biology", ada)
    provider.register("ada-1", groups=["biology"])
    browser = Browser()
    address = begin(browser)
    browser.get(provider.authorize(address, "ada-1"))
    digest = hashlib.sha256(provider.token_request["code_verifier"].encode()).digest()
    challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert challenge == query_of(address)["code_challenge"]


@pytest.mark.parametrize(
    "next_",
    ["https://evil.example/my/", "//evil.example/my/", "/%5Cevil.example", "/api/v1/", "javascript:1",
     "/my/%0d%0aSet-Cookie:a", "https:/my/", "%00/my/", "/sign-in/oidc/"],
)  # fmt: skip
def test_nobody_is_sent_elsewhere(provider, ada, next_):
    grant("biology", ada)
    _, answer = come(provider, "ada-1", next_=next_, groups=["biology"])
    assert answer.status_code == 302
    assert answer["Location"].startswith("/my/")
    assert not {"\r", "\n", "\\"} & set(answer["Location"])


def test_an_answer_counts_once_and_in_the_browser_that_asked(provider, ada):
    grant("biology", ada)
    provider.register("ada-1", groups=["biology"])
    victim, attacker = Browser(), Browser()
    back = provider.authorize(begin(attacker), "ada-1")
    begin(victim)
    words = "This sign-in cannot be continued"
    for address in (
        back, "/sign-in/oidc/callback/", "/sign-in/oidc/callback/?code=1", f"{back}x",
        "/sign-in/oidc/callback/?state=%00&code=%00", "/sign-in/oidc/callback/?state=" + "a" * 4000,
        "/sign-in/oidc/callback/?error=access_denied",
    ):  # fmt: skip
        refused(victim.get(address), 400, words)
    assert attacker.get(back).status_code == 302
    again = attacker.get(back)
    assert (again.status_code, words in said(again)) == (400, True)
    assert attacker.get("/my/").status_code == 200  # a replay signs nobody out


def test_a_code_that_was_used_before_is_refused(provider, ada):
    grant("biology", ada)
    provider.register("ada-1", groups=["biology"])
    thief, browser = Browser(), Browser()
    stolen = query_of(provider.authorize(begin(browser), "ada-1"))["code"]
    state = query_of(begin(thief))["state"]
    first = browser.get(f"/sign-in/oidc/callback/?code={stolen}&state=wrong")
    assert first.status_code == 400
    # In the thief's browser the nonce in the token is not the one that was sent.
    refused(
        thief.get(f"/sign-in/oidc/callback/?code={stolen}&state={state}"), 403, "not be verified"
    )
    state = query_of(begin(thief))["state"]
    refused(
        thief.get(f"/sign-in/oidc/callback/?code={stolen}&state={state}"), 403, "not be verified"
    )


def test_a_sign_in_is_finished_within_a_quarter_of_an_hour(provider, ada):
    grant("biology", ada)
    provider.register("ada-1", groups=["biology"])
    browser = Browser()
    back = provider.authorize(begin(browser), "ada-1")
    with time_machine.travel(datetime.now(UTC) + timedelta(minutes=16), tick=False):
        refused(browser.get(back), 400, "more than 15 minutes ago")


def test_what_the_provider_declines_is_said(provider, db):
    browser = Browser()
    state = query_of(begin(browser))["state"]
    answer = browser.get(
        f"/sign-in/oidc/callback/?error=access_denied&error_description=<b>no</b>&state={state}"
    )
    refused(answer, 403, "Example ID did not sign you in, or you went back.")
    assert "<b>no" not in said(answer)


def test_one_network_begins_so_many_sign_ins_and_no_more(provider, db):
    browser = Browser()
    answers = [browser.get("/sign-in/oidc/callback/").status_code for _ in range(60)]
    assert answers[0] == 400
    assert answers[-1] == 429


def test_a_session_known_before_is_worth_nothing(provider, ada):
    grant("biology", ada)
    victim, attacker = Browser(), Browser()
    begin(victim)
    planted = victim.client.cookies["sessionid"].value
    attacker.client.cookies["sessionid"] = planted
    come(provider, "ada-1", groups=["biology"], browser=victim)
    assert victim.client.cookies["sessionid"].value != planted
    assert attacker.get("/my/").status_code == 302
