"""The papers' long-term examples in a pool: decisions at boundaries, remembered through its window."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.recompute import recompute_pool
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.verification import run_verify
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import decision_wanted, jobs_due
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workloads_submit,
)
from tests.integration.conftest import settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

START = datetime(2026, 11, 23, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Simulated:
    """A pool of 100 CPU and 100 GB for two equal tenants whose clock is in the test's hand."""

    def __init__(self, tenant, policy, demands, window=None, **changes):
        options = {} if policy == "drf" else {"placement": "pool"}
        choice = policy_choose(policy, "indivisible", options)
        window = window or Window("unbounded", START)
        chosen = settings(policy=choice, window=window, **changes)
        self.pool = pool_create(slug="days", settings=chosen, now=START)
        servers_contribute(pool=self.pool, drafts=[ServerDraft("big", vector(100, 100))], now=START)
        drafts = [
            WorkloadDraft(tenant(name), "work", vector(*demand), tasks=0)
            for name, demand in demands.items()
        ]
        workloads_submit(pool=self.pool, drafts=drafts, now=START)
        self.names = list(demands)

    def step(self, number, pending):
        """Decide the step that begins `number` minutes after the start; tasks per tenant."""
        now = START + number * MINUTE
        for name, tasks in zip(self.names, pending, strict=True):
            workload = Workload.objects.get(pool=self.pool, tenant__slug=name)
            changed = WorkloadSettings(
                name=workload.name,
                demand=[Decimal(amount) for amount in workload.demand],
                tasks=tasks,
                priority=0,
                server_selector={},
                state=workload.state,
            )
            workload_update(workload=workload, settings=changed, version=None, now=now)
        decision_wanted(self.pool, now=now)
        self.run = recompute_pool(pool_id=self.pool.pk, clock=lambda: now)
        verification = run_verify(self.run)
        assert verification["valid"] is True, verification
        return [int(row.tasks) for row in self.run.allocations.order_by("position")]


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("h-mrf", [[24, 4], [4, 24], [23, 8], [8, 23]]),
        ("lt-drf", [[24, 4], [4, 24], [23, 8], [8, 23]]),
        ("drf", [[24, 4], [20, 20], [22, 12], [20, 20]]),
    ],
)
def test_example_3_unserved_tasks_wait(tenant, policy, served):
    pool = Simulated(tenant, policy, {"a": (1, 4), "b": (4, 1)})
    waiting = [0, 0]
    answers = []
    for number, new in enumerate([(30, 4), (20, 24), (27, 8), (10, 30)]):
        waiting = [old + more for old, more in zip(waiting, new, strict=True)]
        answers.append(pool.step(number, waiting))
        waiting = [left - done for left, done in zip(waiting, answers[-1], strict=True)]
    assert answers == served


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("lt-drf", [[15, 70], [35, 30]]),
        ("lt-af", [[15, 70], [42, 16]]),
        ("h-mrf", [[15, 70], [40, 20]]),
    ],
)
def test_example_4_unserved_tasks_are_dropped(tenant, policy, served):
    pool = Simulated(tenant, policy, {"a": (1, 2), "b": (1, 1)})
    assert [pool.step(0, (15, 80)), pool.step(1, (60, 40))] == served


def test_the_past_is_what_was_in_force_for_as_long_as_it_was(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)})
    pool.step(0, (15, 80))
    pool.step(3, (60, 40))  # two decisions were missed: the first stayed in force
    history = _history(pool)
    assert history["tenants"]["a"]["used"] == {"cpu": 15 * 180, "memory": 30 * 180}
    assert history["elapsed"] == 180
    assert history["step"] == 60


@pytest.mark.parametrize(
    ("window", "minute", "remembered"),
    [
        (Window("tumbling", START, "PT2M"), 2, 0),
        (Window("tumbling", START, "PT2M"), 3, 60),
        (Window("sliding", START, "PT2M"), 2, 60),
        (Window("unbounded", START), 3, 180),
    ],
)
def test_what_the_window_reaches_is_remembered(tenant, window, minute, remembered):
    pool = Simulated(tenant, "lt-drf", {"a": (1, 2), "b": (1, 1)}, window=window)
    for number in range(minute + 1):
        pool.step(number, (10, 10))
    assert _history(pool)["tenants"]["a"]["used"].get("cpu", 0) == 10 * remembered


def test_a_decaying_past_is_worth_half_after_its_half_life(tenant):
    window = Window("decay", START, "", "PT1M")
    pool = Simulated(tenant, "lt-drf", {"a": (1, 2), "b": (1, 1)}, window=window)
    pool.step(0, (10, 10))
    pool.step(1, (0, 0))
    at_one = _history(pool)["tenants"]["a"]["used"]["cpu"]
    pool.step(2, (0, 0))
    assert _history(pool)["tenants"]["a"]["used"]["cpu"] == pytest.approx(at_one / 2)


def test_changes_wait_for_the_boundary_and_every_boundary_decides(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}).pool
    job = RecomputeJob.objects.get(pool=pool)
    assert job.run_after == START + MINUTE
    assert jobs_due(now=START + timedelta(seconds=59), again=False) == []
    assert jobs_due(now=START + MINUTE, again=False) == [pool.pk]
    recompute_pool(pool_id=pool.pk, clock=lambda: START + MINUTE)
    job.refresh_from_db()
    assert job.run_after == START + 2 * MINUTE
    assert jobs_due(now=START + 2 * MINUTE, again=False) == [pool.pk]


def _history(pool):
    return input_of(pool.run)["history"]
