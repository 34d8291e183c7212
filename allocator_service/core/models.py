"""Models that all apps share, for the outbox, the audit and the limits of users to pools."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from allocator_service.core.display import instant_text
from allocator_service.core.ids import new_id


class Event(models.Model):
    """An event, written in the transaction that caused it and kept.

    `tenant` is the tenant who may see it. Null means operators and billing only.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.TextField()
    pool = models.SlugField(max_length=63, null=True)  # noqa: DJ001 - null is "of no pool"
    tenant = models.SlugField(max_length=63, null=True)  # noqa: DJ001 - null is "of no tenant"
    payload = models.JSONField(default=dict)
    occurred_at = models.DateTimeField()
    request_id = models.TextField(blank=True, default="")

    class Meta:
        db_table = "core_event"
        ordering = ["-id"]
        indexes = [models.Index(fields=["pool", "-id"], name="event_by_pool")]

    def __str__(self) -> str:
        return f"{self.kind} {instant_text(self.occurred_at, precision='second')}"


class PendingEvent(models.Model):
    """A mark of an event that is to be sealed, written in the event's own transaction."""

    event = models.OneToOneField(Event, models.CASCADE, primary_key=True, related_name="+")

    class Meta:
        db_table = "core_event_pending"

    def __str__(self) -> str:
        return str(self.event_id)


class EventSeal(models.Model):
    """The place of a committed event in the single order of feeds, gapless and never changed."""

    sequence = models.BigIntegerField(primary_key=True)
    event = models.OneToOneField(Event, models.CASCADE, related_name="seal")

    class Meta:
        db_table = "core_event_seal"
        ordering = ["sequence"]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.event_id}"


class AuditEntry(models.Model):
    """A change with its actor, object, states before and after, and reason, written once."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    reason = models.TextField(blank=True, default="")
    action = models.CharField(max_length=40)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=40)
    object_name = models.CharField(max_length=300)
    pool = models.SlugField(max_length=63, null=True)  # noqa: DJ001 - null is "of no pool"
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(encoder=DjangoJSONEncoder)
    request_id = models.TextField(blank=True, default="")

    class Meta:
        db_table = "core_audit_entry"
        verbose_name_plural = "audit entries"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_type", "object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["pool", "-id"], name="audit_by_pool"),
        ]

    def __str__(self) -> str:
        return f"{self.action} of {self.object_name} by {self.actor}"


class FormerKey(models.Model):
    """The primary key that an object of an imported pool had until an instant in another installation.

    Audit rows and digests of price plans from before name the object by it. `pool` is the pool's slug,
    and `key` the primary key here.
    """

    pool = models.SlugField(max_length=63)
    object_type = models.CharField(max_length=40)
    key = models.BigIntegerField()
    former = models.BigIntegerField()
    until = models.DateTimeField()

    class Meta:
        db_table = "core_former_key"
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "object_type", "key", "until"], name="former_key_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.object_type} {self.former} of {self.pool} until {self.until}"


class IdempotencyClaim(models.Model):
    """The stored answer to a POST with an `Idempotency-Key`, written in the effect's transaction."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    holder = models.UUIDField()
    method = models.CharField(max_length=10)
    path = models.TextField()
    key = models.CharField(max_length=255)
    body_digest = models.BinaryField()
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        db_table = "core_idempotency_claim"
        constraints = [
            models.UniqueConstraint(
                fields=["holder", "method", "path", "key"],
                name="idempotency_claim_once",
                violation_error_code="idempotency.in_flight",
                violation_error_message="A request with this Idempotency-Key is being served.",
            )
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotency_claim_by_age")]

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.key}"


class PoolLimit(models.Model):
    """The pools that a user of the admin is limited to. A user without a limit sees all.

    With an empty list the user sees nothing.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="pool_limit"
    )
    pools = ArrayField(models.SlugField(max_length=63), default=list)

    class Meta:
        db_table = "core_pool_limit"

    def __str__(self) -> str:
        return f"{self.user}: {', '.join(self.pools) or 'no pool'}"


class SavedFilter(models.Model):
    """A filter of a list of the admin that a user stores under a name.

    Only this user sees it. `list_name` is the label of the model that the list is of.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_filters")
    list_name = models.CharField(max_length=100)
    name = models.CharField(max_length=80)
    query = models.CharField(max_length=2_000)

    class Meta:
        db_table = "core_saved_filter"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "list_name", "name"], name="saved_filter_name_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.list_name}: {self.name}"
