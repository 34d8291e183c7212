"""The admin locks out who guesses, and opens lists of many rows without counting them."""

from dataclasses import replace
from ipaddress import ip_network

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.core.models import Event
from allocator_service.core.paging import COUNTED, EstimatingPaginator
from allocator_service.pools.models import Server

pytestmark = pytest.mark.django_db


def login(client, password):
    return client.post(reverse("admin:login"), {"username": "olga", "password": password})


def test_five_wrong_passwords_lock_a_user_out_even_with_the_right_one(client):
    get_user_model().objects.create_superuser("olga", password="right")
    for _ in range(5):
        login(client, "wrong")
    assert login(client, "right").status_code == 429
    assert client.get(reverse("admin:index")).status_code == 302


def test_four_wrong_passwords_and_the_right_one_let_a_user_in(client):
    get_user_model().objects.create_superuser("olga", password="right")
    for _ in range(4):
        login(client, "wrong")
    login(client, "right")
    assert client.get(reverse("admin:index")).status_code == 200


@pytest.fixture
def behind_a_proxy(settings):
    """The proxy's address is 10.0.0.2, whoever the client is."""
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, trusted_proxies=[ip_network("10.0.0.0/24")]
    )


def login_from(client, address, password, **more):
    return client.post(
        reverse("admin:login"),
        {"username": "olga", "password": password},
        REMOTE_ADDR="10.0.0.2",
        headers={"X-Forwarded-For": address},
    )


def test_behind_a_proxy_nobody_elsewhere_can_lock_an_administrator_out(client, behind_a_proxy):
    get_user_model().objects.create_superuser("olga", password="right")
    for number in range(8):  # what the client itself claims stands before the proxy's entry
        login_from(client, f"192.0.2.7, 203.0.113.{number}", "wrong")
    assert login_from(client, "203.0.113.200", "right").status_code == 429  # the same network
    assert login_from(client, "192.0.2.7", "right").status_code == 302


def test_a_header_of_somebody_who_is_no_trusted_proxy_is_not_read(client):
    get_user_model().objects.create_superuser("olga", password="right")
    for number in range(5):
        login_from(client, f"198.51.{number}.1", "wrong")
    assert login_from(client, "192.0.2.7", "right").status_code == 429


def test_each_further_five_failures_lock_out_for_twice_as_long(client):
    get_user_model().objects.create_superuser("olga", password="right")
    with time_machine.travel("2026-01-05T00:00:00Z", tick=False) as clock:
        for minutes in (1, 2, 4, 8, 16, 32, 60, 60):
            for _ in range(5):
                login(client, "wrong")
            clock.shift(minutes * 60 - 1)
            assert login(Client(), "right").status_code == 429
            clock.shift(minutes * 60 + 1)
        assert login(client, "right").status_code == 302


ROWS = 300_000


@pytest.fixture
def many_events(db):
    """More rows than anybody wants counted, made by the database itself."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_event (id, kind, payload, occurred_at, request_id)"
            " SELECT gen_random_uuid(), 'test', '{}', now(), '' FROM generate_series(1, %s)",
            [ROWS],
        )
        cursor.execute("ANALYZE core_event")


def test_a_list_of_very_many_rows_opens_without_counting_them(client, many_events):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    with CaptureQueriesContext(connection) as queries:
        page = client.get(reverse("admin:core_event_changelist"))
    assert page.status_code == 200
    statements = [query["sql"] for query in queries]
    assert [sql for sql in statements if "COUNT(" in sql and "LIMIT" not in sql] == []
    assert EstimatingPaginator(Event.objects.all(), 50).count == pytest.approx(ROWS, rel=0.1)
    assert EstimatingPaginator(Event.objects.filter(kind="test"), 50).count == COUNTED


def test_a_short_list_is_counted_exactly(fig2):
    assert EstimatingPaginator(Server.objects.all(), 50).count == 2
