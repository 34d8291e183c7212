import django.db.models.deletion
from django.db import migrations, models

# By the names that 0001 gave them. A constraint on the column stays, and only its index goes.
INDEXES = {
    'run_id': 'run_allocation_run_id_18343088',
    'tenant_id': 'run_allocation_tenant_id_3cbd684d',
    'workload_id': 'run_allocation_workload_id_a6ba7cb5',
}


def foreign_key(to):
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to=to
    )


class Migration(migrations.Migration):
    atomic = False  # indexes are removed beside readers and writers
    safe_while_used = "Both releases read allocations by run, for which there are two other indexes."

    dependencies = [
        ('allocation', '0008_placements'),
        ('tenants', '0004_clusters'),
        ('workloads', '0008_minima_by_their_own_index'),
    ]

    operations = [
        # Django would remove each constraint with its index, and add it again after reading all rows.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField('allocation', 'run', foreign_key('allocation.run')),
                migrations.AlterField('allocation', 'tenant', foreign_key('tenants.tenant')),
                migrations.AlterField('allocation', 'workload', foreign_key('workloads.workload')),
            ],
            database_operations=[
                migrations.RunSQL(
                    f'DROP INDEX CONCURRENTLY IF EXISTS {name}',
                    f'CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON run_allocation ({column})',
                )
                for column, name in INDEXES.items()
            ],
        ),
    ]
