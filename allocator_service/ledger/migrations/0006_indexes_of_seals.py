"""Indexes that become the keys of sealed entries in the next migration."""

from django.db import migrations, models

INDEXES = {
    "ledger_seal_entry": "UNIQUE INDEX CONCURRENTLY ledger_seal_entry ON ledger_seal (entry_id)",
    "ledger_seal_of_pool": (
        "UNIQUE INDEX CONCURRENTLY ledger_seal_of_pool ON ledger_seal (pool_id, sequence)"
    ),
    "ledger_seal_by_number": (
        "INDEX CONCURRENTLY ledger_seal_by_number ON ledger_seal (sequence, pool_id)"
    ),
}


class Migration(migrations.Migration):
    atomic = False
    safe_while_used = "Drops only an index of this migration that an interrupted build has left invalid."

    dependencies = [
        ('ledger', '0005_open_uses_by_cluster'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    # An index that an interrupted build left invalid must not stay.
                    [f"DROP INDEX CONCURRENTLY IF EXISTS {name}", f"CREATE {index}"],
                    f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
                )
                for name, index in INDEXES.items()
            ],
            state_operations=[
                migrations.AddIndex(
                    model_name='seal',
                    index=models.Index(fields=['sequence', 'pool'], name='ledger_seal_by_number'),
                ),
            ],
        ),
    ]
