from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('workloads', '0007_minimum_run'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='workload',
            index=models.Index(condition=models.Q(('minimum_run', ''), _negated=True), fields=['pool'], name='workload_with_minimum'),
        ),
    ]
