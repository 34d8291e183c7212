"""Open uses and hourly entries: every reader sees what it would see of entries of every interval.

Each pool has a twin, which `tests.references.metering` meters in the plain way. Both are changed alike.
"""

import json
import random
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from allocator_service.allocation.audit.ledger import ledgers_verify
from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.models import Allocation
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.selectors import input_of
from allocator_service.billing.models import Posting
from allocator_service.billing.months import month_of
from allocator_service.billing.plans.services import (
    CommitmentDraft,
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.plans.tiers import Tier
from allocator_service.billing.statements.closing import closing_missing, month_close
from allocator_service.billing.statements.drafting import month_draft
from allocator_service.billing.statements.selectors import statement_content
from allocator_service.billing.tie_out import billing_report
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry, Kind, Meter
from allocator_service.ledger.reporting.lending import lending_report
from allocator_service.ledger.reporting.periods import Period
from allocator_service.ledger.reporting.sharing_degree import sharing_degree_report
from allocator_service.ledger.reporting.utilization import utilization_report
from allocator_service.ledger.windows import window_state
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workloads_submit,
)
from tests.examples import long
from tests.integration.conftest import settings, vector
from tests.references.ledger import metered_entries
from tests.references.metering import meter_by_interval

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
TENANTS = ("a", "b", "c")
_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=commitment )[0-9]+")

# By kind of pool: its settings, and whether tenants contribute its servers.
KINDS = {
    "owned": ({"policy": ("drfh", None, {})}, True),
    "long": (
        {
            "policy": ("h-mrf", "indivisible", {"placement": "pool"}),
            "window": Window("sliding", datetime(2026, 1, 1, tzinfo=UTC), "PT3H"),
        },
        False,
    ),
    "fading": (
        {
            "policy": ("lt-drf", "indivisible", {"placement": "pool"}),
            "window": Window("decay", datetime(2026, 1, 1, tzinfo=UTC), "", "PT1H"),
        },
        False,
    ),
    "turns": ({"policy": ("tda", None, {"period_seconds": 1200})}, False),
    "reported": (
        {
            "policy": ("h-mrf", "indivisible", {"placement": "pool"}),
            "window": Window("unbounded", datetime(2026, 1, 1, tzinfo=UTC)),
            "metering": "reported",
        },
        False,
    ),
}


class Twins:
    """A pool, and another one of the same settings that is metered in the plain way."""

    def __init__(self, kind, start, interval, tenant, draw):
        chosen, contributed = KINDS[kind]
        chosen = {**chosen, "policy": policy_choose(*chosen["policy"])}
        self.kind, self.draw = kind, draw
        self.members = [tenant(slug) for slug in TENANTS]
        self.pools = []
        for slug in (kind, f"{kind}-plain"):
            more = {"timezone": "Europe/Berlin", "decision_interval": interval, **chosen}
            pool = pool_create(slug=slug, settings=settings(**more), now=start)
            owners = self.members if contributed else [None] * 3
            sizes = (vector(20, 60), vector(60, 20), vector(30, 30))
            drafts = [
                ServerDraft(f"s{number}", size, owner)
                for number, (size, owner) in enumerate(zip(sizes, owners, strict=True))
            ]
            servers_contribute(pool=pool, drafts=drafts, now=start)
            demands = (vector(1, 4), vector(4, 1), vector(2, 3))
            drafts = [
                WorkloadDraft(member, "work", demand, tasks=10)
                for member, demand in zip(self.members, demands, strict=True)
            ]
            workloads_submit(pool=pool, drafts=drafts, now=start)
            self._publish_plan(pool, start)
            self.pools.append(Pool.objects.get(pk=pool.pk))
        self.pool, self.plain = self.pools

    def _publish_plan(self, pool, start):
        first = month_of(start, "Europe/Berlin").start
        tiers = (Tier(Decimal(50), Decimal("0.20")), Tier(None, Decimal("0.10")))
        if self.kind == "turns":  # one entry of a tenant at a time: tiers see the same order
            rates = [RateDraft("cpu", tiers=tiers, outside=Decimal("0.5"))]
        else:
            prices = {"own": Decimal("0.01"), "shared": Decimal("0.07"), "pooled": Decimal("0.05")}
            rates = [RateDraft("cpu", outside=Decimal("0.5"), **prices)]
        rates.append(RateDraft("memory", own=Decimal("0.003"), pooled=Decimal("0.002")))
        committed = CommitmentDraft(
            self.members[0], "cpu", Decimal("7.5"), Decimal("0.03"), first,
            first + timedelta(days=200),
        )  # fmt: skip
        draft = PlanDraft(
            "plan", first, rates=rates, fee=Decimal("0.1"),
            increment="second-min-60" if self.kind == "reported" else "exact",
            commitments=[] if self.kind == "turns" else [committed],
        )  # fmt: skip
        plan = plan_create(pool=pool, draft=draft, now=start)
        plan_publish(plan=plan, version=None, now=start)

    def meter(self, now):
        pool_meter_all(pool_id=self.pool.pk, now=now)
        meter_by_interval(self.plain, now)
        both = dict(Meter.objects.filter(pool__in=self.pools).values_list("pool", "metered_until"))
        assert both.get(self.pool.pk) == both.get(self.plain.pk)

    def decide(self, now):
        self.meter(now)
        runs = []
        for pool in self.pools:
            decision_request(pool, now=now)
            runs.append(recompute_pool(pool_id=pool.pk, clock=lambda: now, early=True))
        if runs == [None, None]:
            return
        given = [
            list(Allocation.objects.filter(run=run).order_by("position").values_list("tasks"))
            for run in runs
        ]
        assert given[0] == given[1]
        remembered = [input_of(run).get("history") for run in runs]
        if self.kind == "fading":
            for slug, row in remembered[0]["tenants"].items():
                for name in ("used", "alone"):
                    other = remembered[1]["tenants"][slug][name]
                    assert row[name] == pytest.approx(other, rel=1e-9)
        else:
            assert remembered[0] == remembered[1]

    def change(self, now):
        member = self.draw.choice(self.members)
        tasks = self.draw.choice([0, 1, 3, 10, 25])
        for pool in self.pools:
            workload = Workload.objects.filter(pool=pool, tenant=member).earliest("id")
            changed = WorkloadSettings(
                name=workload.name, demand=list(map(Decimal, workload.demand)), tasks=tasks,
                priority=0, server_selector={}, state=workload.state,
            )  # fmt: skip
            workload_update(workload=workload, settings=changed, version=None, now=now)

    def correct(self, now):
        """Correct a use over the time of one of the pool's entries."""
        entries = Entry.objects.filter(pool=self.pool).exclude(kind=Kind.CORRECTION)
        entry = self.draw.choice(list(entries.order_by("start", "id")[:500]) or [None])
        if entry is None:
            return
        factor = Decimal(self.draw.randrange(20)) / 10
        quantity = (entry.quantity * factor).quantize(Decimal("1e-6")) + Decimal("0.001")
        same = {
            "tenant": entry.tenant_id, "server_owner": entry.server_owner_id,
            "resource": entry.resource, "kind": entry.kind, "event_id": entry.event_id,
            "start__gte": entry.start, "end__lte": entry.end,
        }  # fmt: skip
        twins = Entry.objects.filter(pool=self.plain, **same)
        if entry.workload is not None:
            twins = twins.filter(workload__tenant=entry.workload.tenant)
        assert sum(each.amount for each in twins) == entry.amount
        for each in (entry, *twins):
            entry_correct(entry=each, quantity=quantity, reason="measured", now=now)

    def report(self, now, number):
        member = self.draw.choice(self.members)
        end = now - self.draw.choice([1, 7, 90, 400]) * MINUTE
        start = end - self.draw.randrange(1, 5000) * timedelta(seconds=1)
        amounts = vector(self.draw.randrange(40), self.draw.randrange(40))
        for pool in self.pools:
            event = UsageEvent("meter", f"e{number}", member, None, amounts, start, end)
            usage_record(pool=pool, events=[event], now=now)

    def compare(self, now):
        for at in (now, now - self.draw.randrange(20_000) * timedelta(seconds=1)):
            states = [window_state(pool, at) for pool in self.pools]
            for name in ("used", "alone"):
                one, other = (getattr(state, name) for state in states)
                if self.kind == "fading":
                    assert {key: float(each) for key, each in one.items()} == pytest.approx(
                        {key: float(each) for key, each in other.items()}, rel=1e-9, abs=1e-6
                    )
                else:
                    assert one == other
        begin = now - self.draw.randrange(1, 40_000) * timedelta(seconds=1)
        middle = begin + (now - begin) * self.draw.random()
        period = Period([begin, middle, now])
        one, other = (self._reports(pool, period) for pool in self.pools)
        assert one == other
        month = month_of(now, "Europe/Berlin")
        one, other = (self._lines(pool, month) for pool in self.pools)
        assert one == other

    def _reports(self, pool, period):
        utilization = utilization_report(pool=pool, period=period)
        ties = billing_report(pool=pool, period=period, now=period.end).ties
        assert all(tie.difference == 0 for tie in ties)
        return (
            sharing_degree_report(pool=pool, period=period).tenants,
            utilization.uses,
            utilization.totals,
            lending_report(pool=pool, period=period).flows,
            [(tie.tenant, tie.resource, tie.ledger, tie.not_yet_billed) for tie in ties],
        )

    def _lines(self, pool, month):
        lines = [_line(line) for line in month_draft(pool=pool, month=month).lines]
        return sorted(lines, key=repr)

    def close(self, now):
        """Close the month before if it is not closed; the statements are the same but for their ids."""
        month = month_of(now, "Europe/Berlin").previous
        entries_seal_all(now=now)
        statements = []
        for pool in self.pools:
            assert closing_missing(pool=pool, month=month, now=now) == []
            month_close(pool=pool, month=month, now=now)
            statements.append([
                _content(statement_content(pool=pool, month=month, tenant=member), pool)
                for member in self.members
            ])  # fmt: skip
        assert statements[0] == statements[1]
        billed = [
            sorted(map(repr, map(_line, Posting.objects.filter(pool=pool)))) for pool in self.pools
        ]
        assert billed[0] == billed[1]

    def rows(self):
        return [
            Entry.objects.filter(pool=pool, source="decisions")
            .exclude(kind=Kind.CORRECTION)
            .count()
            for pool in self.pools
        ]

    def compare_entries(self):
        """Compare what is metered as amounts, and every entry of the pool as plain ones end to end."""
        sums = []
        for pool in self.pools:
            found = defaultdict(Decimal)
            for each in metered_entries(pool):
                seconds = Decimal((each.end - each.start) // timedelta(microseconds=1)).scaleb(-6)
                key = (each.tenant, each.owner, each.resource, each.kind)
                found[key] += each.quantity * seconds
            sums.append(found)
        assert sums[0] == sums[1]
        begins = Counter(each.start for each in metered_entries(self.plain))
        assert all(each.start in begins for each in metered_entries(self.pool))


def _line(line):
    return (
        line.tenant_id, line.owner_id, line.rated_kind, line.resource, line.service_month,
        line.amount.normalize(), line.tenant_amount, line.owner_amount,
    )  # fmt: skip


def _content(content, pool):
    """Return a statement without what identifies its pool and its entries."""
    document = json.loads(content)

    def plain(value, name=""):
        if isinstance(value, dict):
            return {key: plain(each, key) for key, each in value.items()
                    if key not in {"entries", "sequence", "number", "commitment"}}  # fmt: skip
        if isinstance(value, list):
            return sorted((plain(each) for each in value), key=repr)
        return (
            _NAMES.sub("", value).replace(f"{pool.slug}/", "") if isinstance(value, str) else value
        )

    document.pop("pool")
    return plain(document)


FIRST = ("owned", "long")  # the others are asked once a week
MONTH_ENDS = (datetime(2026, 10, 31, 21, tzinfo=UTC), 4, "PT1M")
CLOCKS_CHANGE = (datetime(2026, 10, 24, 23, tzinfo=UTC), 4, "PT5M")
A_MONTH = (datetime(2026, 10, 1, tzinfo=UTC), 32 * 24, "PT15M")


@pytest.mark.parametrize(
    ("kind", "start", "hours", "interval"),
    [
        *(
            pytest.param(
                kind, *MONTH_ENDS, id=f"month-ends-{kind}", marks=() if kind in FIRST else long
            )
            for kind in KINDS
        ),
        pytest.param("owned", *CLOCKS_CHANGE, id="clocks-change-owned"),
        *(pytest.param(kind, *A_MONTH, id=f"a-month-{kind}", marks=long) for kind in KINDS),
    ],
)
def test_hourly_entries_are_read_as_entries_of_every_interval(tenant, kind, start, hours, interval):
    draw = random.Random(f"{kind} {start}")
    twins = Twins(kind, start, interval, tenant, draw)
    twins.decide(start)
    now, number, end = start, 0, start + timedelta(hours=hours)
    closed = month_of(start, "Europe/Berlin").previous
    while now < end:
        number += 1
        now += draw.choice([1, 2, 5, 10, 20, 60]) * (1 + hours // 100) * MINUTE
        now += draw.choice([timedelta(), timedelta(seconds=13, microseconds=7)])
        if draw.random() < 0.3:
            twins.change(now)
        if draw.random() < 0.8:
            twins.decide(now)
        if draw.random() < 0.3:
            twins.meter(now)
        if kind == "reported" and draw.random() < 0.5:
            twins.report(now, number)
        if draw.random() < 0.3:
            entries_seal_all(now=now)
        if draw.random() < 0.3:
            totals_advance()
        if draw.random() < 0.1:
            twins.correct(now)
        month = month_of(now, "Europe/Berlin").previous
        if month != closed and month.end > start and draw.random() < 0.3:
            twins.meter(now)
            twins.close(now)
            closed = month
        if draw.random() < (0.2 if hours < 100 else 0.05):
            twins.compare(now)
    twins.meter(end)
    twins.compare_entries()
    fewer, many = twins.rows()
    assert fewer < many
    twins.compare(end)
    found = {check.name for check in ledgers_verify(now=end, since=start) if not check.holds}
    assert found <= {"sealed_in_time", "decisions_sealed"}
    entries_seal_all(now=end)
    while totals_advance():
        pass
    twins.compare(end)
    assert [each for each in ledgers_verify(now=end, since=start) if not each.holds] == []
