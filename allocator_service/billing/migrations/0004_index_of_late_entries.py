"""The index that becomes the key of late entries in the next migration."""

from django.db import migrations

INDEX = "billing_late_entry_entry"


class Migration(migrations.Migration):
    atomic = False
    safe_while_used = "Drops only an index of this migration that an interrupted build has left invalid."

    dependencies = [
        ('billing', '0003_parts_of_lines'),
    ]

    operations = [
        migrations.RunSQL(
            # An index that an interrupted build left invalid must not stay.
            [
                f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}",
                f"CREATE UNIQUE INDEX CONCURRENTLY {INDEX} ON billing_late_entry (entry_id)",
            ],
            f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}",
        ),
    ]
