"""`manage.py import_usage POOL FILE`: usage out of sacct, finished pods, CSV or a trace."""

from argparse import ArgumentParser
from typing import Any, ClassVar

from allocator_service.core.clock import utc_now
from allocator_service.imports.checks import checked_instant
from allocator_service.imports.formats import USAGE_FORMATS, read_usage
from allocator_service.imports.importing import Progress
from allocator_service.imports.management.import_command import ImportCommand
from allocator_service.imports.reading import file_text
from allocator_service.imports.rows import ImportChoice, ImportReport, Owner
from allocator_service.imports.usage import usage_import
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import resources_of


class Command(ImportCommand):
    help = "Import usage into the ledger of a pool that takes reports."
    formats: ClassVar = USAGE_FORMATS
    slug_option, label_option = "--tenant", "--tenant-label"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--source", help="who tells; the format's name unless given")
        parser.add_argument(
            "--begin",
            metavar="INSTANT",
            help="swf: when the trace begins, instead of UnixStartTime",
        )

    def handle(self, *arguments: Any, **options: Any) -> None:
        self._source, self._begin = options["source"], options["begin"]
        super().handle(*arguments, **options)

    def import_file(
        self,
        pool: Pool,
        path: str,
        file_format: str,
        owner: Owner,
        choice: ImportChoice,
        progress: Progress,
    ) -> ImportReport:
        begin = None if self._begin is None else checked_instant(self._begin, "")
        file = read_usage(
            file_text(path),
            file_format,
            resources_of(pool),
            owner,
            source=self._source,
            begin=begin,
        )
        return usage_import(pool=pool, file=file, choice=choice, now=utc_now(), progress=progress)
