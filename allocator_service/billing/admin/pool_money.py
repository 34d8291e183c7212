"""Tab of a pool that shows its prices, months, and budgets."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Sum

from allocator_service.allocation.admin.tabs import TabRequest, pool_tab
from allocator_service.billing.balances import balances
from allocator_service.billing.models import Budget, Closing
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.documents import money_text
from allocator_service.billing.statements.drafting import open_month

MONTHS_SHOWN = 12
BUDGETS_SHOWN = 25


@pool_tab("money", "Money", permission="billing.view_closing", place=6)
def money_tab(asked: TabRequest) -> Mapping[str, Any]:
    """Return the open month, the newest closed ones, price plans and budgets of the pool."""
    pool = asked.pool
    closings = (
        Closing.objects.filter(pool=pool)
        .defer("document")
        .annotate(tenants=Count("statements"), billed=Sum("statements__billed"))
        .order_by("-month")[:MONTHS_SHOWN]
    )
    present = Budget.objects.filter(pool=pool, retired_at=None).select_related(
        "pool", "tenant", "group"
    )
    budgets = list(present.order_by("pk")[: BUDGETS_SHOWN + 1])
    found = {each.budget.pk: each for each in _balances(asked, budgets[:BUDGETS_SHOWN])}
    month, digits = open_month(pool), minor_digits(pool)
    closed = [
        (each, None if each.billed is None else money_text(each.billed, digits))
        for each in closings
    ]
    return {
        "month": month and str(month),
        "is_over": month is not None and month.end <= asked.now,
        "closings": closed,
        "plans": list(pool.price_plans.order_by("-pk")[:MONTHS_SHOWN]),
        "budgets": [(each, found.get(each.pk)) for each in budgets[:BUDGETS_SHOWN]],
        "more_budgets": len(budgets) > BUDGETS_SHOWN,
    }


def _balances(asked: TabRequest, budgets: list[Budget]) -> list[Any]:
    return list(balances(pool=asked.pool, budgets=budgets, now=asked.now)) if budgets else []
