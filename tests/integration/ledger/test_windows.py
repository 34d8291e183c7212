"""What a window remembers is the plain sum over the ledger, whatever came late or was corrected."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import count
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry, Kind, TotalsCursor
from allocator_service.ledger.windows import window_state
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.services import pool_create
from allocator_service.pools.windows import half_life_of, past_of
from allocator_service.tenants.services import tenant_create
from tests.examples import examples
from tests.integration import conftest
from tests.integration.conftest import NOON
from tests.integration.ledger.conftest import HOUR, report, usage

BERLIN = ZoneInfo("Europe/Berlin")
# The clocks go back on 25 October: that day has 25 hours, and 02:30 comes twice.
CHANGE = datetime(2026, 10, 25, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_numbers = count()


instants = st.one_of(
    st.integers(-3 * 86_400 * 10**6, 3 * 86_400 * 10**6).map(lambda m: CHANGE + m * MICROSECOND),
    st.integers(-300, 300).map(lambda quarters: CHANGE + quarters * HOUR / 4),
    st.integers(-40, 40).map(lambda days: CHANGE + days * 24 * HOUR),
)
lengths = st.one_of(
    st.integers(1, 10**9).map(lambda microseconds: microseconds * MICROSECOND),
    st.integers(1, 400).map(lambda quarters: quarters * HOUR / 4),
    st.integers(1, 366).map(lambda days: days * 24 * HOUR),
)
quantities = st.integers(1, 10**15).map(lambda units: Decimal(units).scaleb(-12))
windows = st.sampled_from(
    [
        Window("tumbling", datetime(2026, 10, 18, 22, tzinfo=UTC), "P1D"),
        Window("tumbling", datetime(2026, 1, 31, tzinfo=UTC), "P1M"),
        Window("sliding", CHANGE, "P1D"),
        Window("sliding", CHANGE, "PT90M"),
        Window("sliding", CHANGE, "P3M"),
        Window("decay", CHANGE, "", "PT1M"),
        Window("decay", CHANGE, "", "P7D"),
        Window("unbounded", CHANGE),
        Window("none", CHANGE),
    ]
)
events = st.tuples(
    instants,
    lengths,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["cpu", "memory"]),
    st.sampled_from([Kind.USAGE, Kind.ALONE]),
    quantities,
    st.one_of(st.none(), quantities),  # what it should have been
    st.sampled_from(["pending", "sealed", "added"]),  # what is done after it
)


def weighed(entry, past):
    """Quantity × the seconds of an entry that count, each by its weight."""
    start = entry.start if past.since is None else max(entry.start, past.since)
    end = min(entry.end, past.until)
    if end <= start:
        return 0
    if past.half_life is None:
        seconds = Fraction((end - start) // MICROSECOND, 10**6)
        return Fraction(entry.quantity) * seconds
    begin, until = ((past.until - at).total_seconds() / past.half_life for at in (start, end))
    rate = 0.6931471805599453 / past.half_life
    return float(entry.quantity) * (2**-until - 2**-begin) / rate


def plain_sums(pool, past):
    """{kind: {(tenant, resource): amount}} by reading every entry."""
    entries = list(Entry.objects.filter(pool=pool))
    by_id = {entry.pk: entry for entry in entries}
    sums = {Kind.USAGE: {}, Kind.ALONE: {}}
    for entry in entries:
        kind = by_id[entry.corrects].kind if entry.kind == Kind.CORRECTION else entry.kind
        key = (entry.tenant_id, entry.resource)
        sums[kind][key] = sums[kind].get(key, 0) + weighed(entry, past)
    return {kind: {k: v for k, v in amounts.items() if v} for kind, amounts in sums.items()}


def write(pool, tenants, drawn, owner=None):
    start, length, tenant, resource, kind, quantity, right, then = drawn
    row = {
        "pool_id": pool.pk, "tenant_id": tenants[tenant].pk, "workload_id": None,
        "server_owner_id": owner and tenants[owner].pk, "resource": resource, "unit": "",
        "quantity": quantity, "start": start, "end": start + length, "kind": kind.value,
        "corrects": None, "reason": "", "source": "test", "event_id": None, "run_id": None,
        "recorded_at": NOON,
    }  # fmt: skip
    (id_,) = entries_append([row])
    if right is not None and right != quantity:
        entry_correct(entry=Entry.objects.get(pk=id_), quantity=right, reason="x", now=NOON)
    if then != "pending":
        entries_seal(now=NOON)
    if then == "added":
        totals_advance()


@pytest.mark.django_db
@examples(250, suppress_health_check=list(HealthCheck))
@given(
    window=windows,
    drawn=st.lists(events, max_size=8),
    ats=st.lists(instants, min_size=1, max_size=3),
)
def test_a_window_is_the_sum_over_the_ledger(window, drawn, ats):
    with transaction.atomic():
        number = next(_numbers)
        choice = conftest.policy_choose("drf", None, {})
        chosen = conftest.settings(window=window, timezone="Europe/Berlin", policy=choice)
        pool = pool_create(slug=f"p{number}", settings=chosen, now=NOON)
        tenants = {
            slug: tenant_create(slug=f"{slug}{number}", name=slug, now=NOON) for slug in "ab"
        }
        for event in drawn:
            write(pool, tenants, event)
        for at in ats:
            past = past_of(pool, at)
            state, expected = window_state(pool, at), plain_sums(pool, past)
            for kind, amounts in ((Kind.USAGE, state.used), (Kind.ALONE, state.alone)):
                if past.half_life is None:
                    assert {k: Fraction(v) for k, v in amounts.items()} == expected[kind]
                    continue
                for key in amounts.keys() | expected[kind].keys():
                    noise = 1e-12 * past.half_life * sum(float(e[5]) for e in drawn)
                    assert float(amounts.get(key, 0)) == pytest.approx(
                        expected[kind].get(key, 0), rel=1e-9, abs=noise
                    )
        transaction.set_rollback(True)


@pytest.fixture
def hourly(reported, tenant):
    """Two tenants' reports of a week, sealed and in the totals, with a correction and a late one."""
    for number in range(7 * 24):
        start = NOON - (number + 1) * HOUR
        report(
            reported,
            usage(tenant("u1"), f"a{number}", 1, 2, start=start),
            usage(tenant("u2"), f"b{number}", "0.5", 0, start=start + HOUR / 7, hours=0.4),
        )
    entry_correct(entry=Entry.objects.earliest("start"), quantity=Decimal(3), reason="x", now=NOON)
    entries_seal(now=NOON)
    totals_advance()
    report(reported, usage(tenant("u1"), "late", 4, 0, start=NOON - 100 * HOUR))
    return reported


def wrong():
    return [check.name for check in ledger_verify(now=NOON) if not check.holds]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "window",
    [
        {"window_kind": "tumbling", "window_length": "P3D"},
        {"window_kind": "sliding", "window_length": "PT30H"},
        {"window_kind": "decay", "window_half_life": "P1D"},
        {"window_kind": "unbounded"},
    ],
)
def test_verify_recomputes_totals_and_windows(hourly, window):
    Pool.objects.update(**window)
    assert wrong() == []
    report(hourly, usage(tenant_create(slug="u3", name="U3", now=NOON), "e", 1, 1))
    entries_seal(now=NOON)
    totals_advance()
    assert wrong() == []
    assert TotalsCursor.objects.get().through == Entry.objects.count()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("tampering", "names"),
    [
        ("UPDATE ledger_total SET moment = moment + 1 WHERE level = 3", {"totals"}),
        ("DELETE FROM ledger_total WHERE level = 0", {"totals"}),
        ("UPDATE ledger_totals_cursor SET through = through - 1", {"totals"}),
        ("DELETE FROM ledger_total", {"totals", "windows"}),
    ],
)
def test_verify_finds_totals_that_were_changed(hourly, tampering, names):
    """Control: totals that miss an entry, have it twice, or are gone."""
    Pool.objects.update(window_kind="sliding")
    with connection.cursor() as cursor:
        cursor.execute(tampering)
    assert names <= set(wrong())


@pytest.mark.django_db(transaction=True)
def test_a_new_half_life_is_right_at_once_and_in_the_totals_later(hourly, tenant):
    pool = Pool.objects.get()
    for half_life in ("P1D", "PT6H"):
        Pool.objects.update(window_kind="decay", window_half_life=half_life)
        pool.refresh_from_db()
        before = window_state(pool, NOON).used
        report(hourly, usage(tenant("u1"), half_life, 0, 1))
        entries_seal(now=NOON)
        while totals_advance():
            pass
        after = window_state(pool, NOON).used
        key = (tenant("u1").pk, "cpu")
        assert float(after[key]) == pytest.approx(float(before[key]), rel=1e-9)
        assert TotalsCursor.objects.get().half_life == half_life_of(pool)


@pytest.mark.django_db(transaction=True)
def test_clocks_that_change_make_a_day_of_25_hours(reported, tenant):
    midnight = datetime(2026, 10, 24, 22, tzinfo=UTC)  # in Berlin; NOON is in November
    report(reported, usage(tenant("u1"), "all", 1, 0, start=midnight - 24 * HOUR, hours=72))
    Pool.objects.update(timezone="Europe/Berlin", window_anchor=midnight, window_length="P1D")
    pool = Pool.objects.get()
    key = (tenant("u1").pk, "cpu")
    assert window_state(pool, midnight + 24 * HOUR).used[key] == 24 * 3600
    assert key not in window_state(pool, midnight + 25 * HOUR).used  # a new day, a new window
    Pool.objects.update(window_kind="sliding")
    pool.refresh_from_db()
    assert window_state(pool, midnight + 25 * HOUR).used[key] == 25 * 3600
    assert window_state(pool, midnight).used[key] == 24 * 3600
