"""A pool with some of everything that moves, and an installation that it moves to."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.billing.plans.services import (
    CommitmentDraft,
    FixedCostDraft,
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.statements.closing import month_close
from allocator_service.billing.statements.manifest import manifest_write
from allocator_service.core.clock import utc_now
from allocator_service.core.outbox import events_seal
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.ledger.models import Entry
from allocator_service.pools.models import Group, Pool
from allocator_service.tenants.models import Tenant
from tests import factories
from tests.integration.billing.conftest import month, rate


def seal() -> None:
    """Number and add up what waits, as the relay does."""
    events_seal()
    entries_seal_all(now=utc_now())
    while totals_advance():
        pass


def used(pool: Pool, tenant: Tenant, name: str, cpu: int, start: datetime, hours: int = 1) -> None:
    """Usage as an agent reports it."""
    end = start + timedelta(hours=hours)
    event = UsageEvent("meter", name, tenant, None, factories.vector(cpu, 1), start, end)
    usage_record(pool=pool, events=[event], now=utc_now())


def this_month() -> datetime:
    return utc_now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def filled(slug: str = "lab", policy: str = "drfh") -> Pool:
    """A pool with a tree, money, a closed and an open month, and decisions."""
    first = this_month()
    last = (first - timedelta(days=1)).replace(day=1)
    pool = factories.pool(slug, policy=policy, metering="reported")
    ada, bob = (
        Tenant.objects.filter(slug=each).first() or factories.tenant(each)
        for each in ("ada", "bob")
    )
    factories.group(pool, "science")
    factories.member(pool, ada, "science", weight=2)
    factories.member(pool, bob, None)
    factories.server(pool, "of-ada", 8, 16, ada)
    factories.server(pool, "pooled", 8, 16, None)
    factories.workload(pool, "analysis", 1, 2, ada)
    factories.workload(pool, "simulation", 1, 1, bob)
    if policy != "h-mrf":
        factories.limit(pool, "science", {"cpu": 12})
    draft = PlanDraft(
        "first",
        last,
        fee=Decimal("0.1"),
        rates=[
            rate(own="0.01", shared="0.02", pooled="0.03"),
            RateDraft("cpu", ada, shared=Decimal("0.04")),
        ],
        commitments=[
            CommitmentDraft(
                ada, "cpu", Decimal(2), Decimal("0.01"), last, first + timedelta(days=90)
            )
        ],
        fixed_costs=[FixedCostDraft("Room", Decimal(100), [(bob, Decimal(1)), (ada, Decimal(3))])],
    )
    plan_publish(plan=plan_create(pool=pool, draft=draft, now=last), version=None, now=last)
    science = Group.objects.get(pool=pool, slug="science")
    for node in (bob, science):
        budget_create(
            pool=pool,
            draft=BudgetDraft(node, "cpu", BudgetSettings(Decimal(10_000), [50])),
            now=last,
        )
    for day in range(3):
        for each in (ada, bob):
            used(pool, each, f"{slug}/{each.slug}/{day}", 3 + day, last + timedelta(days=day), 5)
    seal()
    entry = Entry.objects.filter(pool=pool, tenant=bob).order_by("pk").first()
    assert entry is not None
    entry_correct(entry=entry, quantity=Decimal(2), reason="twice", now=utc_now())
    seal()
    factories.decision(pool)
    closing = month_close(pool=pool, month=month(f"{last:%Y-%m}", pool), now=utc_now())
    manifest_write(closing=closing)
    # Late for the closed month, and some for the open one.
    used(pool, bob, f"{slug}/late", 1, last + timedelta(days=9))
    used(pool, ada, f"{slug}/open", 2, utc_now() - timedelta(hours=2))
    factories.client("agent", pool=slug)
    factories.client("group", pool=slug, group=science)
    factories.workload(pool, "more", 2, 1, bob)
    factories.decision(pool)
    seal()
    return Pool.objects.get(pk=pool.pk)
