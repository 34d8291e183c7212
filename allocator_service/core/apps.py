from django.apps import AppConfig
from django.db.models.signals import post_migrate

from allocator_service.core.roles import roles_keep


class CoreConfig(AppConfig):
    name = "allocator_service.core"
    verbose_name = "Audit and events"
    label = "core"

    def ready(self) -> None:
        """Have the groups of the admin follow the apps' models."""
        post_migrate.connect(roles_keep, dispatch_uid="core.roles")
