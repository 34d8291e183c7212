from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "allocator_service.tenants"
    label = "tenants"
