from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "allocator_service.billing"
    verbose_name = "Money"
    label = "billing"
