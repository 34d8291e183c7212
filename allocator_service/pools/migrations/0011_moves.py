"""Pools that are closed for their move to another installation."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0010_reclaim'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='moved_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='moved_to',
            field=models.CharField(blank=True, db_default='', default='', editable=False, max_length=500),
        ),
    ]
