"""Numbers of the entries that came with pools from other installations."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0007_numbers_of_pools'),
        ('pools', '0011_moves'),
    ]

    operations = [
        migrations.CreateModel(
            name='LedgerImport',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='pools.pool')),
                ('archive', models.UUIDField()),
                ('imported_at', models.DateTimeField()),
                ('entries', models.BigIntegerField()),
                ('through', models.BigIntegerField()),
                ('numbered', models.BigIntegerField()),
            ],
            options={
                'db_table': 'ledger_import',
            },
        ),
    ]
