"""Complete databases that were migrated step by step before the migrations were squashed.

In such a database one constraint is not validated. In a new one this changes nothing.
"""

from django.db import migrations

# A database that lacks the last of the old migrations has the name of the squashed ones, and would be
# taken for complete.
REFUSE_INCOMPLETE = """
DO $$
BEGIN
    IF to_regclass('ledger_document_pending') IS NULL
       OR to_regproc('decision_refuse_change') IS NULL
       OR NOT EXISTS (SELECT FROM information_schema.columns
                      WHERE table_schema = current_schema()
                        AND table_name = 'backtest' AND column_name = 'served_at') THEN
        RAISE EXCEPTION 'The database was left by an older version. Apply all migrations of commit '
            '17e9e2c to it first, or start with an empty database (locally: remove the data folder).';
    END IF;
END $$
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0001_initial'),
        ('allocation', '0001_initial'),
        ('backtests', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(REFUSE_INCOMPLETE, migrations.RunSQL.noop),
        migrations.RunSQL(
            'ALTER TABLE ledger_block VALIDATE CONSTRAINT ledger_block_holds_something',
            migrations.RunSQL.noop,
        ),
    ]
