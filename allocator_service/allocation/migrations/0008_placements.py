import django.db.models.deletion
from django.db import migrations, models


KEEP_UNTIL_PRUNED = """
CREATE TRIGGER decision_no_change BEFORE UPDATE ON run_placement_document
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_change();
CREATE TRIGGER decision_kept_until_pruned AFTER DELETE ON run_placement_document
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION decision_refuse_early_removal();
"""
KEEP_NO_MORE = """
DROP TRIGGER decision_no_change ON run_placement_document;
DROP TRIGGER decision_kept_until_pruned ON run_placement_document;
"""

# As for the other parts of a decision that are pruned with it. Floors were forgotten before.
REVOKE = "".join(
    f"""
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
        EXECUTE format('REVOKE UPDATE, TRUNCATE ON {table} FROM %I', holder.name);
    END LOOP;
END $$;
"""
    for table in ("run_placement_document", "run_floors")
)


class Migration(migrations.Migration):
    dependencies = [
        ('allocation', '0007_placement_dates'),
    ]

    operations = [
        migrations.CreateModel(
            name='PlacementDocument',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='placed', serialize=False, to='allocation.run')),
                ('document', models.BinaryField()),
            ],
            options={
                'db_table': 'run_placement_document',
            },
        ),
        migrations.RunSQL(KEEP_UNTIL_PRUNED, KEEP_NO_MORE),
        migrations.RunSQL(REVOKE, migrations.RunSQL.noop),
    ]
