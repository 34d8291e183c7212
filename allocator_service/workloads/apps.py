from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    name = "allocator_service.workloads"
    verbose_name = "Workloads"
    label = "workloads"
