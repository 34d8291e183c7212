import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

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
                ('returned_at', models.DateTimeField(null=True)),
                ('generation', models.PositiveBigIntegerField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='clusters', to='pools.pool')),
            ],
            options={
                'db_table': 'pool_cluster',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'name'), name='cluster_name_unique')],
            },
        ),
    ]
