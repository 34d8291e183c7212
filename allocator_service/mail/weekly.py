"""The weekly summary of a tenant."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from allocator_service.allocation.models import Allocation
from allocator_service.allocation.words import sharing_text
from allocator_service.billing.balances import Balance, tenant_balances
from allocator_service.billing.statements.selectors import bill_so_far
from allocator_service.core.display import (
    counted,
    exact_text,
    money_text,
    month_text,
    number_text,
)
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.ledger.reporting.periods import report_period
from allocator_service.ledger.reporting.sharing_degree import REASONS, sharing_degree_report
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pools_for, resources_of
from allocator_service.tenants.models import Tenant

POOLS, WORKLOADS = 20, 5


def summary_lines(tenant: Tenant, *, now: datetime) -> list[str]:
    """Return a paragraph for each of a tenant's pools."""
    pools = list(pools_for(tenant).order_by("slug")[: POOLS + 1])
    parts = [
        "\n".join([f"{pool.name} in the last seven days:", *_lines(pool, tenant, now)])
        for pool in pools[:POOLS]
    ]
    if len(pools) > POOLS:
        parts.append("More pools are on your page.")
    return parts or ["You are a member of no pool."]


def _lines(pool: Pool, tenant: Tenant, now: datetime) -> Iterator[str]:
    yield _may_run(pool, tenant, now)
    start = now - timedelta(days=7)
    period = report_period(pool=pool, start=start, end=None, step=None, now=now)
    degree = next(
        iter(sharing_degree_report(pool=pool, period=period, tenant=tenant).tenants), None
    )
    if degree is not None:
        total = degree.total
        if total.least is None:
            yield REASONS[str(total.reason)]
        else:
            resources = resources_of(pool)
            yield sharing_text(total.least, resources[total.ratios.index(total.least)].name)
    for balance in tenant_balances(pool=pool, tenant=tenant, now=now):
        yield _balance(balance)
    bill = bill_so_far(pool=pool, tenant=tenant, now=now)
    if bill is not None:
        yield f"Your bill of {month_text(bill.month)} so far: {money_text(bill.billed, pool.currency)}."


def _may_run(pool: Pool, tenant: Tenant, now: datetime) -> str:
    run = decision_in_force(pool=pool, now=now)
    if run is None:
        return "Nothing has been decided yet."
    rows = Allocation.objects.filter(run=run, tenant=tenant).order_by("-tasks", "workload")
    names = list(rows.values_list("workload__name", "tasks")[: WORKLOADS + 1])
    if not names:
        return "You have no workloads in the decision in force."
    parts = [f"{number_text(Decimal(str(tasks)))} of {name}" for name, tasks in names[:WORKLOADS]]
    if len(names) > WORKLOADS:
        parts.append(f"and tasks of {counted(rows.count() - WORKLOADS, 'more workload')}")
    return f"You may now run {', '.join(parts)}."


def _balance(balance: Balance) -> str:
    resource = balance.budget.resource
    unit = f" hours of {resource}" if resource else f" {balance.budget.pool.currency}"
    spent = number_text(balance.written(balance.spent))
    return (
        f"Of your budget of {exact_text(Decimal(balance.available_text))}{unit}, {spent} are spent."
    )
