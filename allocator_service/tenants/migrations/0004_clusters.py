from django.db import migrations, models


class Migration(migrations.Migration):
    safe_while_used = (
        "The table has a row per key and is read in milliseconds. The release before binds no key to a"
        " cluster."
    )

    dependencies = [
        ('tenants', '0003_access_of_groups'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='cluster',
            field=models.CharField(blank=True, db_default='', default='', max_length=253),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('scope', 'agent'), ('cluster', ''), _connector='OR'), name='api_key_cluster_of_agent', violation_error_code='api_key.cluster', violation_error_message='Only keys of scope agent are bound to a cluster of their pool.'),
        ),
    ]
