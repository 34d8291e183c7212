"""The command `manage.py import_pool POOL FILE`, which imports a pool from another installation."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allocator_service.core.audit import acting_as
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.transfers.importing import pool_import

REFUSED_EXIT = 2


class Command(BaseCommand):
    help = "Import a pool from an archive that export_pool wrote, whole or not at all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pool", metavar="POOL", help="the pool's slug")
        parser.add_argument("file", metavar="FILE", help="the archive")
        parser.add_argument(
            "--sha256", metavar="DIGEST", help="that of the file, as export_pool printed it"
        )
        parser.add_argument(
            "--same-tenant",
            action="append",
            default=[],
            metavar="SLUG",
            help="a tenant of this slug that is here is the archive's; may be repeated",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            with (
                Path(options["file"]).open("rb") as file,
                acting_as("manage.py import_pool", reason=options["file"]),
            ):
                imported = pool_import(
                    slug=options["pool"],
                    file=file,
                    sha256=options["sha256"],
                    same=options["same_tenant"],
                    now=utc_now(),
                )
        except DomainError as error:
            raise CommandError(error.detail, returncode=REFUSED_EXIT) from error
        except OSError as error:
            raise CommandError(str(error), returncode=REFUSED_EXIT) from error
        for line in imported.lines:
            self.stdout.write(line)
