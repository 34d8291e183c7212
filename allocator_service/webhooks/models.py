"""Webhooks, their secrets and queues, and deliveries. The row of a delivery is its job."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from allocator_service.core.display import instant_text
from allocator_service.core.ids import new_id
from allocator_service.core.models import Event
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Scope, Tenant

MAX_URL = 2_000


class DisabledBecause(models.TextChoices):
    REQUESTED = "requested"
    FAILING = "failing"
    GONE = "gone"


class WebhookScope(models.TextChoices):
    """Keys that manage a webhook besides those of its tenant and of operators."""

    OPERATOR = Scope.OPERATOR.value
    BILLING = Scope.BILLING.value


class Webhook(models.Model):
    """A subscription of a URL to events.

    A tenant's webhook gets the events that a key of the tenant may see. Without a tenant it gets
    all events, as operator and billing keys do. Delivery begins after the event of sequence `since`.
    `failing_since` is the instant of the first failure after the last success.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="webhooks")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="webhooks")
    scope = models.CharField(
        max_length=10,
        choices=WebhookScope.choices,
        default=WebhookScope.OPERATOR,
        db_default=WebhookScope.OPERATOR,
    )
    url = models.CharField(max_length=MAX_URL)
    events = ArrayField(models.TextField())
    disabled_at = models.DateTimeField(null=True)
    disabled_because = models.CharField(max_length=10, choices=DisabledBecause.choices, default="")
    failing_since = models.DateTimeField(null=True)
    since = models.BigIntegerField()
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook"
        ordering = ["-id"]
        indexes = [models.Index(fields=["tenant", "id"], name="webhook_by_tenant")]
        constraints = [
            models.CheckConstraint(
                condition=Q(disabled_at=None, disabled_because="")
                | Q(disabled_at__isnull=False, disabled_because__in=DisabledBecause.values),
                name="webhook_disabled_because",
            ),
            # A tenant sees its webhooks, so one of billing keys must have none.
            models.CheckConstraint(
                condition=Q(scope=WebhookScope.OPERATOR)
                | Q(scope=WebhookScope.BILLING, tenant=None),
                name="webhook_billing_without_tenant",
            ),
        ]

    def __str__(self) -> str:
        return self.url[:100]


class WebhookSecret(models.Model):
    """The nonce from which a webhook's secret is derived with SECRET_KEY.

    `digest` detects a changed SECRET_KEY. The present secret has no `expires_at`; the previous one
    signs as well until its own.
    """

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="secrets")
    nonce = models.BinaryField()
    digest = models.BinaryField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_secret"
        constraints = [
            models.UniqueConstraint(
                fields=["webhook"], condition=Q(expires_at=None), name="webhook_secret_one_present"
            )
        ]

    def __str__(self) -> str:
        return f"secret of {self.webhook_id}"


class WebhookQueue(models.Model):
    """The due time and the lease of a webhook's next request.

    `due_at` is null without pending deliveries. `failures` counts consecutive failures. `slow`
    marks a webhook whose last answer took long; such webhooks have threads of their own. `token`
    fences the outcome of the claim that holds the lease through `claimed_until`.
    """

    webhook = models.OneToOneField(Webhook, models.CASCADE, primary_key=True, related_name="queue")
    due_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    slow = models.BooleanField(default=False)
    claimed_until = models.DateTimeField(null=True)
    token = models.UUIDField(null=True)

    class Meta:
        db_table = "webhook_queue"
        indexes = [
            models.Index(
                fields=["slow", "due_at"],
                condition=Q(due_at__isnull=False),
                name="webhook_queue_due",
            )
        ]

    def __str__(self) -> str:
        return f"queue of {self.webhook_id}"


class DeliveryState(models.TextChoices):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Delivery(models.Model):
    """One event for one webhook, or a test if `event` is null.

    `attempts` lists `at`, `status` (null without an answer), `error` and `milliseconds` of each
    attempt. `due_at` is the time of the next attempt, `give_up_at` that of the last one.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(Event, models.CASCADE, null=True, related_name="+")
    kind = models.TextField()
    sequence = models.BigIntegerField(default=0)
    state = models.CharField(
        max_length=9, choices=DeliveryState.choices, default=DeliveryState.PENDING
    )
    attempts = models.JSONField(default=list)
    due_at = models.DateTimeField()
    give_up_at = models.DateTimeField()
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_delivery"
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["webhook", "-id"], name="delivery_by_webhook"),
            models.Index(
                fields=["webhook", "sequence", "id"],
                condition=Q(state="pending"),
                name="delivery_pending",
            ),
            models.Index(
                fields=["created_at"], condition=Q(state="pending"), name="delivery_oldest"
            ),
            models.Index(fields=["state", "finished_at"], name="delivery_finished"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "event"], name="delivery_once"),
            models.CheckConstraint(
                condition=Q(state__in=DeliveryState.values), name="delivery_state_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {instant_text(self.created_at, precision='second')}"


class DeliveryCursor(models.Model):
    """The sequence of the last event whose deliveries were created. The table has one row."""

    sequence = models.BigIntegerField(default=0)

    class Meta:
        db_table = "webhook_cursor"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="webhook_cursor_one"),
        ]

    def __str__(self) -> str:
        return str(self.sequence)
