"""Metrics for Prometheus, of the web process and of the database. No tenant is named.

Requests are counted per process; the library adds them up in PROMETHEUS_MULTIPROC_DIR, which
`./dev serve` and docker-compose.yml set.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db.models import Count, Min
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY, Collector
from prometheus_client.values import ValueClass

from allocator_service.allocation.models import Heartbeat, Run, RunStatus
from allocator_service.core.clock import utc_now
from allocator_service.enforcement.models import Blockage, Drift
from allocator_service.enforcement.selectors import agents_of_open_pools
from allocator_service.pools.recompute import DECISION_JOBS
from allocator_service.webhooks.selectors import delivery_counts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REQUESTS = Counter("allocation_http_requests", "Requests answered.", ["method", "route", "status"])
SECONDS = Histogram(
    "allocation_http_request_seconds",
    "Seconds to answer a request.",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)
STANDBY_READS = Counter(
    "allocation_standby_reads",
    "Reads that were sent to the standby, by the server that answered.",
    ["server"],
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MetricsMiddleware:
    """Counts and times every request by its route."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        # The pattern, not the path: ids in labels would make a series for each object.
        route = match.route if match else "unknown"
        method = str(request.method)
        # A client may send any word as a method, and each would be a series that stays.
        method = method if method in _METHODS else "other"
        REQUESTS.labels(method, route, response.status_code).inc()
        SECONDS.labels(route).observe(time.perf_counter() - started)
        return response


class DatabaseCollector(Collector):
    """Metrics that the database holds, equal in every process."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        now = utc_now()
        jobs = DECISION_JOBS.open_rows().aggregate(count=Count("pk"), oldest=Min("run_after"))
        yield GaugeMetricFamily(
            "allocation_recompute_jobs_waiting",
            "Pools whose changes are not yet in a decision.",
            value=jobs["count"],
        )
        yield GaugeMetricFamily(
            "allocation_recompute_overdue_seconds",
            "How long the oldest of them has been due.",
            value=_age(jobs["oldest"], now),
        )
        yield GaugeMetricFamily(
            "allocation_runs_in_force",
            "Pools with a decision in force.",
            value=Run.objects.filter(status=RunStatus.SUCCEEDED, effective_until=None).count(),
        )
        counts = delivery_counts(failed_since=now - timedelta(days=1))
        for name, what, value in (
            ("pending", "Requests of webhooks that wait.", counts["pending"]),
            ("oldest_seconds", "How long the oldest of them waits.", _age(counts["oldest"], now)),
            ("failed", "Given up in the last 24 hours.", counts["failed"]),
            ("disabled", "Webhooks that are disabled.", counts["disabled"]),
        ):
            yield GaugeMetricFamily(f"allocation_webhooks_{name}", what, value=value)
        agents = agents_of_open_pools()
        yield GaugeMetricFamily(
            "allocation_enforcement_agents",
            "Agents that apply decisions to schedulers.",
            value=len(agents),
        )
        yield GaugeMetricFamily(
            "allocation_enforcement_agents_stale",
            "Those of them that have been silent for more than three of their intervals.",
            value=sum(agent.is_stale(now) for agent in agents),
        )
        yield GaugeMetricFamily(
            "allocation_enforcement_drifts",
            "Tenants whose scheduler has lacked the decision for so long that an event was sent.",
            value=Drift.objects.filter(told_at__isnull=False).count(),
        )
        yield GaugeMetricFamily(
            "allocation_enforcement_blocked",
            "Tenants whose jobs wait for three intervals although more was decided than they use.",
            value=Blockage.objects.filter(told_at__isnull=False).count(),
        )
        beats = GaugeMetricFamily(
            "allocation_heartbeat_age_seconds",
            "Since a background process was last seen at work.",
            labels=["process"],
        )
        for beat in Heartbeat.objects.all():
            beats.add_metric([beat.process], _age(beat.seen_at, now))
        yield beats


def exposition() -> bytes:
    """All metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(DatabaseCollector())
    own: CollectorRegistry = REGISTRY
    # Several web processes share their counters by files; a scrape reaches one of them.
    if "MultiProcess" in ValueClass.__name__:
        own = CollectorRegistry()
        MultiProcessCollector(own)  # type: ignore[no-untyped-call]
    return bytes(generate_latest(own) + generate_latest(registry))


def _age(since: datetime | None, now: datetime) -> float:
    # A job may be due in the future, and the clocks of two machines may differ.
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
