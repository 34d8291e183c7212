from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    name = "allocator_service.workloads"
    label = "workloads"
