import allocator_service.core.constraints
import allocator_service.core.ids
import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Workload',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=253)),
                ('demand', django.contrib.postgres.fields.ArrayField(base_field=models.DecimalField(decimal_places=12, max_digits=24), size=None)),
                ('tasks', models.BigIntegerField(blank=True, null=True)),
                ('priority', models.IntegerField(default=0)),
                ('server_selector', models.JSONField(blank=True, default=dict)),
                ('state', models.CharField(choices=[('active', 'Active'), ('paused', 'Paused'), ('withdrawn', 'Withdrawn')], default='active', max_length=9)),
                ('unsatisfiable', models.CharField(blank=True, default='', editable=False, max_length=40)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False)),
                ('withdrawn_at', models.DateTimeField(editable=False, null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='workloads', to='pools.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='workloads', to='tenants.tenant')),
            ],
            options={
                'db_table': 'workload',
                'ordering': ['id'],
                'indexes': [models.Index(fields=['pool', 'id'], name='workload_by_pool'), models.Index(fields=['tenant', 'pool', 'id'], name='workload_by_tenant')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'withdrawn'), _negated=True), fields=('pool', 'tenant', 'name'), name='workload_name_unique', violation_error_code='workload.exists', violation_error_message='The tenant has a workload of this name in the pool.'), models.CheckConstraint(condition=allocator_service.core.constraints.NonNegativeVector(models.F('demand')), name='workload_demand_nonnegative', violation_error_code='quantity.negative', violation_error_message='A demand is at least 0.'), models.CheckConstraint(condition=allocator_service.core.constraints.PositiveSomewhere(models.F('demand')), name='workload_demand_positive', violation_error_code='demand.zero', violation_error_message='A task demands something: at least one resource above 0.'), models.CheckConstraint(condition=models.Q(('tasks', None), models.Q(('tasks__gte', 0), ('tasks__lte', 1000000000000)), _connector='OR'), name='workload_tasks_nonnegative', violation_error_code='tasks.range', violation_error_message='tasks is null or a whole number from 0 to 10^12.'), models.CheckConstraint(condition=models.Q(('state__in', ['active', 'paused', 'withdrawn'])), name='workload_state_known')],
            },
        ),
    ]
