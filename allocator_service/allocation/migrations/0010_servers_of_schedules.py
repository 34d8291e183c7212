from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [('allocation', '0009_allocations_are_read_by_run')]

    operations = [
        migrations.AddField(
            model_name='schedule',
            name='servers',
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
