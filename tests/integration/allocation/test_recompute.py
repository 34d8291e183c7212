"""A recompute publishes a whole, proven decision, or leaves the old one in force and says why."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F, Max, Min

from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.audit.ledger import decisions_verify
from allocator_service.allocation.long_term.metering import metering_hold, pool_meter
from allocator_service.allocation.models import (
    Allocation,
    Certificate,
    Run,
    RunStatus,
    Snapshot,
)
from allocator_service.allocation.placements import owners_of
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.selectors import decision_at, decision_now, input_of
from allocator_service.allocation.services import run_request
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.core.errors import Missing
from allocator_service.core.models import Event
from allocator_service.ledger.audit.verification import LedgerCheck
from allocator_service.ledger.models import Entry, Meter
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import (
    ServerDraft,
    server_drain,
    server_retire,
    servers_contribute,
)
from allocator_service.pools.services import pool_retire, pool_update
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.services import WorkloadDraft, workload_withdraw, workloads_submit
from policies import policies_available, problem_from_document, solve
from tests.integration.conftest import NOON, another_session, recomputed, settings, vector
from tests.placements import falsify, placed
from tests.references.ledger import metered_entries

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = ("workload", "kind", "range", "tasks")


def test_figure_2_of_the_drfh_paper_is_decided_proven_and_in_force(fig2):
    run = recomputed(fig2)
    assert run.status == RunStatus.SUCCEEDED
    assert run.generation == 3
    assert run.summary["utilization"] == pytest.approx({"cpu": 6 / 7, "memory": 6 / 7})
    rows = list(
        run.allocations.values_list("workload__name", "tasks", "dominant_share", "limited_by")
    )
    assert [row[0] for row in rows] == ["analysis", "simulation"]
    assert [row[1] for row in rows] == pytest.approx([10, 10], rel=1e-9)
    assert [row[2] for row in rows] == pytest.approx([5 / 7, 5 / 7], rel=1e-9)
    assert [(row.servers.first, row.workload) for row in placed(run)] == [
        ("high-memory", "analysis"),
        ("high-cpu", "simulation"),
    ]
    assert decision_at(pool=fig2, at=NOON) == run
    assert run_verify(run)["valid"] is True


def test_before_the_first_decision_there_is_none(fig2):
    with pytest.raises(Missing) as missing:
        decision_at(pool=fig2, at=NOON)
    assert missing.value.code == "decision.none"


def test_doing_it_twice_does_nothing_the_second_time(fig2):
    first = recomputed(fig2)
    assert recomputed(fig2) is None
    assert list(Run.objects.all()) == [first]


def test_a_change_that_a_claimed_run_still_reads_is_decided_once(fig2):
    """It comes between the claim and the reading, where the run looks at its clock."""
    workload = Workload.objects.filter(pool=fig2).first()

    def clock():
        claimed = RecomputeJob.objects.filter(pool=fig2).exclude(claimed_at=None).exists()
        if claimed and workload.state != WorkloadState.WITHDRAWN:
            workload_withdraw(workload=workload, now=NOON)
            workload.refresh_from_db()
        return NOON

    run = recompute_pool(pool_id=fig2.pk, clock=clock)
    fig2.refresh_from_db()
    assert run.generation == fig2.generation
    assert not run.allocations.filter(workload=workload).exists()
    assert recomputed(fig2) is None
    job = RecomputeJob.objects.get(pool=fig2)
    assert (job.settled, job.first_change_at) == (job.wanted, None)


def test_an_unchanged_pool_asked_again_gives_the_same_numbers_and_keeps_one_snapshot(fig2):
    first = recomputed(fig2)
    run_request(pool=fig2, reason="to be sure", now=NOON)
    second = recomputed(fig2, NOON + timedelta(minutes=1))
    columns = ("workload", "tasks", "resources", "dominant_share", "weighted_share", "limited_by")
    assert list(first.allocations.values_list(*columns)) == list(
        second.allocations.values_list(*columns)
    )
    assert first.snapshot_id == second.snapshot_id
    assert Snapshot.objects.count() == 1
    assert second.reason == "to be sure"


def test_the_old_decision_ends_where_the_new_one_begins_whatever_the_clock_says(fig2):
    first = recomputed(fig2)
    run_request(pool=fig2, reason="", now=NOON)
    second = recomputed(fig2, NOON - timedelta(hours=1))
    first.refresh_from_db()
    assert first.effective_until == second.effective_from > first.effective_from
    assert decision_at(pool=fig2, at=second.effective_from) == second
    assert decision_at(pool=fig2, at=first.effective_from) == first


@pytest.mark.parametrize("behind", [timedelta(0), timedelta(minutes=5), timedelta(hours=2)])
def test_a_decision_begins_where_the_one_before_it_is_metered(fig2, behind):
    """A commit that takes long, or a clock that is set back: what is in the ledger stays true."""
    hour = timedelta(hours=1)
    first = recomputed(fig2)
    pool_meter(pool_id=fig2.pk, now=NOON + hour)
    metered = Meter.objects.get(pool=fig2).metered_until
    assert metered == NOON + hour
    run_request(pool=fig2, reason="", now=NOON)
    second = recomputed(fig2, metered - behind)
    first.refresh_from_db()
    assert first.effective_until == second.effective_from == second.finished_at == metered
    assert decision_now(pool=fig2, now=metered - behind) == second
    pool_meter(pool_id=fig2.pk, now=metered + hour)
    ends = Entry.objects.filter(run_id=first.pk).aggregate(last=Max("end"))["last"]
    begins = Entry.objects.filter(run_id=second.pk).aggregate(first=Min("start"))["first"]
    assert (ends, begins) == (metered, metered)


def test_while_a_decision_is_put_in_force_nobody_meters_the_pool(fig2):
    recomputed(fig2)
    pool_meter(pool_id=fig2.pk, now=NOON + timedelta(minutes=30))
    with ThreadPoolExecutor(1) as other:
        with transaction.atomic():
            assert metering_hold(fig2) == NOON + timedelta(minutes=30)
            metering = other.submit(metered_elsewhere, fig2)
            with pytest.raises(TimeoutError):
                metering.result(timeout=1)
            assert metering_hold(fig2) == NOON + timedelta(minutes=30)
        assert metering.result() > 0
    assert metering_hold_of(fig2) == NOON + timedelta(hours=1)


@transaction.atomic
def metering_hold_of(pool):
    return metering_hold(pool)


def test_a_decision_is_put_in_force_while_the_pool_is_metered(fig2):
    """Metering reads and writes for as long as it takes, and does not hold what publishing needs."""
    recomputed(fig2)
    pool_meter(pool_id=fig2.pk, now=NOON + timedelta(minutes=30))
    at = NOON + timedelta(minutes=61)
    run_request(pool=fig2, reason="", now=at)
    with another_session() as blocking, ThreadPoolExecutor(1) as other:
        blocking.execute("LOCK TABLE ledger_entry IN SHARE MODE")  # metering cannot append
        metering = other.submit(metered_elsewhere, fig2)
        with pytest.raises(TimeoutError):
            metering.result(timeout=1)
        run = recomputed(fig2, at)
        assert (run.status, run.effective_from) == ("succeeded", at)
        blocking.rollback()
        assert metering.result() > 0
    assert metering_hold_of(fig2) == NOON + timedelta(hours=1)


def test_metering_starts_again_if_a_decision_begins_before_its_last_interval_ends(fig2, tenant):
    """The clock of the worker that publishes is behind."""
    first = recomputed(fig2)
    pool_meter(pool_id=fig2.pk, now=NOON + timedelta(minutes=30))
    at = NOON + timedelta(minutes=45)
    run_request(pool=fig2, reason="", now=at)
    with another_session() as blocking, ThreadPoolExecutor(1) as other:
        blocking.execute("LOCK TABLE ledger_entry IN SHARE MODE")
        metering = other.submit(metered_elsewhere, fig2)
        with pytest.raises(TimeoutError):
            metering.result(timeout=1)
        draft = WorkloadDraft(tenant("u3"), "third", vector(1, 1))
        workloads_submit(pool=fig2, drafts=[draft], now=at)
        second = recomputed(fig2, at)
        blocking.rollback()
        assert metering.result() > 0
    uses = metered_entries(fig2)
    assert {each.start for each in uses if each.run == second.pk} == {at}
    assert {each.end for each in uses if each.run == first.pk} <= {at, NOON + timedelta(hours=1)}
    changed = [each for each in uses if each.workload and each.tenant == "u1"]
    assert {each.end for each in changed if each.run == first.pk} == {at}


def metered_elsewhere(pool):
    try:
        return pool_meter(pool_id=pool.pk, now=NOON + timedelta(hours=1))
    finally:
        connection.close()


def test_a_draining_server_leaves_the_capacity_and_a_retired_one_the_pool(fig2):
    high_cpu = fig2.servers.get(name="high-cpu")
    server_drain(server=high_cpu, now=NOON)
    run = recomputed(fig2)
    assert run.summary["servers"] == 1
    assert [server["name"] for server in input_of(run)["servers"]] == ["high-memory", "high-cpu"]
    server_retire(server=high_cpu, now=NOON)
    run = recomputed(fig2)
    assert [server["name"] for server in input_of(run)["servers"]] == ["high-memory"]
    assert run_verify(run)["valid"] is True


def test_replaying_the_stored_input_gives_the_stored_decision(fig2):
    run = recomputed(fig2)
    parsed = problem_from_document(input_of(run))
    replayed = solve(parsed.problem, parsed.policy, mode=parsed.mode, options=parsed.options)
    assert replayed.tasks.tolist() == list(run.allocations.values_list("tasks", flat=True))


@pytest.mark.parametrize(
    ("servers", "workloads"), [(False, False), (True, False), (False, True)], ids=str
)
def test_a_pool_without_servers_or_workloads_has_a_sensible_decision(fig2, now, servers, workloads):
    if not servers:
        for server in fig2.servers.all():
            server_retire(server=server, now=now)
    if not workloads:
        for workload in fig2.workloads.all():
            workload_withdraw(workload=workload, now=now)
    run = recomputed(fig2)
    assert run.status == RunStatus.SUCCEEDED
    assert sum(run.allocations.values_list("tasks", flat=True)) == 0
    assert run_verify(run)["valid"] is True


def test_a_workload_that_cannot_run_gets_nothing_says_why_and_harms_nobody(fig2, tenant, now):
    workloads_submit(
        pool=fig2,
        drafts=[
            WorkloadDraft(
                tenant("u3"), "elsewhere", vector(1, 1), server_selector={"zone": "mars"}
            ),
            WorkloadDraft(tenant("u4"), "enormous", vector(10**11, 1)),
        ],
        now=now,
    )
    run = recomputed(fig2)
    by_name = dict(run.allocations.values_list("workload__name", "limited_by"))
    assert by_name["elsewhere"] == "no_eligible_server"
    assert by_name["enormous"] == "out_of_range"
    tasks = dict(run.allocations.values_list("workload__name", "tasks"))
    assert tasks["analysis"] == pytest.approx(10, rel=1e-9)
    assert (tasks["elsewhere"], tasks["enormous"]) == (0, 0)
    assert dict(Workload.objects.values_list("name", "unsatisfiable")) == {
        "analysis": "",
        "simulation": "",
        "elsewhere": "no_eligible_server",
        "enormous": "out_of_range",
    }
    assert list(
        Event.objects.filter(kind="workload.unsatisfiable").values_list("tenant", flat=True)
    ) == ["u4"]  # u3's was known when it was submitted


def test_a_class_of_several_contributors_servers_has_no_owner(fig2, tenant, now):
    drafts = [ServerDraft(name, vector(3, 3), tenant(name)) for name in ("u1", "u2")]
    servers_contribute(pool=fig2, drafts=drafts, now=now)
    run = recomputed(fig2)
    ranges = stored_placements(run).ranges
    owners = owners_of(ranges)
    found = [(each.count, owners[each.traits.owner], each.traits.shared) for each in ranges]
    assert sorted(found, key=str) == [(1, "u1", False), (1, "u2", False), (2, None, True)]


def test_a_tampered_row_fails_verification(falsifiable, fig2):
    run = recomputed(fig2)
    row = run.allocations.first()
    Allocation.objects.filter(pk=row.pk).update(tasks=row.tasks * 1.001)
    verdict = run_verify(run)
    assert verdict["valid"] is False
    Allocation.objects.filter(pk=row.pk).update(tasks=row.tasks)
    assert run_verify(run)["valid"] is True
    for changed in (
        lambda document: document["ranges"][0].__setitem__(1, 7),
        lambda document: document["traits"][0].__setitem__(1, {"zone": "a"}),
        lambda document: document["traits"][0].__setitem__(2, None),
        lambda document: document["traits"][0].__setitem__(2, 999),
        lambda document: document["traits"][0].__setitem__(3, True),
    ):
        run = recomputed_again(fig2)
        falsify(run, changed)
        assert {c["name"] for c in run_verify(run)["checks"] if not c["holds"]} >= {"server_ranges"}
        assert recomputed_again(fig2).status == RunStatus.SUCCEEDED


@pytest.mark.parametrize(
    "falsified",
    [
        lambda run: run.allocations.filter(position=0).update(tasks=F("tasks") + 1),
        lambda run: run.allocations.filter(position=0).update(dominant_share=0.8),
        lambda run: run.allocations.filter(position=0).update(dominant_resource="gpu"),
        lambda run: run.allocations.filter(position=1).update(resources=[10.0, 2.5]),
        lambda run: falsify(run, halved),
        lambda run: falsify(run, without_the_first),
        lambda run: falsify(run, with_the_first_twice),
        lambda run: run.certificate.delete(),
    ],
)
def test_the_nightly_verification_finds_a_decision_that_was_changed(falsifiable, fig2, falsified):
    run = recomputed(fig2)
    assert decisions_verify(since=NOON) == LedgerCheck("decisions", True, "1 decisions")
    falsified(run)
    check = decisions_verify(since=NOON)
    assert (check.holds, str(run.pk) in check.detail) == (False, True)


@pytest.mark.parametrize(
    "falsified",
    [
        lambda run: Certificate.objects.filter(run=run).update(document=b"x"),
        lambda run: Run.objects.filter(pk=run.pk).update(summary=5),
        lambda run: run.allocations.filter(position=1).delete(),
        lambda run: falsify(run, lambda document: document["tasks"].pop()),
        lambda run: falsify(run, lambda document: document["range"].__setitem__(0, 9)),
        lambda run: falsify(run, lambda document: document["range"].__setitem__(0, -1)),
        lambda run: falsify(run, lambda document: document["range"].__setitem__(0, 0.5)),
        lambda run: falsify(run, lambda document: document["kind"].__setitem__(0, -1)),
        lambda run: falsify(run, lambda document: document["kind"].__setitem__(0, 1)),
        lambda run: falsify(run, lambda document: document["workload"].__setitem__(0, 99)),
        lambda run: falsify(run, lambda document: document["workload"].__setitem__(0, -1)),
        lambda run: falsify(run, lambda document: document["tasks"].__setitem__(0, None)),
        lambda run: falsify(run, lambda document: document["tasks"].__setitem__(0, -1.0)),
        lambda run: falsify(run, lambda document: document["ranges"][0].__setitem__(1, "x")),
        lambda run: falsify(run, lambda document: document["ranges"][0].__setitem__(3, 5)),
        lambda run: falsify(run, lambda document: document["traits"][0].__setitem__(1, [])),
        lambda run: falsify(run, lambda document: document["traits"][0].__setitem__(2, "x")),
        lambda run: falsify(run, lambda document: document["tasks"].__setitem__(0, "many")),
        lambda run: falsify(run, lambda document: document.pop("traits")),
        lambda run: falsify(
            run, lambda document: document["traits"].append([["x"], {}, None, False])
        ),
    ],
)
def test_what_cannot_be_read_is_not_valid(falsifiable, fig2, falsified):
    run = recomputed(fig2)
    falsified(run)
    verdict = run_verify(Run.objects.get(pk=run.pk))
    assert verdict["valid"] is False
    assert [check["name"] for check in verdict["checks"]] == ["readable"]


def recomputed_again(pool):
    run_request(pool=pool, reason="", now=NOON)
    return recomputed(pool)


def halved(document):
    document["tasks"][0] /= 2


def without_the_first(document):
    for column in COLUMNS:
        del document[column][0]


def with_the_first_twice(document):
    for column in COLUMNS:
        document[column].append(document[column][0])


def test_a_request_while_another_waits_is_answered_with_the_same_run(fig2, now):
    assert run_request(pool=fig2, reason="a", now=now) == run_request(
        pool=fig2, reason="b", now=now
    )
    run = recomputed(fig2)
    assert run.reason == "a"
    assert Run.objects.count() == 1


def test_a_run_without_a_reason_takes_the_next_request_s(fig2, now):
    run_request(pool=fig2, reason="", now=now)
    run_request(pool=fig2, reason="after maintenance", now=now)
    assert recomputed(fig2).reason == "after maintenance"


EVERY_POLICY = [
    (info.name, mode) for info in policies_available() if not info.long_term for mode in info.modes
]


@pytest.mark.parametrize(("policy", "mode"), EVERY_POLICY, ids="-".join)
def test_every_policy_decides_live_and_its_stored_decision_is_valid(fig2, now, policy, mode):
    choice = policy_choose(policy, mode, {})
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=now)
    run = recomputed(fig2)
    assert run.error is None
    assert sum(run.allocations.values_list("tasks", flat=True)) > 0
    assert [check for check in run_verify(run)["checks"] if not check["holds"]] == []


@pytest.mark.parametrize(
    ("policy", "mode"), [case for case in EVERY_POLICY if "indivisible" in case], ids="-".join
)
def test_with_nothing_changed_nothing_moves(fig2, now, policy, mode):
    choice = policy_choose(policy, mode, {})
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=now)
    first = recomputed(fig2)
    run_request(pool=fig2, reason="", now=now)
    second = recomputed(fig2)
    rows = [
        [(each.workload, each.servers.first, each.servers.last, each.tasks) for each in placed(run)]
        for run in (first, second)
    ]
    assert rows[0] == rows[1]


def test_a_retired_pools_waiting_run_is_cancelled_and_its_job_is_done(pool, now):
    run = run_request(pool=pool, reason="too late", now=now)
    pool_retire(pool=pool, version=None, now=now)
    assert recomputed(pool) is None
    run.refresh_from_db()
    assert run.status == RunStatus.CANCELLED
    job = RecomputeJob.objects.get(pool=pool)
    assert job.settled == job.wanted


def test_tenants_are_told_when_their_tasks_change_and_only_then(fig2, tenant):
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    told = Event.objects.filter(kind="allocation.changed").order_by("pk")
    assert [(event.tenant, event.payload["run"]) for event in told] == [
        ("u1", str(run.pk)),
        ("u2", str(run.pk)),
    ]
    assert told[0].payload["workloads"][0]["after"] == pytest.approx(10)
    decision_request(fig2, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    assert told.count() == 2
    withdrawn = Workload.objects.get(name="analysis")
    workload_withdraw(workload=withdrawn, version=None, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    first, second = told.all()[2:]
    assert {first.tenant, second.tenant} == {"u1", "u2"}
    (entry,) = told.filter(tenant="u1").last().payload["workloads"]
    assert (entry["workload"], entry["after"]) == (str(withdrawn.pk), 0)
