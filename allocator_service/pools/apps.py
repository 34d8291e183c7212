from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "allocator_service.pools"
    label = "pools"
