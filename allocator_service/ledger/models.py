"""The usage ledger: entries that are only ever added, and the one order in which they are read.

`ledger_entry` is partitioned by the month in which an entry's interval starts; identities and the
sealed order are tables of their own, because PostgreSQL cannot keep them unique across partitions.
The migration makes what Django has no words for: partitions, triggers, privileges.
"""

from django.db import models
from django.db.models import Q

from allocator_service.core.ids import new_id
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload


class Kind(models.TextChoices):
    """What an entry tells: what was used, what would have been used alone, or what was wrong."""

    USAGE = "usage"
    ALONE = "alone"
    CORRECTION = "correction"


class Entry(models.Model):
    """An amount of one resource, `quantity` over `[start, end)`; `amount` is that times seconds.

    `server_owner` contributed the servers, null for the pool's own or where that is not known. An
    entry of kind `correction` adds to the one that it `corrects`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="entries")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="entries")
    server_owner = models.ForeignKey(Tenant, models.PROTECT, null=True, related_name="lent_entries")
    workload = models.ForeignKey(Workload, models.PROTECT, null=True, related_name="entries")
    resource = models.CharField(max_length=63)
    unit = models.CharField(max_length=20)
    quantity = models.DecimalField(max_digits=36, decimal_places=12)
    start = models.DateTimeField()
    end = models.DateTimeField()
    amount = models.DecimalField(max_digits=48, decimal_places=18)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    corrects = models.UUIDField(null=True)
    reason = models.TextField(default="")
    source = models.CharField(max_length=200)
    event_id = models.CharField(max_length=200, null=True)  # noqa: DJ001 - null is "of no event"
    run_id = models.UUIDField(null=True)
    recorded_at = models.DateTimeField()

    class Meta:
        db_table = "ledger_entry"
        verbose_name_plural = "entries"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.resource}: {self.amount}"


class Identity(models.Model):
    """The identity of a posted event, kept permanently; `digest` is of its content."""

    # The unique constraint's index begins with it.
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    source = models.CharField(max_length=200)
    event_id = models.CharField(max_length=200)
    digest = models.BinaryField()

    class Meta:
        db_table = "ledger_identity"
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "source", "event_id"], name="ledger_identity_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.source}/{self.event_id}"


class PendingEntry(models.Model):
    """Names an entry that is to be sealed; written in the entry's own transaction."""

    entry_id = models.UUIDField(primary_key=True)
    start = models.DateTimeField()

    class Meta:
        db_table = "ledger_pending"

    def __str__(self) -> str:
        return str(self.entry_id)


class Seal(models.Model):
    """The place of a committed entry in the order that consumers read: gapless and permanent."""

    sequence = models.BigIntegerField(primary_key=True)
    entry_id = models.UUIDField()
    start = models.DateTimeField()
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    block = models.PositiveBigIntegerField()

    class Meta:
        db_table = "ledger_seal"
        ordering = ["sequence"]
        indexes = [
            models.Index(fields=["pool", "sequence"], name="ledger_seal_by_pool"),
            models.Index(fields=["tenant", "sequence"], name="ledger_seal_by_tenant"),
        ]
        constraints = [models.UniqueConstraint(fields=["entry_id"], name="ledger_seal_once")]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.entry_id}"


class _PublishedDecision(models.Model):
    """A decision as the chain names it: which run, from when in force, and the digests of its proof.

    `input` and `answer` are SHA-256 of the two parts of `GET /runs/{run}/proof/`.
    """

    run_id = models.UUIDField(primary_key=True)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    generation = models.PositiveBigIntegerField()
    effective_from = models.DateTimeField()
    input = models.BinaryField()
    answer = models.BinaryField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.run_id)


class PendingDecision(_PublishedDecision):
    """A decision that is to be sealed; written in the transaction that publishes it."""

    class Meta:
        db_table = "ledger_decision_pending"


class SealedDecision(_PublishedDecision):
    """A decision in the block of its pool's chain whose digest covers it."""

    block = models.PositiveBigIntegerField()

    class Meta:
        db_table = "ledger_decision"
        indexes = [models.Index(fields=["pool", "block"], name="ledger_decision_by_block")]


class _DigestedDocument(models.Model):
    """A stored document as the chain names it: what it is, and the SHA-256 of its bytes.

    The app that stores the document gives it its kind and its name, which is unique within the kind.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=200)
    sha256 = models.BinaryField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class PendingDocument(_DigestedDocument):
    """A document's digest that is to be sealed; written in the transaction that stores the document."""

    class Meta:
        db_table = "ledger_document_pending"


class SealedDocument(_DigestedDocument):
    """A document's digest in the block of its pool's chain whose own digest covers it."""

    block = models.PositiveBigIntegerField()

    class Meta:
        db_table = "ledger_document"
        indexes = [
            models.Index(fields=["pool", "block"], name="ledger_document_by_block"),
            models.Index(fields=["pool", "kind", "name"], name="ledger_document_by_name"),
        ]


class Block(models.Model):
    """What was sealed together of one pool, chained to what was before by a digest.

    A block holds entries, decisions and digests of documents. `format` says what its own digest is of
    (`ledger.intake.chain`). A block without entries has no sequences.
    """

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    number = models.PositiveBigIntegerField()
    format = models.PositiveSmallIntegerField(db_default=1)
    first_sequence = models.BigIntegerField(null=True)
    last_sequence = models.BigIntegerField(null=True)
    entries = models.PositiveIntegerField()
    decisions = models.PositiveIntegerField(db_default=0)
    documents = models.PositiveIntegerField(db_default=0)
    digest = models.BinaryField()
    sealed_at = models.DateTimeField()

    class Meta:
        db_table = "ledger_block"
        ordering = ["pool", "number"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "number"], name="ledger_block_number_unique"),
            models.CheckConstraint(
                condition=Q(entries__gt=0) | Q(decisions__gt=0) | Q(documents__gt=0),
                name="ledger_block_holds_something",
            ),
            models.CheckConstraint(
                condition=Q(entries=0, first_sequence=None, last_sequence=None)
                | Q(entries__gt=0, first_sequence__isnull=False, last_sequence__isnull=False),
                name="ledger_block_sequences_of_entries",
            ),
        ]

    def __str__(self) -> str:
        return f"block {self.number} of {self.pool}"


class Total(models.Model):
    """How the rate of use changed within one bucket of time, of one tenant and resource.

    An entry raises the rate by its quantity at its start and lowers it at its end, so that it counts
    in two buckets of a level however long it lasts. `rate` is the sum of these changes, `moment` that
    of change × seconds since 1970, `decayed` that of the changes, each worth half per half-life until
    the bucket's end. What was used before an instant t is the sum of `t × rate - moment` over the
    buckets before it. Derived from the entries by `totals_advance`, like `OwnerTotal`: the tables of the
    ledger that may be thrown away.
    """

    pk = models.CompositePrimaryKey("pool_id", "level", "bucket", "tenant_id", "resource", "kind")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    level = models.PositiveSmallIntegerField()
    bucket = models.BigIntegerField()
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    resource = models.CharField(max_length=63)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    rate = models.DecimalField(max_digits=48, decimal_places=12)
    moment = models.DecimalField(max_digits=60, decimal_places=18)
    decayed = models.FloatField(null=True)

    class Meta:
        db_table = "ledger_total"
        indexes = [
            models.Index(fields=["pool", "tenant", "level", "bucket"], name="total_by_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.resource} in {self.level}/{self.bucket}"


class OwnerTotal(models.Model):
    """How the use of one owner's servers by one tenant changed within one bucket of time.

    As `Total`, of what was used (kind `usage`) on servers that a tenant contributed. What is in `Total`
    and not here ran on the pool's own servers, or it is not known where.
    """

    pk = models.CompositePrimaryKey(
        "pool_id", "level", "bucket", "owner_id", "tenant_id", "resource"
    )
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    level = models.PositiveSmallIntegerField()
    bucket = models.BigIntegerField()
    owner = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    resource = models.CharField(max_length=63)
    rate = models.DecimalField(max_digits=48, decimal_places=12)
    moment = models.DecimalField(max_digits=60, decimal_places=18)

    class Meta:
        db_table = "ledger_owner_total"
        indexes = [
            models.Index(
                fields=["pool", "tenant", "level", "bucket"], name="owner_total_by_tenant"
            ),
            models.Index(fields=["pool", "owner", "level", "bucket"], name="owner_total_by_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.resource} of {self.owner_id} in {self.level}/{self.bucket}"


class TotalsCursor(models.Model):
    """Up to which number of the sealed order a pool's entries are in its totals.

    `owner_through` is that of `OwnerTotal`: the same, but for a time where one of the two is made anew.
    `half_life` (seconds) is what `Total.decayed` was made with.
    """

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="+")
    through = models.BigIntegerField(default=0)
    owner_through = models.BigIntegerField(default=0, db_default=0)
    half_life = models.FloatField(null=True)

    class Meta:
        db_table = "ledger_totals_cursor"

    def __str__(self) -> str:
        return f"{self.pool_id} through {self.through}"
