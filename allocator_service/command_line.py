"""Django's command line, which runs as the application.

Commands that make or drop tables run as their owner.
"""

import os
import sys

_OF_OWNER = ("migrate", "ledger_archive")


def main() -> None:
    """Run a management command with the settings of the environment."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allocator_service.settings.local")
    if len(sys.argv) > 1 and sys.argv[1] in _OF_OWNER and os.environ.get("MIGRATION_DATABASE_URL"):
        os.environ["DATABASE_URL"] = os.environ["MIGRATION_DATABASE_URL"]
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
