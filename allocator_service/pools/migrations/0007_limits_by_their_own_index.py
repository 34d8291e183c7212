from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('pools', '0006_groupterms_limit_membershipterms_limit'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='groupterms',
            index=models.Index(condition=models.Q(('end', None), models.Q(('limit', []), _negated=True)), fields=['group'], name='group_terms_limited'),
        ),
        AddIndexConcurrently(
            model_name='membershipterms',
            index=models.Index(condition=models.Q(('end', None), models.Q(('limit', []), _negated=True)), fields=['membership'], name='membership_terms_limited'),
        ),
    ]
