"""Prices of a pool, which are read once for all of its tenants."""

from types import SimpleNamespace
from typing import Any

from allocator_service.billing.rating.projections import PoolPrices


class Counted(list[Any]):
    """Commitments that count how often all of them are read."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


def test_commitments_are_read_once_for_all_tenants():
    """Reading them once for each tenant takes quadratic time."""
    tenants = [SimpleNamespace(pk=number, slug=f"t{number}") for number in range(9)]
    commitments = Counted(SimpleNamespace(tenant_id=each.pk) for each in [*tenants, *tenants[:3]])
    prices = PoolPrices(None, None, commitments, {each.slug: each.pk for each in tenants[1:]})
    found = [prices.of(each) for each in tenants]
    assert found[0] is None
    assert [len(each.commitments) for each in found[1:]] == [2, 2, *[1] * 6]
    assert all(own.tenant_id == each.tenant.pk for each in found[1:] for own in each.commitments)
    assert commitments.reads == 1
