"""Metering whose sessions are killed at any moment loses nothing and writes nothing twice."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, InterfaceError, connection
from psycopg.conninfo import make_conninfo

from allocator_service.allocation.long_term.metering import pool_meter, pool_meter_all
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.models import Entry, OpenUse
from allocator_service.pools.recompute import decision_request
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.faults.checker import ledger_wrongs
from tests.integration.conftest import NOON, another_session, vector
from tests.references.ledger import metered_entries
from tests.references.metering import meter_by_interval

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
MINUTES, METERS, KILLS = 150, 2, 40


def database():
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    return make_conninfo(**{name: parameters[name] for name in names if parameters.get(name)})


def wrongs():
    """Return what is wrong of the ledger, except that its pool's clock is behind the real one."""
    found = {each.partition(" ")[2] for each in ledger_wrongs(database(), {}, 0)}
    return found - {"pools were not metered up to their last boundary but one"}


def meter(pool_id, number):
    """Meter minute after minute, and the same minute again after a kill."""
    minute = 0
    try:
        while minute < MINUTES:
            try:
                pool_meter(pool_id=pool_id, now=NOON + minute * MINUTE)
                minute += 1
            except (DatabaseError, InterfaceError):  # the session was killed
                connection.close()
    finally:
        connection.close()


def test_sessions_that_are_killed_lose_nothing_and_write_nothing_twice(fig2, tenant):
    """Two workers meter one pool, whose use changes every quarter of an hour, and are killed."""
    chance = random.Random(7)
    for minute in range(0, MINUTES, 15):
        at = NOON + minute * MINUTE
        draft = WorkloadDraft(tenant("u2"), f"w{minute}", vector(1, "0.1"), tasks=1)
        workloads_submit(pool=fig2, drafts=[draft], now=at)
        decision_request(fig2, now=at)
        assert recompute_pool(pool_id=fig2.pk, clock=lambda at=at: at) is not None
    killed = 0
    with ThreadPoolExecutor(METERS) as threads, another_session(autocommit=True) as killer:
        meters = [threads.submit(meter, fig2.pk, number) for number in range(METERS)]
        while not all(each.done() for each in meters) and killed < KILLS:
            time.sleep(chance.random() * 0.3)
            rows = killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                " current_database() AND pid NOT IN (pg_backend_pid(), %s)"
                " AND backend_type = 'client backend'",
                [connection.connection.info.backend_pid],
            ).fetchall()
            killed += len(rows)
        for each in meters:
            each.result()
    assert killed >= METERS
    end = NOON + MINUTES * MINUTE
    pool_meter_all(pool_id=fig2.pk, now=end)
    assert OpenUse.objects.exists()
    assert wrongs() == {"entries are not sealed exactly once in order"}
    found = amounts(fig2)
    entries_seal_all(now=end)
    assert [check for check in ledger_verify(now=NOON) if not check.holds] == []
    assert wrongs() == set()
    before = Entry.objects.count()
    OpenUse.objects.all().delete()
    fig2.meter.delete()
    meter_by_interval(fig2, end)  # all of it again, in the plain way
    assert amounts(fig2, skipped=before) == found


def amounts(of, skipped=0):
    """{(tenant, owner, workload, resource, kind): unit × seconds}, of the entries after some."""
    sums = {}
    plain = {entry.pk for entry in Entry.objects.order_by("pk")[:skipped]}
    for each in metered_entries(of):
        if each.id in plain:
            continue
        key = (each.tenant, each.owner, each.workload, each.resource, each.kind)
        seconds = Decimal((each.end - each.start).total_seconds())
        sums[key] = sums.get(key, 0) + each.quantity * seconds
    return sums
