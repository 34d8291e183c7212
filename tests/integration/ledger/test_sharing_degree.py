"""The sharing degree out of the ledger: exact, by intervals that add up, null with a reason."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from allocator_service.core.errors import Unacceptable, Unreadable
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry, Kind, SealedDecision
from allocator_service.ledger.reporting.periods import Period, report_period
from allocator_service.ledger.reporting.sharing_degree import sharing_degree_report
from allocator_service.ledger.selectors import BEGINNING, entries_after
from allocator_service.pools.services import pool_create
from tests.examples import examples
from tests.integration.conftest import NOON
from tests.integration.conftest import settings as pool_settings

pytestmark = pytest.mark.django_db

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def entry(pool, tenant, kind, resource, quantity, start, seconds, owner=None):
    return {
        "pool_id": pool.pk,
        "tenant_id": tenant.pk,
        "server_owner_id": owner and owner.pk,
        "workload_id": None,
        "resource": resource,
        "unit": "",
        "quantity": Decimal(str(quantity)),
        "start": start,
        "end": start + seconds * SECOND,
        "kind": kind,
        "corrects": None,
        "reason": "",
        "source": "test",
        "event_id": None,
        "run_id": None,
        "recorded_at": NOON,
    }


def both(pool, tenant, resource, used, alone, start=NOON, seconds=60):
    """What a tenant used, and would have used alone."""
    entries_append(
        [
            entry(pool, tenant, "usage", resource, used, start, seconds),
            entry(pool, tenant, "alone", resource, alone, start, seconds),
        ]
    )


def report(pool, start=NOON, end=NOON + HOUR, step=None, now=NOON + 100 * HOUR, tenant=None):
    period = report_period(pool=pool, start=start, end=end, step=step, now=now)
    return sharing_degree_report(pool=pool, period=period, tenant=tenant)


class TestDegrees:
    def test_example_4_of_the_paper(self, pool, tenant):
        """t1: 15 and 80 tasks of 1,2 and 1,1 ... β after both steps 1.375 and 1 (policies §4)."""
        ada, bob = tenant("ada"), tenant("bob")
        both(pool, ada, "cpu", 15, 15)
        both(pool, ada, "memory", 30, 30)
        both(pool, bob, "cpu", 70, 50)
        both(pool, bob, "memory", 70, 50)
        both(pool, ada, "cpu", 40, 25, NOON + 60 * SECOND)
        both(pool, ada, "memory", 80, 50, NOON + 60 * SECOND)
        both(pool, bob, "cpu", 20, 40, NOON + 60 * SECOND)
        both(pool, bob, "memory", 20, 40, NOON + 60 * SECOND)
        entries_seal(now=NOON)
        told = report(pool, end=NOON + 120 * SECOND, step="PT1M")
        assert [(each.tenant, each.total.least) for each in told.tenants] == [
            ("ada", 1.375),
            ("bob", 1.0),
        ]
        assert [degree.least for degree in told.tenants[0].series] == [1.0, 1.6]
        assert [degree.least for degree in told.tenants[1].series] == [1.4, 0.5]
        assert told.tenants[0].total.used == [Decimal(3300), Decimal(6600)]

    def test_without_demand_it_is_none_and_says_why(self, pool, tenant):
        ada, bob, eve = tenant("ada"), tenant("bob"), tenant("eve")
        both(pool, ada, "cpu", 3, 2)
        entries_append([entry(pool, bob, "usage", "cpu", 1, NOON, 60)])
        pool.memberships.create(tenant=eve, admitted_at=NOON)
        entries_seal(now=NOON)
        told = {each.tenant: each.total for each in report(pool).tenants}
        assert (told["ada"].ratios, told["ada"].reasons) == ([1.5, None], [None, "no_demand"])
        assert (told["ada"].least, told["ada"].reason) == (1.5, None)
        assert (told["bob"].least, told["bob"].reason) == (None, "nothing_alone")
        assert (told["eve"].least, told["eve"].reason) == (None, "no_demand")
        alone = report(pool, tenant=ada).tenants
        assert [each.tenant for each in alone] == ["ada"]

    def test_a_pool_that_takes_reports_has_no_reference(self, reported, tenant):
        entries_append([entry(reported, tenant("ada"), "usage", "cpu", 1, NOON, 60)])
        entries_seal(now=NOON)
        (told,) = report(reported).tenants
        assert (told.total.used[0], told.total.reason) == (Decimal(60), "no_reference")

    def test_what_is_not_sealed_is_in_no_feed_and_in_no_report(self, pool, tenant):
        both(pool, tenant("ada"), "cpu", 3, 2)
        assert report(pool).tenants == []
        entries_seal(now=NOON)
        assert report(pool).tenants[0].total.least == 1.5

    def test_a_correction_counts_as_what_it_corrects(self, pool, tenant):
        both(pool, tenant("ada"), "cpu", 3, 2)
        for kind, right in ((Kind.USAGE, 5), (Kind.ALONE, 4)):
            entry_correct(
                entry=Entry.objects.get(kind=kind), quantity=Decimal(right), reason="x", now=NOON
            )
        entries_seal(now=NOON)
        (told,) = report(pool).tenants
        assert (told.total.used[0], told.total.alone[0], told.total.least) == (300, 240, 1.25)


class TestPeriods:
    def test_pieces_follow_the_calendar_of_the_pool(self, db):
        """25 hours on the day on which Europe's clocks go back."""
        pool = pool_create(slug="b", settings=pool_settings(timezone="Europe/Berlin"), now=NOON)
        berlin = ZoneInfo("Europe/Berlin")
        period = report_period(
            pool=pool,
            start=datetime(2026, 10, 24, tzinfo=berlin),
            end=datetime(2026, 10, 27, tzinfo=berlin),
            step="P1D",
            now=NOON,
        )
        assert [(b - a) / HOUR for a, b in period.intervals] == [24, 25, 24]

    def test_it_is_the_last_week_unless_told_and_ends_now(self, pool):
        period = report_period(pool=pool, start=None, end=None, step=None, now=NOON)
        assert period.edges == [NOON - 7 * 24 * HOUR, NOON]
        ahead = report_period(pool=pool, start=NOON - HOUR, end=NOON + HOUR, step="PT40M", now=NOON)
        assert ahead.edges == [NOON - HOUR, NOON - HOUR / 3, NOON]

    @pytest.mark.parametrize(
        ("start", "end", "step"),
        [
            (NOON, NOON, None),
            (NOON + HOUR, None, None),
            (datetime(1999, 1, 1, tzinfo=UTC), NOON, None),
            (NOON - HOUR, NOON, "PT3S"),
        ],
    )
    def test_it_refuses(self, pool, start, end, step):
        with pytest.raises(Unreadable) as refused:
            report_period(pool=pool, start=start, end=end, step=step, now=NOON)
        assert refused.value.code == "report.period"


TIMES = st.integers(0, 4 * 3_600_000_000)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob"]),
        st.sampled_from(["usage", "alone"]),
        st.sampled_from(["cpu", "memory"]),
        st.decimals("0.000000000001", "999999999999", places=12),
        TIMES,
        st.integers(1, 3 * 3_600_000_000),
    ),
    max_size=12,
)


def feed_total(pool, tenant, kind, resource, period):
    """The plain way: read the feed, cut every entry to the period, add up as decimals."""
    entries = entries_after(BEGINNING, caller=None, limit=1000, pool=pool.slug)
    kinds = {row["id"]: row["kind"] for row in entries}
    total = Decimal(0)
    with localcontext(prec=200):
        for row in entries:
            start, end = (datetime.fromisoformat(row[name]) for name in ("start", "end"))
            inside = min(end, period.end) - max(start, period.start)
            if (
                (row["tenant"], row["resource"]) == (tenant, resource)
                and kinds.get(row["corrects"], row["kind"]) == kind
                and inside > timedelta(0)
            ):
                microseconds = inside // timedelta(microseconds=1)
                total += Decimal(row["quantity"]) * microseconds / Decimal(10**6)
    return total


def _row(pool, tenants, slug, kind, resource, quantity, start, length):
    begin = NOON + timedelta(microseconds=start)
    row = entry(pool, tenants[slug], kind, resource, quantity, begin, 0)
    return row | {"end": begin + timedelta(microseconds=length)}


def _correct(ids, corrected):
    for position, quantity in corrected:
        if position < len(ids):
            one = Entry.objects.get(pk=ids[position])
            with suppress(Unacceptable):  # it may be so already
                entry_correct(entry=one, quantity=quantity, reason="measured again", now=NOON)


@examples(
    100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    entries=ENTRIES,
    late=ENTRIES,
    corrected=st.lists(st.tuples(st.integers(0, 11), st.decimals(0, 10**9, places=3)), max_size=4),
    cuts=st.sets(TIMES, min_size=2, max_size=6),
)
def test_totals_are_those_of_the_ledger_to_the_last_digit(
    pool, tenant, entries, late, corrected, cuts
):
    """Random entries, late ones after a seal, corrections; any period in any intervals."""
    with transaction.atomic():
        tenants = {slug: tenant(slug) for slug in ("ada", "bob")}
        ids = []
        for batch in (entries, late):
            rows = [_row(pool, tenants, *fields) for fields in batch]
            ids += entries_append(rows)
            entries_seal(now=NOON)
        _correct(ids, corrected)
        entries_seal(now=NOON)
        period = Period([NOON + timedelta(microseconds=cut) for cut in sorted(cuts)])
        told = {
            each.tenant: each for each in sharing_degree_report(pool=pool, period=period).tenants
        }
        for slug in tenants:
            for kind, name in (("usage", "used"), ("alone", "alone")):
                for r, resource in enumerate(("cpu", "memory")):
                    expected = feed_total(pool, slug, kind, resource, period)
                    each = told.get(slug)
                    assert (getattr(each.total, name)[r] if each else 0) == expected
                    with localcontext(prec=200):
                        intervals = (
                            [getattr(interval, name)[r] for interval in each.series] if each else []
                        )
                        assert sum(intervals, Decimal(0)) == expected
        transaction.set_rollback(True)


class TestUsageFromBeforeTheFirstDecision:
    """Imported usage lies before anything is known of what would have been used alone."""

    @pytest.fixture
    def imported(self, pool, tenant):
        """An hour of 70 cores without a decision, then an hour of 2 beside 1 alone."""
        SealedDecision.objects.create(
            run_id=uuid4(),
            pool=pool,
            generation=1,
            effective_from=NOON,
            input=b"",
            answer=b"",
            block=1,
        )
        ada = tenant("ada")
        entries_append([entry(pool, ada, "usage", "cpu", 70, NOON - HOUR, 3_600)])
        both(pool, ada, "cpu", 2, 1, seconds=3_600)
        entries_seal(now=NOON)
        return pool

    def report(self, pool, *edges):
        period = Period([NOON + hours * HOUR for hours in edges])
        report = sharing_degree_report(pool=pool, period=period)
        assert report.alone_from == NOON
        return report.tenants[0]

    def test_it_is_used_and_not_compared(self, imported):
        degree = self.report(imported, -1, 1).total
        assert degree.used[0] == 72 * 3_600
        assert degree.ratios[0] == 2.0

    def test_an_interval_that_the_decision_cuts_counts_from_there_on(self, imported):
        found = self.report(imported, -1, 0.5, 1)
        assert [each.ratios[0] for each in found.series] == [2.0, 2.0]
        assert found.total.ratios[0] == 2.0

    def test_an_interval_before_it_has_no_reference(self, imported):
        found = self.report(imported, -1, 0, 1)
        assert [(each.ratios[0], each.reasons[0]) for each in found.series] == [
            (None, "no_reference"),
            (2.0, None),
        ]
