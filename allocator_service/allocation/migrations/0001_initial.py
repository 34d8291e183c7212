"""Runs and published decisions, whose rows are only added and pruned whole.

The rows of a decision are never updated. Rows to prune are deleted after their run's `pruned_at` is set;
permanent ones are never deleted. Of a succeeded run itself, only its end and `pruned_at` are set, each once.
"""

import allocator_service.core.constraints
import allocator_service.core.ids
import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

KEPT = ("run_allocation", "run_step", "run_schedule")
PRUNED = ("run_placement", "run_server_class", "run_certificate")

FUNCTIONS = """
CREATE FUNCTION decision_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a published decision stays as it is: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION decision_refuse_early_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM gone JOIN run ON run.id = gone.run_id WHERE run.pruned_at IS NULL) THEN
        RAISE EXCEPTION 'a decision is kept until it is pruned: % of % is refused', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION run_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (OLD.effective_until IS NULL OR NEW.effective_until = OLD.effective_until)
       AND (OLD.pruned_at IS NULL OR NEW.pruned_at = OLD.pruned_at)
       AND to_jsonb(NEW) - '{effective_until,pruned_at}'::text[]
           = to_jsonb(OLD) - '{effective_until,pruned_at}'::text[] THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a published decision stays as it is: % of its run is refused', TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER run_published_stays BEFORE UPDATE OR DELETE ON run
    FOR EACH ROW WHEN (OLD.status = 'succeeded') EXECUTE FUNCTION run_refuse_change();
"""
DROP_FUNCTIONS = """
DROP TRIGGER run_published_stays ON run;
DROP FUNCTION run_refuse_change();
DROP FUNCTION decision_refuse_early_removal();
DROP FUNCTION decision_refuse_change();
"""
# Statement triggers: an update is refused even if it matches no row.
KEEP = """
CREATE TRIGGER decision_no_change BEFORE UPDATE OR DELETE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_change();
"""
KEEP_UNTIL_PRUNED = """
CREATE TRIGGER decision_no_change BEFORE UPDATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_change();
CREATE TRIGGER decision_kept_until_pruned AFTER DELETE ON {table}
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_early_removal();
"""
REVOKE = """
DO $$
DECLARE
    holder record;
BEGIN
    FOR holder IN
        SELECT DISTINCT pg_get_userbyid(acl.grantee) AS name
        FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid = '{table}'::regclass AND acl.grantee <> pg_class.relowner
          AND acl.grantee <> 0
    LOOP
        EXECUTE format('REVOKE {rights} ON {table} FROM %I', holder.name);
    END LOOP;
END $$;
"""
TRIGGERS = "".join(
    [
        *(KEEP.replace("{table}", table) for table in KEPT),
        *(KEEP_UNTIL_PRUNED.replace("{table}", table) for table in PRUNED),
        *(
            REVOKE.replace("{table}", table).replace("{rights}", rights)
            for tables, rights in ((KEPT, "UPDATE, DELETE, TRUNCATE"), (PRUNED, "UPDATE, TRUNCATE"))
            for table in tables
        ),
    ]
)
DROP_TRIGGERS = "".join(
    [f"DROP TRIGGER decision_no_change ON {table};" for table in KEPT + PRUNED]
    + [f"DROP TRIGGER decision_kept_until_pruned ON {table};" for table in PRUNED]
)

# Two columns that nothing writes any more, kept with a default so that older processes can insert.
DEFAULTS = """
ALTER TABLE run_step ALTER COLUMN used SET DEFAULT '{}', ALTER COLUMN alone SET DEFAULT '{}'
"""
NO_DEFAULTS = """
ALTER TABLE run_step ALTER COLUMN used DROP DEFAULT, ALTER COLUMN alone DROP DEFAULT
"""



class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('ledger', '0001_initial'),
        ('pools', '0001_initial'),
        ('tenants', '0001_initial'),
        ('workloads', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('process', models.CharField(max_length=20, primary_key=True, serialize=False)),
                ('seen_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'process_heartbeat',
            },
        ),
        migrations.CreateModel(
            name='Snapshot',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('document', models.BinaryField(null=True)),
                ('workload_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'run_snapshot',
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='pending', max_length=9)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('policy', models.JSONField(default=dict)),
                ('generation', models.PositiveBigIntegerField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('token', models.UUIDField(editable=False, null=True)),
                ('created_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('effective_from', models.DateTimeField(null=True)),
                ('effective_until', models.DateTimeField(null=True)),
                ('solve_seconds', models.FloatField(null=True)),
                ('error', models.JSONField(null=True)),
                ('summary', models.JSONField(null=True)),
                ('pruned_at', models.DateTimeField(null=True)),
                ('request_id', models.TextField(blank=True, default='')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='pools.pool')),
                ('snapshot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='allocation.snapshot')),
            ],
            options={
                'db_table': 'run',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['pool', '-id'], name='run_by_pool'), models.Index(fields=['pool', '-effective_from'], name='run_by_effect')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('status', 'succeeded'), _negated=True), models.Q(('effective_from__isnull', False), ('generation__isnull', False), ('snapshot__isnull', False)), _connector='OR'), name='run_succeeded_is_complete'), models.CheckConstraint(condition=models.Q(models.Q(('status', 'failed'), _negated=True), ('error__isnull', False), _connector='OR'), name='run_failed_says_why')],
            },
        ),
        migrations.CreateModel(
            name='Certificate',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='certificate', serialize=False, to='allocation.run')),
                ('document', models.BinaryField()),
            ],
            options={
                'db_table': 'run_certificate',
            },
        ),
        migrations.CreateModel(
            name='ServerClass',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveIntegerField()),
                ('count', models.PositiveIntegerField()),
                ('capacity', django.contrib.postgres.fields.ArrayField(base_field=models.DecimalField(decimal_places=12, max_digits=24), size=None)),
                ('labels', models.JSONField()),
                ('first', models.CharField(max_length=253)),
                ('last', models.CharField(max_length=253)),
                ('shared', models.BooleanField()),
                ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='server_classes', to='allocation.run')),
                ('first_server', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.server')),
                ('last_server', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.server')),
            ],
            options={
                'db_table': 'run_server_class',
                'ordering': ['position'],
                'constraints': [models.UniqueConstraint(fields=('run', 'position'), name='server_class_position_unique')],
            },
        ),
        migrations.CreateModel(
            name='Placement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('tasks', models.FloatField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='placements', to='allocation.run')),
                ('workload', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='placements', to='workloads.workload')),
                ('server_class', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='placements', to='allocation.serverclass')),
            ],
            options={
                'db_table': 'run_placement',
                'ordering': ['run', 'position'],
                'constraints': [models.UniqueConstraint(fields=('run', 'position'), name='placement_position_unique'), models.CheckConstraint(condition=models.Q(('tasks__gt', 0), ('tasks__lt', float("inf"))), name='placement_tasks_positive')],
            },
        ),
        migrations.CreateModel(
            name='Allocation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('tasks', models.FloatField()),
                ('resources', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                ('dominant_resource', models.CharField(max_length=63)),
                ('dominant_share', models.FloatField()),
                ('tenant_share', models.FloatField()),
                ('weighted_share', models.FloatField(null=True)),
                ('level', models.FloatField(null=True)),
                ('limited_by', models.CharField(max_length=80)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='tenants.tenant')),
                ('workload', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='workloads.workload')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='allocation.run')),
            ],
            options={
                'db_table': 'run_allocation',
                'ordering': ['run', 'position'],
                'indexes': [models.Index(fields=['run', 'tenant', 'position'], name='allocation_by_tenant')],
                'constraints': [models.UniqueConstraint(fields=('run', 'position'), name='allocation_position_unique'), models.CheckConstraint(condition=models.Q(('tasks__gte', 0), ('tasks__lt', float("inf"))), name='allocation_tasks_nonnegative')],
            },
        ),
        migrations.CreateModel(
            name='Simulation',
            fields=[
                ('id', models.UUIDField(default=allocator_service.core.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('changes', models.JSONField()),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('succeeded', 'Succeeded'), ('failed', 'Failed')], default='pending', max_length=9)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('published_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
                ('generation', models.PositiveBigIntegerField(null=True)),
                ('result', models.JSONField(null=True)),
                ('error', models.JSONField(null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='simulations', to='pools.pool')),
                ('tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='simulations', to='tenants.tenant')),
            ],
            options={
                'db_table': 'simulation',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('status', 'pending')), fields=['published_at'], name='simulation_due'), models.Index(fields=['pool', '-id'], name='simulation_by_pool')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status', 'pending'), models.Q(('result__isnull', False), ('status', 'succeeded')), models.Q(('error__isnull', False), ('status', 'failed')), _connector='OR'), name='simulation_finished_has_outcome')],
            },
        ),
        migrations.CreateModel(
            name='Meter',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='meter', serialize=False, to='pools.pool')),
                ('metered_until', models.DateTimeField()),
            ],
            options={
                'db_table': 'pool_meter',
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='step', serialize=False, to='allocation.run')),
                ('tenant_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('used', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                ('alone', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                ('waiting', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                ('history', models.BinaryField()),
                ('begin', models.DateTimeField(null=True)),
                ('half_life', models.FloatField(null=True)),
                ('sealed_through', models.BigIntegerField(null=True)),
                ('since', models.DateTimeField(null=True)),
                ('unsealed', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), null=True, size=None)),
            ],
            options={
                'db_table': 'run_step',
            },
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='schedule', serialize=False, to='allocation.run')),
                ('document', models.BinaryField()),
                ('period_seconds', models.PositiveIntegerField()),
                ('intervals', models.JSONField()),
                ('gap_on_the_clock', models.FloatField(null=True)),
                ('owed', models.JSONField(db_default={}, default=dict)),
                ('made_up', models.JSONField(null=True)),
            ],
            options={
                'db_table': 'run_schedule',
            },
        ),
        # Partial unique indexes before exclusions: of two violated constraints, PostgreSQL reports the one whose
        # index was created first.
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'pending')), fields=('pool',), name='run_one_pending_per_pool'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('pool',), name='run_one_running_per_pool'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('effective_until', None), ('status', 'succeeded')), fields=('pool',), name='run_one_in_force_per_pool'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('status', 'succeeded')), expressions=[('pool', '='), (allocator_service.core.constraints.TimeRange('effective_from', 'effective_until'), '&&')], name='run_decisions_disjoint'),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name='step', name='used'),
                migrations.RemoveField(model_name='step', name='alone'),
            ],
            database_operations=[migrations.RunSQL(DEFAULTS, NO_DEFAULTS)],
        ),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
    ]
