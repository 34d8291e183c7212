from django.apps import AppConfig


class TransfersConfig(AppConfig):
    name = "allocator_service.transfers"
    verbose_name = "Moves of pools"
    label = "transfers"
