"""Django's command line. `migrate` runs as the owner of the tables, all else as the application."""

import os
import sys


def main() -> None:
    """Run a management command with the settings of the environment."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allocator_service.settings.local")
    if sys.argv[1:2] == ["migrate"] and os.environ.get("MIGRATION_DATABASE_URL"):
        os.environ["DATABASE_URL"] = os.environ["MIGRATION_DATABASE_URL"]
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
