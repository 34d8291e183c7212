from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "allocator_service.tenants"
    verbose_name = "Tenants and keys"
    label = "tenants"
