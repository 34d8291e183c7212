"""The command `manage.py replay`, which runs a pool's decisions and metering over simulated time."""

from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from allocator_service.allocation.long_term.replay import ReplayedDecision, pool_replay
from allocator_service.core.dates import instant_or_none
from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import DomainError
from allocator_service.pools.selectors import pool_get


class Command(BaseCommand):
    help = "Decide and meter a pool over simulated time, for demonstrations: not a pool in use."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("pool", help="its slug")
        parser.add_argument("--from", dest="since", required=True, help="2026-01-05T00:00:00Z")
        parser.add_argument("--to", dest="until", required=True, help="2026-01-06T00:00:00Z")
        parser.add_argument("--step", help="PT1H; the pool's decision interval if left out")

    def handle(self, *_: Any, **options: Any) -> None:
        since, until = _instant(options["since"], "--from"), _instant(options["until"], "--to")
        try:
            pool = pool_get(slug=options["pool"], tenant=None)
            step = parse_duration(options["step"] or pool.decision_interval)
            for replayed in pool_replay(pool=pool, since=since, until=until, step=step):
                self.stdout.write(_line(replayed))
        except DomainError as error:
            raise CommandError(error.detail, returncode=2) from error


def _instant(text: str, argument: str) -> datetime:
    instant = instant_or_none(text)
    if instant is None:
        detail = f"{argument}: write a time with its offset, as 2026-01-05T00:00:00Z."
        raise CommandError(detail, returncode=2)
    return instant


def _line(replayed: ReplayedDecision) -> str:
    """Return the time and each tenant's tasks and sharing degree, as a line."""
    parts = [
        f"{tenant} {tasks:g} (β {_degree(replayed.sharing_degrees[tenant])})"
        for tenant, tasks in replayed.tasks.items()
    ]
    return "  ".join([f"{replayed.at:%Y-%m-%dT%H:%M:%SZ}", *parts])


def _degree(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
