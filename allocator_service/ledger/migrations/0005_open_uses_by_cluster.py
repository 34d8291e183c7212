"""Clusters of open uses. The release before neither writes nor reads them."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0004_usage_source_of_one_cluster'),
    ]

    operations = [
        migrations.AddField(
            model_name='openuse',
            name='clusters',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=253, null=True), null=True, size=None),
        ),
    ]
