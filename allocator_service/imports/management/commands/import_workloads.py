"""The command `manage.py import_workloads POOL FILE`, for CSV, Kubernetes pods and Slurm jobs."""

from allocator_service.imports.kinds import WORKLOADS
from allocator_service.imports.management.import_command import ImportCommand


class Command(ImportCommand):
    help = "Import workloads into a pool."
    kind = WORKLOADS
