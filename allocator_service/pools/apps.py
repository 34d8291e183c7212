from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "allocator_service.pools"
    verbose_name = "Pools and servers"
    label = "pools"
