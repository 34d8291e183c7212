"""Every page of the admin opens, and history offers neither adding nor changing."""

from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.allocation.metering import pool_meter
from allocator_service.allocation.models import Allocation, Placement, Run
from allocator_service.allocation.recompute import recompute_pool
from allocator_service.core.models import AuditEntry, Event
from allocator_service.ledger.models import Block, Entry
from allocator_service.ledger.sealing import entries_seal
from allocator_service.pools.models import Server
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)

HISTORY = {Run, Allocation, Placement, Event, AuditEntry, Entry, Block}


@pytest.fixture
def pages(client, fig2):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + timedelta(minutes=1))
    entries_seal(now=NOON)
    return client


OURS = [model for model in admin.site._registry if model._meta.app_label != "axes"]


@pytest.mark.parametrize("model", sorted(OURS, key=str), ids=str)
def test_its_pages_open(pages, model):
    route = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    assert pages.get(reverse(f"{route}_changelist")).status_code == 200
    assert pages.get(reverse(f"{route}_add")).status_code == (403 if model in HISTORY else 200)
    for row in model._default_manager.all()[:1]:
        page = pages.get(reverse(f"{route}_change", args=[row.pk]))
        assert page.status_code == 200
        deleting = pages.post(reverse(f"{route}_delete", args=[row.pk]), {"post": "yes"})
        if model._meta.app_label != "auth":
            assert deleting.status_code == 403
            assert b'name="_save"' not in page.content or model not in HISTORY


@pytest.mark.parametrize("model", sorted(HISTORY, key=str), ids=str)
def test_history_is_read_only_for_superusers_too(pages, model):
    row = model._default_manager.first()
    before = model._default_manager.values().first()
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
    assert pages.post(url, {"status": "failed", "tasks": 7, "kind": "x"}).status_code == 403
    assert model._default_manager.values().first() == before


def test_the_overview_shows_who_brought_and_got_what_and_why_no_newer_decision_is(pages, fig2):
    page = pages.get(reverse("admin:pools_pool_overview", args=[fig2.pk])).content.decode()
    assert page.count('class="chart"') == 6  # two resources by tenant and by class, two histories
    for words in ("contributed, entitled and allocated", "used and free", "high-memory", "u2"):
        assert words in page
    Run.objects.create(
        pool=fig2,
        status="failed",
        error={"code": "run.internal", "detail": "It broke."},
        created_at=NOON,
        finished_at=NOON + timedelta(hours=1),
    )
    page = pages.get(reverse("admin:pools_pool_overview", args=[fig2.pk])).content.decode()
    assert "It broke. (run.internal)" in page


@pytest.mark.parametrize("action", ["drain", "retire"])
def test_what_an_action_on_servers_would_do_is_shown_before_and_wants_a_reason(pages, fig2, action):
    server = Server.objects.get(name="high-cpu")
    url = reverse("admin:pools_server_changelist")
    asked = {"action": action, "_selected_action": [str(server.pk)]}
    page = pages.post(url, asked).content.decode()
    assert "2 tenants would run fewer tasks" in page
    assert "10.00" in page
    pages.post(url, {**asked, "confirmed": "yes", "reason": " "})
    assert Server.objects.get(pk=server.pk).state == "active"
    pages.post(url, {**asked, "confirmed": "yes", "reason": "old"})
    assert (
        Server.objects.get(pk=server.pk).state == {"drain": "draining", "retire": "retired"}[action]
    )
