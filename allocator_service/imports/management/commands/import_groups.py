"""The command `manage.py import_groups POOL FILE`, for a tree of groups and members."""

from allocator_service.imports.kinds import TREE
from allocator_service.imports.management.import_command import ImportCommand


class Command(ImportCommand):
    help = "Import groups and the members below them from CSV or Slurm."
    kind = TREE
