"""What lay between any edges is the plain sum over the sealed entries, whatever the totals have yet."""

from decimal import Decimal
from itertools import count

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from allocator_service.ledger.amounts import totals
from allocator_service.ledger.amounts.rate_changes import (
    amounts_between,
    used_in_all,
    used_of_owners,
)
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry, Kind, OwnerTotal, Total, TotalsCursor
from allocator_service.ledger.reporting.amounts import amounts_within, exact_sums
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.models import Pool
from allocator_service.pools.services import pool_create
from allocator_service.tenants.services import tenant_create
from tests.examples import examples
from tests.integration import conftest
from tests.integration.conftest import NOON
from tests.integration.ledger.conftest import HOUR, report, usage
from tests.integration.ledger.test_windows import (
    CHANGE,
    MICROSECOND,
    instants,
    lengths,
    quantities,
    write,
)
from tests.references.ledger import plain_amounts

_numbers = count()
TENANTS = ("a", "b", "c")

entries = st.tuples(
    instants,
    lengths,
    st.sampled_from(TENANTS),
    st.sampled_from(["cpu", "memory"]),
    st.sampled_from([Kind.USAGE, Kind.USAGE, Kind.ALONE]),
    quantities,
    st.one_of(st.none(), st.just(Decimal(0)), quantities),  # what it should have been
    st.sampled_from(["pending", "sealed", "added"]),  # what is done after it
    st.sampled_from([None, *TENANTS]),  # whose server
)
# Totals that are made anew, as by a migration or another half-life; some of the way.
resets = st.sampled_from(["owners", "totals", "half-life"])
# An edge, and some close to it.
edges = st.tuples(
    instants, st.lists(st.integers(-(10**9), 10**9).map(lambda m: m * MICROSECOND), max_size=3)
).map(lambda drawn: [drawn[0], *(drawn[0] + apart for apart in drawn[1])])


def reset(pool, which):
    place = TotalsCursor.objects.filter(pk=pool.pk)
    if which == "owners":
        OwnerTotal.objects.filter(pool=pool).delete()
        place.update(owner_through=0)
    elif which == "totals":
        Total.objects.filter(pool=pool).delete()
        place.update(through=0)
    else:
        Pool.objects.filter(pk=pool.pk).update(window_kind="decay", window_half_life="P1D")


def read(amounts):
    return {(*use, interval): amount for use, interval, amount in amounts.all_intervals()}


def without_owners(amounts):
    """What is not 0, by tenant."""
    sums = exact_sums(((None, *key[1:]), amount) for key, amount in amounts.items())
    return {key: amount for key, amount in sums.items() if amount}


@pytest.mark.django_db
@examples(200, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.lists(st.one_of(entries, entries, resets), max_size=9),
    at_once=st.sampled_from([1, 2, 20_000]),
    cuts=st.lists(edges, min_size=1, max_size=4),
)
def test_amounts_are_the_plain_sums_over_the_sealed_entries(drawn, at_once, cuts):
    with transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals, "ADDED_AT_ONCE", at_once)
        number = next(_numbers)
        pool = pool_create(slug=f"p{number}", settings=conftest.settings(), now=NOON)
        tenants = {
            slug: tenant_create(slug=f"{slug}{number}", name=slug, now=NOON) for slug in TENANTS
        }
        for step in drawn:
            if isinstance(step, str):
                reset(pool, step)
            else:
                write(pool, tenants, step[:-1], owner=step[-1])
        cut = sorted({edge for near in cuts for edge in near})
        period = Period(cut if len(cut) > 1 else [cut[0], cut[0] + MICROSECOND])
        expected = plain_amounts(pool, period.edges)
        used = {key: amount for key, amount in expected.items() if key[2] == "usage"}

        assert read(amounts_within(pool=pool, period=period, values=2)) == without_owners(expected)
        assert read(used_of_owners(pool=pool, edges=period.edges)) == used
        for one in tenants.values():
            assert read(amounts_within(pool=pool, period=period, tenant=one, values=2)) == {
                key: amount for key, amount in without_owners(expected).items() if key[1] == one.pk
            }
            assert read(used_of_owners(pool=pool, edges=period.edges, tenant=one)) == {
                key: amount for key, amount in used.items() if one.pk in key[:2]
            }
        in_all = exact_sums(((key[3:], amount) for key, amount in used.items()))
        assert {
            (resource, interval): amount
            for resource, interval, amount in used_in_all(
                pool=pool, edges=period.edges
            ).all_intervals()
        } == {key: amount for key, amount in in_all.items() if amount}
        found = amounts_between(pool=pool, edges=period.edges, kinds=[Kind.USAGE])
        assert read(found) == without_owners(used)
        assert {use[1:] for use in found.present} == {key[1:4] for key in read(found)}
        transaction.set_rollback(True)


def lent(pool, tenant, hours):
    """An entry per hour of u1 on servers of u2, of no known owner, and of its own; sealed."""
    owners = [tenant("u2"), None, tenant("u1")]
    for hour in range(hours):
        (last,) = entries_append(
            [
                {
                    "pool_id": pool.pk, "tenant_id": tenant("u1").pk, "workload_id": None,
                    "server_owner_id": owners[hour % 3] and owners[hour % 3].pk, "resource": "cpu",
                    "unit": "", "quantity": Decimal(hour + 1), "start": CHANGE + hour * HOUR,
                    "end": CHANGE + (hour + 2) * HOUR, "kind": "usage", "corrects": None,
                    "reason": "", "source": "test", "event_id": None, "run_id": None,
                    "recorded_at": NOON,
                }
            ]
        )  # fmt: skip
    entry_correct(entry=Entry.objects.get(pk=last), quantity=Decimal("0.5"), reason="x", now=NOON)
    entries_seal(now=NOON)


EDGES = [CHANGE + interval * HOUR * 7 / 9 for interval in range(12)]


def holds():
    return [check.name for check in ledger_verify(now=NOON) if not check.holds] == []


@pytest.mark.django_db(transaction=True)
def test_totals_by_owner_that_begin_anew_are_right_at_once_and_added_up_later(reported, tenant):
    """The totals by tenant stay."""
    lent(reported, tenant, 9)
    totals_advance()
    OwnerTotal.objects.all().delete()
    TotalsCursor.objects.update(owner_through=0)
    place = TotalsCursor.objects.get()
    assert (place.through, place.owner_through) == (10, 0)
    assert not OwnerTotal.objects.exists()
    before = read(used_of_owners(pool=reported, edges=EDGES))
    assert before == plain_amounts(reported, EDGES)
    totals_of_time = list(Total.objects.order_by("pk").values())
    assert totals_advance() == 10
    assert totals_advance() == 0
    place.refresh_from_db()
    assert (place.through, place.owner_through) == (10, 10)
    assert list(Total.objects.order_by("pk").values()) == totals_of_time
    assert read(used_of_owners(pool=reported, edges=EDGES)) == before
    assert holds()


@pytest.mark.django_db(transaction=True)
def test_what_comes_in_is_added_while_owners_catch_up(reported, tenant, monkeypatch):
    """Windows do not wait for it, and no call adds more than so many, whatever the number of pools."""
    lent(reported, tenant, 9)
    other = pool_create(slug="other", settings=conftest.settings(metering="reported"), now=NOON)
    lent(other, tenant, 9)
    totals_advance()
    OwnerTotal.objects.all().delete()
    TotalsCursor.objects.update(owner_through=0)
    monkeypatch.setattr(totals, "ADDED_AT_ONCE", 4)
    first = Entry.objects.filter(pool=reported).earliest("start")
    entry_correct(entry=first, quantity=Decimal(7), reason="x", now=NOON)
    entries_seal(now=NOON)
    seen = []
    while totals_advance():
        assert read(used_of_owners(pool=reported, edges=EDGES)) == plain_amounts(reported, EDGES)
        assert holds()
        seen.append(
            tuple(TotalsCursor.objects.order_by("pk").values_list("through", "owner_through"))
        )
    ends = [place.through for place in TotalsCursor.objects.order_by("pk")]
    assert all([through for through, _ in places] == ends for places in seen)
    assert [[owners for _, owners in places] for places in seen] == [
        [4, 0], [8, 0], [21, 14], [21, 18], [21, 20],
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "tamper",
    [
        lambda: OwnerTotal.objects.filter(level=3).delete(),
        lambda: OwnerTotal.objects.filter(level=0).update(rate=1),
        lambda: TotalsCursor.objects.update(owner_through=9),
        lambda: TotalsCursor.objects.update(owner_through=11),
    ],
)
def test_verify_finds_totals_by_owner_that_were_changed(reported, tenant, tamper):
    """Control: totals by owner that are gone, others, miss an entry or have it twice."""
    lent(reported, tenant, 9)
    totals_advance()
    lent(reported, tenant, 1)
    totals_advance()
    assert holds()
    tamper()
    assert not holds()


@pytest.mark.django_db(transaction=True)
def test_what_is_behind_is_found_without_reading_all_that_was_sealed(reported, tenant):
    """The relay asks after each entry that it seals, whatever the ledger has grown to."""
    names = [tenant(name) for name in TENANTS]
    for first in range(0, 20_000, 1000):
        numbers = range(first, first + 1000)
        report(reported, *(usage(names[n % 3], str(n), 1, 1) for n in numbers))
    while entries_seal(now=NOON):
        pass
    while totals_advance():
        pass
    with CaptureQueriesContext(connection) as asked:
        assert totals_advance() == 0
    assert asked.captured_queries
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE ledger_seal")
        for query in asked.captured_queries:
            cursor.execute(f"EXPLAIN {query['sql']}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan on ledger_seal" not in plan
