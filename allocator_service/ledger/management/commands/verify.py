"""`manage.py verify`: the whole ledger put to the proof; exit code 1 when something is wrong."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from allocator_service.core.clock import utc_now
from allocator_service.ledger.models import Seal
from allocator_service.ledger.verification import ledger_verify


class Command(BaseCommand):
    help = "Check the ledger: order, digests, sums. Changes nothing."

    def handle(self, *_: Any, **__: Any) -> None:
        begin = time.perf_counter()
        checks = ledger_verify(now=utc_now())
        seconds = time.perf_counter() - begin
        for check in checks:
            mark = self.style.SUCCESS("holds") if check.holds else self.style.ERROR("FAILS")
            self.stdout.write(f"{mark}  {check.name}  {check.detail}".rstrip())
        count = Seal.objects.count()
        self.stdout.write(f"{count} entries in {seconds:.2f} s ({count / seconds:.0f} per second)")
        failed = [check.name for check in checks if not check.holds]
        if failed:
            raise CommandError(f"The ledger is not whole: {', '.join(failed)}")
