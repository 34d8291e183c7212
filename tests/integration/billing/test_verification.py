"""Whatever a superuser changes of a closed month is found, and by the check that names it."""

from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, ProgrammingError, connection, transaction

from allocator_service.billing.auditing.verification import month_verify, statements_verify
from allocator_service.billing.models import Closing
from allocator_service.billing.plans.services import CommitmentDraft
from allocator_service.billing.reratings import rerating_apply
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.watching import manifests_write
from allocator_service.core.audit import audit_record
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Block, Entry, SealedDocument
from tests.integration.billing.conftest import (
    APRIL_2,
    MAY_2,
    at,
    draft_plan,
    month,
    publish,
    rate,
    seal,
    used,
)
from tests.superuser import as_superuser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def closed(worked, tenant):
    """March and April are closed; April has an adjustment, a rerating and commitments of a plan."""
    one = CommitmentDraft(
        tenant("a"), "cpu", Decimal(1), Decimal("0.02"), at(10, 4), at(1, year=2028)
    )
    publish(worked, at(1, 4), rate(own="0.01", shared="0.05"), commitments=[one])
    month_close(pool=worked, month=month("2027-03", worked), now=APRIL_2)
    lent = Entry.objects.get(start=at(15), end=at(20))
    entry_correct(entry=lent, quantity=Decimal("2.5"), reason="half", now=APRIL_2)
    used(worked, tenant("a"), tenant("b"), 3, at(5, 4), at(20, 4))
    seal()
    plan = draft_plan(worked, at(20), at(25), rate(own="0.01", shared="0.06"))
    rerating_apply(pool=worked, plan=plan, reason="dearer", now=APRIL_2)
    month_close(pool=worked, month=month("2027-04", worked), now=MAY_2)
    manifests_write()
    seal(MAY_2)
    return worked


def wrong():
    return {check.name for check in statements_verify() if not check.holds}


def chain_holds():
    return all(check.holds for check in ledger_verify(now=MAY_2) if check.name == "chain")


def test_closed_months_hold_and_their_digests_are_in_the_chain(closed):
    assert wrong() == set()
    assert chain_holds()
    kinds = list(SealedDocument.objects.order_by("id").values_list("kind", "name"))
    of_march = sorted((kind, name) for kind, name in kinds if name.startswith("2027-03"))
    assert of_march == [
        ("audit", "2027-03"),
        ("manifest", "2027-03"),
        ("month", "2027-03"),
        ("price_plan", "2027-03/1"),
        ("price_plan", "2027-03/2"),
        ("statement", "2027-03/a"),
        ("statement", "2027-03/b"),
    ]
    blocks = Block.objects.order_by("number")
    assert [block.documents for block in blocks if block.format == 3] == [6, len(kinds) - 6]
    used(closed, Entry.objects.first().tenant, None, 1, at(3, 5), at(4, 5))
    seal(MAY_2)
    assert Block.objects.order_by("number").last().format == 2
    assert chain_holds()


CENT = "tenant_amount = tenant_amount + 0.01, pool_amount = pool_amount - 0.01"
BYTES = "document = replace(convert_from(document, 'UTF8'), '43.05', '43.04')::bytea"


@pytest.mark.parametrize(
    ("tampering", "names"),
    [
        ("UPDATE billing_statement SET billed = billed + 0.01 WHERE billed > 100", {"statements"}),
        (
            f"UPDATE billing_statement SET {BYTES} WHERE billed > 100",
            {"statements", "statement_lines"},
        ),
        ("DELETE FROM billing_statement WHERE billed > 100", {"statements", "statement_lines"}),
        (
            f"UPDATE billing_posting SET {CENT} WHERE tenant_amount = 43.05",
            {"statement_lines", "postings"},
        ),
        (
            "UPDATE billing_posting SET owner_amount = owner_amount - 0.01,"
            " fee_amount = fee_amount + 0.01 WHERE tenant_amount = 43.05",
            {"statement_lines", "postings"},
        ),
        ("DELETE FROM billing_posting WHERE kind = 'adjustment'", {"statement_lines", "postings"}),
        (
            "UPDATE billing_rate SET shared = 0.041 WHERE shared = 0.04",
            {"price_plans", "postings"},
        ),
        ("UPDATE billing_commitment SET price = 0.03", {"price_plans", "postings"}),
        (
            "UPDATE billing_plan SET name = 'another' WHERE number = 1",
            {"price_plans", "statement_lines"},
        ),
        (
            "UPDATE billing_manifest SET document = replace(convert_from(document, 'UTF8'),"
            " '\"rows\":', '\"rows\":1')::bytea",
            {"manifests", "manifest_entries"},
        ),
        ("DELETE FROM billing_manifest", {"manifests"}),
        ("UPDATE core_audit_entry SET actor = 'nobody' WHERE action = 'month.close'", {"audit"}),
        ("DELETE FROM core_audit_entry WHERE action = 'price_plan.publish'", {"audit"}),
        ("DELETE FROM billing_audited_entry", {"audit"}),
        (
            "UPDATE billing_closing SET sequence = sequence + 5 WHERE month = '2027-04-01'",
            {"statements", "manifest_entries"},
        ),
        (
            "UPDATE billing_closing SET closed_at = closed_at - interval '1 day'",
            {"statements"},
        ),
        ("UPDATE billing_posting SET currency = 'USD'", {"statement_lines"}),
        ("UPDATE pool SET currency = 'USD'", {"statements", "statement_lines"}),
    ],
)  # fmt: skip
def test_verify_finds_what_a_superuser_changed(closed, tampering, names):
    as_superuser(tampering)
    assert wrong() == names


def test_verify_finds_a_changed_month_document(closed):
    as_superuser(
        "UPDATE billing_closing SET document = replace(convert_from(document, 'UTF8'),"
        " '-80.04', '-80.05')::bytea || ' '"
    )
    assert "statements" in wrong()


@pytest.mark.parametrize(
    ("tampering", "check"),
    [
        ("UPDATE billing_statement SET document = 'x'::bytea", "statement_lines"),
        ("UPDATE billing_closing SET document = '{}'::bytea", "statements"),
        ("UPDATE pool SET timezone = 'America/New_York'", "statements"),
        ("UPDATE billing_rate SET tiers = '{\"a\": 1}', shared = NULL", "price_plans"),
    ],
)
def test_what_cannot_be_read_is_a_fault_and_no_error(closed, tampering, check):
    as_superuser(tampering)
    assert check in wrong()


def test_a_changed_digest_breaks_the_chain(closed):
    as_superuser("UPDATE ledger_document SET sha256 = sha256('x') WHERE kind = 'statement'")
    assert not chain_holds()
    assert wrong() == {"statements"}


def test_one_month_is_verified_by_itself(closed):
    march, april = Closing.objects.order_by("month")
    as_superuser(
        "UPDATE billing_posting SET tenant_amount = tenant_amount + 0.01,"
        " pool_amount = pool_amount - 0.01 WHERE tenant_amount = 43.05"
    )
    failed = {
        closing.month.month: [check.name for check in month_verify(closing) if not check.holds]
        for closing in (march, april)
    }
    assert failed == {3: ["statement_lines", "postings"], 4: []}


def test_a_month_that_was_closed_before_the_chain_held_digests_is_not_looked_at(closed):
    as_superuser("DELETE FROM ledger_document")
    as_superuser("DELETE FROM billing_audited_entry")
    checks = statements_verify()
    assert all(check.holds for check in checks)
    assert {check.detail for check in checks} == {
        "0 months, 2 closed before the chain held digests"
    }
    assert not chain_holds()


def test_digests_that_are_gone_are_a_fault_of_the_month(closed):
    as_superuser("DELETE FROM ledger_document WHERE name LIKE '2027-04%'")
    march, april = Closing.objects.order_by("month")
    assert all(check.holds for check in month_verify(march))
    failed = {check.name for check in month_verify(april) if not check.holds}
    assert failed == {"statements", "audit", "manifests"}


def test_the_command_verifies_closed_months_too(closed, capsys):
    as_superuser("UPDATE billing_statement SET billed = billed + 1")
    with pytest.raises(CommandError, match="statements"):
        call_command("verify")
    found = "2027-03 of pool lab: the statement of a does not bill the amount of its document"
    assert f"FAILS  statements  {found}" in capsys.readouterr().out


@pytest.mark.parametrize("role", ["allocator", None])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE core_audit_entry SET actor = 'x'",
        "DELETE FROM core_audit_entry",
        "UPDATE core_event SET payload = '{}'",
        "UPDATE billing_audited_entry SET closing_id = closing_id",
        "UPDATE ledger_document SET name = 'x'",
        "DELETE FROM ledger_document",
        "DELETE FROM core_event",
    ],
)
def test_audit_events_and_digests_stay_as_they_were_written(closed, role, statement):
    audit_record(action="x", instance=closed, now=APRIL_2, pool=closed.slug)
    refused = (IntegrityError, ProgrammingError)
    with pytest.raises(refused, match=r"only added to|permission denied"):
        _run_as(role, statement)


@transaction.atomic
def _run_as(role, statement):
    with connection.cursor() as cursor:
        if role:
            cursor.execute(f"SET LOCAL ROLE {role}")
        cursor.execute(statement)
