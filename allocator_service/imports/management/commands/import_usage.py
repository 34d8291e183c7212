"""The command `manage.py import_usage POOL FILE`, for usage from sacct, pods, CSV or a trace."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from allocator_service.imports.checks import check_instant
from allocator_service.imports.kinds import USAGE
from allocator_service.imports.management.import_command import ImportCommand


class Command(ImportCommand):
    help = "Import usage into the ledger of a pool whose metering is reported."
    kind = USAGE

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", help="the source of the events; the name of the format by default"
        )
        parser.add_argument(
            "--begin",
            metavar="INSTANT",
            help="swf: start of the trace, instead of UnixStartTime",
        )

    def read_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        begin = options["begin"]
        return {
            "source": options["source"],
            "begin": None if begin is None else check_instant(begin, ""),
        }
