from django.apps import AppConfig


class EnforcementConfig(AppConfig):
    name = "allocator_service.enforcement"
    label = "enforcement"
