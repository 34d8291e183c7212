import django.db.models.deletion
from django.db import migrations, models


# Labels that are there already count, as those that are written from now on.
_NAMED = """
INSERT INTO pool_cluster (pool_id, name)
SELECT DISTINCT pool_id, labels ->> 'cluster' FROM server
WHERE labels ->> 'cluster' IS NOT NULL AND state <> 'retired'
"""


class Migration(migrations.Migration):
    safe_while_used = (
        "The release before does not know clusters: it neither reads nor writes the new table, and its"
        " pools have the default of the new column. Servers are read once."
    )

    dependencies = [
        ('pools', '0008_guarantees'),
    ]

    operations = [
        migrations.AddField(
            model_name='pool',
            name='cluster_grace',
            field=models.CharField(db_default='PT15M', default='PT15M', max_length=40),
        ),
        migrations.CreateModel(
            name='Cluster',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=253)),
                ('left_at', models.DateTimeField(null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='clusters', to='pools.pool')),
            ],
            options={
                'db_table': 'pool_cluster',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'name'), name='cluster_name_unique')],
            },
        ),
        migrations.RunSQL(_NAMED, migrations.RunSQL.noop),
    ]
