"""The budgets that bind, for the decisions of the layers below."""

from datetime import datetime

from django.db.models import Min, Q, QuerySet

from allocator_service.billing.balances import balances
from allocator_service.billing.budgets import budget_end, budget_history
from allocator_service.billing.models import Budget
from allocator_service.billing.models.watching import CALENDAR_MONTH
from allocator_service.pools.budgets import BudgetState, MonthlyStops, Then
from allocator_service.pools.models import Group, Pool


class BindingBudgets:
    """The source of the budgets that bind for the layers below (`pools.budgets`)."""

    def pools(self) -> list[int]:
        """Return the keys of the pools that have such budgets."""
        rows = _binding().filter(pool__retired_at=None, pool__moved_at=None)
        return list(rows.order_by("pool").values_list("pool", flat=True).distinct())

    def states(self, pool: Pool, at: datetime) -> list[BudgetState]:
        """Return the states of a pool's budgets whose period contains an instant."""
        budgets = list(_binding().filter(pool=pool).select_related("tenant", "group", "pool"))
        return [
            BudgetState(
                budget=str(each.budget.pk),
                scope=each.budget.scope,
                node=each.budget.node.slug,
                resource=each.budget.resource,
                then=Then(each.budget.then),
                amount=each.written(each.available),
                spent=each.written(each.spent),
                # In resource-seconds, since hours may be rounded.
                left=each.left,
                opens_at=each.period.end,
            )
            for each in balances(pool=pool, budgets=budgets, now=at)
        ]

    def next_start(self, pool: Pool, after: datetime) -> datetime | None:
        """Return the first instant later than `after` at which a budget has its first period."""
        budgets = _binding().filter(pool=pool, starts_at__gt=after)
        first: datetime | None = budgets.aggregate(first=Min("starts_at"))["first"]
        return first

    def monthly_stops(self, pool: Pool, at: datetime) -> MonthlyStops:
        """Return what nodes may use in the present month before a budget stops them."""
        monthly = Budget.objects.filter(pool=pool, per=CALENDAR_MONTH, starts_at=None)
        monthly = monthly.exclude(resource="")
        # One that was changed may have been a stop before, which schedulers still have.
        changed = monthly.filter(version__gt=1, retired_at=None).exclude(then=Then.STOP)
        resources = {*monthly.filter(then=Then.STOP).values_list("resource", flat=True)} | {
            budget.resource
            for budget in changed
            if any(terms.settings.then == Then.STOP for terms in budget_history(budget))
        }
        if not resources:
            return MonthlyStops()
        stops = monthly.filter(retired_at=None, then=Then.STOP)
        found = balances(
            pool=pool, budgets=list(stops.select_related("tenant", "group", "pool")), now=at
        )
        return MonthlyStops(
            frozenset(resources),
            {
                (each.budget.scope, each.budget.node.slug, each.budget.resource): each.written(
                    each.available
                )
                for each in found
            },
        )

    def stops(self, pool: Pool, ending_after: datetime | None) -> int:
        """Return the number of budgets that may become limits of 0."""
        budgets = _binding().filter(pool=pool, then=Then.STOP)
        if ending_after is not None:
            budgets = budgets.filter(Q(ends_at=None) | Q(ends_at__gt=ending_after))
        return budgets.count()

    def retire(self, group: Group, now: datetime) -> None:
        """Retire the budgets of a group that is retired."""
        for budget in Budget.objects.filter(group=group, retired_at=None).select_related("pool"):
            budget_end(budget, now)


def _binding() -> QuerySet[Budget]:
    return Budget.objects.filter(retired_at=None).exclude(then=Then.NOTIFY)
