"""Models of charges, such as balanced postings, closed months and their statements.

Rows are only added. The migration's triggers and privileges enforce that, as for the ledger.
"""

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q

from allocator_service.billing.models.plans import PricePlan
from allocator_service.core.display import exact_text
from allocator_service.core.ids import new_id
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant

MONEY_DIGITS = 4


def money_field() -> "models.DecimalField[Decimal, Decimal]":
    """Return a field for an amount of the pool's currency, in whole minor units."""
    return models.DecimalField(max_digits=36, decimal_places=MONEY_DIGITS, default=Decimal(0))


class LineKind(models.TextChoices):
    """The reason why a line is on a statement."""

    USAGE = "usage"
    COMMITMENT = "commitment"
    UNUSED = "commitment_unused"
    UPFRONT = "upfront"
    FIXED = "fixed"
    ADJUSTMENT = "adjustment"
    REVERSAL = "reversal"
    RERATED = "rerated"
    CREDIT_NOTE = "credit_note"


DIFFERENCES = (LineKind.ADJUSTMENT, LineKind.REVERSAL, LineKind.RERATED)


class Posting(models.Model):
    """A line with amounts for four accounts in one currency, which add up to 0.

    A positive amount is due. `month` (its first day) is that of the statement that the line is on. The
    service was in `[start, end)`, in `service_month`. `amount` is unit × seconds, `price` per unit and
    hour, null where several held. `parts` are the price and the charged hours of each part of a line
    that is charged at several prices or for more than its amount. Lines of earlier releases have none.
    `effective` is the tenant's cost with upfront payments spread over their terms.

    A line of one of the `DIFFERENCES` changes what was billed for a closed month: `adjusted_kind` is the
    kind of line that it changes, `entries` are the late entries that caused it, and `entry` is set if
    there is one only.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    month = models.DateField()
    service_month = models.DateField()
    kind = models.CharField(max_length=17, choices=LineKind.choices)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    owner = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="+", db_index=False)
    plan = models.ForeignKey(PricePlan, models.PROTECT, null=True, related_name="+", db_index=False)
    resource = models.CharField(max_length=63, default="")
    unit = models.CharField(max_length=20, default="")
    start = models.DateTimeField()
    end = models.DateTimeField()
    amount = models.DecimalField(max_digits=60, decimal_places=18, default=Decimal(0))
    price = models.DecimalField(max_digits=24, decimal_places=12, null=True)
    parts = ArrayField(ArrayField(models.TextField(), size=2), null=True)
    currency = models.CharField(max_length=3)
    tenant_amount = money_field()
    owner_amount = money_field()
    fee_amount = money_field()
    pool_amount = money_field()
    effective = money_field()
    entry = models.UUIDField(null=True)
    # Defaults of the database: the release before does not know these columns.
    adjusted_kind = models.CharField(
        max_length=17, choices=LineKind.choices, default="", blank=True, db_default=""
    )
    entries = ArrayField(models.UUIDField(), null=True)
    commitment = models.ForeignKey(
        "Commitment", models.PROTECT, null=True, related_name="+", db_index=False
    )
    reverses = models.UUIDField(null=True)
    credit_note = models.ForeignKey(
        "CreditNote", models.PROTECT, null=True, related_name="postings", db_index=False
    )
    rerating = models.ForeignKey(
        "Rerating", models.PROTECT, null=True, related_name="postings", db_index=False
    )
    note = models.TextField(default="")

    class Meta:
        db_table = "billing_posting"
        ordering = ["id"]
        indexes = [
            models.Index(fields=["pool", "month"], name="posting_by_month"),
            models.Index(fields=["pool", "service_month"], name="posting_by_service"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    tenant_amount=-(F("owner_amount") + F("fee_amount") + F("pool_amount"))
                ),
                name="posting_balances",
            ),
            models.CheckConstraint(
                condition=Q(owner__isnull=False) | Q(owner_amount=0, fee_amount=0),
                name="posting_credits_an_owner",
            ),
            models.UniqueConstraint(
                fields=["reverses"],
                name="posting_reversed_once",
                violation_error_code="posting.reversed",
                violation_error_message="The line was reversed already.",
            ),
            models.CheckConstraint(
                condition=Q(reverses__isnull=True) | Q(kind__in=["reversal", "credit_note"]),
                name="posting_reversal_names_its_line",
            ),
            models.CheckConstraint(
                condition=Q(entry__isnull=True) | Q(kind="adjustment"),
                name="posting_adjusts_for_an_entry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {exact_text(self.tenant_amount)} {self.currency}"

    @property
    def rated_kind(self) -> str:
        """The kind of line that the amounts are of, whether billed at first or as a difference."""
        if self.kind in DIFFERENCES:
            return self.adjusted_kind or LineKind.USAGE
        return self.kind

    @property
    def commitment_key(self) -> int | None:
        """The commitment of the line, which postings of earlier releases have in the note only."""
        if self.commitment_id is not None:
            return self.commitment_id
        if self.kind in (LineKind.COMMITMENT, LineKind.UNUSED, LineKind.UPFRONT):
            return int(self.note.removeprefix("commitment "))
        return None


class Closing(models.Model):
    """A closed month of a pool, with the entries that are numbered through `sequence`.

    `is_new` is set on what `month_close` returns to the one caller that closed the month.
    """

    is_new = False
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="closings", db_index=False)
    month = models.DateField()
    start = models.DateTimeField()
    end = models.DateTimeField()
    sequence = models.BigIntegerField()
    closed_at = models.DateTimeField()
    document = models.BinaryField()

    class Meta:
        db_table = "billing_closing"
        ordering = ["pool", "month"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "month"],
                name="closing_once",
                violation_error_code="statement.closed",
                violation_error_message="The month is closed.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}"


class Manifest(models.Model):
    """The number and sums of the entries of a closed month, with a digest of their export."""

    closing = models.OneToOneField(
        Closing, models.PROTECT, primary_key=True, related_name="manifest"
    )
    document = models.BinaryField()

    class Meta:
        db_table = "billing_manifest"

    def __str__(self) -> str:
        return f"manifest of {self.closing}"


class Statement(models.Model):
    """A tenant's closed month as one document, from which every format is made."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    closing = models.ForeignKey(Closing, models.PROTECT, related_name="statements", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="statements")
    billed = money_field()
    document = models.BinaryField()

    class Meta:
        db_table = "billing_statement"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["closing", "tenant"], name="statement_once"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant}, {self.closing}"


class AuditedEntry(models.Model):
    """The closing that covers an audit row.

    The chain has a digest of the rows that each closing covers.
    """

    entry = models.OneToOneField(
        "core.AuditEntry", models.PROTECT, primary_key=True, related_name="+", db_constraint=False
    )
    closing = models.ForeignKey(Closing, models.PROTECT, related_name="+")

    class Meta:
        db_table = "billing_audited_entry"

    def __str__(self) -> str:
        return str(self.entry_id)


class CreditNote(models.Model):
    """A line that an operator added to the open month with a reason.

    `reverses` is the credit note that it reverses, if any.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="credit_notes")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    month = models.DateField()
    amount = money_field()
    reason = models.TextField()
    reverses = models.OneToOneField(
        "self", models.PROTECT, null=True, blank=True, related_name="reversal"
    )
    created_at = models.DateTimeField()

    class Meta:
        db_table = "billing_credit_note"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(reason=""),
                name="credit_note_has_reason",
                violation_error_code="credit_note.reason",
                violation_error_message="A credit note needs a reason.",
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=0) | Q(reverses__isnull=False, amount__lt=0),
                name="credit_note_positive",
                violation_error_code="credit_note.amount",
                violation_error_message="A credit note's amount is above 0.",
            ),
        ]

    def __str__(self) -> str:
        return f"{exact_text(self.amount)} {self.pool.currency} to {self.tenant}"


class Rerating(models.Model):
    """A backdated plan that was applied to closed months, by reversals and new postings."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="reratings")
    plan = models.OneToOneField(PricePlan, models.PROTECT, related_name="rerating")
    month = models.DateField()
    sequence = models.BigIntegerField()
    months = ArrayField(models.DateField())
    reason = models.TextField()
    changes = models.JSONField(encoder=DjangoJSONEncoder)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "billing_rerating"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(reason=""),
                name="rerating_has_reason",
                violation_error_code="rerating.reason",
                violation_error_message="A rerating needs a reason.",
            )
        ]

    def __str__(self) -> str:
        return f"closed months by {self.plan}"


class LateCursor(models.Model):
    """The number through which a pool's entries were searched for those of closed months."""

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="+")
    through = models.BigIntegerField()

    class Meta:
        db_table = "billing_late_cursor"

    def __str__(self) -> str:
        return f"{self.pool_id} through {self.through}"


class LateEntry(models.Model):
    """The number of an entry that came after its month was closed, derived from the sealed order."""

    entry_id = models.UUIDField(primary_key=True)
    sequence = models.BigIntegerField()
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    start = models.DateTimeField()

    class Meta:
        db_table = "billing_late_entry"
        indexes = [models.Index(fields=["pool", "sequence"], name="late_entry_by_pool")]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.entry_id}"
