"""Groups of the admin for operators and auditors, to which a superuser adds people."""

from typing import Any

from django.apps import AppConfig, apps

AUDITORS, OPERATORS = "Auditors", "Operators"
# People, their groups, sign-ins and sessions are the superusers' affair.
NOT_THEIRS = ("admin", "auth", "axes", "contenttypes", "sessions")
NOR_THIS = "poollimit"  # so that operators cannot remove their own limits


def roles_keep(sender: AppConfig, **migrated: Any) -> None:
    """Give auditors and operators their permissions on the apps' models after a migration.

    Auditors may see everything, operators do everything. Permissions that a superuser added to a group
    stay.
    """
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    # Once, after the last app's turn. A flush of the tables sends the signal without a plan.
    with_models = [each for each in apps.get_app_configs() if each.models_module is not None]
    if "plan" not in migrated or sender is not with_models[-1]:
        return
    create_permissions(sender, verbosity=0, using=migrated["using"])  # it may come after this
    theirs = Permission.objects.exclude(content_type__app_label__in=NOT_THEIRS).exclude(
        content_type__app_label="core", content_type__model=NOR_THIS
    )
    for name, permissions in (
        (AUDITORS, theirs.filter(codename__startswith="view_")),
        (OPERATORS, theirs),
    ):
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.add(*permissions)
