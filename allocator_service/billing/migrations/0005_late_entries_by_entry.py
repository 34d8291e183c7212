"""Late entries by the keys of their entries.

An imported pool keeps numbers of entries that other pools may have.
"""

from django.db import migrations, models

from allocator_service.core.short_locks import with_short_locks

KEY = """
ALTER TABLE billing_late_entry
    DROP CONSTRAINT billing_late_entry_pkey,
    ADD CONSTRAINT billing_late_entry_primary PRIMARY KEY USING INDEX billing_late_entry_entry
"""
# Builds indexes under the lock.
OLD_KEY = """
ALTER TABLE billing_late_entry
    DROP CONSTRAINT billing_late_entry_primary,
    ADD CONSTRAINT billing_late_entry_pkey PRIMARY KEY (sequence);
CREATE UNIQUE INDEX billing_late_entry_entry ON billing_late_entry (entry_id)
"""


class Migration(migrations.Migration):
    safe_while_used = (
        "The new index exists, so that the lock is held for some milliseconds. It is requested for half a"
        " second at a time. The release before reads and writes the same columns, and its inserts ignore"
        " any conflict."
    )

    dependencies = [
        ('billing', '0004_index_of_late_entries'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(with_short_locks(KEY), OLD_KEY)],
            state_operations=[
                migrations.AlterField(
                    model_name='lateentry',
                    name='sequence',
                    field=models.BigIntegerField(),
                ),
                migrations.AlterField(
                    model_name='lateentry',
                    name='entry_id',
                    field=models.UUIDField(primary_key=True, serialize=False),
                ),
            ],
        ),
    ]
