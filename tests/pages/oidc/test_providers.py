"""A provider that is down, slow or talks rubbish: a page says so."""

import dataclasses
import time

import pytest

from api.pages import provider as talking
from tests.pages.browser import Browser
from tests.pages.oidc.visits import begin, grant, refused
from tests.pages.provider import DISCOVERY, JWKS, TOKEN

pytestmark = pytest.mark.django_db


RUBBISH = [b"", b"<html>", b"[]", b"null", b'"x"', b"{}", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("path", [DISCOVERY, JWKS, TOKEN])
def test_a_provider_that_answers_rubbish_is_said_to(provider, ada, path):
    grant("biology", ada)
    provider.register("ada-1", groups=["biology"])
    for body in RUBBISH:
        provider.raw = {}
        browser = Browser()
        back = (
            "/sign-in/oidc/" if path == DISCOVERY else provider.authorize(begin(browser), "ada-1")
        )
        provider.raw = {path: body}
        answer = browser.get(back)
        assert answer.status_code in (403, 503), body[:9]
        refused(answer, answer.status_code, "Sign in again")
    for status in ("500 Broken", "404 Gone", "302 Elsewhere"):
        provider.raw, provider.status = {}, {}
        browser = Browser()
        back = (
            "/sign-in/oidc/" if path == DISCOVERY else provider.authorize(begin(browser), "ada-1")
        )
        provider.status, provider.raw = {path: status}, {path: b"{}"}
        answer = browser.get(back)
        refused(answer, answer.status_code, "Sign in again")


@pytest.mark.parametrize(
    "change",
    [{"issuer": "https://evil.example"}, {"issuer": None}, {"authorization_endpoint": "javascript:1"},
     {"token_endpoint": 7}, {"jwks_uri": "file:///etc/passwd"}, {"authorization_endpoint": None}],
)  # fmt: skip
def test_a_provider_that_says_odd_things_of_itself_is_not_asked(provider, db, change):
    provider.answers[DISCOVERY] = lambda told: {**told, **change}
    answer = Browser().get("/sign-in/oidc/")
    refused(answer, 503, "Example ID cannot be reached")


def test_a_provider_that_is_down_is_said_to_be(provider, settings, caplog):
    gone = provider.settings(issuer="http://127.0.0.1:9")
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=gone)
    refused(Browser().get("/sign-in/oidc/"), 503, "Example ID cannot be reached")
    assert "oidc_sign_in_failed" in caplog.text
    assert Browser().get("/sign-out/oidc/").status_code == 503


def test_a_provider_that_hangs_holds_nobody_for_long(provider, monkeypatch, db):
    monkeypatch.setattr(talking, "_READ_SECONDS", 0.2)
    provider.delay = 1
    began = time.monotonic()
    refused(Browser().get("/sign-in/oidc/"), 503, "Try again in a moment")
    assert time.monotonic() - began < 0.9


def test_while_two_wait_for_the_provider_others_are_told_at_once(provider, db):
    with talking._talking(), talking._talking():
        refused(Browser().get("/sign-in/oidc/"), 503, "cannot be reached")
        assert provider.asked == []
    begin(Browser())
