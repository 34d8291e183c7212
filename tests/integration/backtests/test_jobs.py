"""Rows are the jobs: lost, doubled and late messages change nothing, and nobody's turn is skipped."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings

from allocator_service.backtests import jobs
from allocator_service.backtests.jobs import (
    BACKTEST_JOBS,
    CELL_JOBS,
    backtest_advance,
    cell_compute,
)
from allocator_service.backtests.models import Backtest, BacktestInput, Cell
from allocator_service.backtests.selectors import Holder, backtests_of
from allocator_service.backtests.services import backtest_cancel, backtest_request, backtests_prune
from allocator_service.core.jobs import JOBS_CHANNEL, hold_job, jobs_due
from allocator_service.tenants.models import ApiKey
from allocator_service.tenants.services import api_key_create, api_key_revoke, api_key_rotate
from api.contract.documents import read_document
from api.v1.backtest_documents import BacktestRequest, asked_of
from tests import backtests
from tests.integration.conftest import NOON, another_session

pytestmark = pytest.mark.django_db
ADMIN = Holder(user="olga")


def requested(holder=ADMIN, tenant=None, **more):
    return backtest_request(
        holder=holder, tenant=tenant, pool=None, plan=None, names=None,
        asked=asked_of(read_document(BacktestRequest, backtests.asked(**more))), now=NOON,
    )  # fmt: skip


def prepared(**more):
    backtest = requested(**more)
    backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
    backtest.refresh_from_db()
    assert backtest.status == "running"
    return backtest


def key_of(name, tenant=None):
    scope = "operator" if tenant is None else "tenant"
    api_key_create(
        scope=scope, name=name, tenant=tenant, expires_at=NOON + timedelta(days=900), now=NOON
    )
    return Holder(ApiKey.objects.filter(name=name).latest("id").pk)


def due(kind, *, later=0.0, again=False, limit=100):
    return jobs_due(kind, now=NOON + timedelta(seconds=later), again=again, limit=limit)


def test_what_was_published_is_published_again_once_nothing_waits_and_time_has_passed():
    backtest = requested()
    assert due(BACKTEST_JOBS) == [backtest.pk]
    assert due(BACKTEST_JOBS, later=60) == []
    assert due(BACKTEST_JOBS, later=5, again=True) == []
    assert due(BACKTEST_JOBS, later=11, again=True) == [backtest.pk]
    backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
    cells = list(backtest.cells.values_list("pk", flat=True))
    assert due(CELL_JOBS) == cells
    assert due(BACKTEST_JOBS, later=99, again=True) == []
    assert due(CELL_JOBS, later=11, again=True) == cells


@pytest.mark.django_db(transaction=True)
def test_every_stage_wakes_the_relay():
    with another_session(autocommit=True) as relay:
        relay.execute(f"LISTEN {JOBS_CHANNEL}")

        def woken():
            return any(relay.notifies(timeout=0.2, stop_after=1))

        assert not woken()
        backtest = requested()
        assert woken()
        backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
        assert woken()
        for cell in due(CELL_JOBS):
            cell_compute(cell_id=cell, clock=lambda: NOON)
            assert woken()
        backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
        assert not woken()


def test_cells_of_all_backtests_come_in_turn():
    first, second = prepared(), prepared(policies=["drf", "drfh", "mrfs"])
    found = [Cell.objects.get(pk=pk) for pk in due(CELL_JOBS, limit=4)]
    assert [(cell.backtest_id, cell.position) for cell in found] == [
        (first.pk, 0), (second.pk, 0), (first.pk, 1), (second.pk, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("error", [ValueError, KeyError, AttributeError])
def test_a_mistake_of_ours_fails_its_cell_and_its_cause_is_in_the_log(monkeypatch, caplog, error):
    """The other policies still answer; what was raised is told by its name alone."""
    backtest, simulate = prepared(), jobs.simulating.simulate

    def breaks(problem, trace, policy, **more):
        if policy == "drfh":
            raise error("arrays of 3 and 4")
        return simulate(problem, trace, policy, **more)

    monkeypatch.setattr(jobs.simulating, "simulate", breaks)
    for cell in backtest.cells.all():
        cell_compute(cell_id=cell.pk, clock=lambda: NOON)
    static, drfh = backtest.cells.order_by("position")
    assert (static.status, drfh.status, drfh.result, drfh.jobs) == (
        "succeeded", "failed", None, None,
    )  # fmt: skip
    assert (drfh.error["code"], drfh.attempts) == ("run.internal", 1)
    assert error.__name__ in drfh.error["detail"]
    assert "arrays of 3" not in drfh.error["detail"]
    (logged,) = [each for each in caplog.records if "backtest_failed" in each.getMessage()]
    assert "arrays of 3 and 4" in str(logged.msg) + str(logged.exc_info)
    backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
    backtest.refresh_from_db()
    assert backtest.status == "succeeded"
    assert backtest.result["columns"][1]["error"]["code"] == "run.internal"


def test_a_message_that_comes_twice_computes_once():
    backtest = prepared()
    cell = backtest.cells.first()
    for _ in range(2):
        cell_compute(cell_id=cell.pk, clock=lambda: NOON)
        backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
    cell.refresh_from_db()
    assert (cell.status, cell.attempts) == ("succeeded", 1)
    backtest.refresh_from_db()
    assert (backtest.status, backtest.result) == ("running", None)


def test_a_cell_that_another_worker_holds_is_left_to_it():
    cell = prepared().cells.first()
    with hold_job(CELL_JOBS, cell.pk):
        cell_compute(cell_id=cell.pk, clock=lambda: NOON)
    cell.refresh_from_db()
    assert (cell.status, cell.attempts) == ("queued", 0)


def test_a_cell_that_killed_its_worker_three_times_fails_and_the_others_answer():
    backtest = prepared()
    cell = backtest.cells.first()
    Cell.objects.filter(pk=cell.pk).update(status="running", attempts=3)
    backtests.work()
    backtest.refresh_from_db()
    assert backtest.status == "succeeded"
    static, drfh = backtest.result["columns"]
    assert static["error"]["code"] == "run.worker_lost"
    assert (drfh["error"], backtest.result["baseline"]) == (None, "drfh")


def test_a_backtest_all_of_whose_cells_failed_fails():
    backtest = prepared()
    backtest.cells.update(status="running", attempts=3)
    backtests.work()
    backtest.refresh_from_db()
    assert (backtest.status, backtest.error["code"]) == ("failed", "run.worker_lost")


def meanwhile(monkeypatch, action):
    """Have every simulation do something after its first progress."""
    simulate = jobs.simulating.simulate
    monkeypatch.setattr(jobs, "PROGRESS_SECONDS", -1.0)

    def simulated(*arguments, on_progress, **more):
        on_progress(0.25)
        action()
        return simulate(*arguments, on_progress=on_progress, **more)

    monkeypatch.setattr(jobs.simulating, "simulate", simulated)


def test_a_simulation_whose_backtest_is_cancelled_ends_and_writes_nothing(monkeypatch, caplog):
    backtest = prepared()
    cell = backtest.cells.last()

    def cancel():
        cell.refresh_from_db()
        assert (cell.status, cell.progress) == ("running", 0.25)
        backtest_cancel(backtest=backtest, now=NOON)

    meanwhile(monkeypatch, cancel)
    assert cell_compute(cell_id=cell.pk, clock=lambda: NOON)
    assert "backtest_cell_stopped" in caplog.text
    backtest.refresh_from_db()
    assert backtest.status == "cancelled"
    assert not Cell.objects.exists()
    assert not BacktestInput.objects.exists()


@pytest.mark.parametrize("progress_seconds", [-1.0, 60.0])
def test_a_worker_that_lost_its_claim_leaves_the_cell_to_the_other(monkeypatch, progress_seconds):
    """Whether it finds that out while it simulates or when it ends."""
    cell = prepared().cells.first()
    other = uuid4()

    def lose_claim():
        monkeypatch.setattr(jobs, "PROGRESS_SECONDS", progress_seconds)
        Cell.objects.filter(pk=cell.pk).update(token=other)

    meanwhile(monkeypatch, lose_claim)
    cell_compute(cell_id=cell.pk, clock=lambda: NOON)
    cell.refresh_from_db()
    assert (cell.status, cell.result, cell.token) == ("running", None, other)


@pytest.mark.parametrize("step", ["scenario_of", "results_of"])
@pytest.mark.parametrize("outcome", ["succeeds", "fails"])
def test_a_worker_that_lost_its_claim_leaves_the_backtest_to_the_other(monkeypatch, step, outcome):
    backtest = requested()
    if step == "results_of":
        backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
        for cell in backtest.cells.all():
            cell_compute(cell_id=cell.pk, clock=lambda: NOON)
    original, other = getattr(jobs, step), uuid4()

    def lose_claim(*arguments):
        Backtest.objects.update(token=other)
        if outcome == "fails":
            raise ValueError("a mistake of ours")
        return original(*arguments)

    monkeypatch.setattr(jobs, step, lose_claim)
    before = Backtest.objects.values("status", "result", "error").get()
    backtest_advance(backtest_id=backtest.pk, clock=lambda: NOON)
    assert Backtest.objects.values("status", "result", "error").get() == before
    assert Backtest.objects.get().token == other


def test_a_simulation_that_takes_too_long_ends(monkeypatch):
    cell = prepared().cells.first()
    monkeypatch.setattr(jobs, "LONGEST_SECONDS", -1.0)
    meanwhile(monkeypatch, lambda: None)
    cell_compute(cell_id=cell.pk, clock=lambda: NOON)
    cell.refresh_from_db()
    assert (cell.status, cell.error["code"]) == ("failed", "backtest.timeout")


def test_inputs_go_after_their_retention_and_results_stay():
    old = requested()
    backtests.work()
    days = settings.ENVIRONMENT.run_retention_days
    finished = Backtest.objects.get().finished_at
    assert backtests_prune(now=finished + timedelta(days=days)) == 0
    assert BacktestInput.objects.count() == 1
    assert backtests_prune(now=finished + timedelta(days=days, seconds=1)) == 1
    assert (BacktestInput.objects.count(), Cell.objects.count()) == (0, 0)
    old.refresh_from_db()
    assert old.result["input"]["digest"] == old.input["digest"]
    assert backtests_prune(now=finished + timedelta(days=days, seconds=2)) == 0


def test_what_a_key_asked_for_is_there_for_its_successor_and_for_nobody_else(tenant):
    ada, bob = tenant("ada"), tenant("bob")
    key = key_of("cluster", ada)
    mine = requested(key, ada)
    of_admin = requested()
    api_key_rotate(name="cluster", expires_at=NOON + timedelta(days=900), now=NOON)
    successor = Holder(ApiKey.objects.filter(name="cluster").latest("id").pk)
    assert [each.pk for each in backtests_of(successor)] == [mine.pk]
    api_key_revoke(identifier="cluster", now=NOON)
    assert list(backtests_of(key_of("cluster", bob))) == []
    assert list(backtests_of(key_of("other", ada))) == []
    assert [each.pk for each in backtests_of(Holder(tenant_id=ada.pk))] == [mine.pk]
    assert list(backtests_of(Holder(tenant_id=bob.pk))) == []
    assert list(backtests_of(Holder(key_id=mine.pk))) == []  # no key at all
    assert [each.pk for each in backtests_of(ADMIN)] == [of_admin.pk, mine.pk]
