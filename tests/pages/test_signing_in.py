"""Signing in by a key: who gets in, what is told to whom, and when one is out again."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from axes.models import AccessAttempt, AccessFailureLog
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client as DjangoClient

from allocator_service.tenants.models import ApiKey
from allocator_service.tenants.services import api_key_digest, api_key_revoke
from tests import factories
from tests.pages.browser import Browser, browser_of

pytestmark = pytest.mark.django_db


def key_of(client):
    return ApiKey.objects.get(digest=api_key_digest(client.key))


def said(answer):
    return " ".join(answer.content.decode().split())


def test_a_key_opens_the_pages_and_is_in_no_session_or_cookie(world):
    browser = Browser()
    answer = browser.sign_in(world.as_ada.key)
    assert (answer.status_code, answer["Location"]) == (302, "/my/")
    assert "Lab" in browser.text("/my/")
    [session] = Session.objects.all()
    assert session.get_decoded()["signed_in"]["id"] == str(key_of(world.as_ada).pk)
    cookies = " ".join(morsel.OutputString() for morsel in browser.client.cookies.values())
    assert world.as_ada.key not in str(session.get_decoded()) + cookies + str(answer.headers)
    assert "HttpOnly" in browser.client.cookies["sessionid"].OutputString()
    assert "SameSite=Lax" in browser.client.cookies["sessionid"].OutputString()


@pytest.mark.parametrize("path", ["/my/", "/my/pools/lab/", "/my/pools/lab/why/?workload=1"])
def test_without_a_session_one_is_asked_to_sign_in_and_comes_back(path, world):
    browser = Browser()
    asked = browser.get(path)
    assert asked.status_code == 302
    assert asked["Location"].startswith("/sign-in/?next=%2Fmy%2F")
    form = browser.get(asked["Location"]).content.decode()
    assert f'name="next" value="{path}"' in form
    assert browser.sign_in(world.as_ada.key, next=path)["Location"] == path


@pytest.mark.parametrize(
    "next_",
    ["https://evil.example/my/", "//evil.example/my/", "/\\evil.example", "/admin/", "javascript:1",
     "/my/\\..\\..//evil.example\r\nSet-Cookie: a=b", "https:/my/", "\x00/my/"],
)  # fmt: skip
def test_nobody_is_sent_elsewhere(next_, world):
    answer = Browser().sign_in(world.as_ada.key, next=next_)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/my/")
    assert not {"\r", "\n", "\\"} & set(answer["Location"])


def test_a_wrong_key_is_refused_and_nothing_of_it_is_kept(world):
    wrong = "alloc_" + "x" * 43
    browser = Browser()
    answer = browser.sign_in(wrong)
    assert answer.status_code == 401
    assert "This key is not known." in said(answer)
    assert wrong not in said(answer)
    assert not Session.objects.exists()
    assert browser.get("/my/").status_code == 302
    kept = [
        str(vars(row)) for row in [*AccessAttempt.objects.all(), *AccessFailureLog.objects.all()]
    ]
    assert len(kept) == 2
    assert not [row for row in kept if wrong in row]
    assert AccessAttempt.objects.get().username == "alloc_xxxxxx"


@pytest.mark.parametrize(
    "typed", ["my password", "alloc_\x00\x00\x00\x00\x00\x00", "ä" * 300, "a" * 5_000]
)
def test_what_is_no_key_is_refused_and_counted_without_its_text(typed, db):
    answer = Browser().sign_in(typed)
    assert answer.status_code == 401
    assert AccessAttempt.objects.get().username == "not a key"
    assert typed[:7] not in str(vars(AccessAttempt.objects.get()))


def test_nothing_pasted_is_no_attempt(db):
    answer = Browser().sign_in("  ")
    assert answer.status_code == 422
    assert "Paste your key" in said(answer)
    assert not AccessAttempt.objects.exists()


def test_a_revoked_and_an_expired_key_say_so(world):
    as_ada, now = world.as_ada, datetime.now(UTC)
    api_key_revoke(identifier=key_of(as_ada).name, now=now)
    assert "This key was revoked." in said(Browser().sign_in(as_ada.key))
    ApiKey.objects.filter(pk=key_of(world.as_bob).pk).update(expires_at=now)
    assert "This key has expired." in said(Browser().sign_in(world.as_bob.key))


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("operator", "Operators work in the administration"),
        ("billing", "key for billing systems"),
        ("agent", "the key of an agent beside a scheduler"),
    ],
)
def test_other_keys_are_told_where_they_belong_and_do_not_get_in(scope, words):
    browser = Browser()
    pool = factories.pool("lab").slug if scope == "agent" else ""
    answer = browser.sign_in(factories.client(scope, pool=pool).key)
    assert answer.status_code == 403
    assert words in said(answer).replace("&#x27;", "'")
    assert 'href="/admin/"' in said(answer)
    assert browser.get("/my/").status_code == 302
    assert not Session.objects.exists()
    assert not AccessAttempt.objects.exists()


def test_each_request_looks_at_the_key_again(world):
    browser = browser_of(world.as_ada)
    assert browser.get("/my/").status_code == 200
    api_key_revoke(identifier=key_of(world.as_ada).name, now=datetime.now(UTC))
    out = browser.get("/my/pools/lab/")
    assert out["Location"] == "/sign-in/?next=%2Fmy%2Fpools%2Flab%2F&ended=auth.revoked"
    assert "You were signed out: your key was revoked." in said(browser.get(out["Location"]))
    assert not Session.objects.exists()
    ApiKey.objects.filter(pk=key_of(world.as_ada).pk).update(revoked_at=None)
    assert browser.get("/my/").status_code == 302  # the session is gone for good


def test_a_key_that_expires_or_goes_ends_the_session(world):
    ada, bob = browser_of(world.as_ada), browser_of(world.as_bob)
    ApiKey.objects.filter(pk=key_of(world.as_ada).pk).update(expires_at=datetime.now(UTC))
    assert ada.get("/my/")["Location"].endswith("ended=auth.expired")
    ApiKey.objects.filter(pk=key_of(world.as_bob).pk).delete()
    assert bob.get("/my/")["Location"].endswith("ended=auth.invalid")


def test_a_session_ends_after_twelve_hours_of_work(world):
    browser = browser_of(world.as_ada)
    ApiKey.objects.update(expires_at=datetime.now(UTC) + timedelta(days=1))
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=11, minutes=59), tick=False):
        assert browser.get("/my/").status_code == 200
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=12, minutes=1), tick=False):
        assert browser.get("/my/")["Location"].endswith("ended=too-long")


def test_a_session_that_somebody_knew_before_is_worth_nothing(world):
    victim, attacker = Browser(), Browser()
    victim.get("/sign-in/")
    session = victim.client.session
    session["planted"] = "yes"
    session.save()
    victim.client.cookies["sessionid"] = attacker.client.cookies["sessionid"] = session.session_key
    assert victim.sign_in(world.as_ada.key).status_code == 302
    assert victim.client.cookies["sessionid"].value != session.session_key
    assert victim.get("/my/").status_code == 200
    assert attacker.get("/my/").status_code == 302


@pytest.mark.parametrize("cookie", ["", "x", "a" * 32, "../../etc", "0" * 5_000, "ü"])
def test_a_made_up_cookie_is_nobody(cookie, world):
    browser = Browser()
    browser.client.cookies["sessionid"] = cookie
    assert browser.get("/my/").status_code == 302


def test_a_stored_session_that_was_tampered_with_is_nobody(world):
    browser = browser_of(world.as_ada)
    [session] = Session.objects.all()
    head, tail = session.session_data[:20], session.session_data[20:]
    session.session_data = head.swapcase() + tail
    session.save()
    assert browser.get("/my/").status_code == 302


def test_forms_need_their_token(world):
    browser = browser_of(world.as_ada)
    for path, fields in (("/sign-in/", {"key": world.as_bob.key}), ("/sign-out/", {})):
        for token in ({}, {"csrfmiddlewaretoken": "a" * 64}):
            answer = browser.client.post(path, {**fields, **token})
            assert answer.status_code == 403
            assert "The form could not be accepted" in said(answer)
    assert "Ada" in browser.text("/my/")


def test_signing_out_ends_the_session_on_the_server(world):
    browser = browser_of(world.as_ada)
    stolen = browser.client.cookies["sessionid"].value
    answer = browser.post("/sign-out/", "/my/")
    assert answer["Location"] == "/sign-in/?ended=signed-out"
    assert not Session.objects.exists()
    browser.client.cookies["sessionid"] = stolen
    assert browser.get("/my/").status_code == 302
    assert browser.get("/sign-out/").status_code == 405


def test_an_operator_in_the_same_browser_stays_logged_in(world):
    get_user_model().objects.create_superuser("root", "root@example.org", "secret words here")
    client = DjangoClient()
    client.force_login(get_user_model().objects.get(), "django.contrib.auth.backends.ModelBackend")
    client.post("/sign-in/", {"key": world.as_ada.key})
    assert client.get("/my/").status_code == 200
    assert client.get("/admin/").status_code == 200
    client.post("/sign-out/")
    assert client.get("/my/").status_code == 302
    assert client.get("/admin/").status_code == 200


def test_five_failures_lock_the_beginning_of_a_key_from_that_network(world, settings):
    key = world.as_ada.key
    mistyped = key[:-1] + ("a" if key[-1] != "a" else "b")
    browser = Browser()
    answers = [browser.sign_in(mistyped).status_code for _ in range(5)]
    assert answers[:4] == [401] * 4
    locked = browser.sign_in(key)
    assert locked.status_code == 429
    assert locked["Retry-After"] == "60"
    assert "Too many attempts from your network. Try again in 1 minute." in said(locked)
    assert browser.sign_in(world.as_bob.key).status_code == 302  # another key is not concerned
    assert Browser().sign_in(key).status_code == 302  # nor is who comes from elsewhere
    AccessAttempt.objects.all().delete()
    for attempt in range(5):
        assert browser.sign_in(mistyped).status_code == 401, attempt
    assert browser.sign_in(key)["Retry-After"] == "120"  # twice as long the second time


def test_one_network_tries_so_many_keys_and_no_more(db):
    browser = Browser()
    for number in range(100):
        answer = browser.sign_in(f"alloc_{number:06}" + "x" * 37)
        if answer.status_code == 429:
            break
    assert 20 <= number < 60
    assert int(answer["Retry-After"]) >= 1
    assert Browser().sign_in("alloc_" + "y" * 43).status_code == 401


def test_success_forgets_the_failures(world):
    browser, key = Browser(), world.as_ada.key
    mistyped = key[:-1] + ("a" if key[-1] != "a" else "b")
    for _ in range(3):
        for _ in range(3):
            assert browser.sign_in(mistyped).status_code == 401
        assert browser.sign_in(key).status_code == 302


def test_a_session_asks_no_more_often_than_its_key_may(world, settings):
    browser = browser_of(world.as_ada)
    settings.ENVIRONMENT = dataclasses.replace(
        settings.ENVIRONMENT, throttle_rate=0.1, throttle_burst=3
    )
    answers = [browser.get("/my/") for _ in range(6)]
    refused = answers[-1]
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) >= 1
    assert "Wait a moment" in said(refused)
