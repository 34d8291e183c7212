"""A web process and the connections that it keeps to PostgreSQL."""

import dataclasses

import pytest
from django.conf import settings
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper

from allocator_service.settings.databases import database


@pytest.fixture
def web(transactional_db):
    """A connection as web processes take it from their pool, to the tests' database."""
    chosen = database(dataclasses.replace(settings.ENVIRONMENT, process="web"))
    ours = connection.settings_dict
    wrapper = DatabaseWrapper(
        {**ours, "CONN_MAX_AGE": 0, **chosen, "NAME": ours["NAME"]}, alias="default"
    )
    yield wrapper
    wrapper.close()
    wrapper.close_pool()


def backend_of(wrapper):
    """The process of PostgreSQL that answers a request, which gives its connection back."""
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ((pid,),) = cursor.fetchall()
    wrapper.close()
    return pid


def test_a_pooled_connection_that_postgresql_has_ended_is_met_by_no_request(web):
    before = {backend_of(web) for _ in range(6)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'allocator-web'"
        )
        assert len(cursor.fetchall()) >= len(before)
    assert before.isdisjoint({backend_of(web) for _ in range(6)})
