"""Identities are found by the index of their constraint, which begins with the pool."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0002_totals'),
        ('pools', '0003_metering_changed_at'),
    ]

    operations = [
        migrations.AlterField(
            model_name='identity',
            name='pool',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool'),
        ),
    ]
