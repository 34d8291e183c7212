"""Sources of usage, each of the cluster whose agents post it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0003_open_uses'),
        ('pools', '0010_reclaim'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(max_length=200)),
                ('cluster', models.CharField(max_length=253)),
                ('pool', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_usage_source',
                'constraints': [models.UniqueConstraint(fields=('pool', 'source'), name='usage_source_of_one_cluster')],
            },
        ),
    ]
