from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    safe_while_used = "The new indexes have the same columns and exist before the old ones are removed."

    dependencies = [
        ('pools', '0004_validate_tiers'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='server',
            index=models.Index(condition=models.Q(('pool__isnull', False)), fields=['pool', 'id'], name='server_of_pool'),
        ),
        AddIndexConcurrently(
            model_name='server',
            index=models.Index(condition=models.Q(('pool__isnull', False)), fields=['contributed_by', 'pool', 'id'], name='server_of_contributor'),
        ),
        RemoveIndexConcurrently(
            model_name='server',
            name='server_by_pool',
        ),
        RemoveIndexConcurrently(
            model_name='server',
            name='server_by_contributor',
        ),
    ]
