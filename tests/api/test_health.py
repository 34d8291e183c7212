"""Health, readiness, metrics, schema and docs."""

import dataclasses
import re
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.migrations.executor import MigrationExecutor

from allocator_service.allocation.models import Heartbeat
from allocator_service.allocation.services import heartbeat_record
from allocator_service.core.clock import utc_now
from api import health
from tests import factories
from tests.api.v1.test_conventions import code
from tests.unit.deploy.watching import watched

READY = {"database": "ok", "migrations": "ok", "broker": "ok", "worker": "ok", "relay": "ok",
         "sender": "ok", "backtests": "ok", "metering": "ok"}  # fmt: skip


@pytest.fixture
def beating(db):
    for process in ("worker", "relay", "sender", "backtests"):
        heartbeat_record(process=process, now=utc_now())


def test_a_living_process_is_healthy_whatever_the_database_does(anonymous):
    assert anonymous.get("/healthz").json() == {"status": "ok"}


def test_all_at_work_is_ready(beating, anonymous):
    response = anonymous.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ok", "checks": READY})


@pytest.mark.parametrize("process", ["worker", "relay", "sender", "backtests"])
@pytest.mark.parametrize("silence", [None, 60])
def test_a_silent_process_degrades_and_does_not_stop_the_service(
    process, silence, beating, anonymous
):
    beats = Heartbeat.objects.filter(pk=process)
    if silence is None:
        beats.delete()
    else:
        beats.update(seen_at=utc_now() - timedelta(seconds=silence))
    response = anonymous.get("/readyz")
    expected = {"status": "degraded", "checks": {**READY, process: "degraded"}}
    assert (response.status_code, response.json()) == (200, expected)


def test_a_broker_that_is_away_degrades(beating, anonymous, settings):
    settings.REDIS_CLIENT_URL = "redis://127.0.0.1:1/0"
    response = anonymous.get("/readyz")
    expected = {"status": "degraded", "checks": {**READY, "broker": "degraded"}}
    assert (response.status_code, response.json()) == (200, expected)


def test_without_a_database_the_service_is_not_ready(beating, anonymous, monkeypatch):
    def away():
        raise OperationalError("connection refused")

    monkeypatch.setattr(health, "_database_answers", away)
    response = anonymous.get("/readyz")
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    assert response.json()["status"] == "failed"
    assert response.json()["checks"]["database"] == "failed"
    assert anonymous.get("/healthz").status_code == 200


def test_missing_migrations_keep_the_service_from_being_ready(beating, anonymous, monkeypatch):
    monkeypatch.setattr(health._Migrations, "applied", False)
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_: ["pools.0002"])
    response = anonymous.get("/readyz")
    assert (response.status_code, response.json()["checks"]["migrations"]) == (503, "failed")


def test_metrics_are_for_operators_and_the_token(world, operator, billing, anonymous, settings):
    for client in (world.as_ada, billing, anonymous):
        response = client.get("/metrics")
        assert code(response) == (401, "auth.metrics")
        assert response["WWW-Authenticate"] == "Bearer"
    assert anonymous.get("/metrics", Authorization="Bearer ").status_code == 401
    assert operator.get("/metrics").status_code == 200
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, metrics_token="t0ken")
    assert anonymous.get("/metrics", Authorization="Bearer t0ken").status_code == 200
    assert anonymous.get("/metrics", Authorization="Bearer t0kenx").status_code == 401


def test_metrics_count_requests_by_route_and_name_no_tenant(world, operator):
    world.as_ada.get("/api/v1/pools/lab/")
    text = operator.get("/metrics", Accept="application/openmetrics-text").content.decode()
    line = (
        'allocation_http_requests_total{method="GET",route="api/v1/pools/<str:pool>/",status="200"}'
    )
    assert line in text
    assert "allocation_recompute_jobs_waiting 2.0" in text
    ours = "".join(row for row in text.splitlines() if row.startswith("allocation_"))
    words = set(re.findall(r"[a-z0-9-]+", ours))
    assert words.isdisjoint({"ada", "bob", "eve", "analysis", "high-memory"})


@pytest.mark.django_db(transaction=True)
def test_metrics_tell_of_decisions_and_heartbeats(world, operator):
    factories.decision(world.lab)
    heartbeat_record(process="relay", now=utc_now())
    text = operator.get("/metrics").content.decode()
    assert "allocation_recompute_jobs_waiting 1.0" in text
    assert "allocation_runs_in_force 1.0" in text
    assert 'allocation_heartbeat_age_seconds{process="relay"} 0.' in text


def test_the_schema_and_its_page_are_open(anonymous, db):
    schema = anonymous.get("/api/v1/schema/?format=json")
    assert schema.json()["openapi"].startswith("3.1")
    page = anonymous.get("/api/v1/docs/")
    assert page.status_code == 200
    assert b"swagger-ui" in page.content
    assert b"https://" not in page.content


def test_browsers_may_do_nothing_with_answers_of_the_api(db):
    answer = factories.client().get("/api/v1/pools/")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_alerts_and_the_dashboard_ask_for_metrics_that_there_are(world, operator):
    world.as_ada.get("/api/v1/pools/lab/")
    heartbeat_record(process="worker", now=utc_now())
    text = operator.get("/metrics", Accept="application/openmetrics-text").content.decode()
    there = {re.split(r"[ {]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    assert watched() - there == set()
