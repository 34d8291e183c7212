"""Agents that are gone for good."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('enforcement', '0002_clusters'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='retired_at',
            field=models.DateTimeField(null=True),
        ),
    ]
