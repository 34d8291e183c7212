from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('pools', '0003_groups'),
    ]

    operations = [
        ValidateConstraint(model_name='membershipterms', name='membership_tier_in_range'),
    ]
