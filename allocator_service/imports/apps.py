from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "allocator_service.imports"
    label = "imports"
