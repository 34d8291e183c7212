import django.db.models.deletion
from django.db import migrations, models


KEEP_UNTIL_PRUNED = """
CREATE TRIGGER decision_no_change BEFORE UPDATE ON run_placements
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_change();
CREATE TRIGGER decision_kept_until_pruned AFTER DELETE ON run_placements
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_early_removal();
"""
KEEP_NO_MORE = """
DROP TRIGGER decision_no_change ON run_placements;
DROP TRIGGER decision_kept_until_pruned ON run_placements;
"""


class Migration(migrations.Migration):
    dependencies = [
        ('allocation', '0007_placement_dates'),
        ('tenants', '0004_clusters'),
        ('workloads', '0008_minima_by_their_own_index'),
    ]
    safe_while_used = (
        "Allocations are read by run, by two other indexes. Removing an index waits for statements that "
        "use the table, and takes no time."
    )

    operations = [
        migrations.CreateModel(
            name='Placements',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='placed', serialize=False, to='allocation.run')),
                ('document', models.BinaryField()),
            ],
            options={
                'db_table': 'run_placements',
            },
        ),
        migrations.RunSQL(KEEP_UNTIL_PRUNED, KEEP_NO_MORE),
        migrations.AlterField(
            model_name='allocation',
            name='run',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='allocation.run'),
        ),
        migrations.AlterField(
            model_name='allocation',
            name='tenant',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='tenants.tenant'),
        ),
        migrations.AlterField(
            model_name='allocation',
            name='workload',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='workloads.workload'),
        ),
    ]
