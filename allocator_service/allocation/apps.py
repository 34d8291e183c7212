from django.apps import AppConfig


class AllocationConfig(AppConfig):
    name = "allocator_service.allocation"
    verbose_name = "Decisions"
    label = "allocation"
