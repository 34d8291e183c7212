"""Decisions that are stored for the release before, as rows, and those stored as a document."""

from dataclasses import astuple, replace

import pytest
from django.conf import settings as django_settings
from django.db import connection

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import Placement, PlacementDocument, Run, ServerClass
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.services import retention_apply, run_request
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_update
from tests.integration.conftest import NOON, recomputed, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)
CHOICES = [policy_choose("drfh", "divisible", {}), policy_choose("drfh", "indivisible", {})]


@pytest.fixture
def store(monkeypatch):
    """Set how decisions are stored: as rows, as a document, or by what the database has (None)."""

    def choose(rows):
        chosen = replace(django_settings.ENVIRONMENT, placement_rows=rows)
        monkeypatch.setattr(django_settings, "ENVIRONMENT", chosen)

    return choose


@pytest.fixture
def varied(fig2, tenant):
    """Servers of two contributors that the solver does not tell apart, and three of the pool."""
    theirs = [ServerDraft(f"m{i}", vector(3, 3), tenant("u2" if i % 2 else "u1")) for i in range(6)]
    own = [ServerDraft(f"p{i}", vector(5, 5), labels={"zone": "a"}) for i in range(3)]
    servers_contribute(pool=fig2, drafts=theirs + own, now=NOON)
    return fig2


def decide(pool):
    run_request(pool=pool, reason="", now=NOON)
    return recomputed(pool)


def ranges(run):
    """The ranges of a run, with the values of their traits."""
    return [
        replace(each, traits=(list(map(float, traits.capacity)), *astuple(traits)[1:]))
        for each in stored_placements(run).ranges
        for traits in [each.traits]
    ]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.mode)
def test_both_forms_are_read_alike(varied, store, choice):
    pool_update(pool=varied, settings=settings(policy=choice), version=None, now=NOON)
    found = []
    for rows in (False, True, False):
        store(rows)
        run = decide(varied)
        assert PlacementDocument.objects.filter(run=run).exists() is not rows
        assert Placement.objects.filter(run=run).exists() is rows
        assert ServerClass.objects.filter(run=run).exists() is rows
        assert run_verify(run)["valid"] is True
        found.append((ranges(run), list(stored_placements(run))))
    assert found[0] == found[1] == found[2]
    stated = found[0][0]
    assert any(each.count > 1 and each.first != each.last for each in stated)
    if choice.mode == "indivisible":
        # The next input must not depend on the form.
        assert input_of(run)["running"]
        assert run.summary["moved_tasks"] == 0
        assert all(each.first_server and each.last_server for each in stated)
    else:
        assert any(each.first_server is None for each in stated)


def test_a_database_with_rows_gets_rows_until_the_operator_says_otherwise(varied, store):
    store(None)
    assert PlacementDocument.objects.filter(run=decide(varied)).exists()
    store(True)
    decide(varied)
    store(None)
    assert not PlacementDocument.objects.filter(run=decide(varied)).exists()
    store(False)
    assert PlacementDocument.objects.filter(run=decide(varied)).exists()


def test_both_forms_are_pruned(fig2, store):
    for rows in (True, False):
        store(rows)
        decide(fig2)
    last = decide(fig2)
    assert retention_apply(now=NOON.replace(year=NOON.year + 1)) == 2
    assert PlacementDocument.objects.get().run == last
    assert not Placement.objects.exists()
    assert not ServerClass.objects.exists()


def test_what_the_release_before_has_pruned_goes_too(fig2, store):
    store(False)
    first, last = decide(fig2), decide(fig2)
    later = NOON.replace(year=NOON.year + 1)
    Run.objects.filter(pk=first.pk).update(pruned_at=later)
    assert retention_apply(now=later) == 0
    assert PlacementDocument.objects.get().run == last


@pytest.mark.parametrize("table", ["run_placement_document", "run_floors"])
def test_the_application_cannot_change_what_is_stored(db, table):
    """Its role has the rights that the tables of before have."""
    statement = """
        SELECT grantee, array_agg(privilege_type::text ORDER BY privilege_type)
        FROM information_schema.role_table_grants
        WHERE table_name = %s AND grantee <> (
            SELECT tableowner FROM pg_tables WHERE tablename = 'run_certificate')
        GROUP BY grantee
    """
    with connection.cursor() as cursor:
        found = [
            cursor.execute(statement, [each]).fetchall() for each in (table, "run_certificate")
        ]
    assert found[0] == found[1] != []


def test_allocations_have_the_indexes_by_which_they_are_read(db):
    """Migration 0009 removes the others by their names, and no error follows from a wrong one."""
    statement = "SELECT indexdef FROM pg_indexes WHERE tablename = 'run_allocation'"
    with connection.cursor() as cursor:
        rows = cursor.execute(statement).fetchall()
    columns = sorted(definition.partition("USING btree ")[2] for (definition,) in rows)
    assert columns == ["(id)", '(run_id, "position")', '(run_id, tenant_id, "position")']
