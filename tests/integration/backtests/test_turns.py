"""Owners take turns: a small backtest does not wait until another owner's large ones are done."""

from datetime import timedelta

import pytest

from allocator_service.backtests.jobs import BACKTEST_JOBS, CELL_JOBS
from allocator_service.backtests.models import Backtest
from allocator_service.backtests.services import TENANT_LIMIT_FACTOR
from allocator_service.backtests.turns import turn_take
from allocator_service.core.errors import Conflict
from allocator_service.core.jobs import jobs_due
from allocator_service.tenants.services import tenant_create
from tests.integration.backtests.test_jobs import ADMIN, key_of, requested
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db


class Queue:
    """Messages in the order of their arrival, and one worker."""

    def __init__(self):
        self.messages = []
        self.now = NOON

    def publish(self):
        for advances, kind in ((True, BACKTEST_JOBS), (False, CELL_JOBS)):
            found = jobs_due(kind, now=self.now, again=False)
            self.messages += [(advances, unit) for unit in found]

    def work(self):
        """Take the first message."""
        self.now += timedelta(seconds=1)
        advances, unit = self.messages.pop(0)
        turn_take(advances=advances, unit=unit, clock=lambda: self.now)
        self.publish()


def tenants():
    return [tenant_create(slug=slug, name=slug, now=NOON) for slug in ("large", "small")]


def test_a_small_backtest_is_done_while_another_tenants_large_ones_wait():
    large, small = tenants()
    policies = ["static", "drfh", "drf", "mrfs"]
    for _ in range(3):
        requested(ADMIN, large, policies=policies)
    queue = Queue()
    queue.publish()
    queue.work()  # one of the large ones has its cells in the queue already
    mine = requested(ADMIN, small)
    queue.publish()
    units = 0
    while Backtest.objects.get(pk=mine.pk).status != "succeeded":
        queue.work()
        units += 1
    # Read, two cells, results: each after at most one unit of the other tenant.
    assert units <= 8
    assert Backtest.objects.filter(tenant=large, status="succeeded").count() == 0
    while queue.messages:
        queue.work()
    assert set(Backtest.objects.values_list("status", flat=True)) == {"succeeded"}


def test_a_tenant_s_keys_share_a_limit(settings):
    large, small = tenants()
    limit = TENANT_LIMIT_FACTOR * settings.ENVIRONMENT.backtests_open
    holders = [key_of(name, large) for name in ("one", "two", "three")]
    for number in range(limit):
        requested(holders[number % 3], large)
    with pytest.raises(Conflict, match=f"{limit} of your tenant's backtests"):
        requested(holders[0], large)
    requested(key_of("four", small), small)
