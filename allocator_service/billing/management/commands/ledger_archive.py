"""The command `manage.py ledger_archive`, which moves months of the ledger to files, and back."""

from datetime import UTC, date, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from allocator_service.billing.rating.late import reason_to_keep
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.ledger.archive.archiving import archive_restore, months_archive


class Command(BaseCommand):
    help = (
        "Move months of the ledger that are over to Parquet files in LEDGER_ARCHIVE_DIR, where all"
        " readers find them, or load a file back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--before", help="archive the months that ended by this date, as 2026-01-01"
        )
        what.add_argument("--restore", metavar="FILE", help="load this file back into the database")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            if options["restore"]:
                archive = archive_restore(name=options["restore"])
                self.stdout.write(
                    f"{archive.name}: {archive.entries:,} entries are in the database"
                )
            else:
                self._archive(_midnight(options["before"]))
        except DomainError as error:
            raise CommandError(error.detail) from error

    def _archive(self, before: datetime) -> None:
        for outcome in months_archive(before=before, now=utc_now(), obstacle=reason_to_keep):
            month = f"{outcome.month:%Y-%m}"
            if outcome.archive is None:
                self.stdout.write(f"{month}  stays: {outcome.reason}")
            else:
                entries, size = outcome.archive.entries, outcome.archive.size
                self.stdout.write(
                    f"{month}  {entries:,} entries, {size:,} bytes: {outcome.archive.name}"
                )


def _midnight(text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        detail = "--before: write a date, as 2026-01-01."
        raise CommandError(detail, returncode=2) from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
