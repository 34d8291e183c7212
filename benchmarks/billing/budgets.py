"""The states of 200 budgets, from the ledger's totals and by a sum over the entries of the month."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from allocator_service.billing.binding import BindingBudgets
from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.pools.budgets import Then
from allocator_service.pools.group_services import GroupDraft, GroupSettings, groups_create
from allocator_service.pools.member_services import MemberDraft, members_put
from allocator_service.pools.models import Group, Pool
from allocator_service.tenants.models import Tenant
from benchmarks.ledger.world import best_of
from benchmarks.measurement import Row

GROUPS, BUDGETS = 40, 200
GOAL = 3.0  # with 10^6 entries; ours does not grow with them
_AMOUNT = Decimal(10) ** 9
_SUMS = """
SELECT node, resource, sum(amount) FROM ledger_entry
JOIN unnest(%(tenants)s::bigint[], %(nodes)s::text[]) AS below (tenant, node) ON tenant = tenant_id
WHERE pool_id = %(pool)s AND kind = 'usage' GROUP BY 1, 2
"""


def budget_rows(
    pool: Pool, tenants: list[Tenant], sizes: str, *, start: datetime, at: datetime
) -> list[Row]:
    """Measure budgets of every tenant and group of a pool, whose entries are all of the month."""
    drafts = [GroupDraft("all", GroupSettings("All", None))]
    drafts += [GroupDraft(f"g-{n}", GroupSettings(f"G {n}", "all")) for n in range(GROUPS - 1)]
    groups = groups_create(pool=pool, drafts=drafts, now=start)
    members = [
        MemberDraft(tenant, Decimal(1), f"g-{position % (GROUPS - 1)}", 0)
        for position, tenant in enumerate(tenants)
    ]
    members_put(pool=pool, drafts=members, now=start)
    settings = BudgetSettings(_AMOUNT, [100], then=Then.LAST)
    nodes: list[Tenant | Group] = [*groups, *tenants]
    for node in nodes[:BUDGETS]:
        budget_create(pool=pool, draft=BudgetDraft(node, "cpu", settings), now=start)
    seconds, states = best_of(lambda: BindingBudgets().states(pool, at), repeat=5)
    below = [(tenant.pk, tenant.slug) for tenant in tenants]
    below += [(draft.tenant.pk, group) for draft in members for group in ("all", draft.group or "")]
    parameters = {
        "pool": pool.pk,
        "tenants": [tenant for tenant, _ in below],
        "nodes": [node for _, node in below],
    }
    scanned, sums = best_of(lambda: _scan_entries(parameters), repeat=1)
    left = {state.node: _AMOUNT * 3600 - sums.get((state.node, "cpu"), 0) for state in states}
    apart = max(float(abs(state.left - left[state.node])) for state in states)
    return [
        Row(
            f"states of {len(states)} budgets",
            sizes,
            seconds,
            "SUM(amount) by node",
            scanned,
            apart,
            GOAL,
        )
    ]


def _scan_entries(parameters: dict[str, Any]) -> dict[tuple[str, str], Decimal]:
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, parameters)
        return {(node, resource): amount for node, resource, amount in cursor.fetchall()}
