"""What holds on every route: keys, scopes, statuses, problems, parameters, formats."""

import dataclasses
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
import time_machine
from django.db import OperationalError, connection

from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import ApiKey
from tests import factories
from tests.factories import Client

POOL = {
    "slug": "new",
    "name": "New",
    "resources": [{"name": "cpu"}],
    "policy": {"name": "drfh"},
}


def code(response: Any) -> tuple[int, str]:
    """Status and code of an answer that is a problem, whole and consistent."""
    assert response["Content-Type"] == "application/problem+json", response.content
    document = response.json()
    assert document["status"] == response.status_code
    assert document["request_id"] == response["X-Request-Id"]
    assert document["type"].endswith(document["code"])
    assert {"title", "detail", "instance", "errors"} <= document.keys()
    return response.status_code, document["code"]


def test_without_a_key_nothing_is_answered(anonymous, db):
    response = anonymous.get("/api/v1/pools/")
    assert code(response) == (401, "auth.missing")
    assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header",
    ["Basic YTpi", "Bearer", "Bearer x", "Bearer " + "x" * 10_000, "Bearer ä", "bearer a b"],
)
def test_what_is_no_key_is_not_known(header, anonymous, db):
    response = anonymous.get("/api/v1/pools/", Authorization=header)
    assert code(response) == (401, "auth.invalid")


@pytest.mark.parametrize(
    ("field", "expected"), [("revoked_at", "auth.revoked"), ("expires_at", "auth.expired")]
)
def test_a_dead_key_says_why_it_is_dead(field, expected, operator):
    ApiKey.objects.update(**{field: utc_now() - timedelta(seconds=1)})
    response = operator.get("/api/v1/pools/")
    assert code(response) == (401, expected)
    assert response["WWW-Authenticate"] == "Bearer"


def test_a_key_ends_at_the_instant_of_its_expiry(operator, settings, tmp_path):
    expiry = ApiKey.objects.get().expires_at
    clock = tmp_path / "clock"
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, clock_file=str(clock))
    clock.write_text((expiry - timedelta(microseconds=1)).isoformat())
    assert operator.get("/api/v1/pools/").status_code == 200
    clock.write_text(expiry.isoformat())
    assert code(operator.get("/api/v1/pools/")) == (401, "auth.expired")


def test_the_scheme_may_be_written_in_any_case(operator):
    assert (
        Client(None).get("/api/v1/pools/", Authorization=f"bEARER {operator.key}").status_code
        == 200
    )


def test_a_key_under_another_scheme_is_not_taken(operator):
    response = Client(None).get("/api/v1/pools/", Authorization=f"Basic {operator.key}")
    assert code(response) == (401, "auth.invalid")


def test_a_key_costs_one_query_and_another_once_a_minute(operator, django_assert_num_queries):
    """The other one notes the minute in which the key was used."""
    with time_machine.travel(utc_now(), tick=False):
        with django_assert_num_queries(2):
            operator.get("/api/v1/policies/")
        with django_assert_num_queries(1):
            operator.get("/api/v1/policies/")


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_no_writes_is_still_read(operator):
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
        try:
            assert operator.get("/api/v1/pools/").status_code == 200
        finally:
            cursor.execute("SET default_transaction_read_only = off")
    assert ApiKey.objects.get().last_used_at is None
    assert operator.get("/api/v1/pools/").status_code == 200
    assert ApiKey.objects.get().last_used_at is not None


def test_the_scope_is_judged_before_the_body_is_read(world):
    response = world.as_ada.send("POST", "/api/v1/pools/", b"{nonsense", content_type="text/html")
    assert code(response) == (403, "auth.scope")
    response = world.as_ada.patch("/api/v1/pools/lab/", b"[" * 1000, If_Match="nonsense")
    assert code(response) == (403, "auth.scope")


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/api/", "/api/v1/nothing/", "/api/v2/pools/", "/api/v1/pools", "/api/v1/pools//"],
)
def test_unknown_paths_are_problems(path, operator):
    assert code(operator.get(path)) == (404, "not_found")


def test_a_post_without_the_slash_is_not_redirected_to_a_get(operator):
    response = operator.post("/api/v1/pools", POOL)
    assert code(response) == (404, "not_found")
    assert response.json()["detail"] == "There is nothing at this path. Paths end in a slash."


@pytest.mark.parametrize("method", ["DELETE", "PUT", "OPTIONS", "TRACE", "PURGE"])
def test_a_method_that_a_route_lacks_is_405_with_those_it_has(method, operator):
    response = operator.send(method, "/api/v1/pools/")
    assert code(response) == (405, "method.not_allowed")
    assert response["Allow"] == "GET, POST, HEAD"


def test_head_answers_like_get_without_a_body(operator):
    response = operator.send("HEAD", "/api/v1/pools/")
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
        "application/json; charset=latin-1", "text/csv", "application/merge-patch+json", "",
        "application/jsonx",
    ],
)  # fmt: skip
def test_other_content_types_are_415_and_nothing_is_made(content_type, operator):
    response = operator.send("POST", "/api/v1/pools/", POOL_BYTES, content_type=content_type)
    assert code(response) == (415, "content_type.unsupported")
    assert not Pool.objects.exists()


POOL_BYTES = b'{"slug":"new","name":"New","resources":[{"name":"cpu"}],"policy":{"name":"drfh"}}'


def test_json_may_name_its_charset(operator):
    response = operator.send(
        "POST", "/api/v1/pools/", POOL_BYTES, content_type="application/json; charset=UTF-8"
    )
    assert response.status_code == 201


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", "json.syntax"),
        (b'{"name": NaN}', "json.number"),
        (b'{"name": "\\u0000"}', "json.nul"),
        (b'{"name": "\\ud800"}', "json.surrogate"),
        (b'{"a":' * 1000 + b"1" + b"}" * 1000, "json.depth"),
        (b'{"slug": "a", "slug": "b"}', "json.duplicate"),
        (b'{"slug": "\xff"}', "json.encoding"),
    ],
)
def test_what_is_not_strict_json_is_400_and_nothing_is_made(body, expected, operator):
    response = operator.send("POST", "/api/v1/pools/", body)
    assert code(response) == (400, expected)
    assert not Pool.objects.exists()


def test_a_body_over_its_limit_is_413(operator):
    response = operator.post("/api/v1/pools/", b'"' + b"a" * 2**20 + b'"')
    assert code(response) == (413, "request.too_large")
    assert response.json()["detail"] == "The body is larger than 1 MiB: split the request."


def test_bulk_routes_take_larger_bodies(world):
    response = world.as_ada.post("/api/v1/pools/lab/servers/", b'"' + b"a" * 2**20 + b'"')
    assert code(response) == (422, "field.type")


def test_a_wrong_content_length_is_400(operator):
    response = operator._client.generic(
        "POST",
        "/api/v1/pools/",
        POOL_BYTES,
        content_type="application/json",
        **{"CONTENT_LENGTH": "5000", "wsgi.input": BytesIO(POOL_BYTES)},
    )
    assert code(response) == (400, "request.truncated")


def test_chunks_are_read_when_the_server_has_taken_them_apart(operator):
    chunked: dict[str, Any] = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    arguments = ["POST", "/api/v1/pools/", POOL_BYTES, "application/json"]
    refused = operator._client.generic(*arguments, **chunked)
    assert code(refused) == (411, "request.length_required")
    chunked |= {"wsgi.input": BytesIO(POOL_BYTES), "wsgi.input_terminated": True}
    made = operator._client.generic(*arguments, **chunked)
    assert made.status_code == 201


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("colour=red", "parameter.unknown"),
        ("limit=1&limit=2", "parameter.twice"),
        ("limit=0", "parameter.value"),
        ("limit=1001", "parameter.value"),
        ("limit=-1", "parameter.value"),
        ("limit=1_0", "parameter.value"),
        ("limit=%D9%A1", "parameter.value"),
        ("limit=1e2", "parameter.value"),
        ("limit=" + "9" * 31, "parameter.value"),
        ("limit=" + "9" * 5000, "parameter.value"),
        ("limit=", "parameter.value"),
        ("cursor=x", "cursor.invalid"),
        ("cursor=%00", "parameter.value"),
        ("cursor=W10", "cursor.invalid"),
        ("cursor=" + "A" * 5000, "parameter.value"),
    ],
)
def test_bad_parameters_are_400(query, expected, operator):
    assert code(operator.get(f"/api/v1/pools/?{query}")) == (400, expected)


def test_a_bad_parameter_is_named(operator):
    assert operator.get("/api/v1/pools/?colour=red").json()["parameter"] == "colour"


def test_parameters_are_refused_where_there_are_none(operator):
    assert code(operator.get("/api/v1/pools/nowhere/?x=1")) == (400, "parameter.unknown")
    assert code(operator.post("/api/v1/pools/?dry_run=true", POOL)) == (400, "parameter.unknown")
    assert not Pool.objects.exists()


def test_a_cursor_of_another_list_is_refused(operator):
    for slug in ("a", "b"):
        factories.tenant(slug)
        factories.pool(slug)
    cursor = operator.get("/api/v1/tenants/?limit=1")["X-Next-Cursor"]
    assert code(operator.get(f"/api/v1/pools/?cursor={cursor}")) == (400, "cursor.invalid")


@pytest.mark.parametrize("path", ["/api/v1/pools/?format=xml", "/api/v1/policies/?format=api"])
def test_an_unknown_format_is_406(path, operator):
    assert code(operator.get(path)) == (406, "format.not_acceptable")


def test_an_unknown_accept_is_406_and_problems_ignore_accept(operator):
    assert code(operator.get("/api/v1/pools/", Accept="text/html")) == (
        406,
        "format.not_acceptable",
    )
    assert code(operator.get("/api/v1/pools/nowhere/", Accept="*/*")) == (404, "pool.not_found")
    assert code(operator.get("/api/v1/pools/?x=1", Accept="text/csv")) == (400, "parameter.unknown")


def test_a_single_object_has_no_csv(world):
    response = world.as_ada.get("/api/v1/pools/lab/?format=csv")
    assert code(response) == (406, "format.not_acceptable")


def test_a_request_id_is_echoed_and_a_bad_one_replaced(operator):
    assert operator.get("/api/v1/pools/", X_Request_Id="abc-1")["X-Request-Id"] == "abc-1"
    for bad in ("a b", "a" * 129, "ä", ""):
        assert len(operator.get("/api/v1/pools/", X_Request_Id=bad)["X-Request-Id"]) == 36


def test_an_unexpected_exception_is_a_problem_without_a_trace(operator, monkeypatch):
    def broken(tenant):
        raise RuntimeError("secret")

    monkeypatch.setattr("api.v1.pools.pools_for", broken)
    response = operator.get("/api/v1/pools/")
    assert code(response) == (500, "internal")
    assert b"secret" not in response.content


def test_a_database_that_does_not_answer_is_503_with_retry_after(operator, monkeypatch):
    def broken(tenant):
        raise OperationalError("couldn't get a connection after 3.00 sec")

    monkeypatch.setattr("api.v1.pools.pools_for", broken)
    response = operator.get("/api/v1/pools/")
    assert code(response) == (503, "database.unavailable")
    assert response["Retry-After"] == "1"


def test_a_statement_that_takes_too_long_is_503(operator, monkeypatch):
    def slow(tenant):
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = '20ms'")
            cursor.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr("api.v1.pools.pools_for", slow)
    assert code(operator.get("/api/v1/pools/")) == (503, "database.unavailable")


def test_answers_are_not_kept_by_caches(operator):
    response = operator.get("/api/v1/pools/")
    assert response["Cache-Control"] == "no-store"
    assert response["Vary"].startswith("Accept, Authorization")
