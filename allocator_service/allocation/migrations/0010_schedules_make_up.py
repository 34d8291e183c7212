"""How much of what is owed the period of a schedule gives."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('allocation', '0009_schedules_owe'),
    ]

    operations = [
        migrations.AddField(
            model_name='schedule',
            name='made_up',
            field=models.JSONField(null=True),
        ),
    ]
