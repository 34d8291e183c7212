"""What the period of a schedule makes up for."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('allocation', '0008_steps_tell_what_counted'),
    ]

    operations = [
        migrations.AddField(
            model_name='schedule',
            name='owed',
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
