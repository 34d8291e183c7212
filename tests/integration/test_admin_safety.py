"""The admin locks out who guesses, and opens lists of many rows without counting them."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
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
