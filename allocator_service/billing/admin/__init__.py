"""Money in the admin: the services that every interface calls, and pages to look at before."""

from allocator_service.billing.admin import budgets, plans, pool_money, statements

__all__ = ["budgets", "plans", "pool_money", "statements"]
