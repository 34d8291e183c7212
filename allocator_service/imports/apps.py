from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "allocator_service.imports"
    verbose_name = "Imports"
    label = "imports"
