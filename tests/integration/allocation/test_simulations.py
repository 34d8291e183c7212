"""A simulation says what would be, and leaves no trace but its own row."""

from datetime import timedelta

import pytest
from django.apps import apps

from allocator_service.allocation import tasks as tasks_of_workers
from allocator_service.allocation.models import Simulation
from allocator_service.allocation.runs import recompute
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.what_if import simulations
from allocator_service.allocation.what_if.simulations import (
    SIMULATION_JOBS,
    simulation_get,
    simulation_request,
    simulation_run,
)
from allocator_service.core.errors import Conflict, Missing, Unacceptable
from allocator_service.core.jobs import Outcome, hold_job, jobs_due
from allocator_service.pools.models import Server
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, vector

pytestmark = pytest.mark.django_db(transaction=True)


def simulated(pool, changes, tenant=None):
    simulation = simulation_request(pool=pool, tenant=tenant, changes=changes, now=NOON)
    simulation_run(simulation_id=simulation.pk, clock=lambda: NOON)
    simulation.refresh_from_db()
    return simulation


def tasks(simulation, side):
    return {
        row["workload"]: row[side] and row[side]["tasks"] for row in simulation.result["workloads"]
    }


def rows_of_everything():
    return {model.__name__: model._default_manager.count() for model in apps.get_models()}


def test_no_change_equals_the_live_decision_to_the_last_bit(fig2):
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    simulation = simulated(fig2, {})
    decided = dict(run.allocations.values_list("workload__name", "tasks"))
    assert tasks(simulation, "before") == tasks(simulation, "after") == decided
    assert simulation.generation == run.generation


def test_it_writes_nothing_but_its_row(fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    before = rows_of_everything()
    simulated(fig2, {"weights": "contribution"})
    after = rows_of_everything()
    assert after.pop("Simulation") == before.pop("Simulation") + 1
    assert after == before


def test_submitting_what_was_simulated_gives_what_was_simulated(fig2, tenant):
    change = {"tenant": "u1", "name": "more", "demand": {"cpu": "500m", "memory": 1}, "tasks": 3}
    simulation = simulated(fig2, {"workloads": {"submit": [change]}})
    workloads_submit(
        pool=fig2, drafts=[WorkloadDraft(tenant("u1"), "more", vector("0.5", 1), 3)], now=NOON
    )
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    assert tasks(simulation, "after") == dict(
        run.allocations.values_list("workload__name", "tasks")
    )
    assert tasks(simulation, "before")["more"] is None


def test_every_part_of_a_pool_can_be_changed(fig2):
    high_cpu = str(Server.objects.get(name="high-cpu").pk)
    analysis = str(Workload.objects.get(name="analysis").pk)
    weighted = simulated(fig2, {"members": [{"tenant": "u1", "weight": 2}]})
    assert tasks(weighted, "after") == pytest.approx({"analysis": 120 / 11, "simulation": 60 / 11})
    limited = simulated(fig2, {"workloads": {"change": [{"id": analysis, "tasks": 3}]}})
    assert tasks(limited, "after") == pytest.approx({"analysis": 3, "simulation": 11.4})
    for action in ("drain", "retire"):
        without = simulated(fig2, {"servers": {action: [high_cpu]}})
        assert without.result["summary"]["after"]["utilization"]["cpu"] == pytest.approx(1)
        assert sum(tasks(without, "after").values()) < 20
    withdrawn = simulated(fig2, {"workloads": {"withdraw": [analysis]}})
    assert tasks(withdrawn, "after")["analysis"] is None
    added = simulated(
        fig2,
        {
            "servers": {
                "add": [{"name": "x", "count": 2, "capacity": {"cpu": 12, "memory": "12Gi"}}]
            }
        },
    )
    assert tasks(added, "after")["simulation"] > 20
    other = simulated(fig2, {"policy": {"name": "static"}})
    assert other.status == "succeeded"


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"policy": {"name": "magic"}}, "policy.unknown", "/policy"),
        ({"members": [{"tenant": "nobody"}]}, "tenant.unknown", "/members/0/tenant"),
        ({"servers": {"retire": ["0" * 32]}}, "server.unknown", "/servers/retire/0"),
        ({"workloads": {"withdraw": ["0" * 32]}}, "workload.unknown", "/workloads/withdraw/0"),
        (
            {"workloads": {"submit": [{"tenant": "u1", "name": "n", "demand": {"gpu": 1}}]}},
            "resource.unknown",
            "/workloads/submit/0/demand/gpu",
        ),
        (
            {"workloads": {"submit": [{"tenant": "u1", "name": "n", "demand": {}}]}},
            "demand.zero",
            "/workloads/submit/0/demand",
        ),
        (
            {"workloads": {"submit": [{"tenant": "u1", "name": "analysis", "demand": {"cpu": 1}}]}},
            "workload.exists",
            "/workloads/submit/0/name",
        ),
    ],
)
def test_a_change_that_cannot_be_fails_the_simulation_with_its_place(fig2, changes, code, pointer):
    simulation = simulated(fig2, changes)
    assert simulation.status == "failed"
    assert simulation.error["code"] == code
    assert simulation.error["errors"][0]["pointer"] == pointer


def test_a_tenant_simulates_its_own_workloads_and_sees_no_other_simulation(fig2, tenant):
    u1, u2 = tenant("u1"), tenant("u2")
    own = {"workloads": {"submit": [{"tenant": "u1", "name": "n", "demand": {"cpu": 1}}]}}
    simulation = simulated(fig2, own, u1)
    assert simulation_get(simulation_id=simulation.pk, tenant=u1) == simulation
    with pytest.raises(Missing):
        simulation_get(simulation_id=simulation.pk, tenant=u2)
    foreign = str(Workload.objects.get(name="simulation").pk)
    for changes in (
        {"weights": "contribution"},
        {"workloads": {"submit": [{"tenant": "u2", "name": "n", "demand": {"cpu": 1}}]}},
        {"workloads": {"withdraw": [foreign]}},
        {"workloads": {"change": [{"id": foreign, "tasks": 0}]}},
    ):
        with pytest.raises(Unacceptable):
            simulation_request(pool=fig2, tenant=u1, changes=changes, now=NOON)


def due(seconds):
    return jobs_due(SIMULATION_JOBS, now=NOON + timedelta(seconds=seconds), again=True)


def test_a_waiting_simulation_is_published_once_and_again_when_overdue(fig2):
    simulation = simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)
    assert due(0) == [simulation.pk]
    assert due(5) == []
    assert due(5.1) == [simulation.pk]
    simulation_run(simulation_id=simulation.pk, clock=lambda: NOON)
    assert due(3600) == []


def test_a_simulation_of_another_worker_is_left_to_it(fig2):
    simulation = simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)
    with hold_job(SIMULATION_JOBS, simulation.pk) as held:
        assert held.claim(NOON, lambda row: row).outcome is Outcome.CLAIMED
        simulation_run(simulation_id=simulation.pk, clock=lambda: NOON)
        simulation.refresh_from_db()
        assert (simulation.status, simulation.attempts) == ("pending", 1)


def test_a_worker_that_lost_its_claim_leaves_the_result_of_the_other(fig2, monkeypatch):
    original = recompute.policies.solve
    simulation = simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)
    other = {"status": "succeeded", "result": {"by": "the other"}, "finished_at": NOON}

    def lose_claim(*args, **kwargs):
        Simulation.objects.update(token=None, **other)
        return original(*args, **kwargs)

    monkeypatch.setattr(recompute.policies, "solve", lose_claim)
    simulation_run(simulation_id=simulation.pk, clock=lambda: NOON + timedelta(seconds=9))
    simulation.refresh_from_db()
    assert {name: getattr(simulation, name) for name in other} == other


def test_one_that_kills_its_worker_three_times_fails(fig2, monkeypatch):
    class Killed(BaseException):
        """Stands for kill -9."""

    def die(*_, **__):
        raise Killed

    monkeypatch.setattr(recompute.policies, "solve", die)
    simulation = simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)
    for _ in range(3):
        with pytest.raises(Killed):
            simulation_run(simulation_id=simulation.pk, clock=lambda: NOON)
    simulation_run(simulation_id=simulation.pk, clock=lambda: NOON)
    assert Simulation.objects.get().error["code"] == "run.worker_lost"


def test_a_caller_waits_for_its_simulations_before_it_asks_for_more(fig2, monkeypatch):
    monkeypatch.setattr(simulations, "MAX_PENDING_PER_CALLER", 2)
    for _ in range(2):
        simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)
    with pytest.raises(Conflict):
        simulation_request(pool=fig2, tenant=None, changes={}, now=NOON)


def test_a_worker_is_not_killed_before_both_solves_have_used_their_time(settings):
    """Else a pool whose search always takes its whole time has no simulation."""
    limit = tasks_of_workers.simulate.time_limit or settings.CELERY_TASK_TIME_LIMIT
    assert limit >= 2 * recompute.SOLVE_SECONDS + 30
    assert limit < settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
