"""Callers of the API, the world they meet, and the database that tests share."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from django.db import connection

from api import auth, limiter
from tests import factories, migrated
from tests.emptying import empty_quickly
from tests.factories import Client
from tests.scripted import scripts
from tests.superuser import DECISIONS, unprotected

# The same code draws the same examples: what turns the gate red is what was changed. Other examples,
# new ones in every run, are asked for with `--hypothesis-profile=explore`.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests of one name: pytest-xdist takes them for one, and runs the first of them only."""
    names = Counter(item.nodeid for item in items)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests have one name: {', '.join(twice)}")


@pytest.fixture(autouse=True, scope="session")
def _patient_throttle() -> None:
    """Wait for Redis on a busy machine: what it says is tested, and what happens when it is gone."""
    limiter.TIMEOUT_SECONDS = 2.0
    auth.UNKNOWN_KEY_RATE, auth.UNKNOWN_KEY_BURST = 1e6, 10**6


@pytest.fixture(autouse=True)
def _no_throttle(settings: Any) -> None:
    """Tests ask faster than clients may; those of the throttle set their own rate."""
    settings.ENVIRONMENT = dataclasses.replace(
        settings.ENVIRONMENT, throttle_rate=1e6, throttle_burst=10**6
    )


@pytest.fixture
def scripted() -> Iterator[Any]:
    """Starts web servers that answer as told."""
    with scripts() as start:
        yield start


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Copy a migrated database instead of migrating another one."""
    connection.settings_dict["TEST"]["TEMPLATE"] = migrated.template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Tests end by emptying every table: let TRUNCATE pass, which the ledger refuses elsewhere."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION ledger_refuse_truncate() RETURNS trigger"
            " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
        )
        empty_quickly()


@pytest.fixture
def falsifiable(db: None) -> Iterator[None]:
    """A superuser's database: published decisions can be changed."""
    with unprotected(*DECISIONS):
        yield


@pytest.fixture
def operator(db: None) -> Client:
    return factories.client("operator")


@pytest.fixture
def billing(db: None) -> Client:
    return factories.client("billing")


@pytest.fixture
def anonymous() -> Client:
    return Client(None)


@pytest.fixture
def world(db: None) -> SimpleNamespace:
    return factories.world()
