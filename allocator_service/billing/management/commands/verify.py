"""The command `manage.py verify`, which verifies the ledger, decisions and closed months.

Its exit code is 1 if anything is wrong.
"""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from allocator_service.allocation.audit.ledger import ledgers_verify
from allocator_service.billing.auditing.verification import statements_verify
from allocator_service.core.clock import utc_now
from allocator_service.core.dates import instant_or_none
from allocator_service.ledger.models import Seal


class Command(BaseCommand):
    help = (
        "Check the ledger (order, digests, sums), what decisions remember, and closed months"
        " (statements, postings, price plans, manifests, audit records). Changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since",
            help="check the sharing degrees of decisions from then on, as 2026-01-05T00:00:00Z;"
            " two days ago if left out",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        since = instant_or_none(options["since"]) if options["since"] else None
        if options["since"] and since is None:
            detail = "--since: write a time with its offset, as 2026-01-05T00:00:00Z."
            raise CommandError(detail, returncode=2)
        begin = time.perf_counter()
        checks = ledgers_verify(now=utc_now(), since=since)
        checks += statements_verify()
        seconds = time.perf_counter() - begin
        for check in checks:
            mark = self.style.SUCCESS("holds") if check.holds else self.style.ERROR("FAILS")
            self.stdout.write(f"{mark}  {check.name}  {check.detail}".rstrip())
        count = Seal.objects.count()
        self.stdout.write(f"{count} entries in {seconds:.2f} s ({count / seconds:.0f} per second)")
        failed = [check.name for check in checks if not check.holds]
        if failed:
            raise CommandError(f"These checks of the ledger failed: {', '.join(failed)}")
