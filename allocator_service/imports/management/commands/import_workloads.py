"""`manage.py import_workloads POOL FILE`: workloads out of CSV or Kubernetes pods."""

from typing import ClassVar

from allocator_service.core.clock import utc_now
from allocator_service.imports.formats import WORKLOAD_FORMATS, read_workloads
from allocator_service.imports.importing import Progress
from allocator_service.imports.management.import_command import ImportCommand
from allocator_service.imports.reading import file_text
from allocator_service.imports.rows import ImportChoice, ImportReport, Owner
from allocator_service.imports.workloads import workloads_import
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of


class Command(ImportCommand):
    help = "Import workloads into a pool."
    formats: ClassVar = WORKLOAD_FORMATS
    slug_option, label_option = "--tenant", "--tenant-label"

    def import_file(
        self,
        pool: Pool,
        path: str,
        file_format: str,
        owner: Owner,
        choice: ImportChoice,
        progress: Progress,
    ) -> ImportReport:
        file = read_workloads(file_text(path), file_format, resources_of(pool), owner)
        return workloads_import(
            pool=pool, file=file, choice=choice, now=utc_now(), progress=progress
        )
