import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('allocation', '0001_initial'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('target', models.CharField(max_length=20)),
                ('class_label', models.CharField(max_length=253)),
                ('interval_seconds', models.PositiveIntegerField()),
                ('generation', models.PositiveBigIntegerField(null=True)),
                ('reported_at', models.DateTimeField()),
                ('received_at', models.DateTimeField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='agents', to='pools.pool')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='allocation.run')),
                ('silent_event_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'enforcement_agent',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('pool', 'name'), name='agent_name_unique'), models.CheckConstraint(condition=models.Q(('interval_seconds__gt', 0)), name='agent_interval_positive', violation_error_code='duration.zero', violation_error_message='A duration must be longer than zero.')],
            },
        ),
        migrations.CreateModel(
            name='Drift',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
                ('told_at', models.DateTimeField(null=True)),
                ('payload', models.JSONField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drifts', to='pools.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drifts', to='tenants.tenant')),
            ],
            options={
                'db_table': 'enforcement_drift',
                'constraints': [models.UniqueConstraint(fields=('pool', 'tenant'), name='drift_one_per_tenant')],
            },
        ),
        migrations.CreateModel(
            name='Report',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reported_at', models.DateTimeField()),
                ('repeated_at', models.DateTimeField()),
                ('content', models.BinaryField()),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reports', to='enforcement.agent')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='allocation.run')),
            ],
            options={
                'db_table': 'enforcement_report',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['repeated_at'], name='report_by_age')],
            },
        ),
        migrations.CreateModel(
            name='Watch',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='watch', serialize=False, to='pools.pool')),
                ('received_at', models.DateTimeField(null=True)),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='allocation.run')),
            ],
            options={
                'db_table': 'enforcement_watch',
            },
        ),
        migrations.CreateModel(
            name='Blockage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
                ('told_at', models.DateTimeField(null=True)),
                ('payload', models.JSONField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='blockages', to='pools.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='blockages', to='tenants.tenant')),
            ],
            options={
                'db_table': 'enforcement_blockage',
                'constraints': [models.UniqueConstraint(fields=('pool', 'tenant'), name='blockage_one_per_tenant')],
            },
        ),
    ]
