"""What is posted is posted once, exactly, and never changed; the chain finds what was changed anyway."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sealing import SEALED_AT_ONCE, entries_seal
from allocator_service.ledger.models import Block, Entry, Identity, Seal
from tests.integration.conftest import NOON
from tests.integration.ledger.conftest import HOUR, report, usage
from tests.superuser import unconstrained, unprotected

pytestmark = pytest.mark.django_db(transaction=True)


def failed():
    return [check.name for check in ledger_verify(now=NOON) if not check.holds]


def run(statement, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


@transaction.atomic
def run_as(role, *statements):
    if role == "application":
        run("SET LOCAL ROLE allocator")
    for statement in statements:
        run(statement)


REFUSED = r"only added to|permission denied"
# As the migration has it; the tests' own lets them empty the tables.
TRUNCATE_REFUSED = """
CREATE OR REPLACE FUNCTION ledger_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the ledger is only added to'; END $$
"""


def test_an_event_becomes_one_exact_entry_for_each_resource(reported, tenant):
    event = replace(usage(tenant("u1"), "e1", "0.1", 3), end=NOON - HOUR + HOUR / 3600 / 1000)
    assert report(reported, event).accepted == 1
    cpu, memory = Entry.objects.order_by("id")
    assert (cpu.resource, cpu.unit, cpu.quantity) == ("cpu", "core", Decimal("0.1"))
    assert cpu.amount == Decimal("360.0001")
    assert memory.amount == Decimal("10800.003")


def test_a_repeat_is_a_duplicate_and_a_contradiction_refuses_the_whole_batch(reported, tenant):
    first = usage(tenant("u1"), "e1", 1, 2)
    assert report(reported, first).accepted == 1
    again = report(reported, first, usage(tenant("u1"), "e2", 1, 1), first)
    assert (again.accepted, again.duplicates) == (1, 2)
    before = Entry.objects.count()
    with pytest.raises(Conflict) as refused:
        report(reported, usage(tenant("u1"), "e3", 1, 1), usage(tenant("u1"), "e1", 1, 3))
    assert refused.value.code == "usage.conflict"
    assert Entry.objects.count() == before
    assert Identity.objects.count() == 2
    other_source = usage(tenant("u1"), "e1", 9, 9, source="another")
    assert report(reported, other_source).accepted == 1


def test_in_a_batch_of_new_and_old_each_source_has_names_of_its_own(reported, tenant):
    old, twin = (usage(tenant("u1"), "e1", 1, 0, source=source) for source in ("a", "b"))
    report(reported, old)
    new = usage(tenant("u1"), "e0", 2, 0, source="b")
    answer = report(reported, twin, old, new)
    assert (answer.accepted, answer.duplicates) == (2, 1)
    posted = Entry.objects.order_by("id").values_list("source", "event_id", "quantity")
    assert list(posted) == [("a", "e1", 1), ("b", "e1", 1), ("b", "e0", 2)]
    contradicting = [replace(event, vector=[Decimal(7)], pointer=f"/{place}")
                     for place, event in enumerate((new, twin))]  # fmt: skip
    with pytest.raises(Conflict) as refused:
        report(reported, *contradicting)
    assert refused.value.code == "usage.conflict"
    assert Entry.objects.count() == 3


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"end": NOON - 2 * HOUR}, "usage.interval"),
        ({"end": NOON + HOUR}, "usage.future"),
        ({"start": datetime(1999, 12, 31, tzinfo=UTC)}, "usage.interval"),
        ({"start": NOON - 400 * 24 * HOUR}, "usage.interval"),
    ],
)
def test_intervals_that_cannot_be_are_refused(reported, tenant, changes, code):
    with pytest.raises(Unacceptable) as refused:
        report(reported, replace(usage(tenant("u1"), "e1", 1, 2), **changes))
    assert refused.value.code == code
    assert not Entry.objects.exists()


def test_a_pool_that_meters_itself_takes_no_reports(fig2, tenant):
    with pytest.raises(Conflict) as refused:
        report(fig2, usage(tenant("u1"), "e1", 1, 2))
    assert refused.value.code == "usage.metering"


def test_months_have_partitions_and_late_events_find_theirs(reported, tenant):
    for month in (1, 3, 11):
        start = datetime(2026, month, 10, tzinfo=UTC)
        report(reported, usage(tenant("u1"), f"m{month}", 1, 0, start=start))
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM ledger_entry ORDER BY start")
        tables = [name for (name,) in cursor.fetchall()]
    assert tables == ["ledger_entry_202601", "ledger_entry_202603", "ledger_entry_202611"]


def test_the_sealed_order_is_gapless_and_chained(reported, tenant):
    for number in range(3):
        report(reported, *(usage(tenant("u1"), f"{number}-{i}", 1, 2) for i in range(4)))
        assert entries_seal(now=NOON) == 8
    assert entries_seal(now=NOON) == 0
    assert list(Seal.objects.values_list("sequence", flat=True)) == list(range(1, 25))
    assert list(Block.objects.values_list("number", "first_sequence", "entries")) == [
        (1, 1, 8),
        (2, 9, 8),
        (3, 17, 8),
    ]
    assert failed() == []


MANY = """
INSERT INTO ledger_entry (id, pool_id, tenant_id, resource, unit, quantity, start, "end", amount,
                          kind, reason, source, recorded_at)
SELECT gen_random_uuid(), %s, %s, 'cpu', 'core', 1, %s, %s, 60, 'usage', '', 'meter', %s
FROM generate_series(1, 40000)
"""


def test_sealing_much_at_once_does_not_wait_for_the_planner_s_statistics(reported, tenant):
    """With those of an emptied table, what waits would be read once for every entry: for minutes."""
    # Without pages of rows that other tests left, which statistics would count as empty.
    run("TRUNCATE ledger_pending, ledger_entry, ledger_seal, ledger_block CASCADE")
    run("INSERT INTO ledger_pending SELECT gen_random_uuid(), now() FROM generate_series(1, 40000)")
    run("DELETE FROM ledger_pending")
    run("ANALYZE ledger_pending, ledger_entry, ledger_seal, ledger_block")
    user, start = tenant("u1"), NOON - HOUR
    report(reported, usage(user, "e1", 1, 0, start=start))  # the month's partition is there
    run(MANY, reported.pk, user.pk, start, start + HOUR / 60, NOON)
    run("INSERT INTO ledger_pending SELECT id, start FROM ledger_entry WHERE amount = 60")
    sealed = []
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '20s'")
    try:
        while not sealed or sealed[-1]:
            sealed.append(entries_seal(now=NOON))
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET statement_timeout")
    assert sealed == [SEALED_AT_ONCE] * 4 + [1, 0]
    assert failed() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entry SET amount = 0",
        "DELETE FROM ledger_entry",
        "UPDATE ledger_entry_202611 SET reason = 'x'",
        "DELETE FROM ledger_entry_202611",
        "UPDATE ledger_seal SET sequence = sequence + 100",
        "DELETE FROM ledger_identity",
        "DELETE FROM ledger_block",
    ],
)
@pytest.mark.parametrize("role", ["owner", "application"])
def test_nobody_changes_or_removes(reported, tenant, role, statement):
    report(reported, usage(tenant("u1"), "e1", 1, 2))
    entries_seal(now=NOON)
    with pytest.raises(DatabaseError, match=REFUSED):
        run_as(role, statement)
    assert failed() == []
    assert Entry.objects.count() == 2


@pytest.mark.parametrize("table", ["ledger_entry", "ledger_entry_202611", "ledger_seal"])
def test_nobody_truncates(reported, tenant, table):
    report(reported, usage(tenant("u1"), "e1", 1, 2))
    with pytest.raises(DatabaseError, match=REFUSED):
        run_as("owner", TRUNCATE_REFUSED, f"TRUNCATE {table} CASCADE")
    assert Entry.objects.count() == 2


@pytest.mark.parametrize(
    ("tampering", "names"),
    [
        ("UPDATE ledger_entry SET reason = 'x' WHERE quantity = 2", {"chain"}),
        ("DELETE FROM ledger_entry WHERE quantity = 2", {"chain", "no_entry_is_lost"}),
        ("UPDATE ledger_block SET digest = sha256('x') WHERE number = 1", {"chain"}),
        ("DELETE FROM ledger_seal WHERE sequence = 2", {"chain", "gapless"}),
    ],
)
def test_what_a_superuser_changed_is_found(reported, tenant, tampering, names):
    for number in range(2):
        report(reported, usage(tenant("u1"), f"e{number}", 1, 2 + number))
        entries_seal(now=NOON)
    table = tampering.split()[2 if tampering.startswith("DELETE") else 1]
    run(f"ALTER TABLE {table} DISABLE TRIGGER ledger_no_change")
    run(tampering)
    run(f"ALTER TABLE {table} ENABLE TRIGGER ledger_no_change")
    assert names <= set(failed())
    (chain,) = [check for check in ledger_verify(now=NOON) if check.name == "chain"]
    assert chain.detail == "the chain of pool batch breaks in block 1"
    with pytest.raises(CommandError, match="checks of the ledger failed"):
        call_command("verify")


@pytest.mark.parametrize("change", ["amount - 1", "amount + 1"])
def test_an_amount_that_is_not_quantity_times_seconds_is_found(reported, tenant, change):
    """By a superuser who drops the constraint as well."""
    report(reported, usage(tenant("u1"), "e1", 1, 2))
    with unprotected("ledger_entry"), unconstrained("ledger_entry", "ledger_entry_amount_exact"):
        run(f"UPDATE ledger_entry SET amount = {change} WHERE quantity = 2")
        assert "amounts" in failed()
        run("UPDATE ledger_entry SET amount = quantity * 3600")
    assert failed() == []


def test_an_entry_that_nobody_will_number_is_found(reported, tenant):
    """As if its number were to be found by a floor on ids, which a late commit passes under."""
    report(reported, usage(tenant("u1"), "e1", 1, 2))
    run("DELETE FROM ledger_pending")
    assert failed() == ["every_entry_is_sealed_or_waits"]


def test_a_correction_adds_what_makes_it_right(reported, tenant):
    report(reported, usage(tenant("u1"), "e1", 4, 0))
    entry = Entry.objects.get()
    entry_correct(entry=entry, quantity=Decimal(3), reason="one core was idle", now=NOON)
    second = entry_correct(entry=entry, quantity=Decimal("3.5"), reason="half of one", now=NOON)
    assert (second.quantity, second.amount) == (Decimal("0.5"), Decimal(1800))
    entry.refresh_from_db()
    assert entry.quantity == 4
    assert sum(Entry.objects.values_list("amount", flat=True)) == Decimal("12600")
    with pytest.raises(Unacceptable, match="already"):
        entry_correct(entry=entry, quantity=Decimal("3.5"), reason="again", now=NOON)
    with pytest.raises(Conflict):
        entry_correct(entry=second, quantity=Decimal(1), reason="no", now=NOON)
    with pytest.raises(Unacceptable, match="must have a reason"):
        entry_correct(entry=entry, quantity=Decimal(1), reason=" ", now=NOON)
    entries_seal(now=NOON)
    assert failed() == []
