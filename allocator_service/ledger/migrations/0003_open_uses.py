"""Open uses. Processes of the release before, which know none, close them all when they meter."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

# The entries of the release before continue at the meter's old instant. It knows nothing of open uses, so
# that they must have become entries before it reads any. The ids are UUIDv7, which this PostgreSQL may not make.
CLOSE = """
CREATE FUNCTION ledger_close_open_uses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ledger_partition((o.start AT TIME ZONE 'UTC')::date)
    FROM ledger_open_use o WHERE o.pool_id = OLD.pool_id;
    WITH appended AS (
        INSERT INTO ledger_entry (id, pool_id, tenant_id, server_owner_id, workload_id, resource, unit,
                                  quantity, start, "end", amount, kind, reason, source, run_id, recorded_at)
        SELECT encode(set_bit(set_bit(overlay(
                   uuid_send(gen_random_uuid())
                   PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                   FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid,
               o.pool_id, o.tenant_id, use.owner_id, use.workload_id, use.resource, use.unit, use.quantity,
               o.start, OLD.metered_until,
               use.quantity * extract(epoch FROM OLD.metered_until - o.start), use.kind, '', 'decisions',
               o.run_id, clock_timestamp()
        FROM ledger_open_use o
        CROSS JOIN LATERAL unnest(o.workloads, o.owners, o.resources, o.units, o.kinds, o.quantities)
            AS use (workload_id, owner_id, resource, unit, kind, quantity)
        WHERE o.pool_id = OLD.pool_id
        RETURNING id, start)
    INSERT INTO ledger_pending (entry_id, start) SELECT id, start FROM appended;
    DELETE FROM ledger_open_use WHERE pool_id = OLD.pool_id;
    RETURN NULL;
END $$;

CREATE TRIGGER pool_meter_closes_open_uses AFTER UPDATE ON pool_meter
    FOR EACH ROW WHEN (current_setting('allocator.knows_open_uses', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION ledger_close_open_uses();
"""
# The release before would never meter the time of open uses again: they become entries first.
CLOSE_NO_MORE = """
UPDATE pool_meter SET metered_until = metered_until;
SET CONSTRAINTS ALL IMMEDIATE;
DROP TRIGGER pool_meter_closes_open_uses ON pool_meter;
DROP FUNCTION ledger_close_open_uses();
"""


class Migration(migrations.Migration):
    dependencies = [
        ('allocation', '0006_metered_until'),
        ('ledger', '0002_validate_blocks'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Meter',
                    fields=[
                        ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='meter', serialize=False, to='pools.pool')),
                        ('metered_until', models.DateTimeField()),
                    ],
                    options={
                        'db_table': 'pool_meter',
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name='OpenUse',
            fields=[
                ('pk', models.CompositePrimaryKey('pool_id', 'tenant_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('run_id', models.UUIDField()),
                ('start', models.DateTimeField()),
                ('workloads', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(null=True), size=None)),
                ('owners', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=None)),
                ('resources', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=63), size=None)),
                ('units', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), size=None)),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('usage', 'Usage'), ('alone', 'Alone'), ('correction', 'Correction')], max_length=10), size=None)),
                ('quantities', django.contrib.postgres.fields.ArrayField(base_field=models.DecimalField(decimal_places=12, max_digits=36), size=None)),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'db_table': 'ledger_open_use',
            },
        ),
        migrations.RunSQL(CLOSE, CLOSE_NO_MORE),
    ]
