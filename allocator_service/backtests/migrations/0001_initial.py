import allocator_service.core.ids
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('billing', '0001_initial'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Backtest',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('started_by', models.CharField(blank=True, max_length=150)),
                ('spec', models.JSONField()),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=9)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('published_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('prepared_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('pruned_at', models.DateTimeField(null=True)),
                ('input', models.JSONField(null=True)),
                ('result', models.JSONField(null=True)),
                ('error', models.JSONField(null=True)),
                ('key', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='backtests', to='tenants.apikey')),
                ('plan', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='backtests', to='billing.priceplan')),
                ('pool', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='backtests', to='pools.pool')),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='backtests', to='tenants.tenant')),
                ('served_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'backtest',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('status__in', ['queued', 'running'])), fields=['published_at'], name='backtest_due'), models.Index(fields=['key', '-id'], name='backtest_by_key')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('prepared_at', None), ('status', 'queued')), models.Q(('prepared_at__isnull', False), ('status', 'running')), models.Q(('input__isnull', False), ('result__isnull', False), ('status', 'succeeded')), models.Q(('error__isnull', False), ('status', 'failed')), ('status', 'cancelled'), _connector='OR'), name='backtest_status_has_its_parts'), models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running']), ('finished_at__isnull', False), _connector='XOR'), name='backtest_finished_has_time'), models.CheckConstraint(condition=models.Q(('status', 'succeeded'), ('result', None), _connector='OR'), name='backtest_result_is_whole')],
            },
        ),
        migrations.CreateModel(
            name='BacktestInput',
            fields=[
                ('backtest', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='content', serialize=False, to='backtests.backtest')),
                ('uploaded', models.BinaryField(null=True)),
                ('prepared', models.BinaryField(null=True)),
            ],
            options={
                'db_table': 'backtest_input',
            },
        ),
        migrations.CreateModel(
            name='Cell',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveIntegerField()),
                ('policy', models.PositiveIntegerField()),
                ('seed', models.BigIntegerField()),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed')], default='queued', max_length=9)),
                ('progress', models.FloatField(default=0)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('token', models.UUIDField(editable=False, null=True)),
                ('published_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('seconds', models.FloatField(null=True)),
                ('result', models.JSONField(null=True)),
                ('jobs', models.BinaryField(null=True)),
                ('error', models.JSONField(null=True)),
                ('backtest', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cells', to='backtests.backtest')),
            ],
            options={
                'db_table': 'backtest_cell',
                'ordering': ['backtest', 'position'],
                'indexes': [models.Index(condition=models.Q(('status__in', ['queued', 'running'])), fields=['published_at'], name='backtest_cell_due')],
                'constraints': [models.UniqueConstraint(fields=('backtest', 'position'), name='backtest_cell_position_unique'), models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running']), models.Q(('finished_at__isnull', False), ('result__isnull', False), ('status', 'succeeded')), models.Q(('error__isnull', False), ('finished_at__isnull', False), ('status', 'failed')), _connector='OR'), name='backtest_cell_has_outcome')],
            },
        ),
    ]
