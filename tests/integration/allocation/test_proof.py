"""What decisions remembered is computed again from the ledger, as they knew it, and found if changed."""

import re
import zlib
from datetime import timedelta
from decimal import Decimal
from io import StringIO

import orjson
import pytest
from django.core.management import CommandError, call_command

from allocator_service.allocation.audit.ledger import ledgers_verify, sharing_degrees_verify
from allocator_service.allocation.models import Allocation, Run, Step
from allocator_service.allocation.services import retention_apply
from allocator_service.core.locks import Lock, lock_key
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from tests.integration.allocation.test_long_term import MINUTE, START, Simulated
from tests.integration.conftest import another_session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("falsifiable")]

WINDOWS = [
    Window("unbounded", START),
    Window("tumbling", START, "PT2M"),
    Window("sliding", START, "PT150S"),
    Window("decay", START, "", "PT5M"),
]
PENDING = [(30, 4), (20, 24), (27, 8), (10, 30), (0, 9), (50, 50)]


def proof():
    return sharing_degrees_verify(since=START)


def kind(window):
    return window.kind


@pytest.mark.parametrize("window", WINDOWS, ids=kind)
@pytest.mark.parametrize("policy", ["h-mrf", "lt-drf"])
def test_what_metered_pools_remembered_is_what_their_entries_make(tenant, policy, window):
    pool = Simulated(tenant, policy, {"a": (1, 4), "b": (4, 1)}, window=window)
    for number, pending in enumerate(PENDING):
        pool.step(number, pending)
    told = proof()
    assert (told.holds, told.detail) == (True, "6 decisions since 2026-11-23 00:00")
    assert sharing_degrees_verify(since=START + 4 * MINUTE).detail.startswith("2 decisions")
    assert all(check.holds for check in ledgers_verify(now=START + 6 * MINUTE))


@pytest.mark.parametrize("window", WINDOWS, ids=kind)
def test_what_came_late_or_was_corrected_counts_from_then_on(tenant, window):
    pool = Simulated(
        tenant, "lt-drf", {"a": (1, 1), "b": (1, 1)}, window=window, metering="reported"
    )
    pool.step(0, (50, 50))
    pool.report(tenant("a"), "first", 0, [50, 40])
    pool.step(1, (100, 100))
    pool.report(tenant("b"), "late", 0, [7, 8])
    pool.report(tenant("a"), "second", 1, [30, 30])
    pool.step(2, (100, 100))
    entry = Entry.objects.get(resource="cpu", event_id="first")
    entry_correct(entry=entry, quantity=Decimal(20), reason="x", now=START)
    pool.step(3, (100, 100))
    entries_seal(now=START)
    totals_advance()
    told = proof()
    assert (told.holds, told.detail) == (True, "4 decisions since 2026-11-23 00:00")
    # Control: with all entries there are now, the decisions before would be others.
    Step.objects.update(sealed_through=10**9)
    assert not proof().holds


def test_what_a_decision_knew_before_it_was_sealed_is_told_one_by_one(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 1), "b": (1, 1)}, metering="reported")
    pool.step(0, (50, 50))
    pool.report(tenant("a"), "e", 0, [50, 40])
    with another_session() as other:  # another process is at it, for long
        key = lock_key(Lock.LEDGER_SEAL, "ledger")
        other.execute("SELECT pg_advisory_lock(%s)", [key])
        pool.step(1, (100, 100))
    step = pool.run.step
    known = set(Entry.objects.values_list("id", flat=True))
    assert set(step.unsealed) == known
    assert step.sealed_through == 0
    assert proof().holds  # and while they wait
    pool.report(tenant("a"), "late", 0, [1, 1])
    while entries_seal(now=START):
        pass
    assert proof().holds
    Step.objects.filter(pk=step.pk).update(unsealed=[])
    told = proof()
    assert not told.holds
    assert told.detail == (
        f"pool days, run {pool.run.pk}: it states that a had used 3000.0 cpu × s; the entries"
        " known then add up to 0.0"
    )


@pytest.fixture
def decided(tenant):
    pool = Simulated(tenant, "h-mrf", {"a": (1, 2), "b": (1, 1)})
    pool.step(0, (15, 80))
    pool.step(1, (60, 40))
    return pool.run


def packed(document):
    return zlib.compress(orjson.dumps(document), 1)


def change_degree(run):
    document = orjson.loads(zlib.decompress(run.step.history))
    document["tenants"]["b"]["sharing_degree"]["min"] = 1.0000000000000002
    Step.objects.filter(run=run).update(history=packed(document))


def change_used_after(run):
    document = orjson.loads(zlib.decompress(run.step.history))
    document["tenants"]["a"]["used"]["cpu"] += 1e-9
    Step.objects.filter(run=run).update(history=packed(document))


def change_alone_before(run):
    document = orjson.loads(zlib.decompress(run.snapshot.document))
    document["history"]["tenants"]["b"]["alone"]["memory"] += 1
    run.snapshot.document = packed(document)
    run.snapshot.save()


def change_elapsed(run):
    document = orjson.loads(zlib.decompress(run.snapshot.document))
    document["history"]["elapsed"] += 60
    run.snapshot.document = packed(document)
    run.snapshot.save()


def change_tasks(run):
    Allocation.objects.filter(run=run, tenant__slug="a").update(tasks=41)


def drop_allocation(run):
    Allocation.objects.filter(run=run, tenant__slug="a").delete()


def change_waiting(run):
    Step.objects.filter(run=run).update(waiting=[0, 60])


def change_what_was_known(run):
    """What the first step used is still open."""
    Step.objects.filter(run=run).update(metered_until=START)


def lose_what_was_known(run):
    Step.objects.filter(run=run).update(unsealed=[run.pk])


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        (change_degree, "states sharing degree .* 1.0000000000000002.* for b .* gives .* 1.0"),
        (change_used_after, "states used .* for a after the step; .* 3300.0"),
        (change_alone_before, "b had alone 3001.0 memory × s; .* 3000.0"),
        (change_elapsed, "120.0 s of its window had passed; 60.0 s had"),
        (change_tasks, "states used .* for a after the step"),
        (drop_allocation, "it has 1 allocations of 2 workloads"),
        (change_waiting, "differs from the one that follows"),
        (change_what_was_known, "a had used 900.0 cpu × s; .* 0.0"),
        (lose_what_was_known, "1 entries that it knew are not in the ledger"),
    ],
)
def test_what_was_changed_in_a_past_decision_is_found_and_named(decided, tampering, found):
    assert proof().holds
    tampering(decided)
    told = proof()
    assert not told.holds
    assert told.detail.startswith(f"pool days, run {decided.pk}: ")
    with pytest.raises(CommandError, match=r"checks of the ledger failed: .*sharing_degrees"):
        call_command("verify", "--since", "2026-11-23T00:00:00Z", stdout=StringIO())
    assert re.search(found, told.detail), told.detail


def test_only_the_period_asked_for_is_looked_at(decided):
    change_degree(decided)
    begin = decided.step.begin
    assert not sharing_degrees_verify(since=begin).holds
    assert sharing_degrees_verify(since=begin + timedelta(microseconds=1)).holds
    for since in (
        "2026-11-23T00:00:00",
        "2026-13-23T00:00:00Z",
        "9999-12-31T23:59:00-05:00",
        "0001-01-01T00:00:00+05:00",
    ):
        with pytest.raises(CommandError, match="offset"):
            call_command("verify", "--since", since)


def test_steps_whose_input_is_gone_or_of_before_it_was_kept_are_left_out(decided):
    Step.objects.filter(run=decided).update(begin=None, sealed_through=None, unsealed=None)
    assert proof().detail.startswith("1 decisions")
    retention_apply(now=START + timedelta(days=200))
    assert proof().detail.startswith("0 decisions")
    assert Run.objects.filter(pruned_at=None).count() == 1  # the one in force stays


def test_a_decision_that_is_due_and_not_made_is_told(decided):
    def stuck(minutes):
        checks = ledgers_verify(now=START + minutes * MINUTE)
        return [check.detail for check in checks if check.name == "decided_in_time"]

    assert stuck(3) == [""]  # due for a minute, and no longer
    assert stuck(3.1) == ["due for a minute: days"]
    Pool.objects.update(retired_at=START)
    assert stuck(10) == [""]
