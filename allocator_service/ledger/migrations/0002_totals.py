"""Totals by buckets of time, and the index by which the entries that end at an edge are found."""

import django.db.models.deletion
from django.db import migrations, models

# What is left of 1 after so many seconds; so little that its product might be no double is nothing.
WEIGHT = """
CREATE FUNCTION ledger_weight(seconds float8, half_life float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN seconds / half_life > 400 THEN 0 ELSE power(2::float8, -seconds / half_life) END
$$
"""
ENDS = """
CREATE INDEX ledger_entry_by_end ON ledger_entry (pool_id, "end")
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0001_initial'),
        ('pools', '0003_metering_changed_at'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='TotalsCursor',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='pools.pool')),
                ('through', models.BigIntegerField(default=0)),
                ('half_life', models.FloatField(null=True)),
            ],
            options={
                'db_table': 'ledger_totals_cursor',
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
            },
        ),
        migrations.RunSQL(WEIGHT, 'DROP FUNCTION ledger_weight(float8, float8)'),
        migrations.RunSQL(ENDS, 'DROP INDEX ledger_entry_by_end'),
    ]
