from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "allocator_service.core"
    label = "core"
