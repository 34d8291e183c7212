"""Steps say which entries of the ledger they were decided from."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('allocation', '0007_steps_remember_on_the_ledger'),
    ]

    operations = [
        migrations.AddField(
            model_name='step',
            name='begin',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='half_life',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='sealed_through',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='since',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='unsealed',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), null=True, size=None),
        ),
    ]
