"""Metering, by which what decisions give is written to the ledger.

Time is divided where the decision in force changes, where a schedule's slot ends, and at the boundaries
of the pool's decision interval. What a tenant uses is open as long as it stays the same from interval to
interval. When it changes, or an hour of the pool's time zone ends, it is closed and appended as entries.
Readers count open uses (`ledger.amounts.open_uses`), so that entries may be longer than intervals.

Intervals and entries follow from what is stored and not from when this runs: a worker that was away for
an hour writes the same entries later, none twice and none left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from django.db import OperationalError, connection, transaction
from django.db.models import Min, Q, QuerySet
from django.db.models.expressions import RawSQL
from psycopg.errors import LockNotAvailable

from allocator_service.allocation.long_term.metered_uses import Decided, decided_by, metered_uses
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.selectors import SlotInForce, slot_in_force
from allocator_service.core.errors import Conflict
from allocator_service.core.locks import Lock, lock_in_transaction, try_lock_in_transaction
from allocator_service.ledger.intake.open_uses import OpenUses
from allocator_service.ledger.models import Meter
from allocator_service.pools.models import Metering, Pool
from allocator_service.pools.moving import refuse_moved
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.selectors import resources_of

ENTRIES_AT_ONCE = 20_000
INTERVALS_AT_ONCE = 500
# For so long a decision helps with the metering that it needs; the rest is left to metering's tasks.
CATCHING_UP = timedelta(seconds=5)
# Later than this, metering is no longer left to when there is nothing to decide; and then it is late.
URGENT, LATE = timedelta(seconds=30), timedelta(minutes=2)
# The release before, which works beside this one during an upgrade, does not set it. The trigger of
# `ledger.0003` then closes all uses.
_KNOWS_OPEN_USES = "SELECT set_config('allocator.knows_open_uses', 'on', true)"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Interval:
    """An interval in which a decision, or one slot of it, was in force."""

    run: Run
    start: datetime
    end: datetime
    slot: SlotInForce | None


@dataclass(frozen=True)
class DueMetering:
    """A pool with intervals that are over and not metered, and the end of the first of them."""

    pool: Pool
    since: datetime


def meterings_due(*, now: datetime) -> list[DueMetering]:
    """Return the pools that are to be metered, the furthest behind first, so that each has its turn."""
    pools = Pool.objects.filter(moved_at=None).select_related("meter")
    due = [each for each in (metering_due(pool, now=now) for pool in pools) if each is not None]
    return sorted(due, key=lambda each: (each.since, each.pool.pk))


def metering_due(pool: Pool, *, now: datetime) -> DueMetering | None:
    """Return the metering that the pool is due for, or None."""
    # The reverse of a one-to-one relation raises if there is no row.
    meter = getattr(pool, "meter", None)
    since = _first_decision(pool) if meter is None else meter.metered_until
    interval = None if since is None else next(_intervals(pool, since, now), None)
    return None if interval is None else DueMetering(pool, interval.end)


def pool_meter(*, pool_id: int, now: datetime) -> int:
    """Meter the intervals that are over, and return the number of entries appended.

    A task meters a limited number of intervals, and the next one continues. Nothing is metered while
    another worker holds the pool's meter.
    """
    return _meter(pool_id, now, wait=False).entries


def pool_meter_all(
    *, pool_id: int, now: datetime, clock: Callable[[], datetime] | None = None
) -> bool:
    """Meter all intervals that are over, after another worker that meters the pool.

    With a `clock`, stop after `CATCHING_UP`. Return whether that was all of them.
    """
    while _meter(pool_id, now, wait=True).more:
        if clock is not None and clock() - now > CATCHING_UP:
            return False
    return True


@dataclass(frozen=True)
class _Metered:
    entries: int
    more: bool


def _meter(pool_id: int, now: datetime, *, wait: bool) -> _Metered:
    while True:
        try:
            return _meter_once(pool_id, now, wait=wait)
        except _Overtaken:
            log.info("metering_starts_again", pool_id=pool_id)
        except OperationalError as error:
            # A decision of a large pool is being published. The next task meters what this one did.
            if wait or not isinstance(error.__cause__, LockNotAvailable):
                raise
            return _Metered(0, more=False)


class _Overtaken(Exception):
    """Something that metering read was changed before its transaction could commit."""


@transaction.atomic
def _meter_once(pool_id: int, now: datetime, *, wait: bool) -> _Metered:
    """Compute and write with the lock of metering, and take that of the meter's row only to commit.

    Publishing a decision takes the row's lock, and would wait as long for it.
    """
    # A decision needs the past metered. A task leaves it to the worker that has the lock.
    if wait:
        lock_in_transaction(Lock.METERING, str(pool_id))
    elif not try_lock_in_transaction(Lock.METERING, str(pool_id)):
        return _Metered(0, more=False)
    try:
        refuse_moved(pool_id)
    except Conflict:
        # What is not metered yet is metered where the pool goes.
        return _Metered(0, more=False)
    pool = Pool.objects.prefetch_related("resource_types").get(pk=pool_id)
    meter = _meter_of(pool)
    if meter is None:
        return _Metered(0, more=False)
    metering: _Uses | None = None
    last: _Interval | None = None
    more = False
    for number, interval in enumerate(_intervals(pool, meter.metered_until, now)):
        metering = metering or _Uses(pool, meter.metered_until)
        more = metering.opened.entry_count > ENTRIES_AT_ONCE or number > INTERVALS_AT_ONCE
        # Bounded transactions: after a day without workers one alone would hold its locks for minutes.
        if more:
            break
        metering.add(interval)
        last = interval
    if metering is None or last is None:
        return _Metered(0, more=False)
    entries = metering.opened.store(now=now)
    _advance(meter, last)
    return _Metered(entries, more)


def _advance(meter: Any, last: _Interval) -> None:
    """Move the meter to the end of the last interval. Raises `_Overtaken`."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # at the commit it would be under the lock
        cursor.execute(_KNOWS_OPEN_USES)
    present: Any = _versions(Meter.objects.select_for_update(no_key=True)).get(pk=meter.pk)
    # The release before meters under the row's lock alone, and changes its version even where it meters
    # nothing. A decision that was published meanwhile must begin where the interval ends, or later.
    until = Run.objects.values_list("effective_until", flat=True).get(pk=last.run.pk)
    if present.version != meter.version or (until is not None and until < last.end):
        raise _Overtaken
    meter.metered_until = last.end
    meter.save()


def _versions(meters: QuerySet[Meter]) -> QuerySet[Any]:
    """Annotate meters with the version of their rows, which every update changes."""
    return meters.annotate(version=RawSQL("pool_meter.xmin::text", []))


class _Uses:
    """The open uses of a pool while intervals are added one after the other."""

    def __init__(self, pool: Pool, since: datetime) -> None:
        self.opened = OpenUses(pool.pk)
        self._until = since
        self._pool = pool
        self._zone = ZoneInfo(pool.timezone)
        self._resources = resources_of(pool)
        self._decided: Decided | None = None
        self._metered: tuple[Run, SlotInForce | None, bool] | None = None
        self._is_begun = False

    def add(self, interval: _Interval) -> None:
        """Continue the uses that are the same in the interval, and close and open the others."""
        if interval.start != self._until:  # nothing is used in a gap between decisions
            self.opened.close(self._until)
            self._is_begun = True
            self._metered = None
        self._until = interval.end
        alone_only = _takes_reports(self._pool, interval.start)
        metered = (interval.run, interval.slot, alone_only)
        if self._metered is None and self._is_continued(interval):
            self._metered = metered
        if metered != self._metered:
            if self._decided is None or self._decided.run != interval.run:
                self._decided = decided_by(interval.run)
            uses = metered_uses(
                self._decided, interval.slot, self._resources, alone_only=alone_only
            )
            self.opened.change(uses, run_id=interval.run.pk, at=interval.start)
            self._metered = metered
        self._is_begun = True
        # Entries end with the hour, and so with the month, whatever stays the same.
        if self._hour(interval.start) != self._hour(interval.end):
            self.opened.close(interval.end)
            self._metered = None

    def _is_continued(self, interval: _Interval) -> bool:
        """Return whether the uses that are open in the database are those of the interval.

        They are those of the interval before, which was the decision's, too, if that began earlier.
        A decision in whose time the pool's `metering` changed is read again.
        """
        began, changed = interval.run.effective_from, self._pool.metering_changed_at
        return (
            not self._is_begun
            and interval.slot is None
            and began is not None
            and began < interval.start
            and (changed is None or changed < began)
            and self.opened.were_stored
        )

    def _hour(self, at: datetime) -> tuple[date, int, timedelta | None]:
        """Return the hour of the pool's time zone, at whose ends months end, too."""
        local = at.astimezone(self._zone)
        # With the offset: when clocks are set back, the same hour comes twice.
        return local.date(), local.hour, local.utcoffset()


def _meter_of(pool: Pool) -> Any:
    """Return the meter of a pool with its version, or None before the first decision."""
    first = _first_decision(pool)
    if first is None:
        return None
    if not Meter.objects.filter(pk=pool.pk).exists():  # to insert it would wait for a lock
        Meter.objects.bulk_create([Meter(pool=pool, metered_until=first)], ignore_conflicts=True)
    return _versions(Meter.objects.all()).get(pool=pool)


def metering_hold(pool: Pool) -> datetime | None:
    """Return the instant until which the pool is metered, and block metering until the transaction ends.

    A decision begins there at the earliest, because the time before it is metered as the last
    decision's.
    """
    if _meter_of(pool) is None:
        return None
    return Meter.objects.select_for_update(no_key=True).get(pool=pool).metered_until


def _first_decision(pool: Pool) -> datetime | None:
    decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
    first: datetime | None = decided.aggregate(at=Min("effective_from"))["at"]
    return first


def _takes_reports(pool: Pool, at: datetime) -> bool:
    """Return whether use was reported at an instant, so that decisions give only the use alone.

    Before the last change of `metering`, the opposite held.
    """
    changed = pool.metering_changed_at
    return (pool.metering == Metering.REPORTED) == (changed is None or at >= changed)


def _intervals(pool: Pool, since: datetime, now: datetime) -> Iterator[_Interval]:
    """Yield the intervals from `since` on that are over, in their order."""
    # With the run in force at `since`, which began before it.
    runs = (
        Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED)
        .filter(Q(effective_until=None) | Q(effective_until__gt=since))
        .order_by("effective_from")
    )
    # After an outage there may be thousands, of which a bounded number is metered at a time.
    for run in runs.iterator(chunk_size=100):
        if run.effective_from is None:
            continue
        start = max(since, run.effective_from)
        while run.effective_until is None or start < run.effective_until:
            ends = [interval_around(pool, start)[1]]
            if pool.metering_changed_at is not None and start < pool.metering_changed_at:
                # Before and after it, different uses become entries, so that no interval may span it.
                ends.append(pool.metering_changed_at)
            if run.effective_until is not None:
                ends.append(run.effective_until)
            slot = slot_in_force(run=run, at=start)
            if slot is not None:
                ends.append(slot.end)
            end = min(ends)
            if end > now:
                return
            yield _Interval(run, start, end, slot)
            start = end
