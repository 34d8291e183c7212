from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "allocator_service.webhooks"
    verbose_name = "Webhooks"
    label = "webhooks"
