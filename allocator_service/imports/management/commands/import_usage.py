"""`manage.py import_usage POOL FILE`: usage out of sacct, finished pods, CSV or a trace."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from allocator_service.imports.checks import checked_instant
from allocator_service.imports.kinds import USAGE
from allocator_service.imports.management.import_command import ImportCommand


class Command(ImportCommand):
    help = "Import usage into the ledger of a pool that takes reports."
    kind = USAGE

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", help="the source of the events; the name of the format by default"
        )
        parser.add_argument(
            "--begin",
            metavar="INSTANT",
            help="swf: when the trace begins, instead of UnixStartTime",
        )

    def particulars(self, options: Mapping[str, Any]) -> dict[str, Any]:
        begin = options["begin"]
        return {
            "source": options["source"],
            "begin": None if begin is None else checked_instant(begin, ""),
        }
