from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    safe_while_used = "The new indexes have the same columns and exist before the old ones are removed."

    dependencies = [
        ('workloads', '0001_initial'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='workload',
            index=models.Index(condition=models.Q(('pool__isnull', False)), fields=['pool', 'id'], name='workload_of_pool'),
        ),
        AddIndexConcurrently(
            model_name='workload',
            index=models.Index(condition=models.Q(('tenant__isnull', False)), fields=['tenant', 'pool', 'id'], name='workload_of_tenant'),
        ),
        RemoveIndexConcurrently(
            model_name='workload',
            name='workload_by_pool',
        ),
        RemoveIndexConcurrently(
            model_name='workload',
            name='workload_by_tenant',
        ),
    ]
