"""Webhooks over REST: made with a secret that is shown once, changed, tried, and nobody else's."""

import threading
from dataclasses import replace
from ipaddress import ip_network

import pytest
from django.db import connection

from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry, IdempotencyClaim
from allocator_service.core.outbox import EVENT_KINDS, event_record, events_seal
from allocator_service.webhooks.deliveries import deliveries_create
from allocator_service.webhooks.models import Delivery, Webhook, WebhookSecret
from allocator_service.webhooks.services import WEBHOOKS_OF_BILLING, WEBHOOKS_PER_TENANT
from tests import factories
from tests.api.v1.test_conventions import code
from tests.api.v1.test_isolation import UNKNOWN, answer

pytestmark = pytest.mark.django_db
URL = "/api/v1/webhooks/"
HOOK = {"url": "https://receiver.example/hook", "events": ["statement.closed"]}


def made(client, **fields):
    response = client.post(URL, {**HOOK, **fields})
    assert response.status_code == 201, response.content
    return response.json()


def happened(kind, **fields):
    event_record(kind=kind, payload={}, now=utc_now(), **fields)
    events_seal()
    deliveries_create(now=utc_now())


def test_a_webhook_is_made_and_its_secret_shown_once(operator):
    response = operator.post(URL, HOOK)
    hook = response.json()
    secret = hook.pop("secret")
    assert secret.startswith("whsec_")
    assert len(secret) == len("whsec_") + 44
    assert hook == {
        "id": hook["id"], "tenant": None, "pool": None, "scope": "operator", "url": HOOK["url"],
        "events": ["statement.closed"], "enabled": True, "disabled_because": None,
        "failing_since": None, "version": 1, "created_at": hook["created_at"],
    }  # fmt: skip
    assert response["Location"] == f"{URL}{hook['id']}/"
    shown = operator.get(response["Location"])
    assert (shown.json(), shown["ETag"]) == (hook, '"v1"')
    assert operator.get(URL).json()["results"] == [hook]
    assert secret not in operator.get(f"{URL}?format=csv").content.decode()
    assert secret not in str(list(AuditEntry.objects.values()))


def test_a_repeated_request_makes_one_webhook_and_shows_no_secret_again(operator):
    first = operator.post(URL, HOOK, Idempotency_Key="k").json()
    again = operator.post(URL, HOOK, Idempotency_Key="k")
    assert again["Idempotency-Replayed"] == "true"
    assert again.json() == {**first, "secret": None}
    assert first["secret"].encode() not in bytes(IdempotencyClaim.objects.get().body)
    assert Webhook.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"url": "http://receiver.example/"}, (422, "webhook.url")),
        ({"url": "https://127.1/"}, (422, "webhook.url")),
        ({"url": "https://169.254.169.254/latest/"}, (422, "webhook.address")),
        ({"url": "https://[::1]/"}, (422, "webhook.address")),
        ({"url": "https://u:p@receiver.example/"}, (422, "webhook.url")),
        ({"url": 7}, (422, "field.type")),
        ({"url": None}, (422, "field.type")),
        ({"events": ["nothing.happened"]}, (422, "webhook.events")),
        ({"events": list(EVENT_KINDS) * 2}, (422, "field.count")),
        ({"pool": "nowhere"}, (422, "pool.unknown")),
        ({"tenant": "nobody"}, (422, "tenant.unknown")),
        ({"secret": "mine"}, (400, "field.unknown")),
        ({"id": UNKNOWN}, (400, "field.unknown")),
    ],
)
def test_what_is_refused_makes_nothing(operator, fields, refused):
    assert code(operator.post(URL, {**HOOK, **fields})) == refused
    assert Webhook.objects.count() == WebhookSecret.objects.count() == 0


def test_a_setting_allows_networks(operator, settings):
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, webhook_allowed_networks=[ip_network("10.0.0.0/8")]
    )
    made(operator, url="http://10.1.2.3:8080/hook")
    assert code(operator.post(URL, {"url": "http://192.168.0.1/"})) == (422, "webhook.address")


def test_it_is_changed_at_its_version_disabled_and_enabled(operator):
    hook = made(operator)
    one = f"{URL}{hook['id']}/"
    assert code(operator.patch(one, {"events": []})) == (428, "version.required")
    changed = operator.patch(one, {"events": []}, If_Match='"v1"')
    assert (changed.json()["events"], changed["ETag"]) == ([], '"v2"')
    assert code(operator.patch(one, {"events": []}, If_Match='"v1"')) == (412, "version.stale")
    assert code(operator.patch(one, {"url": "https://10.0.0.1/"}, If_Match="*")) == (
        422,
        "webhook.address",
    )
    happened("decision.published")
    off = operator.patch(one, {"enabled": False}, If_Match="*").json()
    assert (off["enabled"], off["disabled_because"]) == (False, "requested")
    assert Delivery.objects.get().state == "cancelled"
    assert code(operator.post(f"{one}test/")) == (409, "webhook.disabled")
    happened("decision.published")
    assert Delivery.objects.count() == 1
    assert operator.patch(one, {"enabled": True}, If_Match="*").json()["disabled_because"] is None
    happened("decision.published")
    assert Delivery.objects.count() == 2
    assert code(operator.patch(one, {"pool": "lab"}, If_Match="*")) == (422, "field.immutable")
    assert operator.delete(one, If_Match='"v4"').status_code == 204
    assert code(operator.get(one)) == (404, "webhook.not_found")
    assert operator.get(URL).json()["results"] == []


def test_a_test_is_accepted_and_listed_among_the_deliveries(operator):
    hook = made(operator)
    one = f"{URL}{hook['id']}/"
    accepted = operator.post(f"{one}test/")
    delivery = accepted.json()
    assert accepted.status_code == 202
    assert (delivery["kind"], delivery["state"], delivery["event"]) == (
        "webhook.test",
        "pending",
        None,
    )
    assert operator.get(f"{one}deliveries/").json()["results"] == [delivery]
    assert operator.get(f"{one}deliveries/?state=failed").json()["results"] == []
    assert code(operator.get(f"{one}deliveries/?state=lost")) == (400, "parameter.value")
    assert operator.get("/api/v1/events/").json()["results"] == []


def test_a_delivery_is_sent_again(operator):
    hook = made(operator)
    happened("statement.closed")
    Delivery.objects.update(state="failed", finished_at=utc_now())
    delivery = Delivery.objects.get()
    again = operator.post(f"{URL}{hook['id']}/deliveries/{delivery.pk}/resend/")
    assert (again.status_code, again.json()["state"]) == (202, "pending")
    assert again.json()["event"] == str(delivery.event_id)
    unknown = operator.post(f"{URL}{hook['id']}/deliveries/{UNKNOWN}/resend/")
    assert code(unknown) == (404, "delivery.not_found")
    other = made(operator)
    foreign = operator.post(f"{URL}{other['id']}/deliveries/{delivery.pk}/resend/")
    assert code(foreign) == (404, "delivery.not_found")


def test_a_secret_is_rotated_once_at_a_time(operator):
    hook = made(operator)
    rotate = f"{URL}{hook['id']}/rotate-secret/"
    rotated = operator.post(rotate, {"overlap_seconds": 3600}).json()
    assert rotated["secret"] != hook["secret"]
    assert code(operator.post(rotate)) == (409, "webhook.rotating")
    assert WebhookSecret.objects.count() == 2
    leaked = operator.post(rotate, {"overlap_seconds": 0})
    assert leaked.status_code == 201
    live = WebhookSecret.objects.filter(expires_at=None) | WebhookSecret.objects.filter(
        expires_at__gt=utc_now()
    )
    assert live.count() == 1
    assert code(operator.post(rotate, {"overlap_seconds": -1})) == (422, "field.range")
    assert code(operator.post(rotate, {"overlap_seconds": 10**9})) == (422, "field.range")


@pytest.mark.django_db(transaction=True)
def test_of_twins_that_rotate_one_is_refused(operator):
    hook = made(operator)
    rotate, answers = f"{URL}{hook['id']}/rotate-secret/", []

    def twin():
        answers.append(operator.post(rotate).status_code)
        connection.close()

    threads = [threading.Thread(target=twin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 409, 409, 409]
    assert WebhookSecret.objects.filter(expires_at=None).count() == 1


def test_a_tenant_has_its_own_of_its_own_pools(world):
    mine = made(world.as_ada, pool="lab")
    assert (mine["tenant"], mine["pool"]) == ("ada", "lab")
    assert code(world.as_ada.post(URL, {**HOOK, "pool": "other"})) == (422, "pool.unknown")
    assert code(world.as_ada.post(URL, {**HOOK, "pool": "nowhere"})) == (422, "pool.unknown")
    assert code(world.as_ada.post(URL, {**HOOK, "tenant": "bob"})) == (422, "tenant.unknown")
    assert world.as_ada.get(URL).json()["results"] == [{k: mine[k] for k in mine if k != "secret"}]
    assert world.as_bob.get(URL).json()["results"] == []


def test_a_tenant_has_so_many_and_no_more(world):
    for _ in range(WEBHOOKS_PER_TENANT):
        made(world.as_ada)
    assert code(world.as_ada.post(URL, HOOK)) == (409, "webhook.too_many")
    made(world.as_bob)


def test_billing_keys_manage_webhooks_of_their_own(operator, billing):
    hook = made(billing)
    hook.pop("secret")
    one = f"{URL}{hook['id']}/"
    assert hook["scope"] == "billing"
    for client in (billing, factories.client("billing"), operator):
        assert client.get(one).json() == hook
        assert client.get(URL).json()["results"] == [hook]
    happened("statement.closed", tenant="ada", pool="lab")
    (delivery,) = billing.get(f"{one}deliveries/").json()["results"]
    assert delivery["kind"] == "statement.closed"
    resent = billing.post(f"{one}deliveries/{delivery['id']}/resend/")
    assert (resent.status_code, resent.json()["id"]) == (202, delivery["id"])
    assert billing.post(f"{one}test/").status_code == 202
    changed = billing.patch(one, {"events": []}, If_Match='"v1"')
    assert (changed.json()["events"], changed.json()["scope"]) == ([], "billing")
    assert billing.post(f"{one}rotate-secret/").json()["secret"].startswith("whsec_")
    assert code(billing.patch(one, {"scope": "operator"}, If_Match="*")) == (400, "field.unknown")
    assert billing.delete(one, If_Match="*").status_code == 204
    assert billing.get(URL).json()["results"] == operator.get(URL).json()["results"] == []


def test_a_billing_webhook_cannot_be_of_a_tenant(world, billing):
    assert code(billing.post(URL, {**HOOK, "tenant": "ada"})) == (422, "webhook.tenant")
    assert Webhook.objects.count() == WebhookSecret.objects.count() == 0


def test_billing_keys_have_a_limit_apart_from_that_of_operators(operator, billing):
    for _ in range(WEBHOOKS_OF_BILLING):
        made(billing)
    assert code(billing.post(URL, HOOK)) == (409, "webhook.too_many")
    made(operator)


@pytest.mark.parametrize("scope", ["billing", "operator"])
def test_a_key_of_one_pool_has_no_webhooks(world, billing, scope):
    """Its key cannot read the feed either, so there are no events that it could be sent."""
    hook, bound = made(billing, pool="lab"), factories.client(scope, pool="lab")
    one = f"{URL}{hook['id']}/"
    assert code(bound.get("/api/v1/events/")) == (403, "auth.pool")
    refused = [
        bound.get(URL), bound.post(URL, HOOK), bound.get(one), bound.get(f"{one}deliveries/"),
        bound.patch(one, {"events": []}, If_Match="*"), bound.delete(one, If_Match="*"),
        bound.post(f"{one}test/"), bound.post(f"{one}rotate-secret/"),
    ]  # fmt: skip
    assert {code(each) for each in refused} == {(403, "auth.pool")}
    assert Webhook.objects.get().version == 1


def test_a_billing_webhook_gets_the_events_of_the_feed_of_its_keys(world, billing):
    every, lab = made(billing, events=[]), made(billing, events=[], pool="lab")
    for kind in EVENT_KINDS:
        for pool in (None, "lab", "other"):
            for tenant in (None, "ada", "eve"):
                event_record(kind=kind, payload={}, now=utc_now(), pool=pool, tenant=tenant)
    events_seal()
    while deliveries_create(now=utc_now()):
        pass
    feed = billing.get("/api/v1/events/?limit=1000").json()["results"]
    assert len(feed) == len(EVENT_KINDS) * 9
    for hook, events in ((every, feed), (lab, [e for e in feed if e["pool"] == "lab"])):
        sent = Delivery.objects.filter(webhook=hook["id"]).values_list("event_id", flat=True)
        assert sorted(map(str, sent)) == sorted(event["id"] for event in events)


@pytest.mark.parametrize(
    ("owner", "other"),
    [
        ("operator", "billing"),
        ("tenant", "billing"),
        ("for_tenant", "billing"),
        ("billing", "tenant"),
    ],
)
def test_a_webhook_of_other_keys_answers_as_one_that_does_not_exist(
    world, operator, billing, owner, other
):
    clients = {"operator": operator, "billing": billing, "tenant": world.as_ada}
    of_operator = owner == "for_tenant"
    hook = made(operator, tenant="ada") if of_operator else made(clients[owner])
    happened("statement.closed", tenant="ada", pool="lab")
    delivery = str(Delivery.objects.get().pk)
    assert_missing(clients[other], hook["id"], delivery)
    assert clients[other].get(URL).json()["results"] == []
    assert Webhook.objects.get().version == 1
    assert Webhook.objects.get().retired_at is None
    assert Delivery.objects.count() == WebhookSecret.objects.count() == 1


def assert_missing(client, hook, delivery):
    for method, tail in (
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "test/"), ("POST", "rotate-secret/"),
        ("GET", "deliveries/"), ("POST", f"deliveries/{delivery}/resend/"),
    ):  # fmt: skip
        headers = {"If_Match": '"v1"'} if method in ("PATCH", "DELETE") else {}
        body = {} if method in ("POST", "PATCH") else None
        answers = [
            answer(client, method, f"{URL}{name}/{tail}", body, **headers)
            for name in (hook, UNKNOWN)
        ]
        assert answers[0][0] == 404
        assert answers[0] == answers[1], (method, tail)
        assert client.send(method, f"{URL}NO%00/{tail}", body, **headers).status_code == 404


def test_another_tenants_webhook_answers_as_one_that_does_not_exist(world, operator):
    hook = made(world.as_bob)
    happened("statement.closed", tenant="bob", pool="lab")
    delivery = str(Delivery.objects.get().pk)
    assert_missing(world.as_ada, hook["id"], delivery)
    assert Webhook.objects.get().version == 1
    assert operator.get(f"{URL}{hook['id']}/").status_code == 200


def test_what_others_do_elsewhere_changes_no_byte_of_a_tenants_deliveries(world):
    hook = made(world.as_ada, events=[])
    happened("decision.published", pool="lab")
    path = f"{URL}{hook['id']}/deliveries/"
    before = answer(world.as_ada, "GET", path), answer(world.as_ada, "GET", URL)
    made(world.as_eve, events=[])
    happened("decision.published", pool="other")
    happened("budget.reached", pool="lab", tenant="bob")
    happened("price_plan.published")
    assert (answer(world.as_ada, "GET", path), answer(world.as_ada, "GET", URL)) == before
    assert Delivery.objects.filter(webhook=hook["id"]).count() == 1
