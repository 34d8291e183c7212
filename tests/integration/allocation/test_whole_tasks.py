"""Whole tasks are published on named ranges of servers, and proven from what is stored."""

import pytest

from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.recompute import recompute_pool
from allocator_service.allocation.verification import run_verify
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_update
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)


def test_servers_that_run_the_same_tasks_are_one_named_range(fig2, tenant):
    servers_contribute(
        pool=fig2,
        drafts=[ServerDraft(f"node-{i}", vector(1, 1), tenant("u1")) for i in range(1, 4)],
        now=NOON,
    )
    choice = policy_choose("drfh", "indivisible", {"placement": "first-fit"})
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=NOON)
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    tasks = run.allocations.values_list("tasks", flat=True)
    assert all(value == int(value) for value in tasks)
    names = [(row.first, row.last, row.count) for row in run.server_classes.order_by("position")]
    assert names[0][0] == "high-memory"
    assert sum(count for *_, count in names) == 5
    assert names[-1][1] == "node-3"
    assert run_verify(run)["valid"] is True
