"""Totals by owner, which those that keep the totals make from the ledger: from its beginning."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0003_identity_pool_index'),
        ('pools', '0004_contributed_capacity'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='totalscursor',
            name='owner_through',
            field=models.BigIntegerField(db_default=0, default=0),
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
            },
        ),
    ]
