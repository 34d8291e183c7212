from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('workloads', '0005_gangs'),
    ]

    operations = [
        ValidateConstraint(model_name='workload', name='workload_at_least_positive'),
        ValidateConstraint(model_name='workload', name='workload_per_server_positive'),
        AddIndexConcurrently(
            model_name='workload',
            index=models.Index(condition=models.Q(models.Q(('pieces', []), _negated=True), ('at_least__gt', 1), _connector='OR'), fields=['pool'], name='workload_with_gang'),
        ),
    ]
