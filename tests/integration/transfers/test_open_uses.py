"""A pool that moves while uses are open meters the time between where it goes."""

from datetime import timedelta
from io import StringIO
from itertools import pairwise

import pytest
from django.core.management import call_command

from allocator_service.allocation.long_term.metering import meterings_due, pool_meter_all
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.clock import utc_now
from allocator_service.ledger.models import Entry, Meter, OpenUse
from allocator_service.pools.models import Pool
from tests import factories
from tests.emptying import empty
from tests.integration.transfers.conftest import seal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("policy", ["drfh", "h-mrf"])
def test_metering_goes_on_without_a_gap(tmp_path, policy):
    begin = utc_now() - timedelta(hours=3)
    pool = factories.pool("lab", policy=policy)
    ada = factories.tenant("ada")
    factories.member(pool, ada, None)
    factories.server(pool, "of-ada", 4, 4, ada)
    factories.workload(pool, "work", 1, 1, ada, tasks=2)
    recompute_pool(pool_id=pool.pk, clock=lambda: begin, early=True)
    pool_meter_all(pool_id=pool.pk, now=begin + timedelta(minutes=90))
    opened = OpenUse.objects.get()
    assert ada.pk in opened.owners
    seal()
    file = tmp_path / "lab.pool"
    call_command("export_pool", "lab", str(file), stdout=StringIO())
    until = Meter.objects.get().metered_until
    assert meterings_due(now=utc_now()) == []
    pool_meter_all(pool_id=pool.pk, now=utc_now())
    assert Meter.objects.get().metered_until == until
    empty()
    factories.tenant("zoe")
    call_command("import_pool", "lab", str(file), stdout=StringIO())

    pool = Pool.objects.get(slug="lab")
    moved = OpenUse.objects.get()
    assert (moved.start, moved.quantities) == (opened.start, opened.quantities)
    key = pool.memberships.get().tenant_id
    assert moved.owners == [None if each is None else key for each in opened.owners]
    pool_meter_all(pool_id=pool.pk, now=utc_now())
    seal()
    rows = Entry.objects.filter(resource="cpu", kind="usage").order_by("start")
    spans = list(rows.values_list("start", "end"))
    assert len(spans) >= 2
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    # A policy that remembers has a decision due, which no worker here has made.
    recompute_pool(pool_id=pool.pk, clock=utc_now, early=True)
    seal()
    checks = StringIO()
    call_command("verify", stdout=checks)
    assert "FAILS" not in checks.getvalue()
