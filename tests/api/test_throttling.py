"""The limits of a key, and that Redis is never a condition for an answer."""

import dataclasses
import socket
import time
from uuid import uuid4

import pytest

from allocator_service.tenants.models import Tenant
from api import auth, throttling
from api import limiter as limits
from api.limiter import Limiter, limiter
from tests import factories
from tests.api.v1.test_conventions import code


@pytest.fixture
def slow(settings):
    """One request every 100 s, after a burst of three."""
    settings.ENVIRONMENT = dataclasses.replace(
        settings.ENVIRONMENT, throttle_rate=0.01, throttle_burst=3
    )


def test_after_its_burst_a_key_waits_and_others_do_not(slow, operator):
    assert [operator.get("/api/v1/pools/").status_code for _ in range(3)] == [200] * 3
    refused = operator.get("/api/v1/pools/")
    assert code(refused) == (429, "throttled")
    assert 95 <= int(refused["Retry-After"]) <= 100
    assert factories.client("operator").get("/api/v1/pools/").status_code == 200


def test_a_refused_request_changes_nothing_and_is_not_counted(slow, operator):
    for number in range(6):
        operator.post("/api/v1/tenants/", {"slug": f"t{number}", "name": "T"})
    assert Tenant.objects.count() == 3
    assert int(operator.get("/api/v1/pools/")["Retry-After"]) <= 100


def test_the_rate_refills(settings):
    key = uuid4()
    waits = [limiter().wait_seconds(key=key, rate=50, burst=2) for _ in range(3)]
    assert waits[:2] == [0, 0]
    assert 0 < waits[2] <= 0.02
    time.sleep(waits[2])
    assert limiter().wait_seconds(key=key, rate=50, burst=2) == 0


def test_open_routes_and_bad_keys_are_not_throttled(slow, anonymous, db):
    assert [anonymous.get("/healthz").status_code for _ in range(6)] == [200] * 6
    assert [anonymous.get("/api/v1/pools/").status_code for _ in range(6)] == [401] * 6


def test_a_network_that_sends_unknown_keys_waits_and_live_keys_pass(operator, db, monkeypatch):
    network = f"test-{uuid4()}"  # of its own: Redis keeps what it has counted
    monkeypatch.setattr(auth, "client_network", lambda _: network)
    monkeypatch.setattr(auth, "UNKNOWN_KEY_RATE", 0.1)
    monkeypatch.setattr(auth, "UNKNOWN_KEY_BURST", 10)
    answers = [factories.Client(f"alloc_{number}").get("/api/v1/pools/") for number in range(20)]
    assert [code(each) for each in answers[:10]] == [(401, "auth.invalid")] * 10
    assert code(answers[-1]) == (429, "throttled")
    assert int(answers[-1]["Retry-After"]) >= 1
    assert operator.get("/api/v1/pools/").status_code == 200
    assert factories.client("operator").get("/api/v1/pools/").status_code == 200


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "unix:///nowhere/redis.sock"])
def test_without_redis_everything_passes_and_costs_nothing(url, operator, monkeypatch):
    away = Limiter(url)
    monkeypatch.setattr(throttling, "limiter", lambda: away)
    monkeypatch.setattr("api.v1.evaluations.limiter", lambda: away)
    assert operator.get("/api/v1/pools/").status_code == 200
    started = time.perf_counter()
    assert [away.wait_seconds(key=uuid4(), rate=1, burst=1) for _ in range(1000)] == [0] * 1000
    assert time.process_time() - started < 0.1
    with away.evaluation(holder=str(uuid4())) as admitted:
        assert admitted


def test_a_frozen_redis_costs_one_timeout(monkeypatch):
    monkeypatch.setattr(limits, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        port = frozen.getsockname()[1]
        away = Limiter(f"redis://127.0.0.1:{port}/0")
        started = time.perf_counter()
        assert [away.wait_seconds(key=uuid4(), rate=1, burst=1) for _ in range(100)] == [0] * 100
        assert time.perf_counter() - started < 2  # a timeout for each would be 5 s


def test_redis_is_asked_again_after_a_pause(monkeypatch, settings):
    monkeypatch.setattr(limits, "PAUSE_SECONDS", 0.05)
    back = Limiter(settings.REDIS_CLIENT_URL)
    working = back._client
    back._client = limits.redis_client("redis://127.0.0.1:1/0", 0.05)
    key = uuid4()
    assert back.wait_seconds(key=key, rate=0.01, burst=1) == 0
    back._client = working
    assert back.wait_seconds(key=key, rate=0.01, burst=1) == 0
    time.sleep(0.06)
    assert back.wait_seconds(key=key, rate=0.01, burst=1) == 0
    assert back.wait_seconds(key=key, rate=0.01, burst=1) > 0


def test_a_place_that_nobody_gave_back_is_free_after_its_lease(monkeypatch, settings):
    monkeypatch.setattr(limits, "EVALUATION_LEASE_SECONDS", 1)
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, evaluations_at_once=1)
    key = uuid4()
    lost = limiter().evaluation(holder=str(key))
    assert lost.__enter__()
    with limiter().evaluation(holder=str(key)) as admitted:
        assert not admitted
    time.sleep(1.1)
    with limiter().evaluation(holder=str(key)) as admitted:
        assert admitted


def passes(limiters, requests, key):
    """How many of some requests in a row pass, sent to the processes in turn."""
    return sum(
        limiters[number % len(limiters)].wait_seconds(key=key, rate=0.01, burst=200) == 0
        for number in range(requests)
    )


def test_one_process_counts_exactly_though_it_tells_redis_of_several_at_a_time(settings):
    assert passes([Limiter(settings.REDIS_CLIENT_URL)], 400, uuid4()) == 200


def test_processes_that_do_not_know_of_each_other_s_last_requests_let_few_more_pass(settings):
    processes = [Limiter(settings.REDIS_CLIENT_URL) for _ in range(3)]
    assert 200 <= passes(processes, 600, uuid4()) <= 220
