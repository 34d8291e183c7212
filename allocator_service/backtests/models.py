"""Backtests with their inputs and cells, and comparisons of policies."""

from django.db import models
from django.db.models import Q

from allocator_service.allocation.models import Run
from allocator_service.billing.models import PricePlan
from allocator_service.core.display import instant_text
from allocator_service.core.ids import new_id
from allocator_service.core.jobs import Job
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import ApiKey, Tenant


class BacktestStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (BacktestStatus.QUEUED, BacktestStatus.RUNNING)


class Backtest(Job):
    """A backtest of policies with one demand on the same servers.

    It belongs to the holder of `key`. Without a key it belongs to `started_by`, a person of `tenant` or,
    without one, a user of the admin. `spec` is the request without the trace's content. `input`
    describes the input, with its digest. `result` is set once it has succeeded. `prepared_at` is when
    the input was read and the cells were made, `served_at` when a worker last began work on it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=200, blank=True)
    key = models.ForeignKey(ApiKey, models.PROTECT, null=True, related_name="backtests")
    started_by = models.CharField(max_length=150, blank=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="backtests")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="backtests")
    plan = models.ForeignKey(PricePlan, models.PROTECT, null=True, related_name="backtests")
    spec = models.JSONField()
    status = models.CharField(
        max_length=9, choices=BacktestStatus.choices, default=BacktestStatus.QUEUED
    )
    served_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    prepared_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    pruned_at = models.DateTimeField(null=True)
    input = models.JSONField(null=True)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)

    class Meta:
        db_table = "backtest"
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["published_at"],
                condition=Q(status__in=["queued", "running"]),
                name="backtest_due",
            ),
            # Lists of a key are newest first, in the order of the index.
            models.Index(fields=["key", "-id"], name="backtest_by_key"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="queued", prepared_at=None)
                | Q(status="running", prepared_at__isnull=False)
                | Q(status="succeeded", result__isnull=False, input__isnull=False)
                | Q(status="failed", error__isnull=False)
                | Q(status="cancelled"),
                name="backtest_status_has_its_parts",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["queued", "running"]) ^ Q(finished_at__isnull=False),
                name="backtest_finished_has_time",
            ),
            models.CheckConstraint(
                condition=Q(status="succeeded") | Q(result=None), name="backtest_result_is_whole"
            ),
        ]

    def __str__(self) -> str:
        return self.name or f"Backtest of {instant_text(self.created_at)}"


class BacktestInput(models.Model):
    """The input of a backtest, as the uploaded trace, gzip-compressed, and as the scenario made of it.

    `uploaded` is deleted once it is read, `prepared` after the retention of runs.
    """

    backtest = models.OneToOneField(
        Backtest, models.CASCADE, primary_key=True, related_name="content"
    )
    uploaded = models.BinaryField(null=True)
    prepared = models.BinaryField(null=True)

    class Meta:
        db_table = "backtest_input"

    def __str__(self) -> str:
        return str(self.pk)


class CellStatus(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Cell(Job):
    """One simulation of a backtest, of the policy at position `policy` in its spec with a seed.

    `progress` is the part of its tasks that have ended. `jobs` are the completion times that other
    policies are compared with, kept until the backtest is finished.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    backtest = models.ForeignKey(Backtest, models.CASCADE, related_name="cells")
    position = models.PositiveIntegerField()
    policy = models.PositiveIntegerField()
    seed = models.BigIntegerField()
    status = models.CharField(max_length=9, choices=CellStatus.choices, default=CellStatus.QUEUED)
    progress = models.FloatField(default=0)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    seconds = models.FloatField(null=True)
    result = models.JSONField(null=True)
    jobs = models.BinaryField(null=True)
    error = models.JSONField(null=True)

    class Meta:
        db_table = "backtest_cell"
        ordering = ["backtest", "position"]
        indexes = [
            models.Index(
                fields=["published_at"],
                condition=Q(status__in=["queued", "running"]),
                name="backtest_cell_due",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["backtest", "position"], name="backtest_cell_position_unique"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["queued", "running"])
                | Q(status="succeeded", result__isnull=False, finished_at__isnull=False)
                | Q(status="failed", error__isnull=False, finished_at__isnull=False),
                name="backtest_cell_has_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.backtest_id}/{self.position}"


class ComparisonStatus(models.TextChoices):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class PolicyComparison(Job):
    """Tasks of a pool's workloads under other policies, computed from the input of a decision.

    A pool has one, of the decision `run`. While a newer one is computed, `result` is that of an earlier
    decision, `result_run`. It has the tasks by tenant and workload, in the order of its policies.
    """

    pool = models.OneToOneField(
        Pool, models.PROTECT, primary_key=True, related_name="policy_comparison"
    )
    run = models.ForeignKey(Run, models.PROTECT, related_name="+")
    status = models.CharField(
        max_length=9, choices=ComparisonStatus.choices, default=ComparisonStatus.PENDING
    )
    requested_at = models.DateTimeField()
    result = models.JSONField(null=True)
    result_run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    computed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        db_table = "policy_comparison"
        indexes = [
            models.Index(
                fields=["published_at"], condition=Q(status="pending"), name="policy_comparison_due"
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="pending")
                | Q(status="succeeded", result__isnull=False, result_run__isnull=False)
                | Q(status="failed") & ~Q(error=""),
                name="policy_comparison_has_outcome",
            )
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} {self.status}"
