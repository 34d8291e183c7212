"""Addresses that get mail about a tenant, with the lines of their next mail."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from allocator_service.core.ids import new_id
from allocator_service.tenants.models import ApiKey, Person, Tenant


class MailKind(models.TextChoices):
    """Kinds of news that a person chooses from."""

    ALLOCATION = "allocation", "My allocation fell"
    UNSATISFIABLE = "unsatisfiable", "A workload of mine cannot run"
    BLOCKED = "blocked", "My tasks are blocked in the scheduler"
    TAKEN_BACK = "taken_back", "My jobs get notice, or end for others"
    BUDGET = "budget", "A budget of mine reached a threshold"
    STATEMENT = "statement", "A statement or credit note was issued"
    WEEKLY = "weekly", "A summary every Monday"


class Subscription(models.Model):
    """An address that gets mail about a tenant, chosen by the holder of a key or by a person.

    It gets news only after its owner has confirmed it, and while the key or person may see the tenant.
    The end of a subscription deletes it.

    `due_at` is when the next mail is due, null if there is no news. `sent_at` is when the last one was
    sent, `weekly_at` when the next summary is due. `failures` counts attempts since the last success.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="subscriptions")
    key = models.ForeignKey(ApiKey, models.CASCADE, null=True, related_name="subscriptions")
    person = models.ForeignKey(Person, models.CASCADE, null=True, related_name="subscriptions")
    address = models.EmailField()
    kinds = ArrayField(models.CharField(max_length=20, choices=MailKind.choices))
    created_at = models.DateTimeField(editable=False)
    confirmed_at = models.DateTimeField(null=True, editable=False)
    due_at = models.DateTimeField(null=True, editable=False)
    sent_at = models.DateTimeField(null=True, editable=False)
    weekly_at = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    error = models.CharField(max_length=200, blank=True, default="", editable=False)

    class Meta:
        db_table = "mail_subscription"
        ordering = ["address", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "address"], name="mail_subscription_address_unique"
            ),
            models.CheckConstraint(
                condition=Q(key=None) ^ Q(person=None), name="mail_subscription_one_holder"
            ),
        ]
        indexes = [models.Index(fields=["due_at"], name="mail_subscription_due")]

    def __str__(self) -> str:
        return f"{self.address} about {self.tenant}"


class News(models.Model):
    """A line of the next mail of a subscription. It is deleted once it has been sent."""

    id = models.BigAutoField(primary_key=True)
    subscription = models.ForeignKey(Subscription, models.CASCADE, related_name="news")
    kind = models.CharField(max_length=20, choices=MailKind.choices)
    pool = models.CharField(max_length=63)
    text = models.CharField(max_length=500)
    at = models.DateTimeField()

    class Meta:
        db_table = "mail_news"
        ordering = ["id"]
        verbose_name_plural = "news"

    def __str__(self) -> str:
        return self.text


class MailState(models.Model):
    """The one row with the position in the events and the lease of the process that sends.

    `busy_until` is the end of the lease, or of the pause after the mail server could not be reached.
    `token` fences what a process records whose lease has ended.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    sequence = models.BigIntegerField()
    busy_until = models.DateTimeField(null=True)
    token = models.UUIDField(null=True)
    failures = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "mail_state"
        constraints = [models.CheckConstraint(condition=Q(id=1), name="mail_state_one_row")]

    def __str__(self) -> str:
        return f"mail up to event {self.sequence}"
