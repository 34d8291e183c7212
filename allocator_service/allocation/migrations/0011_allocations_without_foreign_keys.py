import django.db.models.deletion
from django.db import migrations, models

from allocator_service.core.short_locks import with_short_locks

# Column, name that 0001 gave the constraint, table, and model.
CONSTRAINTS = [
    ('run_id', 'run_allocation_run_id_18343088_fk_run_id', 'run', 'allocation.run'),
    ('tenant_id', 'run_allocation_tenant_id_3cbd684d_fk_tenant_id', 'tenant', 'tenants.tenant'),
    (
        'workload_id',
        'run_allocation_workload_id_a6ba7cb5_fk_workload_id',
        'workload',
        'workloads.workload',
    ),
]


def foreign_key(to):
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name='allocations',
        to=to,
    )


class Migration(migrations.Migration):
    atomic = False  # each statement has the locks of two tables, and not those of all four
    safe_while_used = (
        "Both releases write the ids of rows that exist and are never deleted. Each lock is requested for"
        " half a second at a time."
    )

    dependencies = [
        ('allocation', '0010_servers_of_schedules'),
        ('tenants', '0004_clusters'),
        ('workloads', '0008_minima_by_their_own_index'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField('allocation', column.removesuffix('_id'), foreign_key(model))
            ],
            database_operations=[
                migrations.RunSQL(
                    with_short_locks(f'ALTER TABLE run_allocation DROP CONSTRAINT IF EXISTS {name}'),
                    # Without reading the rows, which the constraint held for.
                    f'ALTER TABLE run_allocation ADD CONSTRAINT {name} FOREIGN KEY ({column})'
                    f' REFERENCES {table} (id) DEFERRABLE INITIALLY DEFERRED NOT VALID',
                )
            ],
        )
        for column, name, table, model in CONSTRAINTS
    ]
