"""Decisions that are stored for the release before, as rows, and those stored as a document."""

from dataclasses import replace

import pytest
from django.conf import settings as django_settings

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import Placement, Placements, ServerClass
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.services import retention_apply, run_request
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.pools.services import pool_update
from tests.integration.conftest import NOON, recomputed, settings
from tests.placements import placed

pytestmark = pytest.mark.django_db(transaction=True)
CHOICES = [policy_choose("drfh", "divisible", {}), policy_choose("drfh", "indivisible", {})]


@pytest.fixture
def as_rows(monkeypatch):
    """Whether decisions are stored as rows."""

    def choose(rows):
        chosen = replace(django_settings.ENVIRONMENT, placement_rows=rows)
        monkeypatch.setattr(django_settings, "ENVIRONMENT", chosen)

    return choose


def decide(pool):
    run_request(pool=pool, reason="", now=NOON)
    return recomputed(pool)


def told(run):
    """All that is read of placements."""
    traits = [
        (list(map(float, each.capacity)), each.labels, each.owner, each.shared)
        for each in stored_placements(run).traits
    ]
    rows = [
        (row.tenant, row.workload, row.kind, row.tasks, row.servers.first, row.servers.last_server)
        for row in placed(run)
    ]
    return traits, rows


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.mode)
def test_both_forms_are_read_alike(fig2, as_rows, choice):
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=NOON)
    found = []
    for rows in (False, True, False):
        as_rows(rows)
        run = decide(fig2)
        assert Placements.objects.filter(run=run).exists() is not rows
        assert Placement.objects.filter(run=run).exists() is rows
        assert ServerClass.objects.filter(run=run).exists() is rows
        assert run_verify(run)["valid"] is True
        found.append(told(run))
    assert found[0] == found[1] == found[2]
    # What the decision before was stored as is not in the input of the next.
    if choice.mode == "indivisible":
        assert input_of(run)["running"]
        assert run.summary["moved_tasks"] == 0


def test_both_forms_are_pruned(fig2, as_rows):
    for rows in (True, False):
        as_rows(rows)
        decide(fig2)
    last = decide(fig2)
    assert retention_apply(now=NOON.replace(year=NOON.year + 1)) == 2
    assert Placements.objects.get().run == last
    assert not Placement.objects.exists()
    assert not ServerClass.objects.exists()
