"""Mail from its choice on a page to a real mail server, and everything that can be in its way."""

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client

from allocator_service.core.clock import utc_now
from allocator_service.core.outbox import event_record, events_seal
from allocator_service.mail.composing import composed
from allocator_service.mail.mailing import LONGEST_PAUSE, MOST_NEWS, mail_send, news_collect
from allocator_service.mail.models import MailKind, MailState, News, Subscription
from allocator_service.mail.subscriptions import (
    is_entitled,
    next_monday,
    subscription_confirm,
    subscription_put,
    token_of,
)
from allocator_service.tenants.models import ApiKey, GroupGrant, Person
from allocator_service.tenants.services import api_key_digest, api_key_revoke
from allocator_service.workloads.models import Workload
from tests import factories
from tests.integration.mail.conftest import PUBLIC_URL
from tests.pages.browser import Browser, browser_of
from tests.pages.conftest import people_sign_in
from tests.pages.people import person_of

__all__ = ["people_sign_in"]  # fixtures of other modules

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESS = "ada@example.org"
ALL = [kind for kind in MailKind.values if kind != MailKind.WEEKLY]


def key_of(client):
    return ApiKey.objects.get(digest=api_key_digest(client.key))


def send(settings, now):
    events_seal()
    while news_collect(now=now):
        pass
    return mail_send(server=settings.ENVIRONMENT.mail, clock=lambda: now)


def chosen(world, *, address=ADDRESS, kinds=ALL, confirmed=True):
    now = utc_now()
    found = subscription_put(
        tenant=world.ada, holder=key_of(world.as_ada).pk, address=address, kinds=kinds, now=now
    )
    if confirmed:
        Subscription.objects.filter(pk=found.pk).update(confirmed_at=now, due_at=found.weekly_at)
        MailState.objects.update_or_create(pk=1, defaults={"sequence": 0})
    return Subscription.objects.get(pk=found.pk)


def fell(world, name="analysis", before=9.0, after=2.0, now=None):
    workload = Workload.objects.get(name=name)
    return event_record(
        kind="allocation.changed",
        pool=world.lab.slug,
        tenant=workload.tenant.slug,
        payload={
            "run": "r",
            "generation": 1,
            "workloads": [{"workload": str(workload.pk), "before": before, "after": after}],
        },
        now=now or utc_now(),
    )


def link_in(text, path):
    [found] = re.findall(rf"{PUBLIC_URL}({path}\S+)", text)
    return found


def test_from_the_choice_to_news_and_their_end(world, inbox, settings):
    browser = browser_of(world.as_ada)
    page = browser.get("/my/mail/")
    assert "You have not chosen any mail yet." in page.content.decode()
    answer = browser.post("/my/mail/", "/my/mail/", address=ADDRESS, kinds=ALL)
    assert (answer.status_code, answer["Location"]) == (302, "/my/mail/")
    listed = browser.text("/my/mail/")
    assert "Waits for the link" in listed
    # On a phone each cell is a line with its name.
    assert '<table class="stacked">' in listed
    assert listed.count('class="cell-label"') == 3
    send(settings, utc_now())
    [request] = inbox.texts(ADDRESS)
    confirm = link_in(request, "/mail/confirm/")
    owner = Browser()
    assert "Confirm your address" in owner.text(confirm)
    fell(world)
    assert send(settings, utc_now() + timedelta(minutes=1)) == 0  # opened, and not confirmed
    assert "is confirmed" in owner.post(confirm, confirm).content.decode()
    assert "No news yet" in browser.text("/my/mail/")
    fell(world)
    now = utc_now()
    assert send(settings, now) == 0  # collected for a while
    assert send(settings, now + timedelta(minutes=1)) == 1
    news = inbox.mails[-1]
    assert news["Subject"] == f"My allocation fell: {world.ada.name}"
    assert "analysis may run 2 tasks instead of 9." in news.get_content()
    assert f"{PUBLIC_URL}/my/pools/lab/" in news.get_content()
    end = news["List-Unsubscribe"].strip(" <>").removeprefix(PUBLIC_URL)
    assert news["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    # A mail program has no cookies and no token of a form.
    program = Client(enforce_csrf_checks=True)
    for _ in range(2):
        done = program.post(end, {"List-Unsubscribe": "One-Click"})
        assert (done.status_code, "no more mail" in done.content.decode()) == (200, True)
    assert not Subscription.objects.exists()
    assert "You have not chosen any mail yet." in browser.text("/my/mail/")


def test_jobs_that_wait_are_named_without_the_number_of_their_pieces(world, inbox, settings):
    chosen(world)
    now = utc_now()
    payload = {"pending_tasks": 8, "reason": "AssocGrpCPULimit"}
    event_record(
        kind="enforcement.blocked", pool="lab", tenant=world.ada.slug, payload=payload, now=now
    )
    send(settings, now)
    assert send(settings, now + timedelta(minutes=1)) == 1
    assert (
        "Jobs of yours wait in the scheduler although the decision lets them run."
        " The scheduler's reason: AssocGrpCPULimit." in " ".join(inbox.texts(ADDRESS)[-1].split())
    )


def test_one_cause_gives_one_mail_and_the_next_comes_later(world, inbox, settings):
    chosen(world)
    now = utc_now()
    for count in range(3):
        fell(world, after=float(count))
    send(settings, now)
    assert send(settings, now + timedelta(minutes=1)) == 1
    assert inbox.mails[0]["Subject"] == f"3 news for {world.ada.name}"
    fell(world)
    assert send(settings, now + timedelta(minutes=5)) == 0
    assert send(settings, now + timedelta(minutes=17)) == 1
    assert not News.objects.exists()


def test_a_mail_has_nothing_of_other_tenants(world, inbox, settings):
    """Bob's events, in the same pool and of the pool, reach nobody but Bob."""
    chosen(world)
    factories.workload(world.lab, "hidden-project", 1, 1, world.bob)
    fell(world, "hidden-project")
    event_record(kind="guarantee.unmet", pool="lab", payload={"guarantees": ["bob"]}, now=utc_now())
    fell(world)
    send(settings, utc_now())
    assert send(settings, utc_now() + timedelta(minutes=1)) == 1
    assert not re.search("bob|hidden", inbox.mails[0].as_string(), re.IGNORECASE)


def test_only_chosen_kinds_are_sent(world, inbox, settings):
    chosen(world, kinds=["statement"])
    fell(world)
    event_record(
        kind="statement.closed", pool="lab", tenant="ada", now=utc_now(),
        payload={"month": "2026-10-01", "billed": "1234.50", "currency": "EUR"},
    )  # fmt: skip
    send(settings, utc_now())
    send(settings, utc_now() + timedelta(minutes=1))
    [text] = inbox.texts(ADDRESS)
    assert "Your statement of October 2026 is closed: 1,234.50 EUR." in text
    assert "analysis" not in text


def test_a_revoked_key_ends_the_mail(world, inbox, settings):
    chosen(world)
    fell(world)
    send(settings, utc_now())
    api_key_revoke(identifier=key_of(world.as_ada).name, now=utc_now())
    assert send(settings, utc_now() + timedelta(minutes=1)) == 0
    assert (inbox.mails, Subscription.objects.count()) == ([], 0)


def test_nothing_is_lost_while_the_mail_server_is_away(world, inbox, settings):
    chosen(world)
    fell(world)
    now = utc_now()
    send(settings, now)
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
    later = now + timedelta(minutes=1)
    assert send(settings, later) == 0
    settings.EMAIL_PORT = port
    assert send(settings, later) == 0  # all mail pauses
    assert send(settings, later + timedelta(minutes=2)) == 1
    # A pause that was set before the clock was put back ends at once.
    MailState.objects.update(busy_until=now + timedelta(days=1))
    fell(world)
    send(settings, now)
    assert send(settings, later + timedelta(minutes=20)) == 1
    assert timedelta(days=1) > LONGEST_PAUSE


def test_a_refused_address_stops_no_other(world, inbox, settings):
    chosen(world, address="full@example.org")
    chosen(world)
    inbox.refuse["full@example.org"] = "452 mailbox full"
    fell(world)
    now = utc_now()
    send(settings, now)
    assert send(settings, now + timedelta(minutes=1)) == 1
    full = Subscription.objects.get(address="full@example.org")
    assert (full.failures, full.error) == (1, "mailbox full")
    assert "mailbox full" in browser_of(world.as_ada).text("/my/mail/")
    inbox.refuse.clear()
    assert send(settings, now + timedelta(minutes=7)) == 1
    assert Subscription.objects.get(pk=full.pk).failures == 0


def test_an_unknown_address_is_asked_once(world, inbox, settings):
    chosen(world, confirmed=False)
    inbox.refuse[ADDRESS] = "550 no such user"
    send(settings, utc_now())
    assert not Subscription.objects.exists()


def test_a_mail_that_is_sent_again_has_the_same_id(world, inbox, settings, monkeypatch):
    """A process that dies after the server took the mail leaves its lines."""
    chosen(world)
    fell(world)
    now = utc_now()
    send(settings, now)
    with monkeypatch.context() as patched:
        patched.setattr("allocator_service.mail.mailing._record", lambda *_: 1 / 0)
        patched.setattr("allocator_service.mail.mailing._release", lambda *_, **__: None)
        with pytest.raises(ZeroDivisionError):
            send(settings, now + timedelta(minutes=1))
    assert send(settings, now + timedelta(minutes=2)) == 0  # the lease holds
    assert send(settings, now + timedelta(minutes=4)) == 1
    first, second = (mail["Message-ID"] for mail in inbox.mails)
    assert first == second


def test_a_summary_comes_on_monday(world, inbox, settings):
    chosen(world, kinds=["weekly"])
    factories.decision(world.lab)
    monday = next_monday(utc_now())
    ApiKey.objects.update(expires_at=monday + timedelta(days=30))
    assert send(settings, monday - timedelta(seconds=1)) == 0
    assert send(settings, monday + timedelta(seconds=1)) == 1
    [text] = inbox.texts(ADDRESS)
    assert "You may now run" in text
    assert not re.search("bob", text)
    assert send(settings, monday + timedelta(hours=1)) == 0
    assert send(settings, monday + timedelta(days=7, seconds=1)) == 1


@pytest.mark.parametrize(
    ("now", "monday"),
    [
        (datetime(2026, 11, 30, 6, tzinfo=UTC), datetime(2026, 11, 30, 7, tzinfo=UTC)),
        (datetime(2026, 11, 30, 7, tzinfo=UTC), datetime(2026, 12, 7, 7, tzinfo=UTC)),
        (datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 7, 7, tzinfo=UTC)),
    ],
)
def test_the_next_monday(now, monday):
    assert next_monday(now) == monday


def test_names_with_lines_change_no_header(world, inbox, settings):
    world.ada.name = "Ada\r\nBcc: eve@example.org"
    world.ada.save()
    chosen(world)
    fell(world)
    send(settings, utc_now())
    assert send(settings, utc_now() + timedelta(minutes=1)) == 1
    assert inbox.mails[0]["Bcc"] is None
    assert inbox.mails[0]["Subject"].endswith("Ada Bcc: eve@example.org")


def test_links_are_for_what_they_say(world, inbox):
    found = chosen(world, confirmed=False)
    end, confirm = token_of(found, "end"), token_of(found, "confirm")
    browser = Browser()
    for path in (
        f"/mail/confirm/{end}/", f"/mail/end/{confirm}/", f"/mail/end/{end}x/", "/mail/end/x/",
    ):  # fmt: skip
        assert browser.client.get(path).status_code == 404
        assert browser.client.post(path).status_code in (403, 404)
    assert Subscription.objects.get().confirmed_at is None


def test_a_choice_is_its_holders_own(world, inbox):
    found = chosen(world)
    other = browser_of(factories.client("tenant", world.ada))
    assert ADDRESS not in other.text("/my/mail/")
    assert other.post(f"/my/mail/{found.pk}/end/", "/my/mail/").status_code == 302
    refused = other.post("/my/mail/", "/my/mail/", address=ADDRESS.upper(), kinds=ALL)
    assert refused.status_code == 422
    assert Subscription.objects.count() == 1


@pytest.mark.parametrize(
    "fields",
    [{"address": "no address", "kinds": ALL}, {"address": "", "kinds": ALL},
     {"address": ADDRESS, "kinds": []}, {"address": ADDRESS, "kinds": ["everything"]},
     {"address": f"{'a' * 300}@example.org", "kinds": ALL},
     {"address": "a@b\r\nBcc: c@d.org", "kinds": ALL}],
)  # fmt: skip
def test_bad_choices_are_refused_at_their_fields(fields, world, inbox):
    answer = browser_of(world.as_ada).post("/my/mail/", "/my/mail/", **fields)
    assert (answer.status_code, b"Nothing was changed" in answer.content) == (422, True)
    assert not Subscription.objects.exists()


def test_nobody_floods_an_address(world, inbox):
    browser = browser_of(world.as_ada)
    answers = []
    for number in range(12):
        answer = browser.post(
            "/my/mail/", "/my/mail/", address=f"victim{number}@example.org", kinds=ALL
        )
        answers.append(answer.status_code)
        Subscription.objects.all().delete()
    assert (answers[:10], answers[-1]) == ([302] * 10, 429)


def test_few_addresses_wait_to_be_confirmed(world, inbox):
    browser = browser_of(world.as_ada)
    for number in range(5):
        chosen(world, address=f"a{number}@example.org", confirmed=False)
    answer = browser.post("/my/mail/", "/my/mail/", address=ADDRESS, kinds=ALL)
    assert (answer.status_code, b"wait to be confirmed" in answer.content) == (422, True)


def test_without_a_mail_server_the_page_has_no_form(world, settings):
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, mail=None)
    browser = browser_of(world.as_ada)
    text = browser.text("/my/mail/")
    assert "sends no mail" in text
    assert 'name="address"' not in text
    answer = browser.post("/my/mail/", "/my/mail/", address=ADDRESS, kinds=ALL)
    assert answer.status_code == 422


def test_news_that_wait_are_few(world, inbox, settings):
    """The mail server is away for long, and decisions go on."""
    found = chosen(world)
    for number in range(205):
        fell(world, after=number / 100)
    send(settings, utc_now())
    waiting = list(News.objects.filter(subscription=found).order_by("id"))
    assert len(waiting) == MOST_NEWS
    assert "2.04 tasks" in waiting[-1].text
    assert "0.05 tasks" in waiting[0].text
    assert send(settings, utc_now() + timedelta(minutes=1)) == 1
    [text] = inbox.texts(ADDRESS)
    assert "150 earlier lines left out" in text
    assert not News.objects.exists()


def test_kinds_that_are_no_longer_chosen_are_not_sent(world, inbox, settings):
    chosen(world)
    fell(world)
    send(settings, utc_now())
    chosen(world, kinds=["statement"])
    assert send(settings, utc_now() + timedelta(minutes=1)) == 0
    assert (inbox.mails, Subscription.objects.get().due_at) == ([], None)


def test_mail_that_cannot_be_composed_stops_no_other(world, inbox, settings, monkeypatch):
    bad = chosen(world, address="bad@example.org")
    chosen(world)
    fell(world)
    now = utc_now()
    send(settings, now)

    def broken(subscription, **more):
        if subscription.pk == bad.pk:
            raise LookupError("no such thing")
        return composed(subscription, **more)

    monkeypatch.setattr("allocator_service.mail.mailing.composed", broken)
    assert send(settings, now + timedelta(minutes=1)) == 1
    bad.refresh_from_db()
    assert (bad.failures, bad.error) == (1, "LookupError")
    monkeypatch.undo()
    assert send(settings, now + timedelta(minutes=7)) == 1


@pytest.mark.usefixtures("people_sign_in")
def test_a_person_gets_mail_while_the_provider_knows_it(world, inbox, settings):
    browser = person_of(world.ada)
    person = Person.objects.get()
    assert browser.post("/my/mail/", "/my/mail/", address=ADDRESS, kinds=ALL).status_code == 302
    now = utc_now()
    Subscription.objects.update(confirmed_at=now, due_at=None)
    MailState.objects.update_or_create(pk=1, defaults={"sequence": 0})
    fell(world)
    send(settings, now)
    assert send(settings, now + timedelta(minutes=1)) == 1
    kept = Subscription.objects.get()
    assert is_entitled(kept, now=person.last_signed_in_at + timedelta(days=89))
    assert not is_entitled(kept, now=person.last_signed_in_at + timedelta(days=90))
    oidc = settings.ENVIRONMENT.oidc
    for provider in (None, dataclasses.replace(oidc, issuer="https://another.example")):
        settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=provider)
        assert not is_entitled(kept, now=now)
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, oidc=oidc)
    assert is_entitled(kept, now=now)
    GroupGrant.objects.update(withdrawn_at=now)
    assert not is_entitled(kept, now=now)


def test_sixteen_choices_and_confirmations_at_once(world, inbox):
    holder = key_of(world.as_ada).pk

    def put(number):
        try:
            subscription_put(
                tenant=world.ada, holder=holder, address=ADDRESS, kinds=[ALL[number % len(ALL)]],
                now=utc_now(),
            )  # fmt: skip
        finally:
            connection.close()

    def confirm(token):
        try:
            subscription_confirm(token=token, now=utc_now())
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(put, range(16)))
        found = Subscription.objects.get()
        list(threads.map(confirm, [token_of(found, "confirm")] * 16))
    found.refresh_from_db()
    assert (len(found.kinds), found.confirmed_at is not None) == (1, True)


def test_two_processes_send_a_mail_once(world, inbox, settings):
    chosen(world)
    fell(world)
    now = utc_now()
    send(settings, now)

    def run(_):
        try:
            return mail_send(
                server=settings.ENVIRONMENT.mail, clock=lambda: now + timedelta(minutes=1)
            )
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(run, range(4))) == 1
    assert len(inbox.mails) == 1
