"""The base of the import commands, with their options, progress bar, report and exit code."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from django.core.management.base import BaseCommand, CommandError

from allocator_service.core.audit import acting_as
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.imports.importing import Progress, no_progress
from allocator_service.imports.kinds import ImportKind
from allocator_service.imports.reading import file_text
from allocator_service.imports.rows import ImportChoice, ImportReport, Outcome, Owner, RowReport
from allocator_service.pools.selectors import pool_get, resources_of

BAR_CELLS = 30
REFUSED_EXIT = 1
UNREADABLE_EXIT = 2


class ImportCommand(BaseCommand):
    """A command with `POOL FILE`, a format and an owner.

    The exit code is 1 if rows were refused and 2 if the file cannot be read.
    """

    kind: ClassVar[ImportKind]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pool", metavar="POOL", help="the pool's slug")
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--format", choices=self.kind.formats, default="csv")
        owner = parser.add_mutually_exclusive_group()
        parser.set_defaults(slug=None)
        if self.kind.slug is not None:
            owner.add_argument(
                _option(self.kind.slug),
                dest="slug",
                metavar="SLUG",
                help="the tenant of rows that name none",
            )
        owner.add_argument(
            _option(self.kind.label),
            dest="label",
            metavar="KEY",
            help="the label that names the tenant",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="report every row, write nothing"
        )
        parser.add_argument(
            "--skip-refused", action="store_true", help="write the other rows when some are refused"
        )
        parser.add_argument(
            "--register-tenants", action="store_true", help="register unknown tenants"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        choice = ImportChoice(
            options["dry_run"], options["skip_refused"], options["register_tenants"]
        )
        name = type(self).__module__.rpartition(".")[2]
        try:
            pool = pool_get(slug=options["pool"], tenant=None)
            owner = Owner(options["slug"], options["label"])
            with acting_as(f"manage.py {name}", reason=options["file"]), self._progress() as shown:
                file = self.kind.read(
                    file_text(options["file"]),
                    options["format"],
                    resources_of(pool),
                    owner,
                    **self.read_options(options),
                )
                report = self.kind.write(
                    pool=pool, file=file, choice=choice, now=utc_now(), progress=shown
                )
        except DomainError as error:
            self._exit_unreadable(error)
        self._print_report(report, choice)

    def read_options(self, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return further arguments of the reader of this kind."""
        return {}

    @contextmanager
    def _progress(self) -> Any:
        """Show a progress bar if standard error is a terminal."""
        if not sys.stderr.isatty():
            yield no_progress
            return
        yield progress_bar(sys.stderr.write)
        sys.stderr.write("\r\x1b[K")

    def _print_report(self, report: ImportReport, choice: ImportChoice) -> None:
        for row in report.rows:
            if choice.dry_run or row.outcome is Outcome.REFUSED:
                self.stdout.write(row_line(row))
        if report.ignored:
            self.stdout.write(f"not counted by the pool: {', '.join(report.ignored)}")
        if report.registered:
            verb = "registered" if report.written else "would be registered"
            self.stdout.write(f"tenants {verb}: {', '.join(report.registered)}")
        counts = ", ".join(f"{count} {outcome}" for outcome, count in report.counts.items())
        self.stdout.write(f"{counts}; generation {report.generation}")
        if not report.refused:
            return
        if choice.dry_run:
            raise CommandError("Some rows would be refused.", returncode=REFUSED_EXIT)
        if not choice.skip_refused:
            raise CommandError(
                "Some rows were refused and nothing was written; --skip-refused writes the others.",
                returncode=REFUSED_EXIT,
            )

    def _exit_unreadable(self, error: DomainError) -> NoReturn:
        further = [item.detail for item in error.errors if item.detail != error.detail]
        raise CommandError("\n".join([error.detail, *further]), returncode=UNREADABLE_EXIT)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def row_line(row: RowReport) -> str:
    """Return a row of the report as a line of place, outcome, owner and name, and reasons."""
    whose = f"{row.owner}/" if row.owner else ""
    reasons = "; ".join(
        f"{error.code} {error.pointer}: {error.detail}".replace(" :", ":") for error in row.errors
    )
    cells = [str(row.place), row.outcome.value, f"{whose}{row.name}", reasons or row.detail]
    return "\t".join(cell for cell in cells if cell)


def progress_bar(write: Callable[[str], object]) -> Progress:
    """Return a progress bar of one line, which `write` draws again when it grows by a cell."""
    last = ("", -1)

    def draw(step: str, done: int, total: int) -> None:
        nonlocal last
        cells = BAR_CELLS * done // max(total, 1)
        if (step, cells) != last:
            last = (step, cells)
            bar = "#" * cells + "." * (BAR_CELLS - cells)
            write(f"\r\x1b[K{step:<9} [{bar}] {100 * done // max(total, 1)} %")

    return draw
