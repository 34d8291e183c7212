from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "allocator_service.billing"
    verbose_name = "Money"
    label = "billing"

    def ready(self) -> None:
        from allocator_service.billing.binding import BindingBudgets
        from allocator_service.pools.budgets import register_budgets

        register_budgets(BindingBudgets())
