"""The command `manage.py import_nodes POOL FILE`, for servers from CSV, Kubernetes or Slurm."""

from allocator_service.imports.kinds import NODES
from allocator_service.imports.management.import_command import ImportCommand


class Command(ImportCommand):
    help = "Import nodes as servers of a pool."
    kind = NODES
