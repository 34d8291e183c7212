"""The ledger's tables, and what Django has no words for: partitions, triggers, privileges."""

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
"""

# A month's partition is made by whoever first writes into it, with the owner's rights.
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

CREATE FUNCTION ledger_partition(month date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    first date := date_trunc('month', month)::date;
    name text := 'ledger_entry_' || to_char(first, 'YYYYMM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ledger_partition', 0));
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF ledger_entry FOR VALUES FROM (%L) TO (%L)', name,
                   first::timestamp AT TIME ZONE 'UTC',
                   (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
    PERFORM ledger_insert_only(name::regclass);
END $$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION ledger_partition(date);
DROP FUNCTION ledger_insert_only(regclass);
DROP FUNCTION ledger_refuse_truncate();
DROP FUNCTION ledger_refuse_change();
"""

# Row triggers of the parent are there on every partition, its statement triggers are not.
INSERT_ONLY = """
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_entry
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_identity
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_seal
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_block
    FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change();
SELECT ledger_insert_only('ledger_entry');
SELECT ledger_insert_only('ledger_identity');
SELECT ledger_insert_only('ledger_seal');
SELECT ledger_insert_only('ledger_block');
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('pools', '0002_long_term'),
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
            name='Block',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveBigIntegerField()),
                ('first_sequence', models.BigIntegerField()),
                ('last_sequence', models.BigIntegerField()),
                ('entries', models.PositiveIntegerField()),
                ('digest', models.BinaryField()),
                ('sealed_at', models.DateTimeField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_block',
                'ordering': ['pool', 'number'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'number'), name='ledger_block_number_unique'), models.CheckConstraint(condition=models.Q(('entries__gt', 0)), name='ledger_block_not_empty')],
            },
        ),
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(max_length=200)),
                ('event_id', models.CharField(max_length=200)),
                ('digest', models.BinaryField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_identity',
                'constraints': [models.UniqueConstraint(fields=('pool', 'source', 'event_id'), name='ledger_identity_once')],
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
        migrations.RunSQL(INSERT_ONLY, migrations.RunSQL.noop),
    ]
