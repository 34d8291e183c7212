from django.db import migrations, models
from django.db.models import Q

BINDING = (
    "A key of scope tenant names its tenant, one of scope agent its pool and one of scope group its pool"
    " and group; operator and billing keys may name a pool, and nothing else."
)


class Migration(migrations.Migration):
    safe_while_used = (
        "The table has a row per key and is read in milliseconds; every key that the release before writes"
        " meets the new constraint, which only adds a scope."
    )

    dependencies = [
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='group',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='scope',
            field=models.CharField(
                choices=[
                    ('operator', 'Operator'), ('tenant', 'Tenant'), ('billing', 'Billing'),
                    ('agent', 'Agent'), ('group', 'Group'),
                ],
                max_length=10,
            ),
        ),
        # The table has a row per key: the new constraint is checked at once.
        migrations.RemoveConstraint(model_name='apikey', name='api_key_bound_by_scope'),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(
                condition=Q(scope='tenant', tenant__isnull=False, pool='', group=None)
                | Q(scope='agent', tenant__isnull=True, group=None) & ~Q(pool='')
                | Q(scope='group', tenant__isnull=True, group__isnull=False) & ~Q(pool='')
                | Q(scope__in=['operator', 'billing'], tenant__isnull=True, group=None),
                name='api_key_bound_by_scope',
                violation_error_code='api_key.binding',
                violation_error_message=BINDING,
            ),
        ),
    ]
