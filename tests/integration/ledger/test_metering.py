"""Pools that meter themselves: every interval once, whoever writes it and whenever."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from itertools import count

import pytest
from django.db import connection, transaction
from django.db.models import Sum

from allocator_service.allocation.audit.ledger import ledgers_verify
from allocator_service.allocation.long_term.metering import (
    CATCHING_UP,
    LATE,
    DueMetering,
    metering_hold,
    meterings_due,
    pool_meter,
)
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.clock import utc_now
from allocator_service.core.ids import made_at
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry, Kind, Meter, OpenUse
from allocator_service.pools.models import Pool, RecomputeJob
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create, pool_update
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector
from tests.references.ledger import metered_entries

MIGRATION = import_module("allocator_service.ledger.migrations.0003_open_uses")
pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def decide(pool, at):
    decision_request(pool, now=at)
    return recompute_pool(pool_id=pool.pk, clock=lambda: at)


def told(pool, **wanted):
    """{(tenant, resource, owner, start, end in seconds after noon): quantity}, open uses included."""
    return {
        (
            entry.tenant,
            entry.resource,
            entry.owner,
            (entry.start - NOON).total_seconds(),
            (entry.end - NOON).total_seconds(),
        ): float(entry.quantity)
        for entry in metered_entries(pool)
        if all(getattr(entry, name) == value for name, value in wanted.items())
    }


def test_a_use_that_stays_the_same_lasts_over_boundaries_and_decisions(fig2):
    first = decide(fig2, NOON)
    decide(fig2, NOON + 90 * SECOND)
    assert meterings_due(now=NOON + 125 * SECOND) == [DueMetering(fig2, NOON + 60 * SECOND)]
    assert pool_meter(pool_id=fig2.pk, now=NOON + 125 * SECOND) == 0
    usage = told(fig2, kind=Kind.USAGE, tenant="u1", resource="cpu")
    assert {key[3:] for key in usage} == {(0, 120)}
    assert usage["u1", "cpu", "u1", 0, 120] == pytest.approx(
        2
    )  # 10 tasks of 0.2, on its own server
    assert Meter.objects.get(pool=fig2).metered_until == NOON + 120 * SECOND
    assert {entry.run for entry in metered_entries(fig2)} == {first.pk}


def test_only_the_tenant_whose_use_changes_has_an_entry(fig2, tenant):
    first = decide(fig2, NOON)
    draft = WorkloadDraft(tenant("u2"), "more", vector(1, 0), tasks=1)
    servers_contribute(pool=fig2, drafts=[ServerDraft("third", vector(1, 0))], now=NOON)
    workloads_submit(pool=fig2, drafts=[draft], now=NOON + 90 * SECOND)
    second = decide(fig2, NOON + 90 * SECOND)
    pool_meter(pool_id=fig2.pk, now=NOON + 3 * MINUTE)
    spans = {
        entry.tenant: {(each.start, each.end, each.run) for each in metered_entries(fig2)
                       if each.tenant == entry.tenant and each.kind == Kind.USAGE}
        for entry in metered_entries(fig2)
    }  # fmt: skip
    begin, change, end = NOON, NOON + 90 * SECOND, NOON + 180 * SECOND
    assert spans["u2"] == {(begin, change, first.pk), (change, end, second.pk)}
    assert {entry.tenant.slug for entry in Entry.objects.all()} >= {"u2"}


@pytest.mark.parametrize(
    ("zone", "cuts"),
    [("UTC", [60, 120]), ("Asia/Kolkata", [30, 90]), ("Australia/Lord_Howe", [60, 120])],
)
def test_entries_end_with_the_hours_of_the_pool(fig2, zone, cuts):
    """Whose months end where an hour of the time zone does."""
    Pool.objects.update(timezone=zone)
    decide(fig2, NOON)
    for minute in range(1, 130):
        pool_meter(pool_id=fig2.pk, now=NOON + minute * MINUTE)
    ends = sorted({(entry.end - NOON) / MINUTE for entry in Entry.objects.all()})
    assert ends == cuts
    assert {(entry.start - NOON) / MINUTE for entry in metered_entries(fig2) if entry.is_open} == {
        cuts[-1]
    }


def test_an_interval_longer_than_an_hour_is_one_entry(fig2):
    Pool.objects.update(decision_interval="P1D")
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + timedelta(days=3))
    assert {entry.end - entry.start for entry in Entry.objects.all()} <= {
        timedelta(days=1),
        timedelta(hours=12),
    }


def test_a_use_is_continued_without_the_decision_being_read_again(
    fig2, django_assert_max_num_queries
):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)
    with django_assert_max_num_queries(20) as queries:
        pool_meter(pool_id=fig2.pk, now=NOON + 2 * MINUTE)
    assert [each for each in queries if "run_allocation" in each["sql"]] == []
    assert {key[3:] for key in told(fig2)} == {(0, 120)}


def test_a_process_of_the_release_before_finds_all_uses_closed(fig2):
    """It appends entries for intervals, from where the meter stands, and knows no open uses."""
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + 20 * MINUTE)
    open_uses = metered_entries(fig2)
    assert Entry.objects.count() == 0
    Meter.objects.update(metered_until=NOON + 25 * MINUTE)  # as it does
    assert Counter(metered_entries(fig2)) == Counter(open_uses)
    assert OpenUse.objects.count() == 0
    assert abs(made_at(Entry.objects.earliest("start").pk) - utc_now()) < MINUTE
    pool_meter(pool_id=fig2.pk, now=NOON + 30 * MINUTE)
    assert {key[3:] for key in told(fig2)} == {(0, 1200), (1500, 1800)}
    entries_seal(now=NOON)
    assert [check for check in ledger_verify(now=NOON) if not check.holds] == []


def test_open_uses_become_entries_before_their_table_is_dropped(fig2):
    """Going back to the release before must not lose what is not appended yet."""
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + 20 * MINUTE)
    open_uses = metered_entries(fig2)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(MIGRATION.CLOSE_NO_MORE)
        assert OpenUse.objects.count() == 0
        assert Entry.objects.count() > 0
        assert Counter(metered_entries(fig2)) == Counter(open_uses)
        transaction.set_rollback(True)


def test_metering_leaves_a_pool_whose_decision_is_being_published(fig2):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)

    def meter():
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
            return pool_meter(pool_id=fig2.pk, now=NOON + 61 * MINUTE)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        metering_hold(fig2)
        assert threads.submit(meter).result() == 0
    assert Meter.objects.get(pool=fig2).metered_until == NOON + MINUTE
    assert pool_meter(pool_id=fig2.pk, now=NOON + 61 * MINUTE) > 0


def test_what_would_have_been_used_alone_is_written_beside_it(fig2):
    """Half of 14 and 14: 7 tasks of 0.2, 1 fit by memory; in fractions."""
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)
    alone = told(fig2, kind=Kind.ALONE, tenant="u1")
    assert alone["u1", "memory", None, 0, 60] == pytest.approx(7)
    assert alone["u1", "cpu", None, 0, 60] == pytest.approx(1.4)


def test_metering_late_or_often_writes_the_same_and_nothing_twice(fig2):
    decide(fig2, NOON)
    decide(fig2, NOON + 30 * SECOND)
    for second in range(0, 3600, 23):
        pool_meter(pool_id=fig2.pk, now=NOON + second * SECOND)
    pool_meter(pool_id=fig2.pk, now=NOON + 3600 * SECOND)
    often = told(fig2)
    count, amount = Entry.objects.count(), Entry.objects.aggregate(all=Sum("amount"))["all"]
    assert OpenUse.objects.count() == 0  # an hour is over
    assert count == len(often)
    assert pool_meter(pool_id=fig2.pk, now=NOON + 3600 * SECOND) == 0

    Meter.objects.update(metered_until=NOON)  # as if nobody had metered for an hour
    pool_meter(pool_id=fig2.pk, now=NOON + 3600 * SECOND)
    assert Entry.objects.count() == 2 * count
    assert Entry.objects.aggregate(all=Sum("amount"))["all"] == 2 * amount
    assert told(fig2) == often


def test_use_of_others_servers_names_who_lent_them(fig2, tenant):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)
    usage = [entry for entry in metered_entries(fig2) if entry.kind == Kind.USAGE]
    owners = {(entry.tenant, entry.owner) for entry in usage}
    assert owners
    assert owners <= {("u1", "u1"), ("u2", "u2"), ("u1", "u2"), ("u2", "u1")}
    used = sum(entry.quantity for entry in usage if entry.resource == "cpu")
    assert used == pytest.approx(Decimal(12), rel=Decimal("1e-9"))


def test_divided_time_is_metered_slot_by_slot(fig2):
    choice = policy_choose("tda", None, {"period_seconds": 40})
    pool_update(pool=fig2, settings=settings(policy=choice), version=None, now=NOON)
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + 2 * MINUTE)
    tasks = dict(run.allocations.values_list("workload__name", "tasks"))
    usage = told(fig2, kind=Kind.USAGE, tenant="u1", resource="memory")
    amount = sum(quantity * (end - start) for (*_, start, end), quantity in usage.items())
    assert amount == pytest.approx(tasks["analysis"] * 120, rel=1e-3)
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
    cpu = told(turns, kind=Kind.USAGE, resource="cpu")
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
    alone = told(fig2, kind=Kind.ALONE, tenant="u1")
    assert alone["u1", "memory", None, 0, 60] == 7


def test_who_comes_while_another_meters_writes_nothing(fig2):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + MINUTE)

    def second():
        try:
            return pool_meter(pool_id=fig2.pk, now=NOON + 62 * MINUTE)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        assert pool_meter(pool_id=fig2.pk, now=NOON + 61 * MINUTE) > 0
        assert threads.submit(second).result() == 0
    assert Meter.objects.get(pool=fig2).metered_until == NOON + 61 * MINUTE


def test_an_interval_ends_where_the_pool_begins_to_take_reports(fig2):
    decide(fig2, NOON)
    changed = settings(metering="reported")
    pool_update(pool=fig2, settings=changed, version=None, now=NOON + 90 * SECOND)
    pool_meter(pool_id=fig2.pk, now=NOON + 3 * MINUTE)
    assert sorted({key[3:] for key in told(fig2, kind=Kind.USAGE)}) == [(0, 90)]
    assert sorted({key[3:] for key in told(fig2, kind=Kind.ALONE)}) == [(0, 90), (90, 180)]


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
    assert sorted({key[3:] for key in told(fig2, kind=Kind.USAGE)}) == [(0, 300), (600, 720)]


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
        (found,) = (each for each in ledgers_verify(now=now) if each.name == "metered_in_time")
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


def test_verify_finds_uses_that_are_open_and_in_entries_at_once(fig2):
    def wrong():
        return [check.name for check in ledger_verify(now=NOON) if not check.holds]

    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + 70 * MINUTE)
    entries_seal(now=NOON)
    assert wrong() == []
    OpenUse.objects.filter(tenant__slug="u1").update(start=NOON + 59 * MINUTE)
    assert wrong() == ["open_uses"]
