"""The ledger's tables, with partitions, triggers and privileges, which Django has no words for."""

import allocator_service.core.ids
import django.db.models.deletion
from django.db import migrations, models

ENTRY = """
CREATE TABLE ledger_entry (
    id uuid NOT NULL,
    pool_id bigint NOT NULL REFERENCES pool DEFERRABLE INITIALLY DEFERRED,
    tenant_id bigint NOT NULL REFERENCES tenant DEFERRABLE INITIALLY DEFERRED,
    server_owner_id bigint REFERENCES tenant DEFERRABLE INITIALLY DEFERRED,
    workload_id uuid REFERENCES workload DEFERRABLE INITIALLY DEFERRED,
    resource varchar(63) NOT NULL,
    unit varchar(20) NOT NULL,
    quantity numeric(36, 12) NOT NULL,
    start timestamptz NOT NULL,
    "end" timestamptz NOT NULL,
    amount numeric(48, 18) NOT NULL,
    kind varchar(10) NOT NULL,
    corrects uuid,
    reason text NOT NULL,
    source varchar(200) NOT NULL,
    event_id varchar(200),
    run_id uuid,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (id, start),
    CONSTRAINT ledger_entry_lasts CHECK (start < "end"),
    CONSTRAINT ledger_entry_kind_known CHECK (kind IN ('usage', 'alone', 'correction')),
    CONSTRAINT ledger_entry_not_negative CHECK (quantity >= 0 OR kind = 'correction'),
    CONSTRAINT ledger_entry_corrects CHECK ((corrects IS NULL) = (kind <> 'correction')),
    CONSTRAINT ledger_entry_amount_exact
        CHECK (amount = quantity * extract(epoch FROM "end" - start))
) PARTITION BY RANGE (start);
CREATE INDEX ledger_entry_by_pool ON ledger_entry (pool_id, start);
CREATE INDEX ledger_entry_by_tenant ON ledger_entry (tenant_id, start);
CREATE INDEX ledger_entry_corrected ON ledger_entry (corrects) WHERE corrects IS NOT NULL;
CREATE INDEX ledger_entry_by_end ON ledger_entry (pool_id, "end");
"""

# A month's partition is created by the first transaction that writes into it, with the owner's rights.
# The catalogue is asked, because a negative answer of to_regclass may come from a cache that the wait for the
# lock does not renew. ATTACH lets writers of other partitions go on, where CREATE TABLE ... PARTITION OF would
# wait for their transactions, and they perhaps for this lock.
FUNCTIONS = """
CREATE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is only added to: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION ledger_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is only added to: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION ledger_insert_only(target regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    holder record;
BEGIN
    EXECUTE format('CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON %s'
                   ' EXECUTE FUNCTION ledger_refuse_truncate()', target);
    FOR holder IN
        SELECT DISTINCT pg_get_userbyid(acl.grantee) AS name
        FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = target AND acl.grantee <> pg_class.relowner AND acl.grantee <> 0
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON %s FROM %I', target, holder.name);
    END LOOP;
END $$;

CREATE FUNCTION ledger_partition(month date) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    first date := date_trunc('month', month)::date;
    name text := 'ledger_entry_' || to_char(first, 'YYYYMM');
BEGIN
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = 'ledger_entry'::regclass AND c.relname = name) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ledger_partition', 0));
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = 'ledger_entry'::regclass AND c.relname = name) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE ledger_entry INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
                   name);
    EXECUTE format('ALTER TABLE ledger_entry ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
                   first::timestamp AT TIME ZONE 'UTC',
                   (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
    PERFORM ledger_insert_only(name::regclass);
END $$;

-- What is left of 1 after so many seconds. So little that its product might be no double is 0.
CREATE FUNCTION ledger_weight(seconds float8, half_life float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN seconds / half_life > 400 THEN 0 ELSE power(2::float8, -seconds / half_life) END
$$;

-- Events are kept for some days. Younger ones cannot be deleted, with room for clocks that differ.
CREATE FUNCTION ledger_refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.occurred_at < now() - interval '12 hours' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'events are only added to: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION ledger_refuse_event_change();
DROP FUNCTION ledger_weight(float8, float8);
DROP FUNCTION ledger_partition(date);
DROP FUNCTION ledger_insert_only(regclass);
DROP FUNCTION ledger_refuse_truncate();
DROP FUNCTION ledger_refuse_change();
"""

# Row triggers of a partitioned table apply to every partition, its statement triggers do not.
INSERT_ONLY = "".join(
    f"""
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('{table}');
"""
    for table in (
        "ledger_entry", "ledger_identity", "ledger_seal", "ledger_block", "ledger_decision",
        "ledger_document", "core_audit_entry",
    )
)
EVENTS = """
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON core_event
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_event_change();
SELECT ledger_insert_only('core_event');
"""
# The application's role may delete old events; the trigger refuses young ones.
RETENTION = """
DO $$
DECLARE
    holder record;
BEGIN
    FOR holder IN
        SELECT DISTINCT pg_get_userbyid(acl.grantee) AS name
        FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = 'core_event'::regclass AND acl.privilege_type = 'INSERT'
          AND acl.grantee <> pg_class.relowner AND acl.grantee <> 0
    LOOP
        EXECUTE format('GRANT DELETE ON core_event TO %I', holder.name);
    END LOOP;
END $$;
"""



class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('core', '0001_initial'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
        ('workloads', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='PendingEntry',
            fields=[
                ('entry_id', models.UUIDField(primary_key=True, serialize=False)),
                ('start', models.DateTimeField()),
            ],
            options={
                'db_table': 'ledger_pending',
            },
        ),
        migrations.CreateModel(
            name='Seal',
            fields=[
                ('sequence', models.BigIntegerField(primary_key=True, serialize=False)),
                ('entry_id', models.UUIDField()),
                ('start', models.DateTimeField()),
                ('block', models.PositiveBigIntegerField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'ledger_seal',
                'ordering': ['sequence'],
                'indexes': [models.Index(fields=['pool', 'sequence'], name='ledger_seal_by_pool'), models.Index(fields=['tenant', 'sequence'], name='ledger_seal_by_tenant')],
                'constraints': [models.UniqueConstraint(fields=('entry_id',), name='ledger_seal_once')],
            },
        ),
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(max_length=200)),
                ('event_id', models.CharField(max_length=200)),
                ('digest', models.BinaryField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_identity',
                'constraints': [models.UniqueConstraint(fields=('pool', 'source', 'event_id'), name='ledger_identity_once')],
            },
        ),
        migrations.CreateModel(
            name='TotalsCursor',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='pools.pool')),
                ('through', models.BigIntegerField(default=0)),
                ('half_life', models.FloatField(null=True)),
                ('owner_through', models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                'db_table': 'ledger_totals_cursor',
            },
        ),
        migrations.CreateModel(
            name='PendingDecision',
            fields=[
                ('run_id', models.UUIDField(primary_key=True, serialize=False)),
                ('generation', models.PositiveBigIntegerField()),
                ('effective_from', models.DateTimeField()),
                ('input', models.BinaryField()),
                ('answer', models.BinaryField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_decision_pending',
            },
        ),
        migrations.CreateModel(
            name='SealedDecision',
            fields=[
                ('run_id', models.UUIDField(primary_key=True, serialize=False)),
                ('generation', models.PositiveBigIntegerField()),
                ('effective_from', models.DateTimeField()),
                ('input', models.BinaryField()),
                ('answer', models.BinaryField()),
                ('block', models.PositiveBigIntegerField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_decision',
                'indexes': [models.Index(fields=['pool', 'block'], name='ledger_decision_by_block')],
            },
        ),
        migrations.CreateModel(
            name='OwnerTotal',
            fields=[
                ('pk', models.CompositePrimaryKey('pool_id', 'level', 'bucket', 'owner_id', 'tenant_id', 'resource', blank=True, editable=False, primary_key=True, serialize=False)),
                ('level', models.PositiveSmallIntegerField()),
                ('bucket', models.BigIntegerField()),
                ('resource', models.CharField(max_length=63)),
                ('rate', models.DecimalField(decimal_places=12, max_digits=48)),
                ('moment', models.DecimalField(decimal_places=18, max_digits=60)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'ledger_owner_total',
                'indexes': [models.Index(fields=['pool', 'tenant', 'level', 'bucket'], name='owner_total_by_tenant'), models.Index(fields=['pool', 'owner', 'level', 'bucket'], name='owner_total_by_owner')],
            },
        ),
        migrations.CreateModel(
            name='Total',
            fields=[
                ('pk', models.CompositePrimaryKey('pool_id', 'level', 'bucket', 'tenant_id', 'resource', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('level', models.PositiveSmallIntegerField()),
                ('bucket', models.BigIntegerField()),
                ('resource', models.CharField(max_length=63)),
                ('kind', models.CharField(choices=[('usage', 'Usage'), ('alone', 'Alone'), ('correction', 'Correction')], max_length=10)),
                ('rate', models.DecimalField(decimal_places=12, max_digits=48)),
                ('moment', models.DecimalField(decimal_places=18, max_digits=60)),
                ('decayed', models.FloatField(null=True)),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'ledger_total',
                'indexes': [models.Index(fields=['pool', 'tenant', 'level', 'bucket'], name='total_by_tenant')],
            },
        ),
        migrations.CreateModel(
            name='Block',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveBigIntegerField()),
                ('first_sequence', models.BigIntegerField(null=True)),
                ('last_sequence', models.BigIntegerField(null=True)),
                ('entries', models.PositiveIntegerField()),
                ('digest', models.BinaryField()),
                ('sealed_at', models.DateTimeField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('decisions', models.PositiveIntegerField(db_default=0)),
                ('format', models.PositiveSmallIntegerField(db_default=1)),
                ('documents', models.PositiveIntegerField(db_default=0)),
            ],
            options={
                'db_table': 'ledger_block',
                'ordering': ['pool', 'number'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'number'), name='ledger_block_number_unique'), models.CheckConstraint(condition=models.Q(models.Q(('entries', 0), ('first_sequence', None), ('last_sequence', None)), models.Q(('entries__gt', 0), ('first_sequence__isnull', False), ('last_sequence__isnull', False)), _connector='OR'), name='ledger_block_sequences_of_entries'), models.CheckConstraint(condition=models.Q(('entries__gt', 0), ('decisions__gt', 0), ('documents__gt', 0), _connector='OR'), name='ledger_block_holds_something')],
            },
        ),
        migrations.CreateModel(
            name='PendingDocument',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=200)),
                ('sha256', models.BinaryField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_document_pending',
            },
        ),
        migrations.CreateModel(
            name='SealedDocument',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=200)),
                ('sha256', models.BinaryField()),
                ('block', models.PositiveBigIntegerField()),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_document',
                'indexes': [models.Index(fields=['pool', 'block'], name='ledger_document_by_block'), models.Index(fields=['pool', 'kind', 'name'], name='ledger_document_by_name')],
            },
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Entry',
                    fields=[
                        ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                        ('resource', models.CharField(max_length=63)),
                        ('unit', models.CharField(max_length=20)),
                        ('quantity', models.DecimalField(decimal_places=12, max_digits=36)),
                        ('start', models.DateTimeField()),
                        ('end', models.DateTimeField()),
                        ('amount', models.DecimalField(decimal_places=18, max_digits=48)),
                        ('kind', models.CharField(choices=[('usage', 'Usage'), ('alone', 'Alone'), ('correction', 'Correction')], max_length=10)),
                        ('corrects', models.UUIDField(null=True)),
                        ('reason', models.TextField(default='')),
                        ('source', models.CharField(max_length=200)),
                        ('event_id', models.CharField(max_length=200, null=True)),
                        ('run_id', models.UUIDField(null=True)),
                        ('recorded_at', models.DateTimeField()),
                        ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='pools.pool')),
                        ('server_owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='lent_entries', to='tenants.tenant')),
                        ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='tenants.tenant')),
                        ('workload', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='workloads.workload')),
                    ],
                    options={
                        'verbose_name_plural': 'entries',
                        'db_table': 'ledger_entry',
                        'ordering': ['-id'],
                    },
                ),
            ],
            database_operations=[migrations.RunSQL(ENTRY, 'DROP TABLE ledger_entry CASCADE')],
        ),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.RunSQL(INSERT_ONLY + EVENTS + RETENTION, migrations.RunSQL.noop),
    ]
