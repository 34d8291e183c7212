"""Placed tasks keep their servers for the minimum of the pool, or of their workload."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.models import PlacementDates
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.placement_dates import tasks_kept
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.what_if.changes import with_changes
from allocator_service.allocation.what_if.explanations import run_explain
from allocator_service.allocation.what_if.impact import servers_impact
from allocator_service.pools.limits import Limit
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import RecomputeJob, Server
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.server_services import ServerDraft, server_drain, servers_contribute
from allocator_service.pools.services import pool_update
from allocator_service.workloads.gangs import Gang, Piece
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workloads_submit,
)
from policies import problem_from_document, solve
from tests.integration.conftest import NOON, settings, vector
from tests.placements import placed

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def young(pool, tenant):
    """Two servers of 4 CPUs, whole tasks, and 30 minutes for which they keep their servers."""
    minimum(pool, "PT30M")
    servers_contribute(
        pool=pool, drafts=[ServerDraft(f"n{i}", vector(4, 4), None) for i in (1, 2)], now=NOON
    )
    return pool


def minimum(pool, duration, policy="drfh", **more):
    choice = policy_choose(policy, "indivisible", {})
    changed = replace(settings(policy=choice, **more), minimum_run=duration)
    pool_update(pool=pool, settings=changed, version=None, now=NOON)


def submit(pool, owner, tasks, at=NOON, **more):
    draft = WorkloadDraft(owner, "work", vector(1, 1), tasks=tasks, **more)
    return workloads_submit(pool=pool, drafts=[draft], now=at).ids[0]


def decide(pool, at):
    decision_request(pool, now=at)
    run = recompute_pool(pool_id=pool.pk, clock=lambda: at, early=True)
    assert run.status == "succeeded", run.error
    failed = [check for check in run_verify(run)["checks"] if not check["holds"]]
    assert not failed, failed
    return run


def tasks(run):
    return {row.tenant.slug: row.tasks for row in run.allocations.select_related("tenant")}


def on_servers(run):
    rows = placed(run)
    return {
        (row.tenant, server): row.tasks
        for row in rows
        for server in (row.servers.first, row.servers.last)
    }


def test_young_tasks_stay_until_their_minimum_has_passed(young, tenant):
    submit(young, tenant("a"), None)
    assert tasks(decide(young, NOON)) == {"a": 8}
    submit(young, tenant("b"), None)
    assert tasks(decide(young, NOON + 29 * MINUTE)) == {"a": 8, "b": 0}
    run = decide(young, NOON + 30 * MINUTE)
    assert tasks(run) == {"a": 4, "b": 4}
    assert "kept" not in input_of(run)


@pytest.mark.parametrize("policy", ["h-mrf", "lt-drf", "lt-af"])
def test_young_tasks_stay_under_long_term_policies(young, tenant, policy):
    minimum(young, "PT30M", policy)
    submit(young, tenant("a"), None)
    assert tasks(decide(young, NOON)) == {"a": 8}
    submit(young, tenant("b"), None)
    run = decide(young, NOON + 29 * MINUTE)
    assert tasks(run) == {"a": 8, "b": 0}
    assert sum(each["tasks"] * each["servers"] for each in input_of(run)["kept"]) == 8
    run = decide(young, NOON + 30 * MINUTE)
    assert tasks(run)["b"] >= 4  # it had nothing so far
    assert "kept" not in input_of(run)


def test_each_rise_keeps_its_own_time(young, tenant):
    """The second half of a's tasks is 20 minutes younger than the first."""
    work = submit(young, tenant("a"), 4)
    decide(young, NOON)
    change(work, tasks=8)
    decide(young, NOON + 20 * MINUTE)
    submit(young, tenant("b"), None)
    change(work, tasks=None)
    assert tasks(decide(young, NOON + 29 * MINUTE)) == {"a": 8, "b": 0}
    run = decide(young, NOON + 31 * MINUTE)
    assert tasks(run) == {"a": 4, "b": 4}
    kept = input_of(run)["kept"]
    assert sum(each["tasks"] * each["servers"] for each in kept) == 4
    assert [(each.tasks, each.until) for each in tasks_kept(run, now=NOON + 31 * MINUTE)] == [
        (4, NOON + 50 * MINUTE),
        (4, NOON + 61 * MINUTE),
    ]


def change(workload, **changes):
    found = Workload.objects.get(pk=workload)
    present = WorkloadSettings(
        found.name, found.demand, found.tasks, found.priority, found.server_selector, found.state
    )
    workload_update(workload=found, settings=replace(present, **changes), version=None, now=NOON)


def test_what_is_asked_for_no_longer_is_not_kept(young, tenant):
    work = submit(young, tenant("a"), 8)
    decide(young, NOON)
    change(work, tasks=3)
    submit(young, tenant("b"), None)
    assert tasks(decide(young, NOON + MINUTE)) == {"a": 3, "b": 5}


def test_a_drained_server_keeps_nothing_and_the_other_one_does(young, tenant):
    submit(young, tenant("a"), None)
    decide(young, NOON)
    submit(young, tenant("b"), None)
    first = Server.objects.get(name="n1")
    server_drain(server=first, now=NOON)
    run = decide(young, NOON + MINUTE)
    assert on_servers(run) == {("a", "n2"): 4}


def test_a_workload_overrides_the_minimum_of_its_pool(young, tenant):
    submit(young, tenant("a"), None, minimum_run="PT5M")
    decide(young, NOON)
    submit(young, tenant("b"), None)
    assert tasks(decide(young, NOON + 4 * MINUTE)) == {"a": 8, "b": 0}
    assert tasks(decide(young, NOON + 5 * MINUTE)) == {"a": 4, "b": 4}


def test_a_workload_may_have_a_minimum_where_the_pool_has_none(young, tenant):
    minimum(young, "")
    submit(young, tenant("a"), None, minimum_run="PT1H")
    decide(young, NOON)
    submit(young, tenant("b"), None)
    assert tasks(decide(young, NOON + 59 * MINUTE)) == {"a": 8, "b": 0}


def test_a_minimum_is_for_tasks_that_are_placed_after_it(young, tenant):
    minimum(young, "")
    submit(young, tenant("a"), None)
    decide(young, NOON)
    assert not PlacementDates.objects.exists()
    minimum(young, "PT30M")
    submit(young, tenant("b"), None)
    assert tasks(decide(young, NOON + MINUTE)) == {"a": 4, "b": 4}


def test_the_pool_decides_again_once_a_task_may_lose_its_server(young, tenant):
    submit(young, tenant("a"), None)
    decide(young, NOON)
    submit(young, tenant("b"), None)
    decide(young, NOON + 10 * MINUTE)
    job = RecomputeJob.objects.get(pool=young)
    assert (job.wanted > job.settled, job.run_after) == (True, NOON + 30 * MINUTE)
    run = recompute_pool(pool_id=young.pk, clock=lambda: NOON + 30 * MINUTE)
    assert tasks(run) == {"a": 4, "b": 4}


def test_no_decision_is_due_where_nothing_waits(young, tenant):
    submit(young, tenant("a"), 3)
    decide(young, NOON)
    job = RecomputeJob.objects.get(pool=young)
    assert job.wanted == job.settled


def test_dates_are_stored_as_long_as_they_are_needed(young, tenant):
    submit(young, tenant("a"), 5)
    decide(young, NOON)
    run = decide(young, NOON + 10 * MINUTE)
    assert PlacementDates.objects.get().run == run
    assert sum(row[5] * row[6] for row in PlacementDates.objects.get().rows) == 5
    decide(young, NOON + 40 * MINUTE)
    assert not PlacementDates.objects.exists()


def test_gangs_stay_whole(young, tenant):
    gang = Gang((Piece(2, {"cpu": vector(2, 2)[0], "memory": vector(2, 2)[1]}),), per_server=1)
    draft = WorkloadDraft(tenant("mpi"), "mpi", vector(4, 4), tasks=2, gang=gang)
    workloads_submit(pool=young, drafts=[draft], now=NOON)
    assert tasks(decide(young, NOON)) == {"mpi": 2}
    submit(young, tenant("solo"), None)
    run = decide(young, NOON + MINUTE)
    assert tasks(run) == {"mpi": 2, "solo": 0}
    assert [each.tasks for each in tasks_kept(run, now=NOON + MINUTE)] == [2]
    assert tasks(decide(young, NOON + 30 * MINUTE)) == {"mpi": 1, "solo": 4}


@pytest.mark.parametrize("pieces", [1, 2])
def test_tasks_with_another_demand_keep_no_servers(young, tenant, pieces):
    """Else a tenant could begin with small tasks and seize the servers of others by large ones."""
    gang = Gang((Piece(pieces, {"cpu": Decimal("0.5"), "memory": Decimal("0.5")}),))
    draft = WorkloadDraft(
        tenant("a"), "work", vector(1, 1) if pieces == 2 else vector(0.5, 0.5), tasks=2,
        **({"gang": gang} if pieces == 2 else {}),
    )  # fmt: skip
    work = workloads_submit(pool=young, drafts=[draft], now=NOON).ids[0]
    submit(young, tenant("b"), 6)
    assert tasks(decide(young, NOON)) == {"a": 2, "b": 6}
    changed = {"demand": vector(4, 4)}
    if pieces == 2:
        changed = {
            "demand": vector(8, 8),
            "gang": Gang((Piece(2, {"cpu": Decimal(4), "memory": Decimal(4)}),)),
        }
    change(work, **changed)
    run = decide(young, NOON + MINUTE)
    assert tasks(run) == {"a": 0, "b": 6}
    assert {each["workload"] for each in input_of(run)["kept"]} == {"work"}
    assert {each["tenant"] for each in input_of(run)["kept"]} == {"b"}
    # The new tasks have minima of their own.
    change(
        work,
        **({"demand": vector(1, 1)} if pieces == 1 else {"demand": vector(1, 1), "gang": gang}),
    )
    assert tasks(decide(young, NOON + 2 * MINUTE))["a"] > 0
    run = decide(young, NOON + 3 * MINUTE)
    assert {each["tenant"] for each in input_of(run)["kept"]} == {"a", "b"}


def test_young_tasks_stay_while_a_guarantee_waits(young, tenant):
    """b is guaranteed 5 of 8 CPUs, and gets what the young tasks of a leave of them."""
    submit(young, tenant("a"), 6)
    decide(young, NOON)
    other = tenant("b")
    member_put(
        pool=young, tenant=other, weight=Decimal(1), best_effort=False, version=1, now=NOON,
        guarantee=[Limit({"cpu": Decimal(5)})],
    )  # fmt: skip
    submit(young, other, None)
    run = decide(young, NOON + MINUTE)
    assert tasks(run) == {"a": 6, "b": 2}
    assert run.summary["guarantees_unmet"][0]["met"] == 0.4
    assert tasks(decide(young, NOON + 30 * MINUTE)) == {"a": 3, "b": 5}


def test_young_gangs_stay_while_a_guarantee_waits(young, tenant):
    mpi, other = tenant("mpi"), tenant("b")
    gang = Gang((Piece(2, {"cpu": vector(2, 2)[0], "memory": vector(2, 2)[1]}),))
    draft = WorkloadDraft(mpi, "mpi", vector(4, 4), tasks=2, gang=gang)
    workloads_submit(pool=young, drafts=[draft], now=NOON)
    member_put(
        pool=young, tenant=other, weight=Decimal(1), best_effort=False, version=1, now=NOON,
        guarantee=[Limit({"cpu": Decimal(4)})],
    )  # fmt: skip
    assert tasks(decide(young, NOON)) == {"mpi": 2}
    submit(young, other, None)
    run = decide(young, NOON + MINUTE)
    assert tasks(run) == {"mpi": 2, "b": 0}
    assert run.summary["guarantees_unmet"][0]["met"] == 0
    assert "2 tasks of mpi keep" in run_explain(run=run, tenant=mpi).sentence
    assert tasks(decide(young, NOON + 30 * MINUTE)) == {"mpi": 1, "b": 4}


def test_policies_that_keep_no_tasks_decide_as_ever(young, tenant):
    submit(young, tenant("a"), None)
    decide(young, NOON)
    submit(young, tenant("b"), None)
    choice = policy_choose("drf", "indivisible", {})
    changed = replace(settings(policy=choice), minimum_run="PT30M")
    pool_update(pool=young, settings=changed, version=None, now=NOON)
    run = decide(young, NOON + MINUTE)
    assert tasks(run) == {"a": 4, "b": 4}
    assert not PlacementDates.objects.exists()


def test_the_explanation_says_until_when(young, tenant):
    submit(young, tenant("a"), None)
    decide(young, NOON)
    submit(young, tenant("b"), None)
    run = decide(young, NOON + 10 * MINUTE)
    mine = run_explain(run=run, tenant=tenant("a"))
    assert "8 tasks of work keep their servers until 20 November 2026, 12:30 UTC." in mine.sentence
    other = run_explain(run=run, tenant=tenant("b"))
    assert "Tasks of others keep their servers until 20 November 2026, 12:30 UTC." in other.sentence
    assert other.kept == []


def test_tasks_that_start_together_from_now_on_keep_their_servers(young, tenant):
    work = submit(young, tenant("a"), 4)
    decide(young, NOON)
    submit(young, tenant("b"), None)
    change(work, tasks=None, gang=Gang(at_least=3))
    kept = input_of(decide(young, NOON + MINUTE))["kept"]
    assert sum(each["tasks"] * each["servers"] for each in kept if each["tenant"] == "a") == 4


@pytest.mark.parametrize("change", ["demand", "withdraw", "tasks"])
def test_what_ifs_keep_what_a_decision_would_keep(young, tenant, change):
    work = submit(young, tenant("a"), 2)
    submit(young, tenant("b"), 6)
    decide(young, NOON)
    changes = {
        "demand": {"change": [{"id": work, "demand": {"cpu": 4, "memory": 4}}]},
        "tasks": {"change": [{"id": work, "tasks": 1}]},
        "withdraw": {"withdraw": [work]},
    }[change]
    state = pool_state(young.pk, now=NOON + MINUTE)
    document = with_changes(state, {"workloads": changes}, resources=resources_of(young)).document
    kept = {each["tenant"] for each in document["kept"]}
    assert kept == ({"a", "b"} if change == "tasks" else {"b"})
    parsed = problem_from_document(document)
    answer = solve(parsed.problem, "drfh", mode="indivisible", running=parsed.running)
    if change == "demand":
        assert answer.tasks.tolist() == [0, 6]


def test_a_preview_of_a_drain_keeps_the_tasks_of_the_other_server(young, tenant):
    submit(young, tenant("a"), None)
    decide(young, NOON)
    submit(young, tenant("b"), None)
    decide(young, NOON + MINUTE)
    first = Server.objects.get(name="n1")
    (impact,) = servers_impact([first], "drain", now=NOON + 2 * MINUTE)
    ((work,),) = [each.workloads for each in impact.tenants]
    assert (impact.tenants[0].tenant, work.before, work.after) == ("a", 8, 4)
