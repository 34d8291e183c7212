from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "allocator_service.billing"
    label = "billing"
