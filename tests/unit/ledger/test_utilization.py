"""Utilisation by cluster, of the amounts that are read from the ledger."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from allocator_service.ledger.reporting import utilization
from allocator_service.ledger.reporting.periods import Period

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Counted(dict[Any, Any]):
    """Amounts that count how often all of them are read."""

    reads = 0

    def items(self):
        self.reads += 1
        return super().items()


def test_amounts_are_read_once_for_all_clusters(monkeypatch):
    """Reading them once for each cluster takes quadratic time."""
    monkeypatch.setattr(utilization, "resources_of", lambda _: [SimpleNamespace(name="cpu")])
    monkeypatch.setattr(utilization, "has_had_clusters", lambda _: True)
    monkeypatch.setattr(utilization, "capacity_within", lambda **_: [])
    period = Period([NOON, NOON + timedelta(hours=1)])
    amounts = Counted({(f"c{number}", "cpu", 0): Decimal(number) for number in range(9)})
    report = utilization._report(SimpleNamespace(slug="lab"), period, {}, amounts)
    assert [each.totals[0].used for each in report.clusters] == list(range(9))
    assert amounts.reads == 1
