"""`manage.py import_nodes POOL FILE`: servers out of CSV, Kubernetes or Slurm."""

from typing import ClassVar

from allocator_service.core.clock import utc_now
from allocator_service.imports.formats import NODE_FORMATS, read_nodes
from allocator_service.imports.importing import Progress
from allocator_service.imports.management.import_command import ImportCommand
from allocator_service.imports.nodes import nodes_import
from allocator_service.imports.reading import file_text
from allocator_service.imports.rows import ImportChoice, ImportReport, Owner
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of


class Command(ImportCommand):
    help = "Import nodes as servers of a pool."
    formats: ClassVar = NODE_FORMATS
    slug_option, label_option = "--contributed-by", "--owner-label"

    def import_file(
        self,
        pool: Pool,
        path: str,
        file_format: str,
        owner: Owner,
        choice: ImportChoice,
        progress: Progress,
    ) -> ImportReport:
        file = read_nodes(file_text(path), file_format, resources_of(pool), owner)
        return nodes_import(pool=pool, file=file, choice=choice, now=utc_now(), progress=progress)
