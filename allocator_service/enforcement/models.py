"""Models of agents, their reports, and drifts from decisions."""

import zlib
from datetime import datetime, timedelta
from typing import Any, Self

import orjson
from django.db import models
from django.db.models import F, Q

from allocator_service.allocation.models import Run
from allocator_service.core.display import instant_text
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

SILENT_INTERVALS = 3


class AgentQuerySet(models.QuerySet["Agent"]):
    def present(self) -> Self:
        """Return the agents that are not retired, or report again.

        A process of the release before stores a report and leaves `retired_at`.
        """
        return self.filter(Q(retired_at=None) | Q(received_at__gt=F("retired_at")))


class Agent(models.Model):
    """A program beside a scheduler that applies a pool's decisions, created by its first report.

    `cluster` is the one that it applies decisions to, empty for all of the pool. `reported_at` is by its
    clock, `received_at` by the service's. It reports every `interval_seconds`. `silent_event_at` is the
    time of the event about its present silence. An operator retires an agent that will not report again.
    If it reports all the same, it is present again.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="agents")
    name = models.CharField(max_length=63)
    target = models.CharField(max_length=20)
    class_label = models.CharField(max_length=253)
    cluster = models.CharField(max_length=253, blank=True, default="", db_default="")
    interval_seconds = models.PositiveIntegerField()
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    generation = models.PositiveBigIntegerField(null=True)
    reported_at = models.DateTimeField()
    received_at = models.DateTimeField()
    silent_event_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    objects = AgentQuerySet.as_manager()

    class Meta:
        db_table = "enforcement_agent"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "name"], name="agent_name_unique"),
            models.CheckConstraint(
                condition=Q(interval_seconds__gt=0),
                name="agent_interval_positive",
                violation_error_code="duration.zero",
                violation_error_message="A duration must be longer than zero.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.pool}"

    @property
    def patience(self) -> timedelta:
        """The longest silence of the agent, and duration of a drift, before an event is recorded."""
        return SILENT_INTERVALS * timedelta(seconds=self.interval_seconds)

    def is_stale(self, now: datetime) -> bool:
        """Return whether it has been silent for more than three of its intervals."""
        return now - self.received_at > self.patience


class Report(models.Model):
    """The report of an agent over `[reported_at, repeated_at]`, as it was at the end.

    Reports with equal content are one row, and so are those of five minutes.

    `content` is zlib-compressed JSON: `tenants` with decimal texts in the pool's units, `problems`.
    """

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="reports")
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    reported_at = models.DateTimeField()
    repeated_at = models.DateTimeField()
    content = models.BinaryField()

    class Meta:
        db_table = "enforcement_report"
        ordering = ["-id"]
        indexes = [models.Index(fields=["repeated_at"], name="report_by_age")]

    def __str__(self) -> str:
        return f"{self.agent} at {instant_text(self.repeated_at, precision='second')}"

    @property
    def document(self) -> dict[str, Any]:
        """The content of the report."""
        document: dict[str, Any] = orjson.loads(zlib.decompress(self.content))
        return document


class Watch(models.Model):
    """The decision in force in a pool and the newest report when its drift was last evaluated.

    `received_at` is null before the first look. `looked_at` is the time of the last look at clusters,
    and `watched_since` that of the first without a longer interruption before it.
    """

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="watch")
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    received_at = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    watched_since = models.DateTimeField(null=True)

    class Meta:
        db_table = "enforcement_watch"

    def __str__(self) -> str:
        return str(self.pool)


class Drift(models.Model):
    """A tenant whose scheduler differs from the decision since an instant.

    `told_at` is the time of its event, null before it.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="drifts")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="drifts")
    since = models.DateTimeField()
    told_at = models.DateTimeField(null=True)
    payload = models.JSONField()

    class Meta:
        db_table = "enforcement_drift"
        constraints = [
            models.UniqueConstraint(fields=["pool", "tenant"], name="drift_one_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.tenant} since {instant_text(self.since, precision='second')}"


class Blockage(models.Model):
    """A tenant whose jobs wait in the scheduler although more was decided than it uses.

    `since` is the last look at which its use had risen, and `told_at` is the time of its event.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="blockages")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="blockages")
    since = models.DateTimeField()
    told_at = models.DateTimeField(null=True)
    payload = models.JSONField()

    class Meta:
        db_table = "enforcement_blockage"
        constraints = [
            models.UniqueConstraint(fields=["pool", "tenant"], name="blockage_one_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.tenant} since {instant_text(self.since, precision='second')}"
