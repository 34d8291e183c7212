"""Groups in decisions: the snapshot carries the tree, and everything that reads snapshots follows it."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.allocation.admin.shares import Asked, share_page
from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.models import Snapshot
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.runs.snapshots import pool_state, snapshot_document
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_retire,
    group_update,
    groups_create,
)
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import Group
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_update
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, recomputed, settings, vector
from tests.references.ledger import metered_entries

pytestmark = pytest.mark.django_db(transaction=True)
LATER = NOON + timedelta(minutes=5)


@pytest.fixture
def tree(pool, tenant):
    """100, 100, tasks of (1, 1); g1 of weight 3 = a (weight 2, 20 tasks) + b; g2 = c."""
    drafts = [GroupDraft("g1", GroupSettings("G1", None, Decimal(3))),
              GroupDraft("g2", GroupSettings("G2", None))]  # fmt: skip
    groups_create(pool=pool, drafts=drafts, now=NOON)
    servers_contribute(pool=pool, drafts=[ServerDraft("s", vector(100, 100))], now=NOON)
    for slug, group, weight in (("a", "g1", 2), ("b", "g1", 1), ("c", "g2", 1)):
        put = {"pool": pool, "tenant": tenant(slug), "weight": Decimal(weight)}
        member_put(**put, best_effort=False, version=None, group=group, now=NOON)
        tasks = 20 if slug == "a" else None
        draft = WorkloadDraft(tenant(slug), "w", vector(1, 1), tasks=tasks)
        workloads_submit(pool=pool, drafts=[draft], now=NOON)
    return pool


def tasks_of(run):
    assert run.status == "succeeded", run.error
    rows = run.allocations.values_list("tenant__slug", "tasks")
    return {slug: round(float(tasks), 6) for slug, tasks in rows}


def snapshot_of(run):
    return snapshot_document(Snapshot.objects.get(pk=run.snapshot_id))


def test_a_decision_follows_the_tree_and_is_proven(tree):
    run = recomputed(tree)
    assert tasks_of(run) == {"a": 20, "b": 55, "c": 25}
    document = snapshot_of(run)
    assert document["groups"] == [
        {"name": "g1", "parent": None, "weight": 3, "tier": 0},
        {"name": "g2", "parent": None, "weight": 1, "tier": 0},
    ]
    assert [tenant["group"] for tenant in document["tenants"]] == ["g1", "g1", "g2"]
    assert all("tier" not in tenant for tenant in document["tenants"])
    assert run_verify(run)["valid"] is True


def test_each_change_of_the_tree_is_a_new_decision(tree, tenant):
    first = recomputed(tree)
    g1 = Group.objects.get(slug="g1")
    group_update(group=g1, settings=GroupSettings("G1", None, Decimal(1)), version=1, now=LATER)
    second = recomputed(tree, LATER)
    assert tasks_of(second) == {"a": 20, "b": 30, "c": 50}
    put = {"pool": tree, "tenant": tenant("b"), "weight": Decimal(1), "best_effort": False}
    member_put(**put, version=1, group="g2", now=LATER)
    third = recomputed(tree, LATER + timedelta(minutes=1))
    assert tasks_of(third) == {"a": 20, "b": 40, "c": 40}
    member_put(**put, version=2, group="g2", tier=-1, now=LATER + timedelta(minutes=2))
    fourth = recomputed(tree, LATER + timedelta(minutes=2))
    assert tasks_of(fourth) == {"a": 20, "b": 80, "c": 0}
    assert snapshot_of(fourth)["tenants"][1]["tier"] == -1
    runs = (first, second, third, fourth)
    assert len({run.snapshot_id for run in runs}) == len({run.generation for run in runs}) == 4
    assert all(run_verify(run)["valid"] is True for run in runs)


@pytest.mark.parametrize("policy", ["drf", "lt-drf", "lt-af", "h-mrf"])
def test_every_policy_that_takes_groups_decides_meters_and_verifies(tree, policy):
    choice = policy_choose(policy, None, {})
    pool_update(pool=tree, settings=settings(policy=choice), version=None, now=NOON)
    run = recompute_pool(pool_id=tree.pk, clock=lambda: LATER, early=True)
    assert run is not None
    assert run.status == "succeeded", run.error
    assert [row["name"] for row in snapshot_of(run)["groups"]] == ["g1", "g2"]
    assert run_verify(run)["valid"] is True
    pool_meter(pool_id=tree.pk, now=LATER + timedelta(minutes=10))
    alone = [each for each in metered_entries(tree) if (each.kind, each.tenant) == ("alone", "b")]
    assert {each.quantity for each in alone if each.resource == "cpu"} == {25}


def test_the_overview_in_the_admin_shows_what_the_tree_entitles_to(tree, client):
    run = recomputed(tree)
    page = share_page(tree, run, resources_of(tree), Asked.of({}))
    entitled = {row.slug: [round(amount, 6) for amount in row.entitled] for row in page.rows}
    assert entitled == {"a": [50, 50], "b": [25, 25], "c": [25, 25]}
    client.force_login(get_user_model().objects.create_superuser("olga"))
    assert client.get(reverse("admin:pools_pool_tab_members", args=[tree.pk])).status_code == 200


def test_the_document_of_a_flat_pool_is_what_it_was_before_there_were_groups(fig2, tenant):
    before = pool_state(fig2.pk, now=NOON)
    assert set(before.document) == {
        "resources", "servers", "tenants", "workloads", "policy", "weights"
    }  # fmt: skip
    assert [set(row) for row in before.document["tenants"]] == [
        {"name", "weight", "best_effort"}
    ] * 2
    drafts = [GroupDraft("passing", GroupSettings("Passing", None))]
    (group,) = groups_create(pool=fig2, drafts=drafts, now=NOON)
    assert pool_state(fig2.pk, now=NOON).digest != before.digest
    group_retire(group=group, version=1, now=LATER)
    assert pool_state(fig2.pk, now=LATER).digest == before.digest
