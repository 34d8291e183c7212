"""Billing in the admin, with pages that show the effect of a change before it is made."""

from allocator_service.billing.admin import budgets, plans, pool_money, statements

__all__ = ["budgets", "plans", "pool_money", "statements"]
