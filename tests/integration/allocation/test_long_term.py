"""The papers' long-term examples in a pool: decisions at boundaries, remembered through its window."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.selectors import input_of
from allocator_service.core.jobs import jobs_due
from allocator_service.core.models import Event
from allocator_service.core.quantities import Resource
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry
from allocator_service.ledger.windows import window_state
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import DECISION_JOBS, decision_request
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create, pool_update
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import Gang, Piece
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
        decision_request(self.pool, now=now)
        self.run = recompute_pool(pool_id=self.pool.pk, clock=lambda: now, early=True)
        verification = run_verify(self.run)
        assert verification["valid"] is True, verification
        return [int(row.tasks) for row in self.run.allocations.order_by("position")]

    def report(self, tenant, event_id, number, amounts):
        """What a tenant used in the step that began `number` minutes after the start."""
        begin = START + number * MINUTE
        amounts = [Decimal(amount) for amount in amounts]
        event = UsageEvent("meter", event_id, tenant, None, amounts, begin, begin + MINUTE)
        usage_record(pool=self.pool, events=[event], now=begin + MINUTE)

    def degrees(self, number):
        """β of the tenants so many minutes after the start."""
        at = START + number * MINUTE
        pool_meter_all(pool_id=self.pool.pk, now=at)
        state = window_state(self.pool, at)
        tenants = Tenant.objects.filter(slug__in=self.names).order_by("slug")
        return [state.sharing_degrees.get(tenant.pk) for tenant in tenants]

    def history(self, number):
        """What a decision so many minutes after the start remembers."""
        at = START + number * MINUTE
        pool_meter_all(pool_id=self.pool.pk, now=at)
        return pool_state(self.pool.pk, now=at).document["history"]


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
    assert jobs_due(DECISION_JOBS, now=START + timedelta(seconds=59), again=False) == []
    assert jobs_due(DECISION_JOBS, now=START + MINUTE, again=False) == [pool.pk]
    recompute_pool(pool_id=pool.pk, clock=lambda: START + MINUTE)
    job.refresh_from_db()
    assert job.run_after == START + 2 * MINUTE
    assert jobs_due(DECISION_JOBS, now=START + 2 * MINUTE, again=False) == [pool.pk]


def test_a_worker_whose_clock_is_behind_the_relays_decides_no_step_before_it_begins(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}).pool
    behind = START + timedelta(seconds=59)
    assert recompute_pool(pool_id=pool.pk, clock=lambda: behind) is None
    assert jobs_due(DECISION_JOBS, now=behind, again=False) == []
    assert jobs_due(DECISION_JOBS, now=START + MINUTE, again=False) == [pool.pk]


def test_a_message_that_comes_twice_decides_a_step_once(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}).pool
    begun = START + MINUTE
    assert recompute_pool(pool_id=pool.pk, clock=lambda: begun) is not None
    late = begun + timedelta(seconds=5)
    assert recompute_pool(pool_id=pool.pk, clock=lambda: late) is None
    following = recompute_pool(pool_id=pool.pk, clock=lambda: begun + MINUTE)
    assert following.step.begin == START + 2 * MINUTE


def clock(*instants, meanwhile):
    """A clock that tells these one after the other, and before the second `meanwhile` happens."""
    told = []

    def tell():
        told.append(instants[min(len(told), len(instants) - 1)])
        if len(told) == 2:
            meanwhile()
        return told[-1]

    return tell


def test_a_change_while_a_step_is_decided_waits_for_the_next_boundary(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}).pool
    late = START + MINUTE + timedelta(seconds=1)

    def meanwhile():
        draft = WorkloadDraft(tenant("a"), "more", vector(1, 1), tasks=1)
        workloads_submit(pool=pool, drafts=[draft], now=late)

    recompute_pool(pool_id=pool.pk, clock=clock(START + MINUTE, late, meanwhile=meanwhile))
    job = RecomputeJob.objects.get(pool=pool)
    assert job.wanted > job.settled
    assert job.run_after == START + 2 * MINUTE


def test_a_decision_published_after_its_step_makes_the_next_one_due_at_once(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}).pool
    begun, published = START + 1.9 * MINUTE, START + 2.1 * MINUTE
    told = clock(begun, begun, begun, begun, published, meanwhile=lambda: None)
    run = recompute_pool(pool_id=pool.pk, clock=told)
    assert (run.step.begin, run.effective_from) == (START + MINUTE, published)
    assert jobs_due(DECISION_JOBS, now=published, again=False) == [pool.pk]
    assert recompute_pool(pool_id=pool.pk, clock=lambda: published).step.begin == START + 2 * MINUTE
    assert RecomputeJob.objects.get(pool=pool).run_after == START + 3 * MINUTE


def _history(pool):
    return input_of(pool.run)["history"]


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("lt-drf", [[15, 70], [35, 30]]),
        ("lt-af", [[15, 70], [42, 16]]),
        ("h-mrf", [[15, 70], [40, 20]]),
    ],
)
def test_what_is_reported_counts_as_what_is_metered(tenant, policy, served):
    pool = Simulated(tenant, policy, {"a": (1, 2), "b": (1, 1)}, metering="reported")
    first = pool.step(0, (15, 80))
    for name, tasks, demand in zip(("a", "b"), first, ((1, 2), (1, 1)), strict=True):
        pool.report(tenant(name), name, 0, [tasks * amount for amount in demand])
    assert [first, pool.step(1, (60, 40))] == served


def test_a_late_report_and_a_correction_change_what_is_decided_next(tenant):
    pool = Simulated(tenant, "lt-drf", {"a": (1, 1), "b": (1, 1)}, metering="reported")
    pool.step(0, (50, 50))
    assert pool.step(1, (100, 100)) == [50, 50]
    pool.report(tenant("a"), "late", 0, [40, 40])
    assert pool.step(2, (100, 100)) == [30, 70]  # 40 + 30 beside 70
    entry_correct(
        entry=Entry.objects.get(resource="cpu", event_id="late"), quantity=Decimal(0), reason="x",
        now=START,
    )  # fmt: skip
    entry_correct(
        entry=Entry.objects.get(resource="memory", event_id="late"), quantity=Decimal(20),
        reason="x", now=START,
    )  # fmt: skip
    assert pool.step(3, (100, 100)) == [40, 60]


@pytest.mark.parametrize(
    ("policy", "degrees"), [("h-mrf", [1.375, 1.0]), ("lt-af", [1.425, 172 / 180])]
)
def test_the_sharing_degrees_of_example_4_are_those_of_the_ledger(tenant, policy, degrees):
    pool = Simulated(tenant, policy, {"a": (1, 2), "b": (1, 1)})
    pool.step(0, (15, 80))
    first = pool.degrees(1)
    assert first == [1, 1.4]
    pool.step(1, (60, 40))
    assert pool.degrees(2) == pytest.approx(degrees, rel=1e-12)
    entries_seal(now=START)
    totals_advance()
    assert pool.degrees(2) == pytest.approx(degrees, rel=1e-12)
    assert [check for check in ledger_verify(now=START + 2 * MINUTE) if not check.holds] == []


def test_a_decision_that_comes_late_is_for_all_of_its_step(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)})
    pool.step(0, (15, 80))
    on_time = pool.history(1)
    pool.step(1.5, (60, 40))
    assert _history(pool) == on_time
    assert _history(pool)["step"] == 60


def test_waiting_goes_on_while_nobody_decides(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)})
    Workload.objects.filter(tenant__slug="b").update(demand=[200, 1])  # fits nowhere
    pool.step(0, (15, 80))
    assert pool.run.step.waiting == [0, 0]  # what cannot run does not wait
    Workload.objects.filter(tenant__slug="b").update(demand=[90, 1])
    pool.step(1, (100, 1))
    pool.step(4, (100, 1))
    waiting = {name: row["waiting"] for name, row in _history(pool)["tenants"].items()}
    assert waiting == {"a": 0, "b": 180}


def test_a_tenant_that_waits_for_the_timeout_is_told_so_once(tenant):
    window = Window("sliding", START, "PT1M")
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}, window=window)
    pool.step(0, (15, 80))
    # A task of b needs nearly the whole pool: while one of a runs, none of it does.
    Workload.objects.filter(tenant__slug="b").update(demand=[90, 1])
    waited = []
    for number in range(1, 7):
        pool.step(number, (100, 1))
        waited.append(pool.run.step.waiting[1])
    told = Event.objects.filter(kind="tenant.starved").values_list("tenant", "payload")
    assert waited[:2] == [60, 0]
    episodes = sum(now >= 60 > before for before, now in pairwise([0, *waited]))
    assert [who for who, _ in told] == ["b"] * episodes
    assert {(each["waiting_seconds"], each["timeout_seconds"]) for _, each in told} == {(60, 60)}


@pytest.mark.parametrize(
    ("window", "timeout"),
    [
        (Window("tumbling", START, "P1D"), 86_400),
        (Window("sliding", START, "PT90M"), 5_400),
        (Window("decay", START, "", "P7D"), 604_800),
        (Window("unbounded", START), None),
    ],
)
def test_who_waits_as_long_as_the_window_goes_first_unless_told_otherwise(tenant, window, timeout):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}, window=window)
    pool.step(0, (1, 1))
    assert pool.run.policy["options"].get("starvation_timeout") == timeout


def test_a_pool_whose_clock_is_set_back_decides_changes_for_the_step_that_was_decided_last(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)})
    for number in range(4):
        pool.step(number, (1, 1))
    before = input_of(pool.run)["history"]
    back = START + MINUTE + timedelta(seconds=30)
    decision_request(pool.pool, now=back)
    decided = []
    for second in range(0, 300, 10):
        now = back + timedelta(seconds=second)
        if jobs_due(DECISION_JOBS, now=now, again=True) and (
            run := recompute_pool(pool_id=pool.pool.pk, clock=lambda now=now: now)
        ):
            decided.append((now - START, run.step.begin - START))
            if len(decided) == 1:
                assert run.effective_from > pool.run.effective_from
                assert input_of(run)["history"] == before
    minutes = [(2, 3), (4, 4), (5, 5), (6, 6)]  # at 3 the clock comes to what is decided
    assert decided == [(now * MINUTE, begin * MINUTE) for now, begin in minutes]


@pytest.mark.parametrize(
    ("intervals", "first"),
    [(("PT1M", "PT5M"), 5), (("PT5M", "PT1M"), 3), (("PT2M", "PT3M"), 3)],
)
def test_a_changed_decision_interval_counts_from_the_next_boundary_of_the_new_one(
    tenant, intervals, first
):
    """Also where the old one's comes first: its step has begun, and is decided no second time."""
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)}, decision_interval=intervals[0])
    pool.step(0, (1, 1))
    pool.step(2, (1, 1))
    changed = START + 2 * MINUTE + timedelta(seconds=20)
    choice = policy_choose("h-mrf", "indivisible", {"placement": "pool"})
    new = settings(policy=choice, window=Window("unbounded", START), decision_interval=intervals[1])
    pool_update(pool=pool.pool, settings=new, version=None, now=changed)
    begins = []
    for second in range(0, 600, 10):
        now = changed + timedelta(seconds=second)
        if jobs_due(DECISION_JOBS, now=now, again=True) and (
            run := recompute_pool(pool_id=pool.pool.pk, clock=lambda now=now: now)
        ):
            begins.append((run.step.begin - START) / MINUTE)
    step = int(intervals[1][2])
    assert begins == list(range(first, 13, step))


@pytest.mark.parametrize("policy", ["lt-drf", "lt-af"])
def test_gangs_take_turns_with_what_they_used(tenant, policy):
    """A task of mpi takes 3 of 4 servers, and repays the others in the next step."""
    choice = policy_choose(policy, "indivisible", {})
    chosen = settings(
        policy=choice, window=Window("unbounded", START), resources=[Resource("gpu", "")]
    )
    pool = pool_create(slug="gangs", settings=chosen, now=START)
    servers = [ServerDraft(f"s{number}", vector(8)) for number in range(4)]
    servers_contribute(pool=pool, drafts=servers, now=START)
    pieces = Gang((Piece(3, {"gpu": Decimal(8)}),), per_server=1)
    drafts = [
        WorkloadDraft(tenant("mpi"), "mpi", vector(24), tasks=2, gang=pieces),
        WorkloadDraft(tenant("solo"), "solo", vector(1), tasks=40),
    ]
    workloads_submit(pool=pool, drafts=drafts, now=START)
    answers = []
    for number in range(3):
        at = START + number * MINUTE
        decision_request(pool, now=at)
        run = recompute_pool(pool_id=pool.pk, clock=lambda at=at: at, early=True)
        assert run_verify(run)["valid"] is True
        answers.append({row.workload.name: row.tasks for row in run.allocations.all()})
        assert pool_meter_all(pool_id=pool.pk, now=at + MINUTE) > 0
    both, single = {"mpi": 1, "solo": 8}, {"mpi": 0, "solo": 32}
    assert answers == [both, single, both]
    used = window_state(pool, START + 3 * MINUTE).used
    assert [float(amount) for amount in used.values()] == [48 * 60, 48 * 60]
