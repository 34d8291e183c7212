"""A pool to work with, made through the services that every interface calls."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import PoolSettings, pool_create
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import tenant_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def another_session(*, autocommit: bool = False) -> psycopg.Connection:
    """A connection to the tests' database beside Django's."""
    ours = connection.get_connection_params()
    wanted = ("dbname", "host", "port", "user", "password")
    given = {name: ours[name] for name in wanted if name in ours}
    return psycopg.connect(**given, autocommit=autocommit)


def settings(**changes: Any) -> PoolSettings:
    """Settings of a small research pool with `changes` applied."""
    defaults: dict[str, Any] = {
        "name": "Research lab",
        "resources": [Resource("cpu", "core"), Resource("memory", "GiB")],
        "policy": policy_choose("drfh", None, {}),
        "window": Window("tumbling", NOON, "P7D"),
        "weights": "explicit",
        "own_servers": False,
        "count": "total",
        "decision_interval": "PT1M",
        "metering": "allocation",
        "currency": "EUR",
        "timezone": "UTC",
        "transparent": False,
    }
    return PoolSettings(**{**defaults, **changes})


def vector(*amounts: float | str) -> list[Decimal]:
    return [Decimal(str(amount)) for amount in amounts]


def recomputed(pool: Pool, at: datetime = NOON) -> Run | None:
    return recompute_pool(pool_id=pool.pk, clock=lambda: at)


def recomputed_elsewhere(pool: Pool) -> Run | None:
    """By another thread, a second later."""
    try:
        return recomputed(pool, NOON + timedelta(seconds=1))
    finally:
        connection.close()


@pytest.fixture
def archives(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A directory of archives."""
    django = request.getfixturevalue("settings")
    django.ENVIRONMENT = dataclasses.replace(django.ENVIRONMENT, ledger_archive_dir=str(tmp_path))
    return tmp_path


@pytest.fixture
def now() -> datetime:
    return NOON


@pytest.fixture
def pool(db: None) -> Pool:
    return pool_create(slug="lab", settings=settings(), now=NOON)


@pytest.fixture
def tenant(db: None) -> Callable[[str], Tenant]:
    """The tenant of a slug, registered when it is first asked for."""

    def get(slug: str) -> Tenant:
        found = Tenant.objects.filter(slug=slug).first()
        return found or tenant_create(slug=slug, name=slug.title(), now=NOON)

    return get


@pytest.fixture
def fig2(pool: Pool, tenant: Callable[[str], Tenant]) -> Pool:
    """DRFH Fig. 2: servers 2,12 and 12,2; one task of user 1 needs 0.2,1, of user 2 1,0.2."""
    servers_contribute(
        pool=pool,
        drafts=[
            ServerDraft("high-memory", vector(2, 12), tenant("u1")),
            ServerDraft("high-cpu", vector(12, 2), tenant("u2")),
        ],
        now=NOON,
    )
    workloads_submit(
        pool=pool,
        drafts=[
            WorkloadDraft(tenant("u1"), "analysis", vector("0.2", 1)),
            WorkloadDraft(tenant("u2"), "simulation", vector(1, "0.2")),
        ],
        now=NOON,
    )
    return pool
