"""Whole tasks are published on named ranges of servers, and proven from what is stored."""

import pytest

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.placement_list import PlacementList
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.allocation.what_if.impact import servers_impact
from allocator_service.pools.models import Server
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import (
    ServerDraft,
    server_drain,
    server_retire,
    servers_contribute,
)
from allocator_service.pools.services import pool_update
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from policies.documents.evaluation import evaluate_document
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
    names = [(each.first, each.last, each.count) for each in stored_placements(run).ranges]
    assert names[0][0] == "high-memory"
    assert sum(count for *_, count in names) == 5
    assert names[-1][1] == "node-3"
    assert run_verify(run)["valid"] is True


@pytest.fixture
def busy(pool, tenant):
    """Three kinds of servers with tasks of two tenants placed on them, best-fit."""
    choice = policy_choose("drfh", "indivisible", {"placement": "best-fit"})
    pool_update(pool=pool, settings=settings(policy=choice), version=None, now=NOON)
    servers_contribute(
        pool=pool,
        drafts=[
            *(ServerDraft(f"small-{i}", vector(4, 4), tenant("u1")) for i in range(1, 4)),
            *(ServerDraft(f"wide-{i}", vector(8, 2), tenant("u2")) for i in range(1, 3)),
        ],
        now=NOON,
    )
    submit(pool, tenant("u1"), "a", vector(1, 1), 4)
    submit(pool, tenant("u2"), "b", vector(2, "0.5"), 2)
    return pool


def submit(pool, owner, name, demand, tasks):
    draft = WorkloadDraft(owner, name, demand, tasks=tasks)
    return workloads_submit(pool=pool, drafts=[draft], now=NOON)


def decide(pool):
    decision_request(pool, now=NOON)
    return recompute_pool(pool_id=pool.pk, clock=lambda: NOON)


def placed(run):
    """{(workload, first server, last server): tasks on each}."""
    rows = PlacementList(run, None)
    return {(row.workload, row.servers.first, row.servers.last): row.tasks for row in rows[:]}


def test_with_nothing_changed_no_task_moves(busy):
    first = decide(busy)
    again = decide(busy)
    assert first.summary["moved_tasks"] is None
    assert again.summary["moved_tasks"] == 0
    assert placed(again) == placed(first)


def test_running_tasks_stay_where_they_are_when_others_come(busy, tenant):
    before = placed(decide(busy))
    submit(busy, tenant("u1"), "newcomer", vector(1, "0.5"), 5)
    servers_contribute(
        pool=busy, drafts=[ServerDraft("later", vector(64, 64), tenant("u2"))], now=NOON
    )
    run = decide(busy)
    assert run.summary["moved_tasks"] == 0
    tasks = dict(run.allocations.values_list("workload__name", "tasks"))
    assert tasks == {"a": 4, "b": 2, "newcomer": 5}
    kept = {name: sum(n for (job, *_), n in before.items() if job == name) for name in "ab"}
    assert kept == {"a": 4, "b": 2}
    assert run_verify(run)["valid"] is True
    assert placed(decide(busy)) == placed(run)


def test_tasks_of_a_drained_server_move_and_are_counted(busy):
    run = decide(busy)
    name = next(first for (job, first, _) in placed(run) if job == "a")
    server = Server.objects.get(pool=busy, name=name)
    on_it = sum(n for (_, first, last), n in placed(run).items() if first <= name <= last)
    server_drain(server=server, version=None, now=NOON)
    after = decide(busy)
    assert after.summary["moved_tasks"] == on_it
    assert all(not first <= name <= last for (_, first, last) in placed(after))
    assert run_verify(after)["valid"] is True


@pytest.mark.parametrize("action", ["drain", "retire"])
@pytest.mark.parametrize("taken", [[0], [-1], [0, 1], [1, 3]])
def test_what_moves_is_told_before_servers_leave(busy, action, taken):
    decide(busy)
    servers = list(Server.objects.filter(pool=busy).order_by("id"))
    (impact,) = servers_impact([servers[at] for at in taken], action, now=NOON)
    for at in taken:
        {"drain": server_drain, "retire": server_retire}[action](
            server=servers[at], version=None, now=NOON
        )
    after = decide(busy)
    assert impact.moved == after.summary["moved_tasks"]


def test_the_stored_input_replayed_gives_the_same_placements(busy, tenant):
    decide(busy)
    submit(busy, tenant("u1"), "newcomer", vector(1, "0.5"), 5)
    run = decide(busy)
    document = input_of(run)
    answer = evaluate_document({**document, "include": ["placements"]})
    assert answer["summary"]["moved_tasks"] == 0
    replayed = sum(
        row["tasks"] * row.get("servers", {"count": 1})["count"] for row in answer["placements"]
    )
    assert replayed == 11
    assert len(answer["placements"]) == len(PlacementList(run, None))
