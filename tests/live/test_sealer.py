"""The relay's sealer, for which no decision waits and which never ends unnoticed."""

import time

import psycopg
import pytest

from tests.live.conftest import decision_of

POOL = {
    "slug": "sealed",
    "name": "Sealed",
    "resources": [{"name": "cpu"}],
    "policy": {"name": "drf"},
}


@pytest.fixture(scope="module")
def pool(operator):
    operator.post("/api/v1/pools/", POOL)
    return "/api/v1/pools/sealed/"


@pytest.fixture
def database(service):
    with psycopg.connect(service.environment["DATABASE_URL"]) as connection:
        yield connection


def change(operator, pool, name):
    """The generation of a change that events tell of."""
    answer = operator.post(f"{pool}servers/", {"name": name, "capacity": {"cpu": 1}})
    return int(answer.headers["Pool-Generation"])


def sealed(database):
    with database.transaction():
        return database.execute("SELECT count(*) FROM core_event_seal").fetchone()[0]


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_decision_does_not_wait_for_the_sealer(operator, pool, database):
    decision_of(operator, "sealed", change(operator, pool, "first"))
    wait_until(lambda: sealed(database))
    before = sealed(database)
    with database.transaction():
        database.execute("LOCK TABLE core_event_seal IN EXCLUSIVE MODE")
        decision_of(operator, "sealed", change(operator, pool, "second"))
        (waiting,) = database.execute("SELECT count(*) FROM core_event_pending").fetchone()
        assert waiting
        assert sealed(database) == before
    wait_until(lambda: sealed(database) > before)


def test_the_relay_ends_with_its_sealer(operator, pool, service, database):
    """Its supervisor starts both again."""
    with database.transaction():
        # The sealer looks at it in each turn, and no other process that would end with it does.
        database.execute("ALTER TABLE ledger_pending RENAME TO hidden")
    try:
        wait_until(lambda: service.processes["relay"].poll() is not None)
    finally:
        with database.transaction():
            database.execute("ALTER TABLE hidden RENAME TO ledger_pending")
        service.start("relay")
    before = sealed(database)
    decision_of(operator, "sealed", change(operator, pool, "third"))
    wait_until(lambda: sealed(database) > before)
    wait_until(service.ready)
