"""A tenant is told why, and what it is told would help does help."""

import pytest

from allocator_service.allocation.models import Simulation
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.what_if.evaluations import answer_document
from allocator_service.allocation.what_if.explanations import run_explain
from allocator_service.allocation.what_if.simulations import simulation_request, simulation_run
from allocator_service.core.errors import Conflict, Missing
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)


def explained(pool, tenant):
    run = recompute_pool(pool_id=pool.pk, clock=lambda: NOON) or pool.runs.latest("pk")
    return run_explain(run=run, tenant=tenant)


def confirmed(pool, counterfactual):
    """Apply the counterfactual in a simulation: the tasks it gives, before and after."""
    simulation = simulation_request(
        pool=pool, tenant=None, changes=counterfactual.changes, now=NOON
    )
    simulation_run(simulation_id=simulation.pk, clock=lambda: NOON)
    rows = Simulation.objects.get(pk=simulation.pk).result["workloads"]
    (row,) = [row for row in rows if row["workload"] == counterfactual.workload]
    return row["before"]["tasks"], row["after"]["tasks"]


def test_the_figures_are_those_of_the_decision(fig2, tenant):
    explanation = explained(fig2, tenant("u1"))
    run = fig2.runs.get()
    row = run.allocations.get(workload__name="analysis")
    assert explanation.share == row.tenant_share == pytest.approx(5 / 7)
    assert explanation.weighted_share == row.weighted_share
    assert explanation.level == row.level
    assert explanation.weight == 1
    assert explanation.reasons == {"analysis": row.limited_by}
    assert explanation.binding[0].resource.name == "cpu"
    assert explanation.binding[0].servers.first == "high-memory"
    assert (explanation.just_above, explanation.just_below) == (None, None)
    assert explanation.sentence.startswith(
        "u1 runs 10 tasks of analysis, a dominant share of 71.43 %"
    )
    assert "ran out on the servers where it costs least" in explanation.sentence


def test_prices_say_what_a_little_more_capacity_is_worth(fig2, tenant):
    """A little more of what binds lifts the least share by its price, summed over what binds."""
    prices = {
        (item.servers.first, item.resource.name): item.price
        for slug in ("u1", "u2")
        for item in explained(fig2, tenant(slug)).binding
    }
    run = fig2.runs.get()
    document, added, lift = input_of(run), 0.001, 0.0
    for server in document["servers"]:
        for resource in server["capacity"]:
            price = prices.get((server["name"], resource), 0.0)
            server["capacity"][resource] += added if price else 0
            lift += added * price
    tasks = min(row["tasks"] for row in answer_document(document)["allocations"])
    # One task was a dominant share of 1/14; the pool's total has grown a little since.
    assert tasks / 14 - run.summary["min_weighted_share"] == pytest.approx(lift, rel=0.01)


def test_each_counterfactual_comes_true_when_it_is_applied(fig2, tenant, now):
    servers_contribute(
        pool=fig2, drafts=[ServerDraft("gpu-node", vector(4, 4), labels={"gpu": "a100"})], now=now
    )
    workloads_submit(
        pool=fig2,
        drafts=[
            WorkloadDraft(tenant("u1"), "training", vector(1, 1), server_selector={"gpu": "a100"}),
            WorkloadDraft(tenant("u3"), "elsewhere", vector(1, 1), server_selector={"gpu": "h100"}),
            WorkloadDraft(tenant("u4"), "satisfied", vector("0.1", "0.1"), tasks=1),
        ],
        now=now,
    )
    tried = 0
    for slug in ("u1", "u2", "u3"):
        explanation = explained(fig2, tenant(slug))
        unmet = {name for name, reason in explanation.reasons.items() if reason != "task_limit"}
        assert {item.workload for item in explanation.counterfactuals} == unmet
        for counterfactual in explanation.counterfactuals:
            before, after = confirmed(fig2, counterfactual)
            assert after == pytest.approx(counterfactual.tasks_after, rel=1e-9)
            assert before == pytest.approx(counterfactual.tasks_before, rel=1e-9)
            assert after > before
            tried += 1
    assert tried == 4
    satisfied = explained(fig2, tenant("u4"))
    assert satisfied.counterfactuals == []
    assert satisfied.sentence.endswith("that is all it asked for.")


def test_neighbours_are_shares_without_names(fig2, tenant, now):
    workloads_submit(
        pool=fig2,
        drafts=[WorkloadDraft(tenant("u3"), "small", vector("0.1", "0.1"), tasks=1)],
        now=now,
    )
    explanation = explained(fig2, tenant("u1"))
    small = explained(fig2, tenant("u3"))
    assert explanation.just_above is None
    assert explanation.just_below == pytest.approx(small.weighted_share)
    assert small.just_above == pytest.approx(explanation.weighted_share)
    assert "u2" not in explanation.sentence


def test_there_is_nothing_to_explain_without_a_decision_or_a_workload(fig2, tenant):
    with pytest.raises(Missing):
        explained(fig2, tenant("u9"))
    run = fig2.runs.get()
    run.status, run.effective_from = "pending", None
    with pytest.raises(Conflict):
        run_explain(run=run, tenant=tenant("u1"))


def test_a_task_that_is_larger_than_every_server_has_something_that_helps(db, tenant):
    """Servers with room for it, though smaller tasks of another tenant fill the first one."""
    whole = settings(policy=policy_choose("drfh", "indivisible", {}))
    pool = pool_create(slug="whole", settings=whole, now=NOON)
    ada, bob = tenant("ada"), tenant("bob")
    servers_contribute(
        pool=pool,
        drafts=[ServerDraft("a", vector(4, 4), ada), ServerDraft("b", vector(4, 4), bob)],
        now=NOON,
    )
    workloads_submit(
        pool=pool,
        drafts=[
            WorkloadDraft(ada, "large", vector(8, 8)),
            WorkloadDraft(bob, "small", vector(1, 1)),
        ],
        now=NOON,
    )
    explanation = explained(pool, ada)
    assert explanation.reasons == {"large": "no_server_large_enough"}
    (found,) = explanation.counterfactuals
    assert found.tasks_after > found.tasks_before == 0
    assert confirmed(pool, found) == (0, found.tasks_after)


def test_a_large_task_whose_tenant_has_smaller_work_needs_both_changes(db, tenant):
    """Its own small tasks use its share, wherever they run, before a server is large enough."""
    whole = settings(policy=policy_choose("drfh", "indivisible", {}))
    pool = pool_create(slug="whole", settings=whole, now=NOON)
    ada, bob = tenant("ada"), tenant("bob")
    servers_contribute(pool=pool, drafts=[ServerDraft("a", vector(16, 16), ada)], now=NOON)
    workloads_submit(
        pool=pool,
        drafts=[
            WorkloadDraft(ada, "own", vector(1, 1), tasks=1_000),
            WorkloadDraft(ada, "large", vector(20, 20), tasks=1),
            WorkloadDraft(ada, "small", vector(1, 1), tasks=1),
            WorkloadDraft(bob, "other", vector(1, 1), tasks=1_000),
        ],
        now=NOON,
    )
    explanation = explained(pool, ada)
    (found,) = [each for each in explanation.counterfactuals if each.workload == "large"]
    assert "8 more servers" in found.words
    assert found.words.endswith("contributed by ada, and large instead of own and small")
    assert confirmed(pool, found) == (0, found.tasks_after) == (0, 1)
