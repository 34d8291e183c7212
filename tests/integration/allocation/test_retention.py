"""What is dropped once it was kept for long enough, and what stays."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import Certificate, PlacementDocument
from allocator_service.allocation.services import retention_apply, run_request
from allocator_service.core.errors import Gone
from tests.integration.conftest import recomputed

pytestmark = pytest.mark.django_db(transaction=True)


def test_old_runs_are_pruned_but_the_decision_in_force_stays_whole(fig2, now):
    first = recomputed(fig2, now)
    run_request(pool=fig2, reason="", now=now)
    second = recomputed(fig2, now + timedelta(days=1))
    assert retention_apply(now=now + timedelta(days=200)) == 1
    first.refresh_from_db()
    assert not PlacementDocument.objects.filter(run=first).exists()
    assert not Certificate.objects.filter(run=first).exists()
    assert first.allocations.count() == 2
    with pytest.raises(Gone):
        run_verify(first)
    assert run_verify(second)["valid"] is True


def test_a_deployment_chooses_how_long_runs_are_kept(fig2, now, monkeypatch):
    recomputed(fig2, now)
    run_request(pool=fig2, reason="", now=now)
    recomputed(fig2, now + timedelta(days=1))
    later = now + timedelta(days=20)
    assert retention_apply(now=later) == 0
    chosen = replace(django_settings.ENVIRONMENT, run_retention_days=10)
    monkeypatch.setattr(django_settings, "ENVIRONMENT", chosen)
    assert retention_apply(now=later) == 1


def test_sessions_that_are_over_go(now):
    for name, left in (("over", -1), ("open", 1)):
        Session.objects.create(session_key=name, expire_date=now + timedelta(hours=left))
    retention_apply(now=now)
    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
