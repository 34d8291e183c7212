"""Archives of the ledger. The release before reads no archived entries, and archives none."""

import django.db.models.deletion
from django.db import migrations, models

# Only the owner of the tables archives and restores.
READ_ONLY = """
DO $$
DECLARE
    holder record;
BEGIN
    FOR holder IN
        SELECT DISTINCT relname, pg_get_userbyid(acl.grantee) AS name
        FROM pg_class, aclexplode(pg_class.relacl) AS acl
        WHERE pg_class.oid IN ('ledger_archive'::regclass, 'ledger_archived_pool'::regclass)
          AND acl.grantee <> pg_class.relowner AND acl.grantee <> 0
    LOOP
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON %I FROM %I', holder.relname, holder.name);
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0008_ledger_import'),
        ('pools', '0011_moves'),
    ]

    operations = [
        migrations.CreateModel(
            name='Archive',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('entries', models.BigIntegerField()),
                ('first_sequence', models.BigIntegerField()),
                ('last_sequence', models.BigIntegerField()),
                ('first_start', models.DateTimeField()),
                ('last_end', models.DateTimeField()),
                ('name', models.CharField(max_length=100)),
                ('month', models.DateField()),
                ('size', models.BigIntegerField()),
                ('sha256', models.BinaryField()),
                ('lines_sha256', models.BinaryField()),
                ('archived_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'ledger_archive',
                'ordering': ['month', 'pk'],
                'constraints': [models.UniqueConstraint(fields=['name'], name='ledger_archive_name_unique')],
            },
        ),
        migrations.CreateModel(
            name='ArchivedPool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('entries', models.BigIntegerField()),
                ('first_sequence', models.BigIntegerField()),
                ('last_sequence', models.BigIntegerField()),
                ('first_start', models.DateTimeField()),
                ('last_end', models.DateTimeField()),
                ('amounts', models.JSONField()),
                ('archive', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pools', to='ledger.archive')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='pools.pool')),
            ],
            options={
                'db_table': 'ledger_archived_pool',
            },
        ),
        migrations.RunSQL(READ_ONLY, migrations.RunSQL.noop),
    ]
