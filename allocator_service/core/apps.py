from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "allocator_service.core"
    verbose_name = "Audit and events"
    label = "core"
