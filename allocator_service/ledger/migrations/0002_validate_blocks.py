"""Databases that were migrated step by step have this constraint unvalidated. In a new one it changes nothing."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [('ledger', '0001_initial')]

    operations = [
        migrations.RunSQL(
            'ALTER TABLE ledger_block VALIDATE CONSTRAINT ledger_block_holds_something',
            migrations.RunSQL.noop,
        ),
    ]
