"""Six months of budgets that bind: after every decision interval, all of it against the plain reference.

Demand, groups and corrections are random, both changes of the clocks are within, and use that is
reported may be late. The pool decides when the service has asked for it, as relay and workers do.
"""

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import inf
from random import Random

import pytest

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.runs.budgets import budgets_watch
from allocator_service.billing.balances import balances, budgets_for
from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, Periods, budget_create
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry, Kind, Seal
from allocator_service.pools.budgets import Then
from allocator_service.pools.group_services import GroupDraft, GroupSettings, groups_create
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import interval_around
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.models import WorkloadState
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workloads_submit,
)
from tests.examples import thorough
from tests.integration.billing.conftest import at, seal
from tests.integration.billing.test_binding_budgets import admit, decide_through
from tests.integration.conftest import settings
from tests.references.budgets import PlainBudget, PlainSpending

BEGIN, END = at(1, 10, year=2026), at(1, 4)
TICK, SECOND = timedelta(microseconds=1), timedelta(seconds=1)
CORES = 10
# One task of each tenant, so that amounts have digits to lose.
DEMAND = {
    slug: Decimal(text)
    for slug, text in zip("abcde", ("0.7", "1", "0.3", "1.1", "0.9"), strict=True)
}
TASKS = (None, 0, 1, 3, 6)
ABOVE = {"vision": ("ml",), "speech": ("ml",)}
PLACES = {"a": "vision", "b": "vision", "c": "speech", "d": "bio", "e": None}
PER = {"month": "P1M", "week": "P7D", "once": ""}
BUDGETS = [
    PlainBudget("ml", Fraction(2700), "month", "stop", Fraction("0.2")),
    PlainBudget("vision", Fraction(400), "week", "last", Fraction("0.5")),
    PlainBudget("bio", Fraction(1300), "month", "last", Fraction("0.1")),
    PlainBudget("a", Fraction(900), "month", "stop", Fraction(1)),
    PlainBudget("c", Fraction(100), "week", "stop", Fraction("0.25")),
    PlainBudget("e", Fraction(700), "once", "stop", start=at(20, 10, year=2026), end=at(5, 1, hour=7)),
]  # fmt: skip
pytestmark = pytest.mark.django_db(transaction=True)


class HalfYear:
    """A pool with budgets, the same as the reference has it, and what happened."""

    def __init__(self, seed, tenant, *, metering, interval, anchor):
        self.chance = Random(seed)
        self.tenant = tenant
        self.reported = metering == "reported"
        chosen = settings(
            timezone="Europe/Berlin",
            resources=[Resource("cpu", "core")],
            decision_interval=interval,
            metering=metering,
            window=Window("tumbling", anchor, "P7D"),
        )
        self.pool = pool_create(slug="lab", settings=chosen, now=BEGIN)
        made = [
            GroupDraft(slug, GroupSettings(slug, above))
            for slug, above in (("ml", None), ("vision", "ml"), ("speech", "ml"), ("bio", None))
        ]
        self.nodes = {
            each.slug: each for each in groups_create(pool=self.pool, drafts=made, now=BEGIN)
        }
        server = ServerDraft("server", [Decimal(CORES)], None)
        servers_contribute(pool=self.pool, drafts=[server], now=BEGIN)
        self.plain = PlainSpending(BUDGETS, "Europe/Berlin", BEGIN, ABOVE)
        for slug, group in PLACES.items():
            self.nodes[slug] = tenant(slug)
            admit(self.pool, tenant(slug), group, BEGIN)
            self.plain.place(slug, group, BEGIN)
            work = WorkloadDraft(tenant(slug), "work", [DEMAND[slug]])
            workloads_submit(pool=self.pool, drafts=[work], now=BEGIN)
        self.names = {str(self._create(each).pk): each for each in BUDGETS}
        self.slugs = {tenant(slug).pk: slug for slug in PLACES}
        self.sequence, self.kinds, self.entries = 0, {}, []
        self.held_back, self.reports = [], 0
        self.runs, self.seen = [], Counter()

    def _create(self, plain):
        hours, carry = (
            Decimal(each.numerator) / each.denominator for each in (plain.hours, plain.carry)
        )
        terms = BudgetSettings(hours, [100], carry, Then(plain.then))
        periods = Periods(PER[plain.per], plain.start, plain.end)
        draft = BudgetDraft(self.nodes[plain.node], "cpu", terms, periods)
        return budget_create(pool=self.pool, draft=draft, now=BEGIN)

    def decide(self, end):
        """Decide whenever a decision is due before an instant."""
        self.runs += decide_through(self.pool, end)

    def live(self, start, end):
        """Let random changes happen within an interval, and decide when the service asks for it."""
        length = (end - start) / timedelta.resolution
        for part in sorted(self.chance.sample(range(1, 100), self.chance.choice([0, 0, 0, 1, 2]))):
            now = start + timedelta(
                microseconds=int(length) * part // 100 + self.chance.randrange(10**6)
            )
            self.decide(now)
            if self.chance.random() < 0.1:
                self.move(now)
            else:
                self.demand(now)
        self.decide(end + TICK)
        pool_meter_all(pool_id=self.pool.pk, now=end)

    def move(self, now):
        group = self.chance.choice(["speech", "bio", None])
        admit(self.pool, self.tenant("c"), group, now)
        self.plain.place("c", group, now)
        self.seen["moved"] += 1

    def demand(self, now):
        slug = self.chance.choice(list(PLACES))
        (work,) = self.pool.workloads.filter(tenant=self.tenant(slug))
        tasks = self.chance.choice(TASKS)
        state = WorkloadState.PAUSED if tasks == 0 else WorkloadState.ACTIVE
        changed = WorkloadSettings("work", [DEMAND[slug]], tasks or None, 0, {}, state)
        workload_update(workload=work, settings=changed, version=None, now=now)

    def in_force(self, start, end):
        """The runs in force within an interval: (start, end, cores by tenant) of each."""
        runs = Run.objects.filter(pool=self.pool, effective_from__lt=end).exclude(
            effective_until__lte=start
        )
        for run in runs.order_by("effective_from"):
            rows = run.allocations.select_related("tenant")
            cores = {row.tenant.slug: row.tasks * float(DEMAND[row.tenant.slug]) for row in rows}
            yield max(start, run.effective_from), min(end, run.effective_until or end), cores

    def report(self, start, end):
        """Report what ran within an interval, some of it weeks later, some of it twice."""
        events = []
        for first, last, cores in self.in_force(start, end):
            for slug, amount in cores.items():
                self.reports += 1
                vector = [round(Decimal(amount), 12)]
                name = f"job-{self.reports}"
                event = UsageEvent("slurm", name, self.tenant(slug), None, vector, first, last)
                if self.chance.random() < 0.1:
                    days = self.chance.choice([0, 1, 5, 40])
                    self.held_back.append((end + timedelta(days=days, seconds=1), event))
                else:
                    events += [event] * self.chance.choice([1, 1, 1, 2])
        events += [event for due, event in self.held_back if due <= end]
        self.held_back = [(due, event) for due, event in self.held_back if due > end]
        usage_record(pool=self.pool, events=events, now=end)

    def read(self, now):
        """Read the use that was sealed since: (tenant, start, end, quantity) of each entry."""
        seal(now)
        rows = Seal.objects.filter(pool=self.pool, sequence__gt=self.sequence)
        sealed = dict(rows.order_by("sequence").values_list("entry_id", "sequence"))
        self.sequence = max(sealed.values(), default=self.sequence)
        uses = []
        for entry in sorted(Entry.objects.filter(pk__in=sealed), key=lambda each: sealed[each.pk]):
            if entry.kind == Kind.USAGE:
                self.entries.append(entry)
            if Kind.USAGE in (entry.kind, self.kinds.get(entry.corrects)):
                slug = self.slugs[entry.tenant_id]
                uses.append((slug, entry.start, entry.end, Fraction(entry.quantity)))
                self.plain.add(*uses[-1])
            self.kinds[entry.pk] = entry.kind
        return uses

    def watch(self, now):
        """Compare decisions with the ledger as workers do every ten seconds."""
        before = RecomputeJob.objects.get(pool=self.pool).wanted
        budgets_watch(now=now)
        return RecomputeJob.objects.get(pool=self.pool).wanted != before

    def interval(self, start, end):
        """One decision interval, at whose end everything is compared."""
        known, self.runs = self.plain.exhausted(start), []
        self.live(start, end)
        if self.reported:
            self.report(start, end)
        uses = self.read(end)
        if self.watch(end):
            # The pool decides by itself in time where decisions are what is used.
            assert self.reported
            self.decide(end + SECOND)
        self.compare(end)
        self.stops(known, start, end)
        late = [use for use in uses if use[2] <= start]
        self.seen["late"] += len(late)
        self.overshoot(self.plain.exhausted(end) - known, start, end, late)
        if self.chance.random() < 0.25:
            self.correct(end)

    def correct(self, now):
        """Correct an entry of the last days, and decide if the balances of budgets ask for it.

        Where a budget is exhausted, it is one that counts for it, so that some of them open again.
        """
        before = self.plain.exhausted(now)
        recent = [
            entry
            for entry in self.entries
            if entry.start > now - timedelta(days=12) and entry.quantity
        ]
        of_exhausted = [
            entry
            for entry in recent
            for budget, _ in before
            if self.plain.is_below(budget.node, self.slugs[entry.tenant_id], entry.start, entry.end)
        ]
        if not recent:
            return
        entry = self.chance.choice(of_exhausted or recent)
        self.entries.remove(entry)
        factor = self.chance.choice([Decimal(0), Decimal("0.5"), Decimal(3)])
        quantity = round(entry.quantity * factor, 12)
        entry_correct(entry=entry, quantity=quantity, reason="counted wrongly", now=now)
        self.read(now)
        after = self.plain.exhausted(now)
        assert self.watch(now + SECOND) == (before != after)
        self.decide(now + 3 * SECOND)
        self.compare(now)
        self.seen["opened by corrections"] += len(before - after)
        self.seen["exhausted by corrections"] += len(after - before)

    def last_run(self):
        return Run.objects.get(pool=self.pool, status=RunStatus.SUCCEEDED, effective_until=None)

    def compare(self, now):
        """Compare the balances and the decision in force with the reference."""
        budgets = list(budgets_for(self.pool, None))
        found = balances(pool=self.pool, budgets=budgets, now=now)
        stated = {self.names[str(each.budget.pk)]: each for each in found}
        for budget in BUDGETS:
            expected, balance = self.plain.balance(budget, now), stated.get(budget)
            if expected is None:
                assert balance is None
                continue
            assert (balance.period.start, balance.period.end) == (expected.start, expected.end)
            amounts = [Fraction(each) for each in (balance.spent, balance.carried, balance.left)]
            assert amounts == [expected.spent, expected.carried, expected.left], (budget, now)
            self.seen["carried over"] += expected.carried > 0
        exhausted = self.plain.exhausted(now)
        assert self.stated(self.last_run()) == exhausted, now
        self.effects({budget for budget, _ in exhausted}, now)

    def stated(self, run):
        """The exhausted budgets that a run states, with the ends of their periods."""
        return {
            (self.names[each["budget"]], datetime.fromisoformat(each["opens_at"]))
            for each in run.budgets
        }

    def effects(self, exhausted, now):
        """Below a budget that stops, nothing runs. Below one of `last`, what others leave."""
        rows = self.last_run().allocations.select_related("tenant", "workload")
        stopped, last = (
            {
                row
                for row in rows
                for budget in exhausted
                if budget.then == then
                and self.plain.is_below(budget.node, row.tenant.slug, now, now + SECOND)
            }
            for then in ("stop", "last")
        )
        assert not any(row.tasks for row in stopped), now
        if any(row.tasks > 1e-9 for row in last - stopped):
            for row in set(rows) - last - stopped:
                assert row.tasks == pytest.approx(row.workload.tasks or inf), now

    def stops(self, known, start, end):
        """Each decision of the interval stops what was exhausted, and only what is at its end."""
        for run in self.runs:
            stated = self.stated(run)
            assert {each for each in known if each[1] > run.effective_from} <= stated
            for budget, until in stated:
                assert self.plain.balance(budget, until - SECOND).is_exhausted, (budget, end)

    def overshoot(self, exhausted, start, end, late):
        """No more is used beyond an amount than what runs in an interval, and what was late."""
        length = (end - start) / SECOND
        for budget, _ in exhausted:
            below = {slug for slug in PLACES if self.plain.is_below(budget.node, slug, start, end)}
            runs = max(
                sum(amount for slug, amount in cores.items() if slug in below)
                for _, _, cores in self.in_force(start, end)
            )
            more = sum(
                quantity * Fraction((until - since) / SECOND)
                for slug, since, until, quantity in late
                if self.plain.is_below(budget.node, slug, since, until)
            )
            over = -self.plain.balance(budget, end).left
            assert 0 <= over <= runs * length + more + 1e-6, (budget, end)
            self.seen[f"exhausted, then {budget.then}"] += 1


NOON, MIDNIGHT = at(1, 10, hour=12, year=2026), BEGIN
POOLS = [("allocation", "P2D", NOON), ("reported", "P3D", MIDNIGHT)]
if thorough():
    POOLS += [("allocation", "P1D", NOON), ("reported", "P1D", MIDNIGHT)]


@pytest.mark.parametrize("seed", range(2 if thorough() else 1))
@pytest.mark.parametrize(
    ("metering", "interval", "anchor"), POOLS, ids=[f"{how}, {every}" for how, every, _ in POOLS]
)
def test_budgets_of_six_months_are_those_of_the_plain_reference(
    metering, interval, anchor, seed, tenant
):
    months = HalfYear(seed, tenant, metering=metering, interval=interval, anchor=anchor)
    start = BEGIN
    while start < END:
        end = interval_around(months.pool, start)[1]
        months.interval(start, end)
        start = end
    seen = months.seen
    for happened in ("carried over", "moved", "opened by corrections"):
        assert seen[happened], seen
    assert min(seen["exhausted, then stop"], seen["exhausted, then last"]) >= 8, seen
    assert (seen["late"] > 0) == months.reported, seen
