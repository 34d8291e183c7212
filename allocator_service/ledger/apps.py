from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "allocator_service.ledger"
    verbose_name = "Ledger"
    label = "ledger"
