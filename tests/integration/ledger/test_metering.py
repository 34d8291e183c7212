"""Pools that meter themselves: every interval once, whoever writes it and whenever."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from itertools import count

import pytest
from django.db import connection, transaction
from django.db.models import Sum

from allocator_service.allocation.audit.ledger import books_verify
from allocator_service.allocation.long_term.metering import (
    CATCHING_UP,
    LATE,
    DueMetering,
    meterings_due,
    pool_meter,
)
from allocator_service.allocation.models import Meter
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry, Kind
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.recompute import decision_wanted
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create, pool_update
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def decide(pool, at):
    decision_wanted(pool, now=at)
    return recompute_pool(pool_id=pool.pk, clock=lambda: at)


def told(**filters):
    """{(tenant, resource, owner, start, end in seconds after noon): quantity} of usage."""
    return {
        (
            entry.tenant.slug,
            entry.resource,
            entry.server_owner and entry.server_owner.slug,
            (entry.start - NOON).total_seconds(),
            (entry.end - NOON).total_seconds(),
        ): float(entry.quantity)
        for entry in Entry.objects.filter(**filters).select_related("tenant", "server_owner")
    }


def test_intervals_end_with_the_decision_and_at_the_pool_s_boundaries(fig2):
    decide(fig2, NOON)
    decide(fig2, NOON + 90 * SECOND)
    assert meterings_due(now=NOON + 125 * SECOND) == [DueMetering(fig2, NOON + 60 * SECOND)]
    assert pool_meter(pool_id=fig2.pk, now=NOON + 125 * SECOND) > 0
    usage = told(kind=Kind.USAGE, tenant__slug="u1", resource="cpu")
    spans = sorted({key[3:] for key in usage})
    assert spans == [(0, 60), (60, 90), (90, 120)]
    assert usage["u1", "cpu", "u1", 0, 60] == pytest.approx(2)  # 10 tasks of 0.2, on its own server
    assert Meter.objects.get(pool=fig2).metered_until == NOON + 120 * SECOND


def test_what_would_have_been_used_alone_is_written_beside_it(fig2):
    """Half of 14 and 14: 7 tasks of 0.2, 1 fit by memory; in fractions."""
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)
    alone = told(kind=Kind.ALONE, tenant__slug="u1")
    assert alone["u1", "memory", None, 0, 60] == pytest.approx(7)
    assert alone["u1", "cpu", None, 0, 60] == pytest.approx(1.4)


def test_metering_late_or_often_writes_the_same_and_nothing_twice(fig2):
    decide(fig2, NOON)
    decide(fig2, NOON + 30 * SECOND)
    for second in range(0, 3600, 23):
        pool_meter(pool_id=fig2.pk, now=NOON + second * SECOND)
    pool_meter(pool_id=fig2.pk, now=NOON + 3600 * SECOND)
    often = told()
    count, amount = Entry.objects.count(), Entry.objects.aggregate(all=Sum("amount"))["all"]
    assert count == len(often)
    assert pool_meter(pool_id=fig2.pk, now=NOON + 3600 * SECOND) == 0

    Meter.objects.update(metered_until=NOON)  # as if nobody had metered for an hour
    pool_meter(pool_id=fig2.pk, now=NOON + 3600 * SECOND)
    assert Entry.objects.count() == 2 * count
    assert Entry.objects.aggregate(all=Sum("amount"))["all"] == 2 * amount
    assert told() == often


def test_use_of_others_servers_names_who_lent_them(fig2, tenant):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)
    owners = Entry.objects.filter(kind=Kind.USAGE).values_list("tenant__slug", "server_owner__slug")
    assert set(owners) <= {("u1", "u1"), ("u2", "u2"), ("u1", "u2"), ("u2", "u1")}
    used = Entry.objects.filter(kind=Kind.USAGE, resource="cpu").aggregate(all=Sum("quantity"))
    assert used["all"] == pytest.approx(Decimal(12), rel=Decimal("1e-9"))


def test_divided_time_is_metered_slot_by_slot(fig2):
    choice = policy_choose("tda", None, {"period_seconds": 40})
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=NOON)
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + 2 * MINUTE)
    tasks = dict(run.allocations.values_list("workload__name", "tasks"))
    amount = Entry.objects.filter(kind=Kind.USAGE, tenant__slug="u1", resource="memory").aggregate(
        all=Sum("amount")
    )["all"]
    assert float(amount) == pytest.approx(tasks["analysis"] * 120, rel=1e-3)
    entries_seal(now=NOON + 2 * MINUTE)
    assert [check for check in ledger_verify(now=NOON) if not check.holds] == []


def test_slots_in_which_others_run_are_told_apart(tenant):
    """The thesis' example: u1 alone for 10 seconds, then both for 30."""
    choice = policy_choose("tda", None, {"period_seconds": 40})
    turns = pool_create(slug="turns", settings=settings(policy=choice), now=NOON)
    servers_contribute(pool=turns, drafts=[ServerDraft("big", vector(15, 15))], now=NOON)
    demands = [("u1", vector(5, 2)), ("u2", vector(3, "3.5"))]
    drafts = [WorkloadDraft(tenant(slug), slug, demand) for slug, demand in demands]
    workloads_submit(pool=turns, drafts=drafts, now=NOON)
    decide(turns, NOON)
    pool_meter(pool_id=turns.pk, now=NOON + MINUTE)
    cpu = told(kind=Kind.USAGE, resource="cpu")
    assert cpu == {
        ("u1", "cpu", None, 0, 10): 15,
        ("u1", "cpu", None, 10, 40): 5,
        ("u2", "cpu", None, 10, 40): 9,
        ("u1", "cpu", None, 40, 50): 15,
        ("u1", "cpu", None, 50, 60): 5,
        ("u2", "cpu", None, 50, 60): 9,
    }


def test_whole_tasks_are_whole_alone_too(fig2, tenant):
    """Half of 15 and 15: 7 tasks that need 1 of memory, and not 7.5."""
    choice = policy_choose("drfh", "indivisible", {})
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=NOON)
    draft = ServerDraft("small", vector(1, 1), tenant("u1"))
    servers_contribute(pool=fig2, drafts=[draft], now=NOON)
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)
    alone = told(kind=Kind.ALONE, tenant__slug="u1")
    assert alone["u1", "memory", None, 0, 60] == 7


def test_who_comes_while_another_meters_writes_nothing(fig2):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)

    def second():
        try:
            return pool_meter(pool_id=fig2.pk, now=NOON + 2 * MINUTE)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        assert pool_meter(pool_id=fig2.pk, now=NOON + 2 * MINUTE) > 0
        assert threads.submit(second).result() == 0


def test_an_interval_ends_where_the_pool_begins_to_take_reports(fig2):
    decide(fig2, NOON)
    changed = settings(metering="reported")
    pool_update(pool=fig2, settings=changed, version=None, now=NOON + 90 * SECOND)
    pool_meter(pool_id=fig2.pk, now=NOON + 3 * MINUTE)
    assert sorted({key[3:] for key in told(kind=Kind.USAGE)}) == [(0, 60), (60, 90)]


def test_pools_that_take_reports_are_not_metered(reported):
    assert meterings_due(now=NOON + 3600 * SECOND) == []
    assert pool_meter(pool_id=reported.pk, now=NOON) == 0


def test_time_in_which_reports_were_taken_is_not_metered_as_well(fig2):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + 5 * MINUTE)
    for minute, metering in ((5, "reported"), (10, "allocation")):
        changed = settings(metering=metering)
        pool_update(pool=fig2, settings=changed, version=None, now=NOON + minute * MINUTE)
        pool_meter(pool_id=fig2.pk, now=NOON + (minute + 2) * MINUTE)
    starts = sorted({key[3] / 60 for key in told(kind=Kind.USAGE)})
    assert starts == [0, 1, 2, 3, 4, 10, 11]


@pytest.fixture
def three(fig2, tenant):
    """Pools whose intervals are of a second, a minute and an hour, decided at noon."""
    pools = [fig2]
    for slug, interval in (("seconds", "PT1S"), ("hours", "PT1H")):
        chosen = settings(decision_interval=interval)
        pools.append(pool_create(slug=slug, settings=chosen, now=NOON))
    for pool in pools:
        decide(pool, NOON)
    return pools


def test_the_pool_that_waits_longest_is_metered_first(three):
    minutes, seconds, hours = three
    assert [due.pool for due in meterings_due(now=NOON + 61 * SECOND)] == [seconds, minutes]
    due = meterings_due(now=NOON + 3600 * SECOND)
    assert [(each.pool, each.since) for each in due] == [
        (seconds, NOON + SECOND),
        (minutes, NOON + 60 * SECOND),
        (hours, NOON + 3600 * SECOND),
    ]
    pool_meter(pool_id=seconds.pk, now=NOON + 3600 * SECOND)  # as much as a task should
    due = meterings_due(now=NOON + 3600 * SECOND)
    assert [each.pool for each in due] == [minutes, seconds, hours]


def test_a_decision_ends_an_interval_that_is_due_at_once(three):
    *_, hours = three
    decide(hours, NOON + 90 * SECOND)
    assert DueMetering(hours, NOON + 90 * SECOND) in meterings_due(now=NOON + 91 * SECOND)


def test_verify_names_the_pools_whose_metering_is_late(three):
    def check(now):
        (found,) = (each for each in books_verify(now=now) if each.name == "metered_in_time")
        return found

    assert check(NOON + LATE).holds
    late = check(NOON + LATE + 2 * SECOND)
    assert (late.holds, late.detail) == (False, "seconds since 2026-11-20 12:00:01")


def test_a_decision_far_behind_its_metering_lets_the_worker_go_for_a_moment(pool, tenant):
    """2,100 intervals were not metered, five batches; each look at the clock takes two seconds."""
    choice = policy_choose("h-mrf", None, {})
    seconds = settings(policy=choice, decision_interval="PT1S")
    pool_update(pool=pool, settings=seconds, version=None, now=NOON)
    decide(pool, NOON)
    assert recompute_pool(pool_id=pool.pk, clock=lambda: NOON + SECOND) is not None
    later = NOON + 2100 * SECOND
    ticks = count()
    assert recompute_pool(pool_id=pool.pk, clock=lambda: later + 2 * next(ticks) * SECOND) is None
    first = Meter.objects.get(pool=pool).metered_until
    assert NOON + 900 * SECOND < first < later - 300 * SECOND
    job = RecomputeJob.objects.get(pool=pool)
    assert (job.attempts, job.claimed_at) == (0, None)
    assert later + CATCHING_UP < job.run_after < later + 60 * SECOND
    assert recompute_pool(pool_id=pool.pk, clock=lambda: later + 60 * SECOND) is not None
    assert Meter.objects.get(pool=pool).metered_until > later
