"""Routes for health, readiness and metrics, outside the versions of the API."""

import hmac
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.long_term.metering import LATE
from allocator_service.allocation.selectors import SILENCE, heartbeat_age_seconds
from allocator_service.allocation.services import METERING
from allocator_service.core.clock import utc_now
from allocator_service.settings.databases import time_limits, uses_pooler
from allocator_service.tenants.models import Scope
from api.auth import authenticated_caller
from api.contract.answers import TEXT, Answer
from api.contract.errors import Unauthenticated
from api.contract.operations import Operation, describe, shows
from api.limiter import redis_client
from api.metrics import CONTENT_TYPE, exposition
from api.views import OpenView
from policies.fields import ChoiceField, Document, DocumentField

log = structlog.get_logger(__name__)

# A hanging broker only degrades the service, so that a probe must not wait for it.
PING_SECONDS = 0.2

OK, DEGRADED, FAILED = "ok", "degraded", "failed"


class StatusDocument(Document):
    status = ChoiceField(choices=[OK])


class ChecksDocument(Document):
    database = ChoiceField(choices=[OK, FAILED])
    migrations = ChoiceField(choices=[OK, FAILED])
    broker = ChoiceField(choices=[OK, DEGRADED])
    worker = ChoiceField(choices=[OK, DEGRADED])
    relay = ChoiceField(choices=[OK, DEGRADED])
    sender = ChoiceField(choices=[OK, DEGRADED])
    backtests = ChoiceField(choices=[OK, DEGRADED])
    metering = ChoiceField(choices=[OK, DEGRADED])


class ReadinessDocument(Document):
    status = ChoiceField(choices=[OK, DEGRADED, FAILED])
    checks = DocumentField(ChecksDocument)


class HealthView(OpenView):
    @shows(StatusDocument, "Is the process alive", headers=())
    def get(self, request: Request) -> Response:
        """Answer that the process is alive.

        It needs no key and checks nothing else; `/readyz` states whether the service can serve
        requests.
        """
        return Response({"status": OK})


class ReadinessView(OpenView):
    @describe(
        Operation(
            "show",
            "Is the service ready",
            Answer(ReadinessDocument),
            other_answers={HTTPStatus.SERVICE_UNAVAILABLE: ReadinessDocument},
        )
    )
    def get(self, request: Request) -> Response:
        """Report whether the service can serve requests, with the state of everything it works with.

        It needs no key. The answer is 503 only when the database does not answer or migrations are
        missing. The broker, worker, relay, sender, metering and the worker of backtests can be
        `degraded`: requests are still served, while decisions, the ledger, events, webhooks or
        backtests may come late.
        """
        checks = readiness()
        states = set(checks.values())
        status = next((state for state in (FAILED, DEGRADED) if state in states), OK)
        code = HTTPStatus.SERVICE_UNAVAILABLE if status == FAILED else HTTPStatus.OK
        # Degraded is 200: a load balancer must not take every web process away for a missing relay.
        headers = {"Retry-After": "1"} if status == FAILED else None
        return Response({"status": status, "checks": checks}, code, headers=headers)


def readiness() -> dict[str, str]:
    """Return the state of each part of the service. Only the first two prevent it from serving."""
    database = _holds(_database_answers, otherwise=FAILED)
    # Without a database the question would wait for a second connection to fail.
    migrated = database == OK and _holds(_migrations_applied, otherwise=FAILED) == OK
    return {
        "database": database,
        "migrations": OK if migrated else FAILED,
        "broker": OK if _broker_answers() else DEGRADED,
        **{name: _heartbeat(name) if migrated else DEGRADED for name in SILENCE},
        "metering": _metering() if migrated else DEGRADED,
    }


def _holds(check: Callable[[], bool], *, otherwise: str) -> str:
    try:
        return OK if check() else otherwise
    except (DatabaseError, InterfaceError):
        return otherwise


def _database_answers() -> bool:
    """Return whether the database answers, and a pooler before it sets time limits."""
    limits = time_limits(settings.ENVIRONMENT) if uses_pooler(settings.ENVIRONMENT) else {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(limits)])
        found = {name: int(limit) for name, limit in cursor}
    if all(0 < limit <= limits[name] for name, limit in found.items()):
        return True
    log.error("pooler_without_time_limits", found=found, at_most=limits)
    return False


class _Migrations:
    """The state of migrations, which are never reversed and so are looked up until they are applied."""

    applied = False


def _migrations_applied() -> bool:
    # Building the graph of migrations is too slow for each probe.
    if not _Migrations.applied:
        executor = MigrationExecutor(connection)
        _Migrations.applied = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _Migrations.applied


def _broker_answers() -> bool:
    try:
        return bool(redis_client(settings.REDIS_CLIENT_URL, PING_SECONDS).ping())
    except redis.RedisError:
        return False


def _heartbeat(process: str) -> str:
    def recent() -> bool:
        age = heartbeat_age_seconds(process=process, now=utc_now())
        return age is not None and age < SILENCE[process].total_seconds()

    return _holds(recent, otherwise=DEGRADED)


def _metering() -> str:
    """Return whether metering is on time in every pool. Before the first decision it is."""

    def in_time() -> bool:
        age = heartbeat_age_seconds(process=METERING, now=utc_now())
        return age is None or age < LATE.total_seconds()

    return _holds(in_time, otherwise=DEGRADED)


class MetricsView(OpenView):
    """For an operator's key, or for the token of the settings."""

    @describe(
        Operation(
            "show",
            "Metrics, for Prometheus",
            Answer(formats=TEXT),
            problems=(401,),
        )
    )
    def get(self, request: Request) -> HttpResponse:
        """Give the metrics of the service in the text format of Prometheus.

        It takes an operator's key that is bound to no pool, or the `METRICS_TOKEN` of the settings as
        the bearer token; anything else answers 401 `auth.metrics`. No metric names a tenant.
        """
        if not (_has_token(request) or _is_operator(request)):
            raise Unauthenticated(
                "Metrics are read with an operator's key or the METRICS_TOKEN.", code="auth.metrics"
            )
        return HttpResponse(exposition(), content_type=CONTENT_TYPE)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # Prometheus asks for formats of its own, which no renderer has, and takes the text all the same.
        return super().perform_content_negotiation(request, force=True)


def _has_token(request: HttpRequest | Request) -> bool:
    token = settings.ENVIRONMENT.metrics_token
    sent = request.headers.get("Authorization", "").partition(" ")[2].strip()
    # In constant time, or its duration would reveal how much of a guess is right. An unset token
    # must not admit an empty one.
    return bool(token) and hmac.compare_digest(sent.encode(), token.encode())


def _is_operator(request: Request) -> bool:
    caller = authenticated_caller(request)
    # Metrics are of all pools, which a key of one pool must not see.
    return caller is not None and caller.scope == Scope.OPERATOR and not caller.pool
