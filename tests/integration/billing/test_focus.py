"""Six months of statements with every kind of line, in the columns of FOCUS."""

import os
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from time import process_time
from uuid import uuid4

import orjson
import pytest

from allocator_service.billing.credit_notes import credit_note_create
from allocator_service.billing.exports.focus import COLUMNS, CREATED, focus_rows, focus_schema
from allocator_service.billing.models import Closing, LineKind, Statement
from allocator_service.billing.plans.services import (
    CommitmentDraft,
    FixedCostDraft,
    PlanDraft,
    SpotDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.plans.tiers import Tier
from allocator_service.billing.reratings import rerating_apply
from allocator_service.billing.statements.closing import month_close
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry
from allocator_service.pools.services import pool_create
from api.v1.focus import focus_content
from tests.examples import thorough
from tests.integration.billing.conftest import at, month, rate, seal, used
from tests.integration.conftest import settings
from tests.references.focus import broken

MONTHS = [f"2027-{number:02}" for number in range(1, 7)]
BEGIN, END, LATER = at(1, 1), at(1, 7), at(2, 8)
ENTRIES = 40


def half_a_year(seed, tenant):
    """Close six months of random use, prices and changes, and return the documents of statements."""
    chance = Random(seed)
    members = [tenant(f"{slug}-{seed}") for slug in "abc"]
    a, b, c = members
    increment = chance.choice(["exact", "hour-up", "second-min-60"])
    chosen = settings(
        timezone="Europe/Berlin",
        metering="allocation" if increment == "exact" else "reported",
        currency=chance.choice(["EUR", "JPY", "KWD"]),
        resources=[Resource("cpu", "core"), Resource("memory", "GiB")],
    )
    pool = pool_create(slug=f"lab-{seed}", settings=chosen, now=BEGIN)
    tiers = [
        Tier(Decimal(500), Decimal("0.03")),
        Tier(Decimal(2000), Decimal("0.0123")),
        Tier(None, Decimal("0.007")),
    ]
    draft = PlanDraft(
        "standard", BEGIN, None, fee=Decimal("0.1"),
        increment=increment,
        rates=[
            rate("cpu", own="0.01", shared="0.04", pooled="0.05", outside="0.12"),
            replace(rate("memory", own="0.002"), tiers=tiers),
        ],
        spot_prices=[SpotDraft("cpu", "pool", at(10, 2), at(12, 2, 7), Decimal("0.021"))],
        commitments=[
            CommitmentDraft(a, "cpu", Decimal(4), Decimal("0.031"), at(5, 1), at(20, 5), Decimal(1000)),
            CommitmentDraft(b, "memory", Decimal("2.5"), Decimal("0.001"), at(1, 3), at(1, 6)),
        ],
        fixed_costs=[FixedCostDraft("support", Decimal("100"), [(a, Decimal(2)), (c, Decimal(1))])],
    )  # fmt: skip
    plan = plan_create(pool=pool, draft=draft, now=BEGIN)
    plan_publish(plan=plan, version=None, now=BEGIN)

    def use(until):
        since = BEGIN + timedelta(seconds=chance.randrange(int((until - BEGIN).total_seconds())))
        lasts = timedelta(seconds=chance.randrange(1, 15 * 86400))
        used(
            pool, chance.choice(members), chance.choice([None, *members]),
            Decimal(chance.randrange(1, 900)).scaleb(-2), since, min(since + lasts, until),
            resource=chance.choice(["cpu", "memory"]),
            event_id=None if increment == "exact" else str(uuid4()),
        )  # fmt: skip

    for _ in range(ENTRIES):
        use(END)
    seal()
    for number, text in enumerate(MONTHS):
        if number == 2:
            credit_note_create(
                pool=pool, tenant=c, amount=Decimal(20), reason="an outage", now=LATER
            )
        month_close(pool=pool, month=month(text, pool), now=LATER)
        if number == 1:
            use(month(text, pool).end)
            entry = Entry.objects.filter(pool=pool, kind="usage", start__lt=at(1, 2)).earliest("id")
            entry_correct(entry=entry, quantity=entry.quantity + 1, reason="recounted", now=LATER)
            seal()
        if number == 3:
            again = PlanDraft(
                "corrected", at(3, 2), at(9, 3), fee=Decimal("0.05"),
                rates=[rate("cpu", own="0.02", shared="0.03", pooled="0.04")],
            )  # fmt: skip
            rerated = plan_create(pool=pool, draft=again, now=BEGIN)
            rerating_apply(pool=pool, plan=rerated, reason="a wrong price", now=LATER)
    statements = Statement.objects.filter(closing__pool=pool).order_by(
        "closing__month", "tenant__slug"
    )
    assert Closing.objects.filter(pool=pool).count() == len(MONTHS)
    return [orjson.loads(bytes(each.document)) for each in statements]


@pytest.mark.parametrize("seed", range(20 if thorough() else 4))
def test_six_months_keep_what_focus_requires(db, tenant, seed):
    documents = half_a_year(seed, tenant)
    kinds = {line["kind"] for document in documents for line in document["lines"]}
    assert kinds == set(LineKind.values) - {LineKind.REVERSAL}
    assert any(
        len(line.get("parts", ())) > 1 for document in documents for line in document["lines"]
    )
    for version in COLUMNS:
        rows = [row for document in documents for row in focus_rows(document, version)]
        _write(rows, version, seed)
        assert broken(rows, version) == []
        billed = defaultdict(Decimal)
        effective = defaultdict(Decimal)
        for row in rows:
            billed[row["InvoiceId"], row["x_LineNumber"]] += Decimal(row["BilledCost"])
            effective[row["InvoiceId"]] += Decimal(row["EffectiveCost"])
        for document in documents:
            invoice = "/".join(document[name] for name in ("pool", "month", "tenant"))
            assert effective[invoice] == Decimal(document["totals"]["effective"])
            for line in document["lines"]:
                assert billed[invoice, str(line["number"])] == Decimal(line["billed"])


def test_statements_of_earlier_releases_have_rows(db, tenant):
    """They have no parts, and the oldest neither adjusted kinds nor commitments but in notes."""
    new = ("parts", "committed_hours", "adjusted_kind", "commitment", "entries")
    for document in half_a_year(1, tenant):
        lines = [
            {name: line[name] for name in line if name not in new} for line in document["lines"]
        ]
        rows = list(focus_rows({**document, "lines": lines}))
        assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal(
            document["totals"]["billed"]
        )
        for row in rows:
            if row["ListUnitPrice"] is None:
                assert row["ListCost"] == decimal_text(Decimal(row["BilledCost"]))


def test_a_statement_of_many_lines_is_read_once(db, tenant):
    """Rows of ten times the lines take some ten times as long."""
    document = max(half_a_year(1, tenant), key=lambda each: len(each["lines"]))
    line = next(line for line in document["lines"] if line["kind"] == "usage")

    def seconds(count):
        lines = [{**line, "number": number} for number in range(count)]
        began = process_time()
        assert len(list(focus_rows({**document, "lines": lines}))) >= count
        return process_time() - began

    seconds(100)
    assert seconds(5000) < 40 * seconds(500)


@pytest.mark.parametrize("hours", [("-100", "101"), ("101", "-100")])
def test_a_line_with_less_than_nothing_at_a_price_is_one_row_without_a_price(db, tenant, hours):
    document = half_a_year(1, tenant)[0]
    line = next(line for line in document["lines"] if line["kind"] == "usage")
    parts = [{"price": price, "hours": each} for price, each in zip(("1", "2"), hours, strict=True)]
    of = {**document, "lines": [{**line, "hours": "1", "price": None, "parts": parts}]}
    (row,) = focus_rows(of)
    assert (row["ListUnitPrice"], row["PricingQuantity"]) == (None, "1")
    assert Decimal(row["BilledCost"]) == Decimal(row["ListCost"]) == Decimal(line["billed"])


def test_every_schema_has_its_date():
    schemas = [focus_schema(version)["Schema"] for version in COLUMNS]
    assert {schema["SchemaId"] for schema in schemas} == set(CREATED)


@pytest.mark.parametrize("seed", range(20 if thorough() else 4))
def test_a_customer_can_compute_every_charge_again(db, tenant, seed):
    for document in half_a_year(seed, tenant):
        digits = Decimal(document["totals"]["billed"]).as_tuple().exponent
        half = Fraction(Decimal(5).scaleb(digits - 1))
        for line in document["lines"]:
            if line["hours"] is None or line["adjusted_kind"] is not None:
                continue
            parts = line.get("parts") or [{"price": line["price"], "hours": line["hours"]}]
            charge = sum(Fraction(part["hours"]) * Fraction(part["price"]) for part in parts)
            assert abs(charge - Fraction(line["charge"])) <= half + Fraction(1, 10**9)


def _write(rows, version, seed):
    """Write the rows for a validator, if the environment names a folder for them."""
    folder = os.environ.get("ALLOCATOR_FOCUS_FOLDER")
    if folder is not None:
        for file_format in ("csv", "parquet"):
            content = focus_content(lambda: rows, version=version, file_format=file_format)
            Path(folder, f"focus-{version}-{seed}.{file_format}").write_bytes(b"".join(content))
