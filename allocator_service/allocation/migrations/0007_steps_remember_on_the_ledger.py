"""What a decision adds to the past is in the ledger: steps no longer say it.

The columns stay, so that processes of before and after this migration can work side by side.
"""

from django.db import migrations

DEFAULTS = """
ALTER TABLE run_step ALTER COLUMN used SET DEFAULT '{}', ALTER COLUMN alone SET DEFAULT '{}'
"""
NO_DEFAULTS = """
ALTER TABLE run_step ALTER COLUMN used DROP DEFAULT, ALTER COLUMN alone DROP DEFAULT
"""


class Migration(migrations.Migration):

    dependencies = [
        ('allocation', '0006_meters'),
        ('ledger', '0002_totals'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name='step', name='used'),
                migrations.RemoveField(model_name='step', name='alone'),
            ],
            database_operations=[migrations.RunSQL(DEFAULTS, NO_DEFAULTS)],
        ),
    ]
