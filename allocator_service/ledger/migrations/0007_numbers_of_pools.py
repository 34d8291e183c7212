"""Numbers of entries that are unique in a pool, so that an imported pool keeps its own.

Until a pool is imported they are unique in the installation, as the release before expects.
"""

from django.db import migrations, models

from allocator_service.core.short_locks import with_short_locks

KEYS = """
DROP INDEX ledger_seal_by_pool;
ALTER TABLE ledger_seal
    DROP CONSTRAINT ledger_seal_pkey,
    DROP CONSTRAINT ledger_seal_once,
    ADD CONSTRAINT ledger_seal_primary PRIMARY KEY USING INDEX ledger_seal_entry,
    ADD CONSTRAINT ledger_seal_of_pool UNIQUE USING INDEX ledger_seal_of_pool
"""
# Builds indexes under the lock.
OLD_KEYS = """
ALTER TABLE ledger_seal
    DROP CONSTRAINT ledger_seal_primary,
    DROP CONSTRAINT ledger_seal_of_pool,
    ADD CONSTRAINT ledger_seal_pkey PRIMARY KEY (sequence),
    ADD CONSTRAINT ledger_seal_once UNIQUE (entry_id);
CREATE UNIQUE INDEX ledger_seal_entry ON ledger_seal (entry_id);
CREATE UNIQUE INDEX ledger_seal_of_pool ON ledger_seal (pool_id, sequence);
CREATE INDEX ledger_seal_by_pool ON ledger_seal (pool_id, sequence)
"""


class Migration(migrations.Migration):
    safe_while_used = (
        "The new indexes exist and have the columns of the old ones, so that the lock is held for some"
        " milliseconds. It is requested for half a second at a time. The release before reads and writes"
        " the same columns."
    )

    dependencies = [
        ('ledger', '0006_indexes_of_seals'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(with_short_locks(KEYS), OLD_KEYS)],
            state_operations=[
                migrations.AlterModelOptions(
                    name='seal',
                    options={'ordering': ['sequence', 'pool']},
                ),
                migrations.RemoveIndex(
                    model_name='seal',
                    name='ledger_seal_by_pool',
                ),
                migrations.RemoveConstraint(
                    model_name='seal',
                    name='ledger_seal_once',
                ),
                migrations.AlterField(
                    model_name='seal',
                    name='sequence',
                    field=models.BigIntegerField(),
                ),
                migrations.AlterField(
                    model_name='seal',
                    name='entry_id',
                    field=models.UUIDField(primary_key=True, serialize=False),
                ),
                migrations.AddConstraint(
                    model_name='seal',
                    constraint=models.UniqueConstraint(fields=('pool', 'sequence'), name='ledger_seal_of_pool'),
                ),
            ],
        ),
    ]
