import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    safe_while_used = (
        "The tables have a row per key and per grant and are read in milliseconds. Every row that the"
        " release before writes meets the new constraints, and it never asks for grants without a tenant."
    )

    dependencies = [
        ('tenants', '0002_keys_of_groups'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='access',
            field=models.CharField(choices=[('manage', 'Manage'), ('read', 'Read')], db_default='manage', default='manage', max_length=10),
        ),
        migrations.AddField(
            model_name='groupgrant',
            name='access',
            field=models.CharField(choices=[('manage', 'Manage'), ('read', 'Read')], db_default='manage', default='manage', max_length=10),
        ),
        migrations.AddField(
            model_name='groupgrant',
            name='pool',
            field=models.CharField(blank=True, db_default='', default='', max_length=63),
        ),
        migrations.AddField(
            model_name='groupgrant',
            name='pool_group',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='groupgrant',
            name='tenant',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='group_grants', to='tenants.tenant'),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('scope', 'group'), ('access', 'manage'), _connector='OR'), name='api_key_access_of_group', violation_error_code='api_key.access', violation_error_message='Only keys of scope group can have access read.'),
        ),
        migrations.AddConstraint(
            model_name='groupgrant',
            constraint=models.UniqueConstraint(condition=models.Q(('withdrawn_at', None)), fields=('group', 'pool_group'), name='group_grant_of_group_unique', violation_error_code='grant.exists', violation_error_message="Members of the provider's group may open these pages already."),
        ),
        migrations.AddConstraint(
            model_name='groupgrant',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('access', 'manage'), ('pool', ''), ('pool_group', None), ('tenant__isnull', False)), models.Q(('pool_group__isnull', False), ('tenant', None), models.Q(('pool', ''), _negated=True)), _connector='OR'), name='group_grant_target', violation_error_code='grant.target', violation_error_message='A grant names a tenant, or a group of a pool. Only the latter can have access read.'),
        ),
        migrations.AlterConstraint(
            model_name='groupgrant',
            name='group_grant_unique',
            constraint=models.UniqueConstraint(condition=models.Q(('withdrawn_at', None)), fields=('group', 'tenant'), name='group_grant_unique', violation_error_code='grant.exists', violation_error_message="Members of the provider's group may open these pages already."),
        ),
    ]
