from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "allocator_service.webhooks"
    label = "webhooks"
