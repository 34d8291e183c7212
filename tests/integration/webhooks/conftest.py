"""Webhooks made through the services, and the sender's steps one by one."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest

from allocator_service.core.outbox import event_record, events_seal
from allocator_service.webhooks.deliveries import (
    attempt_record,
    deliveries_claim,
    deliveries_create,
)
from allocator_service.webhooks.models import Delivery
from allocator_service.webhooks.sending import Outcome
from allocator_service.webhooks.services import WebhookSettings, webhook_create

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LOOPBACK = [ip_network("127.0.0.0/8")]
KEY = "a secret key of the settings"
TAKEN = Outcome(204, "", 0.01)
REFUSED = Outcome(500, "status", 0.01)


def after(**more):
    return NOW + timedelta(**more)


def webhook(url="https://receiver.example/", *, tenant=None, pool=None, events=(), now=NOW):
    settings = WebhookSettings(url, list(events))
    made = webhook_create(
        tenant=tenant,
        pool=pool,
        settings=settings,
        allowed=LOOPBACK,
        secret_key=KEY,
        now=now,
    )
    made.webhook.secret = made.secret
    return made.webhook


def happened(kind="decision.published", *, pool=None, tenant=None, payload=None, now=NOW):
    event = event_record(kind=kind, pool=pool, tenant=tenant, payload=payload or {}, now=now)
    events_seal()
    return event


def made(now=NOW):
    while deliveries_create(now=now):
        pass
    return Delivery.objects.count()


def claimed(now=NOW, *, slow=False, limit=100, key=KEY):
    return deliveries_claim(slow=slow, limit=limit, secret_key=key, now=now)


def settled(claim, outcome=TAKEN, now=NOW, jitter=0.0):
    attempt_record(claim=claim, outcome=outcome, jitter=jitter, now=now)
    return Delivery.objects.get(pk=claim.delivery)


@pytest.fixture
def told(db):
    """A webhook of all events, with three that wait for it."""
    found = webhook()
    found.told = [happened(payload={"number": number}) for number in range(3)]
    made()
    return found
