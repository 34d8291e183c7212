"""The way of a delivery: each event to whom it concerns, in order, for 24 hours, after any death."""

import json
import threading
from datetime import timedelta

import pytest
from django.db import connection

from allocator_service.core.clock import utc_now
from allocator_service.core.models import Event, PendingEvent
from allocator_service.core.outbox import EVENT_KINDS, event_record, events_after, events_seal
from allocator_service.pools.selectors import pools_for
from allocator_service.webhooks.deliveries import (
    LEASE,
    deliveries_create,
    deliveries_prune,
    queues_wake,
)
from allocator_service.webhooks.models import Delivery, Webhook, WebhookQueue
from allocator_service.webhooks.selectors import BODY_BYTES
from allocator_service.webhooks.sending import Outcome
from allocator_service.webhooks.services import (
    delivery_resend,
    webhook_rotate,
    webhook_test,
)
from tests.integration.webhooks.conftest import (
    KEY,
    NOW,
    REFUSED,
    TAKEN,
    after,
    claimed,
    happened,
    made,
    settled,
    webhook,
)
from tests.receivers import Received, verifies

pytestmark = pytest.mark.django_db


def test_a_tenant_is_told_of_what_the_feed_shows_it_and_nothing_else(world):
    """Of every kind, for every holder: the deliveries are the events of the same holder's feed."""
    hooks = {holder: webhook(tenant=holder) for holder in (None, world.ada, world.bob, world.eve)}
    first = happened("webhook.disabled")
    for kind in EVENT_KINDS:
        for pool in (None, "lab", "other"):
            for tenant in (None, "ada", "bob", "eve"):
                happened(kind, pool=pool, tenant=tenant)
    made()
    for holder, hook in hooks.items():
        slug = None if holder is None else holder.slug
        pools = [] if holder is None else [pool.slug for pool in pools_for(holder)]
        events = Event.objects.filter(pk__gte=first.pk)
        shown = {e.pk for e in events_after(None, tenant=slug, pools=pools, limit=10_000)}
        sent = list(hook.deliveries.order_by("sequence").values_list("event_id", flat=True))
        assert set(sent) == shown & set(events.values_list("pk", flat=True))
        assert sent == sorted(sent), "in the order of the feed"
        assert len(sent) == len(set(sent)) > 20


def test_kinds_and_pool_narrow_it(world):
    narrow = webhook(events=["statement.closed"], pool=world.lab)
    wide = webhook()
    for kind in ("statement.closed", "decision.published"):
        for pool in ("lab", "other", None):
            happened(kind, pool=pool)
    made()
    (only,) = narrow.deliveries.select_related("event")
    assert (only.kind, only.event.pool) == ("statement.closed", "lab")
    assert wide.deliveries.count() >= 6


def test_nothing_of_before_is_told(db):
    happened()
    late = webhook()
    happened("decision.failed")
    assert made() == 1
    assert late.deliveries.get().kind == "decision.failed"


def test_no_events_no_deliveries_and_no_webhooks_no_deliveries(db):
    assert deliveries_create(now=NOW) is False
    for _ in range(450):
        event_record(kind="decision.published", payload={}, now=NOW)
    events_seal()
    assert [deliveries_create(now=NOW) for _ in range(4)] == [True, True, False, False]
    hook = webhook()
    happened()
    assert made() == hook.deliveries.count() == 1


@pytest.mark.django_db(transaction=True)
def test_twins_make_each_delivery_once(world):
    hooks = [webhook() for _ in range(3)]
    for _ in range(250):
        event_record(kind="decision.published", payload={}, now=NOW)
    while PendingEvent.objects.exists():
        events_seal()

    def make():
        try:
            while deliveries_create(now=NOW):
                pass
        finally:
            connection.close()

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made()
    counts = [hook.deliveries.count() for hook in hooks]
    assert counts == [250] * 3


def test_one_at_a_time_in_order(told):
    for event in told.told:
        (claim,) = claimed()
        assert json.loads(claim.body)["data"]["id"] == str(event.pk)
        assert claimed() == []
        assert settled(claim).state == "delivered"
    assert claimed() == []
    assert WebhookQueue.objects.get().due_at is None


def test_a_message_verifies_with_the_secret_and_names_its_event(db):
    webhook()
    event = happened(payload={"name": "Gröbner ✓ \u202e <&>"})
    made()
    (claim,) = claimed()
    received = Received("", claim.headers, claim.body, at=NOW.timestamp())
    assert received.id == str(event.pk)
    assert received.document == {
        "type": "decision.published",
        "timestamp": "2026-11-20T12:00:00Z",
        "data": {
            "id": str(event.pk),
            "kind": "decision.published",
            "pool": None,
            "tenant": None,
            "payload": {"name": "Gröbner ✓ \u202e <&>"},
            "occurred_at": "2026-11-20T12:00:00Z",
        },
    }
    stamp = received.headers["webhook-timestamp"]
    assert int(stamp) == int(NOW.timestamp())


def test_signatures_are_those_of_an_independent_implementation(db):
    hook = webhook(now=utc_now())
    happened(payload={"text": "ü"}, now=utc_now())
    made(now=utc_now())
    (claim,) = claimed(now=utc_now())
    good = Received("", claim.headers, claim.body)
    assert verifies(good, hook.secret)
    assert not verifies(good, webhook(now=utc_now()).secret)
    later = str(int(claim.headers["webhook-timestamp"]) + 1)
    for forged in (
        Received("", claim.headers, claim.body.replace("ü".encode(), b"u")),
        Received("", {**claim.headers, "webhook-id": "other"}, claim.body),
        Received("", {**claim.headers, "webhook-timestamp": later}, claim.body),
        Received("", {**claim.headers, "webhook-signature": "v1,"}, claim.body),
    ):  # fmt: skip
        assert not verifies(forged, hook.secret)


def test_a_rotated_secret_signs_beside_the_new_one_until_its_end(told):
    def keys_at(now):
        (claim,) = claimed(now=now)
        settled(claim, REFUSED, now=now)
        WebhookQueue.objects.update(due_at=now)
        Delivery.objects.filter(state="pending").update(due_at=NOW)
        return len(claim.headers["webhook-signature"].split(" "))

    assert keys_at(NOW) == 1
    rotated = webhook_rotate(
        webhook=told, overlap=timedelta(hours=1), secret_key=KEY, now=after(minutes=1)
    )
    assert rotated.secret != told.secret
    assert keys_at(after(minutes=2)) == 2
    assert keys_at(after(minutes=62)) == 1


def test_the_secret_is_nowhere_in_the_database(told):
    webhook_test(webhook=told, now=NOW)
    core = told.secret.removeprefix("whsec_").encode()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        )
        for (table,) in cursor.fetchall():
            cursor.execute(
                f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s', [f"%{core.decode()}%"]
            )
            assert cursor.fetchone() == (0,), table


def test_another_secret_key_sends_nothing_and_says_so(told):
    (claim,) = claimed(key="another")
    assert claim.headers == {}


def test_who_dies_while_sending_is_succeeded_with_the_same_id(told):
    (lost,) = claimed()
    assert claimed(now=NOW + LEASE - timedelta(seconds=1)) == []
    (again,) = claimed(now=NOW + LEASE)
    assert (again.delivery, again.headers["webhook-id"]) == (
        lost.delivery,
        lost.headers["webhook-id"],
    )
    assert again.token != lost.token
    assert settled(lost).attempts == []  # back from the dead: it settles nothing
    assert settled(again, now=NOW + LEASE).state == "delivered"


def test_waits_double_from_five_seconds_to_two_hours_for_a_day(told):
    now, waits, attempts = NOW, [], 0
    first = told.deliveries.order_by("sequence")[0]
    told.deliveries.exclude(pk=first.pk).delete()
    while True:
        (claim,) = claimed(now=now)
        attempts += 1
        delivery = settled(claim, REFUSED, now=now)
        if delivery.state != "pending":
            break
        waits.append((delivery.due_at - now).total_seconds())
        due = WebhookQueue.objects.get().due_at
        assert due >= delivery.due_at
        assert claimed(now=due - timedelta(seconds=1)) == []
        now = due
    assert waits[:6] == [5, 10, 20, 40, 80, 160]
    assert max(waits) == 7200
    assert (delivery.state, now) == ("failed", after(hours=24))
    assert len(delivery.attempts) == attempts == 23
    assert delivery.attempts[0] == {
        "at": NOW.isoformat(), "status": 500, "error": "status", "milliseconds": 10,
    }  # fmt: skip
    assert WebhookQueue.objects.get().due_at is None


def test_jitter_makes_a_wait_up_to_half_as_long_again(told):
    (claim,) = claimed()
    assert settled(claim, REFUSED, jitter=1.0).due_at == NOW + timedelta(seconds=7.5)


def test_an_event_that_is_always_refused_holds_no_other_up(told):
    now, taken = NOW, []
    for _ in range(3):
        (claim,) = claimed(now=now)
        poison = claim.delivery == told.deliveries.order_by("sequence")[0].pk
        settled(claim, REFUSED if poison else TAKEN, now=now)
        taken += [] if poison else [claim.delivery]
        now += timedelta(seconds=1.5)
    assert len(taken) == 2


def test_a_dead_receiver_is_asked_every_few_minutes_however_much_waits(told):
    now, requests = NOW, 0
    for _ in range(200):
        happened()
    made()
    while now < after(hours=2):
        for claim in claimed(now=now):
            requests += 1
            settled(claim, Outcome(None, "timeout", 10.0), now=now, jitter=0.5)
        due = WebhookQueue.objects.get().due_at
        now = max(due, now + timedelta(seconds=1)) if due else after(hours=2)
        for claim in claimed(now=now, slow=True):
            requests += 1
            settled(claim, Outcome(None, "timeout", 10.0), now=now, jitter=0.5)
    assert 10 < requests < 45


def test_resent_it_has_the_same_id_and_another_day(told):
    (claim,) = claimed()
    first = settled(claim)
    delivery_resend(delivery=first, now=after(days=3))
    while claim := (claimed(now=after(days=3)) or [None])[0]:
        if claim.delivery == first.pk:
            break
        settled(claim, now=after(days=3))
    assert claim.headers["webhook-id"] == str(first.event_id)
    again = settled(claim, REFUSED, now=after(days=3))
    assert (again.state, again.give_up_at, len(again.attempts)) == ("pending", after(days=4), 2)


def test_receivers_that_answer_late_wait_in_a_line_of_their_own(told):
    (claim,) = claimed()
    settled(claim, Outcome(200, "", 9.0))
    assert claimed() == []
    (claim,) = claimed(slow=True)
    settled(claim)
    assert len(claimed()) == 1


def test_the_longest_waiting_webhook_is_next(db):
    hooks = [webhook() for _ in range(5)]
    for _ in range(3):
        happened()
    made()
    order = []
    for step in range(15):
        (claim,) = claimed(now=after(seconds=step + 1), limit=1)
        settled(claim, now=after(seconds=step + 1))
        order.append(claim.webhook)
    assert all(len(set(order[start : start + 5])) == 5 for start in (0, 5, 10))
    assert set(order) == {hook.pk for hook in hooks}


def test_a_long_payload_is_left_out(told):
    happened(payload={"x": "é" * BODY_BYTES})
    made()
    for _ in range(3):
        settled(claimed()[0])
    (claim,) = claimed()
    data = json.loads(claim.body)["data"]
    assert (data["payload"], data["payload_omitted"]) == (None, True)
    assert len(claim.body) < 1_000


def test_what_waits_in_an_idle_queue_is_found(told):
    WebhookQueue.objects.update(due_at=None)
    assert claimed() == []
    assert queues_wake(now=NOW) == 1
    assert queues_wake(now=NOW) == 0
    assert len(claimed()) == 1


def test_old_deliveries_are_dropped_and_those_that_wait_are_not(told):
    settled(claimed()[0])
    assert deliveries_prune(before=NOW) == 0
    assert deliveries_prune(before=after(seconds=1)) == 1
    assert told.deliveries.count() == 2


def test_ten_thousand_webhooks_are_served_in_turn(db):
    """Each statement stays bounded: made in one, claimed by the due index."""
    Webhook.objects.bulk_create(
        Webhook(url=f"https://h{n}.example/", events=[], since=0, created_at=NOW)
        for n in range(10_000)
    )
    WebhookQueue.objects.bulk_create(WebhookQueue(webhook=hook) for hook in Webhook.objects.all())
    happened()
    assert made() == 10_000
    seen = set()
    for _ in range(3):
        claims = claimed(limit=24)
        assert len(claims) == 24
        seen |= {claim.webhook for claim in claims}
    assert len(seen) == 72
