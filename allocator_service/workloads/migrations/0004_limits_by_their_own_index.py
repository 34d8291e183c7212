from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('pools', '0007_limits_by_their_own_index'),
        ('tenants', '0003_access_of_groups'),
        ('workloads', '0003_workload_limit'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='workload',
            index=models.Index(condition=models.Q(('limit', []), _negated=True), fields=['pool'], name='workload_limited'),
        ),
    ]
