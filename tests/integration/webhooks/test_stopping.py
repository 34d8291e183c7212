"""A webhook is stopped by its owner, by days of failures, by 410; nothing is sent from then on."""

import threading

import pytest
from django.db import connection, transaction

from allocator_service.core.models import Event
from allocator_service.core.outbox import event_record, events_after, events_seal
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.webhooks.deliveries import deliveries_create
from allocator_service.webhooks.models import Delivery, Webhook, WebhookQueue
from allocator_service.webhooks.selectors import delivery_counts
from allocator_service.webhooks.sending import Outcome
from allocator_service.webhooks.services import (
    WebhookSettings,
    webhook_disable,
    webhook_retire,
    webhook_update,
)
from tests.integration.webhooks.conftest import (
    LOOPBACK,
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

pytestmark = pytest.mark.django_db


def test_after_five_days_of_failures_it_is_disabled_with_an_event(world):
    hook = webhook(tenant=world.ada)
    happened("budget.reached", tenant="ada")
    made()
    for now in (NOW, after(days=4, hours=23)):
        Delivery.objects.update(state="pending", due_at=NOW, give_up_at=after(days=30))
        WebhookQueue.objects.update(due_at=NOW)
        (claim,) = claimed(now=now)
        settled(claim, REFUSED, now=now)
        hook.refresh_from_db()
        assert (hook.disabled_because, hook.failing_since) == ("", NOW)
    WebhookQueue.objects.update(due_at=NOW)
    Delivery.objects.update(due_at=NOW)
    (claim,) = claimed(now=after(days=5))
    happened("decision.published", pool="lab")
    made()
    settled(claim, REFUSED, now=after(days=5))
    hook.refresh_from_db()
    assert (hook.disabled_at, hook.disabled_because) == (after(days=5), "failing")
    assert set(hook.deliveries.values_list("state", flat=True)) == {"cancelled"}
    told = Event.objects.get(kind="webhook.disabled")
    assert (told.tenant, told.payload["webhook"]) == ("ada", str(hook.pk))
    happened("decision.published", pool="lab")
    assert made(now=after(days=5)) == 2
    assert claimed(now=after(days=6)) == []
    assert delivery_counts(failed_since=NOW)["disabled"] == 1
    settings = WebhookSettings(hook.url, [], enabled=True)
    webhook_update(
        webhook=hook, settings=settings, version=None, allowed=LOOPBACK, now=after(days=6)
    )
    happened("decision.published", pool="lab")
    made(now=after(days=6))
    (claim,) = claimed(now=after(days=6))
    assert settled(claim, now=after(days=6)).state == "delivered"


def test_a_success_between_failures_starts_the_days_again(told):
    (claim,) = claimed()
    settled(claim, REFUSED)
    (claim,) = claimed(now=after(seconds=2))
    settled(claim, TAKEN, now=after(seconds=2))
    told.refresh_from_db()
    assert told.failing_since is None
    assert WebhookQueue.objects.get().failures == 0


def test_410_disables_at_once(told):
    (claim,) = claimed()
    settled(claim, Outcome(410, "status", 0.1))
    told.refresh_from_db()
    assert told.disabled_because == "gone"
    assert set(told.deliveries.values_list("state", flat=True)) == {"cancelled"}


def test_deleted_while_sending_it_is_told_nothing_more(told):
    (claim,) = claimed()
    webhook_retire(webhook=told, version=None, now=NOW)
    delivery = settled(claim, REFUSED)
    assert delivery.state == "cancelled"
    assert len(delivery.attempts) == 1
    assert claimed(now=after(days=1)) == []
    happened()
    assert made() == 3
    assert not told.secrets.exists()


def test_members_of_a_pool_read_nothing_of_webhooks_of_operators(world):
    hook = webhook(pool=Pool.objects.get(slug="lab"))
    webhook_disable(webhook=hook, because="gone", now=NOW)
    events_seal()
    told = [event.kind for event in events_after(None, tenant=None, pools=[], limit=10)]
    assert told == ["webhook.disabled"]
    assert list(events_after(None, tenant="ada", pools=["lab"], limit=10)) == []


@pytest.mark.django_db(transaction=True)
def test_disabled_while_its_deliveries_are_made_it_is_sent_none_of_them(world):
    """The twin sees an enabled webhook, and what it makes commits after what waited was cancelled."""
    hook = webhook()
    event_record(kind="decision.published", payload={}, now=NOW)
    events_seal()
    inserted, disabled = threading.Event(), threading.Event()

    def make():
        try:
            with transaction.atomic():
                deliveries_create(now=NOW)
                inserted.set()
                disabled.wait(10)
        finally:
            connection.close()

    twin = threading.Thread(target=make)
    twin.start()
    assert inserted.wait(10)
    Webhook.objects.filter(pk=hook.pk).update(disabled_at=NOW, disabled_because="requested")
    disabled.set()
    twin.join()
    assert claimed() == []
    assert hook.deliveries.get().state == "cancelled"


def test_a_retired_tenant_is_told_nothing(world):
    hook = webhook(tenant=world.ada)
    happened("budget.reached", tenant="ada")
    made()
    Tenant.objects.filter(pk=world.ada.pk).update(retired_at=NOW)
    assert claimed() == []
    assert hook.deliveries.get().state == "cancelled"
    happened("budget.reached", tenant="ada")
    assert made() == 1
