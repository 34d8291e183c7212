from django.apps import AppConfig


class AllocationConfig(AppConfig):
    name = "allocator_service.allocation"
    label = "allocation"
