"""Random quarters against a plain reference: commitments, spot prices, and what changes later.

After every change the open statement is what closing would bill, and everything that was billed for the
service of a month is that month rated afresh.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest

from allocator_service.billing.models import Closing, LineKind, Posting, PricePlan
from allocator_service.billing.plans.services import (
    CommitmentDraft,
    PlanDraft,
    SpotDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.plans.tiers import Tier
from allocator_service.billing.reratings import rerating_apply
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.drafting import month_draft
from allocator_service.billing.tie_out import billing_report
from allocator_service.core.money import MINOR_DIGITS
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.services import pool_create
from tests.examples import thorough
from tests.integration.billing.conftest import at, month, rate, seal, used
from tests.integration.conftest import settings
from tests.references.bills import (
    PlainCommitment,
    PlainPlan,
    instant,
    plain_bill,
    plain_uses,
)

MONTHS = ("2027-02", "2027-03", "2027-04")
BEGIN, END, LATER = at(1, 2), at(1, 5), at(2, 5)
RESOURCES = ("cpu", "memory")
KINDS = {"own": "own", "shared": "shared", "pool": "pooled"}
QUARTERS = 100 if thorough() else 10
ENTRIES = 30
FOREVER = instant(at(1, year=2029))


class Quarter:
    """A pool with random prices and usage, and the same as the reference has it."""

    def __init__(self, seed, tenant):
        self.chance = Random(seed)
        self.members = [tenant(slug) for slug in "abc"]
        resources = [Resource("cpu", "core"), Resource("memory", "GiB")]
        currency = self.chance.choice(["EUR", "JPY", "KWD"])
        chosen = settings(timezone="Europe/Berlin", resources=resources, currency=currency)
        self.pool = pool_create(slug=f"lab-{seed}", settings=chosen, now=BEGIN)
        self.digits = MINOR_DIGITS[self.pool.currency]
        self.plans, self.commitments = [], []
        border = at(self.chance.randrange(2, 28), 3, self.chance.randrange(24))
        self.publish(BEGIN, commitments=self.chance.randrange(1, 4))
        self.publish(border, commitments=self.chance.randrange(0, 2))
        for _ in range(ENTRIES):
            self.use(BEGIN, END)
        seal()

    def decimal(self, largest, digits):
        return Decimal(self.chance.randrange(1, largest * 10**digits)).scaleb(-digits)

    def time(self, start, end):
        whole = int((end - start).total_seconds())
        return start + timedelta(seconds=self.chance.randrange(whole))

    def use(self, start, end):
        since = self.time(start, end)
        lasts = timedelta(seconds=self.chance.randrange(1, 20 * 86400))
        owner = self.chance.choice([None, *self.members])
        used(
            self.pool, self.chance.choice(self.members), owner, self.decimal(9, 2), since,
            min(since + lasts, end), resource=self.chance.choice(RESOURCES),
        )  # fmt: skip

    def tiers(self):
        """Now and then graduated prices, for the kinds of servers that have none."""
        if self.chance.random() < 0.5:
            return []
        ends = sorted({self.decimal(1500, 1) for _ in range(self.chance.randrange(3))})
        prices = [self.decimal(1, 3) for _ in range(len(ends) + 1)]
        return [Tier(*tier) for tier in zip([*ends, None], prices, strict=True)]

    def draft(self, start, end, *, commitments=0):
        """A draft of random prices; a few are equal, so that the order of the ledger matters."""
        rates = []
        for resource in RESOURCES:
            prices = {column: self.chance.choice(["0.1", "0.25", str(self.decimal(1, 4)), None])
                      for column in KINDS.values()}  # fmt: skip
            written = rate(resource, **{k: v for k, v in prices.items() if v is not None})
            rates.append(replace(written, tiers=self.tiers()))
        if self.chance.random() < 0.5:
            special = rate("cpu", shared="0.3", of_owner=self.chance.choice(self.members))
            if self.chance.random() < 0.5:
                tiers = self.tiers() or [Tier(None, Decimal(1))]
                special = replace(special, shared=None, tiers=tiers)
            rates.append(special)
        until = end or END
        spots, since = [], self.time(start, until)
        if since + timedelta(hours=1) < until:
            ends = self.time(since + timedelta(seconds=1), until)
            spots.append(SpotDraft("memory", "pool", since, ends, self.decimal(1, 3)))
        committed = []
        for _ in range(commitments):
            since = self.time(start, END)
            term = since, since + timedelta(seconds=self.chance.randrange(1, 70 * 86400))
            member, resource = self.chance.choice(self.members), self.chance.choice(RESOURCES)
            units = self.decimal(12, 1)
            committed.append(CommitmentDraft(member, resource, units, self.decimal(1, 3), *term))
        draft = PlanDraft(
            f"plan {len(self.plans)}", start, end, fee=self.decimal(1, 3), rates=rates,
            spot_prices=spots, commitments=committed,
        )  # fmt: skip
        return draft, plan_create(pool=self.pool, draft=draft, now=BEGIN)

    def publish(self, start, *, commitments):
        draft, plan = self.draft(start, None, commitments=commitments)
        plan_publish(plan=plan, version=None, now=BEGIN)
        if self.plans:
            self.plans[-1]["end"] = instant(start)
        self.note(plan, draft, FOREVER, replaces=False)
        for each, written in zip(plan.commitments.order_by("id"), draft.commitments, strict=True):
            self.commitments.append(
                PlainCommitment(
                    each.pk, written.tenant.pk, written.resource, Fraction(written.quantity),
                    Fraction(written.price), instant(written.start), instant(written.end),
                    Fraction(draft.fee),
                )
            )  # fmt: skip

    def note(self, plan, draft, end, *, replaces):
        prices, tiers = {}, {}
        for each in draft.rates:
            owner = None if each.owner is None else each.owner.pk
            for kind, column in KINDS.items():
                if each.tiers:
                    tiers[each.resource, owner] = [
                        (tier.through and Fraction(tier.through), Fraction(tier.price))
                        for tier in each.tiers
                    ]
                if getattr(each, column) is not None:
                    prices[each.resource, kind, owner] = Fraction(getattr(each, column))
        spots = [
            (spot.resource, spot.kind, instant(spot.start), instant(spot.end), Fraction(spot.price))
            for spot in draft.spot_prices
        ]
        self.plans.append(
            {"key": plan.pk, "start": instant(draft.start), "end": end, "fee": Fraction(draft.fee),
             "prices": prices, "spots": spots, "replaces": replaces, "tiers": tiers}
        )  # fmt: skip

    def rerate(self, closed):
        """Apply a random plan to a part of the closed months."""
        end = month(closed[-1], self.pool).end
        start = self.time(BEGIN, end - timedelta(days=1))
        until = self.time(start + timedelta(hours=1), end)
        draft, plan = self.draft(start, until)
        rerating_apply(pool=self.pool, plan=plan, reason="random", now=LATER)
        self.note(plan, draft, instant(until), replaces=True)

    def disturb(self, closed):
        """Late usage, corrections, and sometimes a rerating."""
        for _ in range(self.chance.randrange(4)):
            self.use(BEGIN, month(closed[-1], self.pool).end)
        entries = list(Entry.objects.filter(pool=self.pool, kind="usage").order_by("id"))
        for entry in self.chance.sample(entries, self.chance.randrange(4)):
            quantity = self.chance.choice([Decimal(0), self.decimal(9, 2) + 10])
            if entry.quantity != quantity and not Entry.objects.filter(corrects=entry.pk).exists():
                entry_correct(entry=entry, quantity=quantity, reason="random", now=LATER)
        if self.chance.random() < 0.5:
            self.rerate(closed)
        seal()

    def bill(self, text, through=None):
        """The reference's bill of a month."""
        of = month(text, self.pool)
        plans = [PlainPlan(**plan) for plan in self.plans]
        times = instant(of.start), instant(of.end)
        return plain_bill(
            plain_uses(self.pool, through), plans, self.commitments, times, self.digits
        )


def lines_of(postings):
    """{line: (amount, charge, fee)}, summed."""
    sums = defaultdict(lambda: [Fraction(0)] * 3)
    for line in postings:
        key = line.plan_id if line.rated_kind == LineKind.USAGE else line.commitment_id
        legs = (line.amount, line.tenant_amount, -line.fee_amount)
        found = sums[line.rated_kind, key, line.tenant_id, line.owner_id, line.resource]
        found[:] = [a + Fraction(b) for a, b in zip(found, legs, strict=True)]
    return {key: tuple(sums_) for key, sums_ in sums.items() if any(sums_)}


def shown(lines):
    """Lines as comparable texts."""
    names = (
        "month", "service_month", "kind", "adjusted_kind", "tenant_id", "owner_id", "plan_id",
        "resource", "start", "end", "amount", "price", "tenant_amount", "owner_amount", "fee_amount",
        "pool_amount", "effective", "entries", "commitment_id", "note",
    )  # fmt: skip
    return sorted(str([_plain(getattr(line, name)) for name in names]) for line in lines)


def _plain(value):
    if isinstance(value, Decimal):
        return f"{value.normalize() + 0:f}"
    return str(value)  # of kinds: the values


def of_service(pool, text, *, also=()):
    stored = Posting.objects.filter(pool=pool, service_month=month(text, pool).first)
    return [*stored, *(line for line in also if line.service_month == month(text, pool).first)]


@pytest.mark.parametrize("seed", range(QUARTERS))
def test_every_month_is_billed_as_the_reference_has_it(db, tenant, seed):
    quarter = Quarter(seed, tenant)
    pool, closed = quarter.pool, []
    for text in MONTHS:
        of = month(text, pool)
        draft = month_draft(pool=pool, month=of)
        for each in closed:  # the adjustments of the draft complete what was billed before
            lines = of_service(pool, each, also=draft.rated.lines)
            assert lines_of(lines) == quarter.bill(each), (seed, text, each)
        own = [line for line in draft.rated.lines if line.service_month == of.first]
        assert lines_of(own) == quarter.bill(text), (seed, text)
        for member in quarter.members:
            mine = [x for x in draft.lines if member.pk in (x.tenant_id, x.owner_id)]
            assert shown(month_draft(pool=pool, month=of, tenant=member.pk).lines) == shown(mine)
        month_close(pool=pool, month=of, now=LATER)
        assert shown(Posting.objects.filter(pool=pool, month=of.first)) == shown(draft.lines)
        closed.append(text)
        through = Closing.objects.filter(pool=pool).latest("month").sequence
        for each in closed:
            assert lines_of(of_service(pool, each)) == quarter.bill(each, through), (seed, each)
        quarter.disturb(closed)
    report = billing_report(pool=pool, period=Period([BEGIN, END]), now=LATER)
    assert [tie for tie in report.ties if tie.difference] == []
    assert PricePlan.objects.filter(pool=pool).count() >= 2
