"""Months are closed while everybody writes: closed bytes stay, every entry is on exactly one line."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from threading import Barrier, Event

import pytest
from django.db import connection

from allocator_service.billing.credit_notes import credit_note_create
from allocator_service.billing.models import Closing, Manifest, Posting, Statement
from allocator_service.billing.rating.differences import line_key
from allocator_service.billing.rating.months import month_rated
from allocator_service.billing.reratings import rerating_apply
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.manifest import manifest_write
from allocator_service.billing.tie_out import billing_report
from allocator_service.core.errors import Conflict
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.services import pool_create
from tests.integration.billing.conftest import at, draft_plan, month, publish, rate
from tests.integration.conftest import settings

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, BATCHES, BATCHES_LATE = 8, 25, 3
MONTHS = ("2027-01", "2027-02", "2027-03")
LATER = at(5, 6)


@pytest.fixture
def lab(db):
    pool = pool_create(
        slug="lab",
        settings=settings(
            metering="reported", timezone="Europe/Berlin", resources=[Resource("cpu", "core")]
        ),
        now=at(1, 1),
    )
    publish(pool, at(1, 1), rate(pooled="0.037"), increment="second-min-60")
    publish(pool, at(10, 2), rate(pooled="0.041"))
    return pool


def on_its_own(work):
    """A thread's work, which leaves no connection behind."""

    def run(*arguments):
        try:
            return work(*arguments)
        finally:
            connection.close()

    return run


@on_its_own
def write(pool, owner, number, batches):
    """Usage of all months, in transactions of different lengths; now and then a correction."""
    chance = random.Random(number)
    for step in range(batches):
        start = at(1, 1) + timedelta(seconds=chance.randrange(89 * 86400))
        events = [
            UsageEvent(
                "meter", f"{number}-{step}-{n}", owner, None, [Decimal(chance.randrange(1, 900)) / 100],
                start, start + timedelta(seconds=chance.randrange(1, 10 * 86400)),
            )
            for n in range(3)
        ]  # fmt: skip
        usage_record(pool=pool, events=events, now=LATER, members_only=False)
        if step % 3 == 0:
            entry = Entry.objects.filter(tenant=owner, kind="usage").order_by("?").first()
            quantity = Decimal(100 * number + step + 10)  # nobody else's: the entry has another one
            entry_correct(entry=entry, quantity=quantity, reason="storm", now=LATER)
        time.sleep(chance.random() * 0.01)


@on_its_own
def seal_until(done):
    while not done.is_set():
        entries_seal_all(now=LATER)
        time.sleep(0.005)


def close(pool, text):
    """Close a month once nothing waits for its number; what was stored, or None."""
    for _ in range(400):
        try:
            return month_close(pool=pool, month=month(text, pool), now=LATER)
        except Conflict as refused:
            if refused.code != "statement.entries_pending":
                raise
            time.sleep(0.01)
    return None


def stored():
    return {
        **{row.pk: bytes(row.document) for row in Statement.objects.all()},
        **{row.pk: bytes(row.document) for row in Closing.objects.all()},
    }


def await_more_entries(writers):
    """However fast months are closed: the writers are in between."""
    enough = Entry.objects.count() + 3 * WRITERS
    deadline = time.monotonic() + 60
    while Entry.objects.count() < enough and not all(writer.done() for writer in writers):
        assert time.monotonic() < deadline, "the writers write nothing"
        time.sleep(0.01)


def test_a_storm_over_closing_months(lab, tenant):
    owners = [tenant(f"t{number}") for number in range(WRITERS)]
    usage_record(  # makes the partitions
        pool=lab,
        events=[
            UsageEvent("meter", f"first-{n}", owners[0], None, [Decimal(1)], at(1, n), at(2, n))
            for n in range(1, 5)
        ],
        now=LATER,
        members_only=False,
    )
    done, closers = Event(), on_its_own(close)
    with ThreadPoolExecutor(WRITERS + 4) as threads:
        sealing = threads.submit(seal_until, done)
        try:
            seen = _closed_while_all_write(lab, owners, threads, closers)
        finally:
            done.set()
        sealing.result()
    entries_seal_all(now=LATER)
    draft = draft_plan(lab, at(20, 1), at(20, 2), rate(pooled="0.05"))
    rerating_apply(pool=lab, plan=draft, reason="storm", now=LATER)
    for text in ("2027-04", "2027-05"):
        assert close(lab, text) is not None
    assert seen.items() <= stored().items()
    _every_entry_is_on_exactly_one_line(lab)
    manifests = {closing.pk: manifest_write(closing=closing) for closing in Closing.objects.all()}
    assert len(manifests) == Manifest.objects.count() == 5


def _closed_while_all_write(pool, owners, threads, closers):
    """What closing stored: two closers of each month among the writers, who write on afterwards."""

    def writers(first, batches):
        numbers = range(first, first + WRITERS)
        return [
            threads.submit(write, pool, *pair, batches)
            for pair in zip(owners, numbers, strict=True)
        ]

    writing = writers(0, BATCHES)
    seen = {}
    for text in MONTHS:
        await_more_entries(writing)
        twins = [threads.submit(closers, pool, text) for _ in range(2)]
        answers = {twin.result().pk for twin in twins}
        assert len(answers) == 1, "two closers gave two answers"
        assert seen.items() <= stored().items(), "closed bytes changed"
        seen = stored()
        credit_note_create(
            pool=pool, tenant=owners[0], amount=Decimal(1), reason="storm", now=LATER
        )
    for writer in [*writing, *writers(WRITERS, BATCHES_LATE)]:
        writer.result()
    return seen


def _every_entry_is_on_exactly_one_line(pool):
    postings = list(Posting.objects.filter(pool=pool))
    legs = ("tenant_amount", "owner_amount", "fee_amount", "pool_amount")
    assert sum(getattr(line, leg) for line in postings for leg in legs) == 0
    late = Counter(
        (entry, line.service_month, line.plan_id)
        for line in postings
        for entry in line.entries or ()
    )
    assert max(late.values()) == 1
    assert len(late) > 20, "nothing came late: there was no storm"
    assert [line for line in postings if line.kind == "rerated"]
    _every_month_is_billed_as_it_is_rated(pool, postings)
    report = billing_report(pool=pool, period=Period([at(1, 1), at(1, 6)]), now=LATER)
    assert len(report.ties) >= 3 * WRITERS
    for tie in report.ties:
        assert (tie.difference, tie.not_yet_billed, tie.not_billable) == (0, 0, 0), tie
    statements = sum(row.billed for row in Statement.objects.all())
    assert statements == sum(line.tenant_amount for line in postings)


def _every_month_is_billed_as_it_is_rated(pool, postings):
    """Whenever it was billed: the lines of a month's service add up to the month rated afresh."""
    for text in MONTHS:
        rated, billed = Counter(), Counter()
        for line in month_rated(pool=pool, month=month(text, pool)).rated.lines:
            rated[line_key(line)] += line.tenant_amount
        for line in postings:
            if line.service_month == month(text, pool).first and line.kind != "credit_note":
                billed[line_key(line)] += line.tenant_amount
        assert {key: sum_ for key, sum_ in billed.items() if sum_} == {
            key: sum_ for key, sum_ in rated.items() if sum_
        }


def test_many_close_one_month_at_once(lab, tenant):
    """One of them closes it, the others answer with the same; nothing is posted twice."""
    event = UsageEvent("meter", "1", tenant("a"), None, [Decimal(1)], at(2, 1), at(3, 1))
    usage_record(pool=lab, events=[event], now=LATER, members_only=False)
    entries_seal_all(now=LATER)
    together = Barrier(8)

    @on_its_own
    def closer(_):
        together.wait()
        return month_close(pool=lab, month=month("2027-01", lab), now=LATER).pk

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(closer, range(8)))) == 1
    assert (Closing.objects.count(), Statement.objects.count(), Posting.objects.count()) == (
        1,
        1,
        1,
    )


def test_many_rerate_by_one_plan_at_once(lab, tenant):
    event = UsageEvent("meter", "1", tenant("a"), None, [Decimal(1)], at(2, 1), at(3, 1))
    usage_record(pool=lab, events=[event], now=LATER, members_only=False)
    entries_seal_all(now=LATER)
    month_close(pool=lab, month=month("2027-01", lab), now=LATER)
    plan = draft_plan(lab, at(1, 1), at(1, 2), rate(pooled="1"))
    together = Barrier(6)

    @on_its_own
    def rerate(_):
        together.wait()
        return rerating_apply(pool=lab, plan=plan, reason="x", now=LATER)[1]

    with ThreadPoolExecutor(6) as threads:
        assert Counter(threads.map(rerate, range(6))) == {True: 1, False: 5}
    assert Counter(Posting.objects.values_list("kind", flat=True)) == {
        "usage": 1,
        "rerated": 2,
    }
