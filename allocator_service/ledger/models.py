"""The usage ledger, with insert-only entries in one sealed order.

`ledger_entry` is partitioned by the month in which an entry's interval starts. Identities and the
sealed order are tables of their own, because PostgreSQL cannot keep them unique across partitions.
Partitions, triggers and privileges are in the migration, since Django has no words for them.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from allocator_service.core.display import instant_text
from allocator_service.core.ids import new_id
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload

SOURCE_LENGTH = 200


class Kind(models.TextChoices):
    """The kinds of entries. An entry `alone` is what the tenant would have used without sharing."""

    USAGE = "usage"
    ALONE = "alone"
    CORRECTION = "correction"


class Entry(models.Model):
    """An amount of one resource over `[start, end)`.

    `amount` is `quantity` times seconds. `server_owner` contributed the servers. It is null for the
    pool's own and if the owner is not known. An entry of kind `correction` adds to the entry that
    it `corrects`.
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
    source = models.CharField(max_length=SOURCE_LENGTH)
    event_id = models.CharField(max_length=200, null=True)  # noqa: DJ001 - null is "of no event"
    run_id = models.UUIDField(null=True)
    recorded_at = models.DateTimeField()

    class Meta:
        db_table = "ledger_entry"
        verbose_name_plural = "entries"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.resource}: {decimal_text(self.amount)}"


class Identity(models.Model):
    """The permanent identity of a posted event. `digest` is that of its content."""

    # Without an index of its own: that of the unique constraint begins with the pool.
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


class UsageSource(models.Model):
    """The cluster whose agents post the usage of a source."""

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    source = models.CharField(max_length=200)
    cluster = models.CharField(max_length=253)

    class Meta:
        db_table = "ledger_usage_source"
        constraints = [
            models.UniqueConstraint(fields=["pool", "source"], name="usage_source_of_one_cluster")
        ]

    def __str__(self) -> str:
        return f"{self.source} of {self.cluster}"


class PendingEntry(models.Model):
    """An entry that waits for its seal, written in the entry's transaction."""

    entry_id = models.UUIDField(primary_key=True)
    start = models.DateTimeField()

    class Meta:
        db_table = "ledger_pending"

    def __str__(self) -> str:
        return str(self.entry_id)


class Seal(models.Model):
    """The permanent place of a committed entry in the gapless order that consumers read.

    An installation numbers the entries of all its pools in one order. The entries of a pool that was
    imported keep the numbers of the installation that they come from, which other pools may have here.
    """

    entry_id = models.UUIDField(primary_key=True)
    sequence = models.BigIntegerField()
    start = models.DateTimeField()
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    block = models.PositiveBigIntegerField()

    class Meta:
        db_table = "ledger_seal"
        ordering = ["sequence", "pool"]
        indexes = [
            models.Index(fields=["sequence", "pool"], name="ledger_seal_by_number"),
            models.Index(fields=["tenant", "sequence"], name="ledger_seal_by_tenant"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["pool", "sequence"], name="ledger_seal_of_pool")
        ]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.entry_id}"


class LedgerImport(models.Model):
    """The numbers of the entries that came with a pool from another installation.

    There are `entries` of them, of which `through` is the last, 0 without any. `numbered` is the last
    number that this installation had given before.
    """

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="+")
    archive = models.UUIDField()
    imported_at = models.DateTimeField()
    entries = models.BigIntegerField()
    through = models.BigIntegerField()
    numbered = models.BigIntegerField()

    class Meta:
        db_table = "ledger_import"

    def __str__(self) -> str:
        return f"{self.entries:,} entries of {self.pool}"


class _PublishedDecision(models.Model):
    """A decision in the chain, with the digests of its proof.

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
    """A decision that waits for its seal, written in the transaction that publishes it."""

    class Meta:
        db_table = "ledger_decision_pending"


class SealedDecision(_PublishedDecision):
    """A decision in the block of its pool's chain whose digest covers it."""

    block = models.PositiveBigIntegerField()

    class Meta:
        db_table = "ledger_decision"
        indexes = [models.Index(fields=["pool", "block"], name="ledger_decision_by_block")]


class _DigestedDocument(models.Model):
    """The digest of a stored document in the chain.

    The app that stores the document determines its kind and its name, which is unique within the
    kind.
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
    """A document's digest that waits for its seal, written in the document's transaction."""

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
    """Entries, decisions and digests of documents of one pool that were sealed together.

    The digest covers the digest of the block before. `format` determines the bytes that it covers
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


class _ArchivedRange(models.Model):
    """The number of archived entries and the ranges in which they lie."""

    entries = models.BigIntegerField()
    first_sequence = models.BigIntegerField()
    last_sequence = models.BigIntegerField()
    first_start = models.DateTimeField()
    last_end = models.DateTimeField()

    class Meta:
        abstract = True


class Archive(_ArchivedRange):
    """A Parquet file with entries of a month that have left the database.

    `name` is that of the file in the directory of archives. `sha256` is of its bytes, `lines_sha256` of
    the lines that its entries have in the NDJSON export.
    """

    name = models.CharField(max_length=100)
    month = models.DateField()
    size = models.BigIntegerField()
    sha256 = models.BinaryField()
    lines_sha256 = models.BinaryField()
    archived_at = models.DateTimeField()

    class Meta:
        db_table = "ledger_archive"
        ordering = ["month", "pk"]
        constraints = [models.UniqueConstraint(fields=["name"], name="ledger_archive_name_unique")]

    def __str__(self) -> str:
        return self.name


class ArchivedPool(_ArchivedRange):
    """The entries of one pool in an archive, with the sums of their amounts by resource and kind."""

    archive = models.ForeignKey(Archive, models.CASCADE, related_name="pools")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    amounts = models.JSONField()

    class Meta:
        db_table = "ledger_archived_pool"

    def __str__(self) -> str:
        return f"{self.archive}: {self.pool}"


class Meter(models.Model):
    """The instant through which a pool's decisions are metered, as entries and open uses."""

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="meter")
    metered_until = models.DateTimeField()

    class Meta:
        db_table = "pool_meter"

    def __str__(self) -> str:
        return f"{self.pool_id} until {instant_text(self.metered_until, precision='second')}"


class OpenUse(models.Model):
    """Use of a tenant that has been unchanged since `start` and is not appended as entries yet.

    The arrays have one element for each entry to be: those that would be written together, in their
    order. An open use lasts through `Meter.metered_until`. When it changes, or an hour ends, it is
    closed: its entries are appended, and the row is deleted. `run_id` is the decision at `start`.
    `clusters` are those of the servers, null where the decision has none.
    """

    pk = models.CompositePrimaryKey("pool_id", "tenant_id")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+", db_index=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    run_id = models.UUIDField()
    start = models.DateTimeField()
    workloads = ArrayField(models.UUIDField(null=True))
    owners = ArrayField(models.BigIntegerField(null=True))
    resources = ArrayField(models.CharField(max_length=63))
    units = ArrayField(models.CharField(max_length=20))
    kinds = ArrayField(models.CharField(max_length=10, choices=Kind.choices))
    quantities = ArrayField(models.DecimalField(max_digits=36, decimal_places=12))
    clusters = ArrayField(models.CharField(max_length=253, null=True), null=True)

    class Meta:
        db_table = "ledger_open_use"

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} in pool {self.pool_id} since {self.start}"


class Total(models.Model):
    """Changes of one tenant's rate of use of a resource within one bucket of time.

    An entry raises the rate by its quantity at its start and lowers it at its end, so that it
    counts in two buckets of a level however long it lasts. `rate` is the sum of these changes and
    `moment` that of change × seconds since 1970. `decayed` is the sum of the changes, each halved
    per half-life until the bucket's end. The use before an instant t is the sum of `t × rate -
    moment` over the buckets before it.

    `Total` and `OwnerTotal` are derived from the entries by `totals_advance`, and can be deleted
    and built again.
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
    """Changes of one tenant's rate of use of one owner's servers within one bucket of time.

    The columns are those of `Total`, for entries of kind `usage` on servers that a tenant
    contributed. Use that is in `Total` but not here was on the pool's own servers, or on unknown
    ones.
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
    """The sequence through which a pool's entries are in its totals.

    `owner_through` is the sequence of `OwnerTotal`. The two differ only while one of the tables is
    built again. `half_life` is that of `Total.decayed`, in seconds.
    """

    pool = models.OneToOneField(Pool, models.PROTECT, primary_key=True, related_name="+")
    through = models.BigIntegerField(default=0)
    owner_through = models.BigIntegerField(default=0, db_default=0)
    half_life = models.FloatField(null=True)

    class Meta:
        db_table = "ledger_totals_cursor"

    def __str__(self) -> str:
        return f"{self.pool_id} through {self.through}"
