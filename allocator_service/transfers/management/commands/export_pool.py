"""The command `manage.py export_pool POOL FILE`, which closes a pool and writes it to an archive."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allocator_service.core.audit import acting_as
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.pools.moving import pool_move_cancel
from allocator_service.pools.selectors import pool_get
from allocator_service.transfers.exporting import pool_export, summary

REFUSED_EXIT = 2


class Command(BaseCommand):
    help = (
        "Close a pool for changes and write all of it to an archive, which import_pool reads in another"
        " installation. --cancel opens it again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pool", metavar="POOL", help="the pool's slug")
        parser.add_argument("file", metavar="FILE", nargs="?", help="the archive, a new file")
        parser.add_argument(
            "--to", metavar="ADDRESS", help="where the pool goes, for the error of refused changes"
        )
        parser.add_argument(
            "--wait",
            type=float,
            default=30.0,
            metavar="SECONDS",
            help="the longest wait for what is not sealed yet (30)",
        )
        parser.add_argument(
            "--cancel",
            action="store_true",
            help="open the pool again; only if no installation has imported it",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        if options["cancel"] == (options["file"] is not None):
            raise CommandError("Name either a FILE or --cancel.", returncode=REFUSED_EXIT)
        try:
            pool = pool_get(slug=options["pool"], tenant=None)
            with acting_as("manage.py export_pool", reason=options["file"] or "cancelled"):
                if options["cancel"]:
                    pool_move_cancel(pool=pool, now=utc_now())
                    self.stdout.write(f"The pool {pool.slug} is open again. Delete its archives.")
                    return
                exported = pool_export(
                    pool=pool,
                    path=Path(options["file"]),
                    to=options["to"],
                    patience=options["wait"],
                    clock=utc_now,
                )
        except DomainError as error:
            raise CommandError(error.detail, returncode=REFUSED_EXIT) from error
        except OSError as error:
            raise CommandError(str(error), returncode=REFUSED_EXIT) from error
        for line in summary(exported):
            self.stdout.write(line)
