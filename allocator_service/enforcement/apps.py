from django.apps import AppConfig


class EnforcementConfig(AppConfig):
    name = "allocator_service.enforcement"
    verbose_name = "Schedulers"
    label = "enforcement"
