"""A pool that takes reports, ways to report, and a ledger whose months may be archived."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allocator_service.ledger.intake.usage import UsageEvent, usage_record
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.models import Pool
from allocator_service.pools.services import pool_create
from allocator_service.tenants.models import Tenant
from tests.integration.conftest import NOON, settings
from tests.ledgers import Ledger

HOUR = timedelta(hours=1)


@pytest.fixture
def reported(db: None) -> Pool:
    return pool_create(slug="batch", settings=settings(metering="reported"), now=NOON)


def usage(
    tenant: Tenant,
    event_id: str,
    *amounts: float | str,
    start: datetime = NOON - 2 * HOUR,
    hours: float = 1,
    source: str = "meter",
) -> UsageEvent:
    """An event of cpu and memory over some hours before noon."""
    return UsageEvent(
        source=source,
        event_id=event_id,
        tenant=tenant,
        workload=None,
        vector=[Decimal(str(amount)) for amount in amounts],
        start=start,
        end=start + hours * HOUR,
        pointer="/0",
    )


def report(pool: Pool, *events: UsageEvent) -> Any:
    """Post events of tenants that are, or become, members."""
    members_admit(pool=pool, tenants=list({event.tenant for event in events}), now=NOON)
    return usage_record(pool=pool, events=events, now=NOON)


@pytest.fixture
def ledger(world: SimpleNamespace, archives: Path) -> Ledger:
    return Ledger([world.lab, world.other], [world.ada, world.bob, world.eve], archives)
